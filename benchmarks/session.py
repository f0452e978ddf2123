"""The Spark session in which both sides of a comparison run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "benchmarks",
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedStages": "2000",
    "spark.ui.retainedJobs": "2000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta reads a table's log as a Spark job; its default of 50 tasks makes small tables many times slower.
    "spark.databricks.delta.snapshotPartitions": "2",
    # With vectored reads, which are no faster on a local disk, Spark counts none of the bytes that it reads.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}


def spark_session(**more: str) -> SparkSession:
    """A local session with Delta, on all cores.

    :param more: settings that come on top, dots written as double underscores
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for key, value in (SETTINGS | {key.replace("__", "."): value for key, value in more.items()}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
