"""A Spark session for one command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import SubmitError, TerminalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Without a configuration of its own, Spark warns of the machine's name and the like before anybody can tell it not to.
QUIET = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"


@contextmanager
def spark_session(conf: Iterable[tuple[str, str]]) -> Iterator[SparkSession]:
    """The process's session if it has one, which stays open; else a new one, which is stopped at the end.

    :param conf: Spark settings on top of this package's defaults
    :raises TerminalError: there is no PySpark
    :raises SubmitError: Spark does not start
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from airflow_provider_replacewhere.spark.session import create_spark_session
    except ImportError as error:
        raise TerminalError(
            f"This needs PySpark: {error}.", hint="pip install 'airflow-provider-replacewhere[spark]'"
        ) from error
    found = SparkSession.getActiveSession()
    try:
        session = create_spark_session(**{**({} if found else {JAVA_OPTIONS: QUIET}), **dict(conf)})
    except (PySparkException, OSError) as error:
        raise SubmitError(
            f"Spark does not start: {str(error).strip().splitlines()[0]}",
            hint="Spark 4 needs Java 17 or later: see that `java -version` answers, or set JAVA_HOME.",
        ) from error
    try:
        yield session
    finally:
        if found is None:
            session.stop()
