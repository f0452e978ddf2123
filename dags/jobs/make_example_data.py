"""Bike-share rides for the examples: ``make_example_data.py ROOT DAY``, a plain Spark application.

Stations report the rides of a day on the next morning, and some of them up to four days later. This job adds what was
reported up to the morning of DAY to the Delta table ``ROOT/rides``, beginning 30 days before DAY when there is no table
yet. Run again for the same day it adds nothing. ``ROOT/stations`` says where each station stands.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession

HISTORY = timedelta(days=30)
RIDES_A_DAY = 200
STATIONS = [
    (1, "Basel", 24),
    (2, "Basel", 16),
    (3, "Bern", 30),
    (4, "Geneva", 18),
    (5, "Zurich", 40),
    (6, "Zurich", 28),
]


def reported(session: SparkSession, first: date, last: date) -> DataFrame:
    """The rides that were reported from ``first`` to ``last``. Every ride is the same whenever it is asked for."""
    return session.sql(
        f"""
        WITH reports AS (
            SELECT explode(sequence(DATE '{first}', DATE '{last}')) AS reported_on
        ), numbered AS (
            SELECT reported_on, explode(sequence(0, {RIDES_A_DAY - 1})) AS n FROM reports
        ), rides AS (
            SELECT unix_date(reported_on) * 1000 + n AS ride_id,
                   date_sub(reported_on, CASE WHEN n % 20 = 0 THEN 2 + n % 3 ELSE 1 END) AS ride_date,
                   n
            FROM numbered
        )
        SELECT ride_id,
               ride_date,
               CAST(ride_date AS TIMESTAMP) + make_dt_interval(0, 6 + n % 16, (n * 7) % 60, 0) AS started_at,
               1 + pmod(hash(ride_id), {len(STATIONS)}) AS station_id,
               CAST(2.5 + pmod(hash(ride_id, 'fare'), 1200) / 100 AS DECIMAL(10, 2)) AS fare
        FROM rides
        """  # noqa: S608  (dates and numbers of this file)
    )


def main(root: str, day: date) -> None:
    """Add what is missing up to the morning of ``day``."""
    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    stations = session.createDataFrame(STATIONS, "station_id INT, city STRING, capacity INT")
    stations.coalesce(1).write.format("delta").mode("ignore").save(f"{root}/stations")

    first = day - HISTORY
    try:
        last_ride = session.read.format("delta").load(f"{root}/rides").selectExpr("max(ride_id)").first()
        first = date(1970, 1, 1) + timedelta(days=last_ride[0] // 1000 + 1) if last_ride and last_ride[0] else first
    except Exception as error:
        if "PATH_NOT_FOUND" not in str(error) and "DELTA_" not in str(error):
            raise
    if first <= day:
        reported(session, first, day).coalesce(1).write.format("delta").mode("append").save(f"{root}/rides")
    print(f"{root}/rides holds what was reported up to {day}")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], date.fromisoformat(sys.argv[2]))
