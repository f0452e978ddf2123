"""What each station earns in a day, written as for Spark's declarative pipelines."""

from pyspark import pipelines as dp
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import col


@dp.table(replace_where=col("ride_date") >= F.date_sub(F.current_date(), 7), comment="Fares for each day and station")
def station_revenue():
    rides = spark.read.table("rides")  # noqa: F821  (Spark gives every pipeline file its session)
    return rides.groupBy("ride_date", "station_id").agg(F.sum("fare").alias("revenue"))
