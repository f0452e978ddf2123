"""Delete rows of a Delta table as anybody may, past every flow: ``python -m tools.delete_rows FOLDER CONDITION``."""

from __future__ import annotations

import sys

from delta import DeltaTable
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def main(folder: str, condition: str) -> None:
    """One commit of Delta's own DELETE."""
    builder = SparkSession.builder.appName("delete by hand")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    DeltaTable.forPath(session, folder).delete(condition)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
