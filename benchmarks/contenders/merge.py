"""Delta's MERGE over the window, on the columns that are the target's key; rows that the query lost are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders.measured import SHAPE, compete
from benchmarks.sales import WINDOW
from benchmarks.sides import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge(spark: SparkSession, root: Path) -> Side:
    target, query = root / SHAPE.target, SHAPE.by_hand(root)
    spark.sql(query).limit(0).write.format("delta").partitionBy(*SHAPE.partitioned_by).save(str(target))

    def refresh() -> str:
        spark.sql(
            f"MERGE INTO delta.`{target}` t USING (SELECT * FROM ({query}) WHERE {WINDOW}) s "
            f"ON t.day = s.day AND t.category = s.category AND t.{WINDOW} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            f"WHEN NOT MATCHED BY SOURCE AND t.{WINDOW} THEN DELETE"
        )
        return "all rows of the window"

    return Side(target, refresh)


if __name__ == "__main__":
    compete("MERGE", merge)
