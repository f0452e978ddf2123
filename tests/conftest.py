"""What tests of every floor share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The machine may be busy with other things, so no example is judged by its time. In CI a change is judged by the same
# examples each time; elsewhere the suite looks for new ones.
settings.register_profile("replacewhere", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("replacewhere")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test process, with Delta Lake."""
    from airflow_provider_replacewhere.spark.session import create_spark_session

    session = create_spark_session(
        **{
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            # How many tasks VACUUM lists folders with: 10,000 unless told otherwise.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        }
    )
    yield session
    session.stop()
