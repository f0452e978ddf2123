"""A Spark application for tests that ask about the environment, not about our code.

``job.py FOLDER`` writes a Delta table of five rows, replaces two of them, and leaves the rows and the number of
executors that took part in ``FOLDER/answer.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(folder: Path) -> None:
    """Write, replace, and tell."""
    spark = SparkSession.builder.appName("environment check").getOrCreate()
    table = str(folder / "table")
    rows = spark.range(5).selectExpr("id", "'before' as state")
    rows.repartition(2).write.format("delta").save(table)
    after = spark.range(1, 3).selectExpr("id", "'after' as state")
    after.write.format("delta").mode("overwrite").option("replaceWhere", "id >= 1 and id < 3").save(table)
    found = sorted(tuple(row) for row in spark.read.format("delta").load(table).collect())
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    (folder / "answer.json").write_text(json.dumps({"rows": found, "executors": executors}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
