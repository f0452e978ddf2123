"""Time stands still at the run's instant, in the flow's zone, and for that run alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, PredicateError
from tests.spark.tables import NOON, Lake, flow, instant, untouched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMN_API = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import col

spark = SparkSession.active()

@dp.table(
    replace_where=col("day") >= F.date_sub(F.current_date(), 1),
    table_properties={"replacewhere.timeZone": "Asia/Tokyo"},
)
def daily():
    return spark.range(1).select(
        F.date_add(F.current_date(), 0).alias("day"),
        F.curdate().alias("b"),
        F.current_timestamp().cast("string").alias("c"),
        F.now().cast("string").alias("d"),
        F.localtimestamp().cast("string").alias("e"),
        F.expr("current_date()").alias("f"),
        F.unix_timestamp(F.current_timestamp()).alias("g"),
        F.current_timezone().alias("h"),
    )
"""
SQL = """
SET replacewhere.timeZone = Asia/Tokyo;
CREATE STREAMING TABLE daily FLOW REPLACE WHERE day >= date_sub(current_date, 1) BY NAME
SELECT CURRENT_DATE AS day, curdate() AS b, CAST(current_timestamp AS STRING) AS c, CAST(now() AS STRING) AS d,
  CAST(localtimestamp() AS STRING) AS e, (SELECT current_date()) AS f, unix_timestamp(current_timestamp()) AS g,
  current_timezone() AS h
"""


@pytest.mark.parametrize("form", ["sql", "python"])
def test_all_ways_to_ask_for_the_time_give_the_runs_instant(lake: Lake, tmp_path: Path, form: str) -> None:
    evening = instant("2026-03-10T18:30:15.123456")  # in Tokyo the day after
    file = tmp_path / "flow.py"
    file.write_text(COLUMN_API)
    report = lake.run(SQL if form == "sql" else file, as_of=evening)
    wall = "2026-03-11 03:30:15.123456"
    epoch = int(evening.timestamp())
    assert lake.rows("daily") == [("2026-03-11", "2026-03-11", wall, wall, wall, "2026-03-11", epoch, "Asia/Tokyo")]
    assert report.window == "(`day` >= DATE '2026-03-10')"
    assert (report.time_zone, report.as_of) == ("Asia/Tokyo", "2026-03-10T18:30:15.123456+00:00")


def test_a_retry_the_day_after_computes_the_window_and_the_rows_of_the_day(lake: Lake) -> None:
    lake.make("rides", "ride INT, day DATE", [(1, "2026-03-09"), (2, "2026-03-10"), (3, "2026-03-11")])
    pipeline = flow(
        "SELECT day, ride, datediff(current_date(), day) AS age FROM rides WHERE day <= current_date()",
        where="day BETWEEN date_sub(current_date(), 1) AND current_date()",
    )
    first = lake.run(pipeline, as_of=NOON)
    rows = lake.rows("daily")
    assert rows == [("2026-03-09", 1, 1), ("2026-03-10", 2, 0)]
    again = lake.run(pipeline, as_of=NOON)
    assert (again.window, again.definition_hash, lake.rows("daily")) == (first.window, first.definition_hash, rows)
    assert "BETWEEN" not in again.window

    moved = lake.run(pipeline, as_of=instant("2026-03-11T00:00:00"))
    exposed = {"reason": "WINDOW_WIDENED", "newly_exposed": "(`day` = DATE '2026-03-11')"}
    assert exposed in moved.reasons
    assert lake.rows("daily") == [("2026-03-09", 1, 1), ("2026-03-10", 2, 1), ("2026-03-11", 3, 0)]


@pytest.mark.parametrize(
    ("zone", "as_of", "replaced"),
    [
        # A day of 23 hours, one of 25, and one that is another day than in UTC.
        ("America/New_York", "2026-03-08T20:00:00", ["03-08T05:00:00", "03-08T12:00:00", "03-09T03:59:59.999999"]),
        ("America/New_York", "2026-11-01T20:00:00", ["11-01T04:00:00", "11-01T06:30:00", "11-02T04:59:59.999999"]),
        ("Pacific/Kiritimati", "2026-03-10T12:00:00", ["03-10T10:00:00", "03-11T09:59:59.999999"]),
    ],
)
def test_a_day_is_cut_where_it_begins_and_ends_in_the_flows_zone(
    lake: Lake, zone: str, as_of: str, replaced: list[str]
) -> None:
    around = {
        "2026-03-08T20:00:00": ["03-08T04:59:59.999999", "03-09T04:00:00"],
        "2026-11-01T20:00:00": ["11-01T03:59:59.999999", "11-02T05:00:00"],
        "2026-03-10T12:00:00": ["03-10T09:59:59.999999", "03-11T10:00:00"],
    }[as_of]
    hours = [f"2026-{hour}Z" for hour in (*replaced, *around)]
    lake.make("rides", "ts TIMESTAMP, value STRING", [(hour, "new") for hour in hours])
    lake.make("daily", "ts TIMESTAMP, value STRING", [(hour, "old") for hour in hours])
    day = "ts >= current_date() AND ts < date_add(current_date(), 1)"
    report = lake.run(
        flow("SELECT * FROM rides", where=day, clauses=f"TBLPROPERTIES ('replacewhere.timeZone' = '{zone}')"),
        as_of=instant(as_of),
    )
    shown = {f"2026-{hour}".replace("T", " ") for hour in replaced}
    assert {row[0] for row in lake.rows("daily") if row[1] == "new"} == shown
    assert len(lake.rows("daily")) == len(hours)
    assert report.rows_deleted == report.rows_written == len(replaced)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("unix_timestamp()", "CurrentTimestamp"),
        ("current_time()", "CurrentTime"),
        ("DATE 'today'", "'today'"),
        ("TIMESTAMP 'now'", "'now'"),
        ("CAST('yesterday' AS DATE)", "'yesterday'"),
        ("to_date(' Tomorrow ')", "' Tomorrow '"),
        ("(SELECT max(day) FROM rides WHERE day < 'today')", "'today'"),
    ],
)
def test_a_clock_that_cannot_be_held_still_is_refused(rides: Lake, expression: str, found: str) -> None:
    with pytest.raises(DefinitionError, match=f"(?is)cannot be held at as_of: .*{found}"):
        rides.session.plan(flow(f"SELECT day, ride, {expression} AS x FROM rides"), as_of=NOON)


def test_words_that_look_like_a_clock_are_none(rides: Lake) -> None:
    rides.run(flow("SELECT day, ride, 'today' AS label, concat('now', label) AS now, `current_date` FROM rides"))
    assert rides.rows("daily") == [("2026-03-09", 1, "today", "nowa", 9)]


@pytest.fixture
def rides(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, ride INT, label STRING, current_date INT", [("2026-03-09", 1, "a", 9)])
    return lake


def test_a_view_of_the_callers_session_that_asks_for_the_time_is_refused(rides: Lake) -> None:
    rides.spark.sql("CREATE TEMPORARY VIEW today AS SELECT current_date() AS day, 1 AS ride")
    try:
        with pytest.raises(DefinitionError, match=r"cannot be held at as_of|current_date"):
            rides.session.plan(flow("SELECT * FROM today"), as_of=NOON)
    finally:
        rides.spark.catalog.dropTempView("today")


def test_the_callers_session_keeps_its_clock_its_settings_and_its_views(
    rides: Lake, settings: dict[str, str], spark: SparkSession
) -> None:
    settings["spark.sql.session.timeZone"] = "America/New_York"
    settings["spark.databricks.delta.schema.autoMerge.enabled"] = "true"
    before, active = spark.conf.getAll, type(spark).getActiveSession()
    rides.run(
        "SET spark.sql.shuffle.partitions = 1; SET replacewhere.timeZone = Asia/Tokyo;"
        + flow("SELECT current_date() AS day, count(*) AS n FROM rides")
    )
    assert spark.conf.getAll == before
    assert active is not None
    assert type(spark).getActiveSession()._jsparkSession.equals(active._jsparkSession)  # type: ignore[union-attr]
    (row,) = spark.sql("SELECT unix_timestamp(current_timestamp()) AS now, current_timezone() AS zone").collect()
    assert abs(row["now"] - datetime.now(UTC).timestamp()) < 600
    assert row["zone"] == "America/New_York"
    assert spark.catalog.listTables() == []


def test_a_random_bound_is_drawn_once_recorded_and_used_for_delete_and_write(rides: Lake) -> None:
    pipeline = flow(
        "SELECT day, ride FROM rides", where="day >= date_sub(current_date(), CAST(3 + rand() * 20 AS INT))"
    )
    report = rides.run(pipeline)
    (part,) = report.evaluated
    assert "rand()" in part
    assert report.evaluated[part] in report.window
    assert rides.rows("daily") == [("2026-03-09", 1)]
    assert {"reason": "REPLACE_WHERE_NOT_DETERMINISTIC", "evaluated": dict(report.evaluated)} in report.reasons
    again = rides.run(pipeline)
    assert "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC" in [reason["reason"] for reason in again.reasons]
    for where in ("ride < rand(ride)", "day >= '2026-03-01' AND shuffle(array(ride, 1))[0] = 1"):
        with untouched(rides, "daily", by=PredicateError, match="every row|from row to row|each row"):
            rides.run(flow("SELECT day, ride FROM rides", where=where))


@pytest.mark.parametrize("name", ["Mars/Olympus", "CEST"])
def test_a_zone_that_is_none_is_refused(rides: Lake, name: str) -> None:
    with pytest.raises(DefinitionError, match=f"{name}.* is no time zone"):
        rides.run(f"SET replacewhere.timeZone = {name};" + flow("SELECT day, ride FROM rides"))
