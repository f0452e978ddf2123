"""Delta's dynamic partition overwrite: every day that the query gives is replaced; one that it lost would stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders.measured import SHAPE, compete
from benchmarks.sales import WINDOW
from benchmarks.sides import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def dynamic_overwrite(spark: SparkSession, root: Path) -> Side:
    target = root / SHAPE.target

    def refresh() -> str:
        writer = spark.sql(SHAPE.by_hand(root)).where(WINDOW).write.format("delta").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").partitionBy(*SHAPE.partitioned_by).save(str(target))
        return "all days of the window"

    return Side(target, refresh)


if __name__ == "__main__":
    compete("dynamic partition overwrite", dynamic_overwrite)
