"""Spark sessions: one with Delta for those who have none, and one with a stopped clock for each flow."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_replacewhere.errors import DefinitionError, TerminalError
from airflow_provider_replacewhere.flows.scan import Kind, scan
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.predicates.instants import is_moving
from airflow_provider_replacewhere.spark.jvm import analysed, class_name, seq
from airflow_provider_replacewhere.text import Span

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

DELTA_SETTINGS = {
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
}

SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"

LOCAL_SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "replacewhere",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # Delta reads a table's log as a Spark job; its default of 50 tasks makes small tables many times slower.
    SNAPSHOT_PARTITIONS: "2",
}

# What a flow's session must not inherit, whatever the cluster or the notebook has set: each of these would let rows
# outside the window be written, or drop a write in silence.
SAFE_SETTINGS = {
    "spark.databricks.delta.replaceWhere.dataColumns.enabled": "true",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.sql.sources.partitionOverwriteMode": "static",
    # TIMESTAMP in a pipeline's text means an instant, on every cluster.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Places in the query's text are told by Spark's parser, which must see the text that the user wrote.
    "spark.sql.variable.substitute": "false",
    # Regions are written with escapes, as Spark reads them unless told otherwise.
    "spark.sql.parser.escapedStringLiterals": "false",
    # Long lists of columns would be cut in a plan's text, and two definitions would look the same.
    "spark.sql.debug.maxToStringFields": "1000000",
}
STICKY_SETTINGS = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")

# Spark's names for "now", each with its type and how the clock tells it.
TIME_FUNCTIONS = {
    "current_date": "DATE",
    "curdate": "DATE",
    "current_timestamp": "TIMESTAMP",
    "now": "TIMESTAMP",
    "localtimestamp": "TIMESTAMP_NTZ",
}
CASTS = frozenset({"Cast", "ParseToDate", "ParseToTimestamp"})
TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ntz"})
LITERAL_WORDS = frozenset({*TIME_TYPES, "timestamp_ltz"})
TIME_EXPRESSIONS = frozenset(
    {"CurrentDate", "CurrentTimestamp", "Now", "LocalTimestamp", "CurrentTime", "CurrentBatchTimestamp"}
)


def create_spark_session(**conf: Any) -> SparkSession:
    """A local Spark session with Delta Lake and this package's defaults.

    :param conf: Spark settings that come on top; dots are written as double underscores, so that
        ``spark__sql__shuffle__partitions=2`` can be given as a keyword, or pass ``**{"spark.…": …}``
    """
    # Spark would start its Python workers with whatever python3 is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**LOCAL_SETTINGS, **DELTA_SETTINGS, **_delta_packages()}
    settings |= {key.replace("__", "."): str(value) for key, value in conf.items()}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    quiet()
    return session


def quiet() -> None:
    """Keep PySpark from printing every error a second time, as a page of JSON."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _delta_packages() -> dict[str, str]:
    """Delta's Maven coordinates, unless Spark already has Delta among its own jars."""
    import pyspark

    if any((Path(pyspark.__file__).parent / "jars").glob("delta-spark_*.jar")):
        return {}
    try:
        delta = version("delta-spark")
    except PackageNotFoundError:
        return {}
    spark = ".".join(version("pyspark").split(".")[:2])
    return {"spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{delta}"}


def require_delta(session: SparkSession) -> None:
    """:raises TerminalError: the session cannot read or write Delta tables"""
    jvm = session._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Class.forName(DELTA_CATALOG, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Exception as error:
        raise TerminalError(
            f"Spark {session.version} has no Delta Lake on its class path.",
            hint="Install Delta's jars on the cluster, or give the operator packages='io.delta:delta-spark_<Spark "
            "version>_2.13:<Delta version>'.",
        ) from error
    if DELTA_EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise TerminalError(
            "Delta Lake is on the class path, but its SQL extension is not switched on.",
            hint=f"Set spark.sql.extensions={DELTA_EXTENSION} and spark.sql.catalog.spark_catalog={DELTA_CATALOG} "
            "before the session starts.",
        )


def flow_session(session: SparkSession, clock: Clock, settings: dict[str, str]) -> SparkSession:
    """A copy of the session for one flow: its own temporary views and settings, and a clock that stands at ``as_of``.

    :param clock: the instant that all time functions see, and the time zone in which days begin
    :param settings: the pipeline's own ``SET`` statements
    :raises DefinitionError: one of them cannot be made
    """
    # A clone, not newSession(): the caller's settings and temporary views stay visible.
    flow = SparkSession(session.sparkContext, session._jsparkSession.cloneSession(), {})
    for key, value in settings.items():
        set_safely(flow, key, value)
    make_safe(flow, clock)
    if flow.conf.get(SNAPSHOT_PARTITIONS, None) is None:
        # Delta's own 50 are made for very large tables: on two cores they cost a second with every commit.
        flow.conf.set(SNAPSHOT_PARTITIONS, str(max(2, min(50, session.sparkContext.defaultParallelism))))
    _stop_clock(flow, clock)
    return flow


def make_safe(flow: SparkSession, clock: Clock) -> None:
    """Make the settings that keep a run to its window, whatever the pipeline, its views or its functions have set."""
    for key, value in {**SAFE_SETTINGS, "spark.sql.session.timeZone": clock.time_zone}.items():
        flow.conf.set(key, value)
    for key in STICKY_SETTINGS:
        flow.conf.unset(key)


def set_safely(session: SparkSession, key: str, value: str) -> None:
    """Make one of a pipeline's settings in a flow's session.

    :raises DefinitionError: Spark does not take it, or it would lift what keeps a run to its window
    """
    safe = next((v for k, v in SAFE_SETTINGS.items() if k.lower() == key.lower()), value)
    if safe.lower() != value.lower():
        raise DefinitionError(f"{key} is {safe} in every flow; the pipeline sets {value}.", hint="Leave it out.")
    try:
        session.conf.set(key, value)
    except PySparkException as error:
        raise DefinitionError(
            f"Spark does not take the setting {key} = {value}: {str(error).strip().splitlines()[0]}",
            hint="A pipeline sets what Spark lets a session change; the rest is the cluster's or spark-submit's.",
        ) from error


@contextmanager
def keeping_active(session: SparkSession) -> Iterator[None]:
    """Leave the active session of the caller's thread as it was.

    PySpark makes a session active when it makes a DataFrame, and ``SparkSession.active()`` must not give the caller a
    session whose clock stands still.
    """
    java = SparkSession._get_j_spark_session_class(session._jvm)
    before, before_in_python = java.getActiveSession(), SparkSession._activeSession
    try:
        yield
    finally:
        if before.isDefined():
            java.setActiveSession(before.get())
        else:
            java.clearActiveSession()
        SparkSession._activeSession = before_in_python


def _stop_clock(session: SparkSession, clock: Clock) -> None:
    """Let Spark's time functions, in SQL and in Column expressions, give the clock's instant.

    A temporary SQL function may not take a built-in's place, so the built-in leaves this session's registry first.
    """
    jvm = session._jvm
    assert jvm is not None
    registry = session._jsparkSession.sessionState().functionRegistry()
    identifier, some = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier, jvm.scala.Some
    instant = f"TIMESTAMP '{clock.as_of.isoformat()}'"
    for name, sql_type in TIME_FUNCTIONS.items():
        registry.dropFunction(identifier(name, some("builtin"), some("system")))
        session.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {name}() RETURNS {sql_type} RETURN CAST({instant} AS {sql_type})"
        )


def running_clocks(query: DataFrame) -> list[str]:
    """What in a query would read the real clock: expressions, and strings such as ``'today'`` as a time."""
    found = []
    for part in analysed(query):
        if part.kind in TIME_EXPRESSIONS:
            found.append(part.kind)
        elif part.kind in CASTS and part.node.dataType().typeName() in TIME_TYPES:
            constants = (child for child in seq(part.node.children()) if class_name(child) == "Literal")
            found += [f"'{text}'" for text in (str(child.value()) for child in constants) if is_moving(text)]
    return found


def refuse_moving_literals(query: Span) -> None:
    """Refuse ``DATE 'today'`` and its like, which Spark's parser replaces by the real time.

    :raises DefinitionError: the text holds one
    """
    tokens = tuple(scan(query.document, query.start, query.end))
    for word, text in pairwise(tokens):
        if text.kind is Kind.STRING and word.text.lower() in LITERAL_WORDS and is_moving(text.value):
            raise DefinitionError(
                f"The query asks for the time in a way that cannot be held at as_of: {word.text} {text.text}.",
                hint="Write current_date() or current_timestamp(), which follow the run's clock.",
                span=text.span,
            )


def refuse_running_clocks(query: DataFrame, what: str) -> None:
    """:raises DefinitionError: the query reads the real clock, so that a retry would give another answer"""
    if found := running_clocks(query):
        raise DefinitionError(
            f"{what} asks for the time in a way that cannot be held at as_of: {', '.join(sorted(set(found)))}.",
            hint="Write current_date(), current_timestamp(), now() or localtimestamp(), and pass that on: "
            "unix_timestamp(current_timestamp()).",
        )
