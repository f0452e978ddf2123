"""Values that are equal and not the same, that no text holds, that Python would round, or that may suddenly be NULL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.tables import Lake, flow, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = "day >= DATE'2026-03-03'"
RIDES = ["{rides} (day DATE, code STRING)", "{rides} VALUES (DATE'2026-03-05', '0.0'), (DATE'2026-03-06', '1.0')"]


@dataclass(frozen=True)
class Story:
    """A query, and what happens to its sources between runs.

    :param made: what stands behind CREATE TABLE, and behind INSERT INTO where it says VALUES
    """

    made: list[str]
    query: str
    where: str
    steps: list[str]
    settings: dict[str, str] = field(default_factory=dict)


STORIES = {
    "0.0 and -0.0 in a group that is joined by its text": Story(
        [*RIDES, "{events} (d DOUBLE)", "{events} VALUES (0.0D), (1.0D)"],
        "SELECT day, n FROM {rides} JOIN (SELECT d, count(*) AS n FROM {events} GROUP BY d) "
        "ON code = CAST(d AS STRING)",
        WEEK,
        ["INSERT INTO {events} VALUES (-0.0D)"],
    ),
    "0.0 and -0.0 in a group whose text is the key": Story(
        ["{events} (id INT, d DOUBLE)", "{events} VALUES (1, 0.0D), (2, 1.0D), (3, -0.0D)"],
        "SELECT CAST(d AS STRING) AS code, count(*) AS n FROM {events} GROUP BY d",
        "code >= ''",
        ["DELETE FROM {events} WHERE id = 3", "INSERT INTO {events} VALUES (4, -0.0D)"],
    ),
    "0.0 and -0.0 in a group above the join that tells its text": Story(
        [
            "{events} (d DOUBLE)",
            "{events} VALUES (0.0D), (-0.0D), (1.0D)",
            "{names} (id INT, code STRING)",
            "{names} VALUES (1, '0.0'), (2, '1.0'), (3, '-0.0')",
        ],
        "SELECT CAST(d AS STRING) AS code, count(*) AS n FROM {events} JOIN {names} n ON n.code = CAST(d AS STRING) "
        "GROUP BY d",
        "code >= ''",
        ["DELETE FROM {names} WHERE id = 3"],
    ),
    "letter case that a group ignores": Story(
        ["{events} (id INT, name STRING)", "{events} VALUES (1, 'Bern'), (2, 'Chur'), (3, 'BERN')"],
        "SELECT CAST(folded AS STRING COLLATE UTF8_BINARY) AS name, n FROM "
        "(SELECT CAST(name AS STRING COLLATE UTF8_LCASE) AS folded, count(*) AS n FROM {events} GROUP BY 1)",
        "name >= 'A'",
        ["DELETE FROM {events} WHERE id = 3"],
    ),
    "letter case that a group ignores which is joined": Story(
        [*RIDES, "{events} (name STRING)", "{events} VALUES ('0.0'), ('a')", "{rides} VALUES (DATE'2026-03-07', 'a')"],
        "SELECT day, n FROM {rides} JOIN (SELECT CAST(name AS STRING COLLATE UTF8_LCASE) AS folded, count(*) AS n "
        "FROM {events} GROUP BY 1) ON code = CAST(folded AS STRING COLLATE UTF8_BINARY)",
        WEEK,
        ["INSERT INTO {events} VALUES ('A')"],
    ),
    "a day that was never NULL": Story(
        ["{events} (day DATE NOT NULL)", "{events} VALUES (DATE'2026-03-05'), (DATE'2026-03-06')"],
        "SELECT coalesce(day, DATE'2026-03-05') AS day, count(*) AS n FROM {events} GROUP BY 1",
        WEEK,
        ["ALTER TABLE {events} ALTER COLUMN day DROP NOT NULL", "INSERT INTO {events} VALUES (NULL)"],
    ),
    "a number that was never NULL, in NOT IN": Story(
        [*RIDES, "{none} (code STRING NOT NULL)", "{none} VALUES ('1.0')"],
        "SELECT day FROM {rides} WHERE code NOT IN (SELECT code FROM {none}) AND code IS NOT NULL",
        WEEK,
        ["ALTER TABLE {none} ALTER COLUMN code DROP NOT NULL", "INSERT INTO {none} VALUES (NULL)"],
    ),
    "bytes that are no text": Story(
        [
            "{events} (id INT, t STRING)",
            "{events} VALUES (1, CAST(X'FF' AS STRING)), (2, 'a'), (3, CAST(X'FE' AS STRING))",
        ],
        "SELECT t, count(*) AS n FROM {events} GROUP BY t",
        "t >= ''",
        ["INSERT INTO {events} VALUES (4, CAST(X'FF' AS STRING))", "DELETE FROM {events} WHERE id = 1"],
    ),
    "more digits than Python's decimals keep": Story(
        [
            "{events} (id INT, t DECIMAL(38,6))",
            "{events} VALUES (1, 12345678901234567890123456789013.345678BD), (2, 1BD)",
        ],
        "SELECT t, count(*) AS n FROM {events} GROUP BY t",
        "t >= 12345678901234567890123456789012.345678",
        [
            "INSERT INTO {events} VALUES (3, 12345678901234567890123456789013.345678BD)",
            "DELETE FROM {events} WHERE id = 1",
        ],
    ),
    "a column with a field, called as the other side of a join is": Story(
        [
            "{rides} (station INT, partner STRUCT<day: DATE>, day DATE)",
            "{rides} VALUES (1, named_struct('day', DATE'2026-03-08'), DATE'2026-03-05')",
            "{stations} (id INT, city STRING)",
            "{stations} VALUES (1, 'Bern')",
        ],
        "SELECT rides.partner.day AS day, city FROM {rides} rides JOIN {stations} ON station = id",
        WEEK,
        ["UPDATE {stations} SET city = 'Thun'"],
    ),
    "backslashes, on a cluster that reads them as they are": Story(
        ["{events} (t STRING)", "{events} VALUES (chr(92) || 'b'), ('c')"],
        "SELECT t, count(*) AS n FROM {events} GROUP BY t",
        "t >= ''",
        ["INSERT INTO {events} VALUES (chr(92) || 'b')"],
        {"spark.sql.parser.escapedStringLiterals": "true"},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_a_change_touches_is_recomputed(lake: Lake, settings: dict[str, str], story: str) -> None:
    told = STORIES[story]
    for made in told.made:
        lake.sql(f"INSERT INTO {made}" if " VALUES " in made else f"CREATE TABLE {made} USING DELTA")
    for key, value in told.settings.items():
        settings[key] = value  # noqa: PERF403 - update() would not tell Spark
    text = flow(re.sub(r"\{(\w+)\}", r"\1", told.query), where=told.where)
    by_hand = re.sub(r"\{(\w+)\}", lambda name: lake.sql_name(name[1]), told.query)
    lake.run(text)
    for step in told.steps:
        lake.sql(step)
        report = lake.run(text)
        # Not filtered where Spark might push the filter below what it is about.
        everything = rows_of(lake.spark.sql(by_hand).localCheckpoint().where(told.where))
        assert rows_of(lake.read("daily")) == everything, (step, report.mode, report.replaced)


def test_the_zone_of_a_views_casts_is_part_of_the_definition(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE {events} (at TIMESTAMP) USING DELTA")
    lake.sql("INSERT INTO {events} VALUES (TIMESTAMP'2026-03-05 20:00:00Z')")
    file = tmp_path / "flows.py"
    for zone, day in (("UTC", "2026-03-05"), ("Asia/Tokyo", "2026-03-06")):
        file.write_text(f"""
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()

@dp.temporary_view(spark_conf={{"spark.sql.session.timeZone": "{zone}"}})
def days():
    return spark.table("events").selectExpr("CAST(at AS DATE) AS day")

@dp.table(name="daily", replace_where="{WEEK}")
def daily():
    return spark.table("days")
""")
        lake.run(file)
        assert rows_of(lake.read("daily")) == [(day,)]


def test_two_casts_that_are_written_alike_and_have_two_zones_are_told_apart(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE {events} (at TIMESTAMP) USING DELTA")
    lake.sql("INSERT INTO {events} VALUES (TIMESTAMP'2026-03-05 20:00:00Z')")
    file = tmp_path / "flows.py"
    file.write_text("""
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()

@dp.temporary_view(spark_conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
def days():
    return spark.table("events").selectExpr("CAST(at AS DATE) AS day", "at")

@dp.table(name="daily", replace_where="day >= DATE'2026-03-03' AND here >= DATE'2026-03-03'")
def daily():
    there = spark.table("days")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return there.selectExpr("CAST(at AS DATE) AS here", "day")
""")
    lake.run(file)
    lake.sql("INSERT INTO {events} VALUES (TIMESTAMP'2026-03-07 20:00:00Z')")
    lake.run(file)
    assert sorted(str(row.day) for row in lake.read("daily").collect()) == ["2026-03-06", "2026-03-08"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lag(a) OVER (ORDER BY b)", "lag(a) IGNORE NULLS OVER (ORDER BY b)"),
        ("a + b", "try_add(a, b)"),
        ("a / b", "try_divide(a, b)"),
        ("to_timestamp(s)", "try_to_timestamp(s)"),
    ],
)
def test_queries_that_differ_in_a_word_have_different_definitions(spark: SparkSession, one: str, other: str) -> None:
    from airflow_provider_replacewhere.spark.definition import definition_hash

    def of(expression: str) -> str:
        rows = "SELECT id AS a, id AS b, CAST(id AS STRING) AS s FROM range(3)"
        return definition_hash(spark.sql(f"WITH t AS ({rows}) SELECT {expression} AS x FROM t"), {}, [], [])

    assert of(one) == of(one)
    assert of(one) != of(other)


@pytest.mark.parametrize("where", ["d >= 0.0D", "d = 0.0D", "d IN (0.0D, 7.0D)"])
def test_a_window_that_begins_at_zero_holds_minus_zero(lake: Lake, where: str) -> None:
    """Parquet takes a page of -0.0 alone for one that 0.0 is not in, and would keep its rows from being deleted."""
    lake.sql("CREATE TABLE {events} (id INT, d DOUBLE) USING DELTA")
    lake.sql("INSERT INTO {events} SELECT id, -0.0D FROM range(20)")
    for _ in range(2):
        lake.run(flow("SELECT id, d FROM events", where=where), refresh_policy="full")
        assert lake.read("daily").count() == 20
