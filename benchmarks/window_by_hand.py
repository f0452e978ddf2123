"""What an engineer would submit: overwrite one window of a table by a query. Arguments: target, window, query."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    target, window, query = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    rows = spark.sql(query).where(window)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", window).save(target)
    spark.stop()
