"""Rows without a key: what rules them out for each shape of query, and that no way for one to come in is missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import NullKeyError
from airflow_provider_replacewhere.planning.nulls import NEVER, Formula, holds
from airflow_provider_replacewhere.spark import checks, nulls
from airflow_provider_replacewhere.spark import run as run_module
from tests.spark.tables import Lake, flow, sources_of, untouched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = {
    "rides": "day DATE, at TIMESTAMP, text STRING, zone STRING, station INT, fare INT",
    "stations": "id INT, opened DATE, city STRING",
}


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nulls")
    for name, columns in TABLES.items():
        spark.createDataFrame([], columns).write.format("delta").save(str(root / name))
    return root


@pytest.fixture
def tables(spark: SparkSession, folder: Path) -> Iterator[None]:
    """The tables by name, for as long as a test that needs no more than a query lasts."""
    for name in TABLES:
        pinned = spark.read.format("delta").option("versionAsOf", "0").load(str(folder / name))
        pinned.createOrReplaceTempView(name)
    yield
    for name in TABLES:
        spark.catalog.dropTempView(name)


def in_words(formula: Formula) -> str:
    for word, joint in (("all", " and "), ("any", " or ")):
        if word in formula:
            return "(" + joint.join(map(in_words, formula[word])) + ")"
    return f"{formula['source']}.{formula['column']}"


SHAPES = {
    "plain": ("SELECT day, fare FROM rides", "rides.day"),
    "renamed": ("SELECT day AS d, fare FROM rides", "rides.day"),
    "grouped": ("SELECT day, sum(fare) FROM rides GROUP BY day", "rides.day"),
    "a day of instants": ("SELECT CAST(at AS DATE) AS day, count(*) FROM rides GROUP BY 1", "rides.at"),
    "the first of the month": ("SELECT trunc(day, 'MM') AS day FROM rides", "()"),  # NULL where the format is none
    "a text that may be no day": ("SELECT try_to_date(text) AS day FROM rides", "()"),
    "of two": ("SELECT make_date(fare, station, 1) AS day FROM rides", "(rides.fare and rides.station)"),
    "made up": ("SELECT coalesce(day, DATE'2026-03-01') AS day FROM rides", "always"),
    "filtered": ("SELECT day FROM rides WHERE day IS NOT NULL", "always"),
    "of one side of a join": ("SELECT r.day FROM rides r JOIN stations s ON s.id = r.station", "rides.day"),
    "of the key of a join": ("SELECT s.opened AS day FROM rides r JOIN stations s ON s.opened = r.day", "always"),
    "of the kept side": ("SELECT r.day FROM rides r LEFT JOIN stations s ON s.id = r.station", "rides.day"),
    "of the side that may lack": ("SELECT s.opened AS day FROM rides r LEFT JOIN stations s ON s.id = r.station", "()"),
    "of either": ("SELECT day FROM rides UNION ALL SELECT opened FROM stations", "(rides.day and stations.opened)"),
    "of both at once": (
        "SELECT day FROM rides INTERSECT SELECT opened FROM stations",
        "rides.day",
    ),
    "a window function": ("SELECT day, row_number() OVER (PARTITION BY day ORDER BY fare) FROM rides", "rides.day"),
    "a neighbour's": ("SELECT lag(day) OVER (PARTITION BY zone ORDER BY fare) AS day FROM rides", "()"),
    "totals of totals": ("SELECT day FROM rides GROUP BY ROLLUP (day)", "()"),
    "the last day": ("SELECT max(day) AS day FROM rides", "()"),
}


@pytest.mark.parametrize(("query", "wanted"), SHAPES.values(), ids=list(SHAPES))
def test_what_rules_them_out(spark: SparkSession, tables: None, query: str, wanted: str) -> None:
    frame = spark.sql(query)
    key = frame.columns[0]
    assert in_words(nulls.ask(frame, [key], sources_of(frame))) == ("()" if wanted in ("()", "always") else wanted)
    assert (nulls.ask(frame, [key], sources_of(frame)) == NEVER) is (wanted == "()")


def test_of_two_keys_neither_may_be_null(spark: SparkSession, tables: None) -> None:
    frame = spark.sql("SELECT day, zone, fare FROM rides")
    formula = nulls.ask(frame, ["day", "zone"], sources_of(frame))
    assert in_words(formula) == "(rides.day and rides.zone)"
    assert not holds(formula, lambda _, column: column == "day")
    assert holds(formula, lambda *_: True)


RIDES = [(f"2026-03-{day:02d}", f"2026-03-{day:02d} 08:00:00", "t", "a", 1, day) for day in range(1, 11)]
NO_DAY = (None, "2026-03-09 08:00:00", "t", "a", 1, 1)
NO_INSTANT = ("2026-03-09", None, "t", "a", 1, 1)
BY_DAY = "SELECT day, sum(fare) AS fare FROM rides GROUP BY day"
BY_INSTANT = "SELECT CAST(at AS DATE) AS day, sum(fare) AS fare FROM rides GROUP BY 1"
BY_STATION = "SELECT s.opened AS day, count(*) AS n FROM rides r JOIN stations s ON s.id = r.station GROUP BY 1"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flows whose query was run to look for rows without a key."""
    found: list[str] = []

    def look(query: DataFrame, window: object, of: object) -> None:
        found.append(of.name)  # type: ignore[attr-defined]
        checks.check_null_keys(query, window, of)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "check_null_keys", look)
    return found


@pytest.mark.parametrize("query", [BY_DAY, BY_INSTANT])
def test_once_known_no_query_looks_for_them(lake: Lake, looks: list[str], query: str) -> None:
    lake.make("rides", TABLES["rides"], RIDES)
    lake.run(flow(query))
    lake.add("rides", RIDES[8])
    lake.sql("OPTIMIZE {rides}")
    assert lake.run(flow(query)).mode == "INCREMENTAL"
    assert looks == []


COMES_IN: dict[str, Callable[[Lake, tuple[object, ...]], object]] = {
    "append": lambda lake, row: lake.add("rides", row),
    "update": lambda lake, _: lake.sql("UPDATE {rides} SET day = NULL, at = NULL WHERE fare = 9"),
    "optimised": lambda lake, row: (lake.add("rides", row), lake.sql("OPTIMIZE {rides}"), lake.add("rides", RIDES[8])),
    "behind another": lambda lake, row: (lake.add("rides", row), lake.add("rides", RIDES[0])),
    "replaced": lambda lake, row: lake.make("rides", TABLES["rides"], [*RIDES, row]),
    "restored": lambda lake, _: lake.sql("RESTORE TABLE {rides} TO VERSION AS OF 1"),
}


@pytest.mark.parametrize(("query", "row"), [(BY_DAY, NO_DAY), (BY_INSTANT, NO_INSTANT)], ids=["a column", "a day"])
@pytest.mark.parametrize(
    ("first", "second"), [("append", "optimised"), ("update", "replaced"), ("restored", "behind another")]
)
def test_none_slips_through_once_there_were_none(
    lake: Lake, query: str, row: tuple[object, ...], first: str, second: str
) -> None:
    without = "DELETE FROM {rides} WHERE day IS NULL OR at IS NULL"
    lake.make("rides", TABLES["rides"], RIDES)
    lake.add("rides", row)
    lake.sql(without)
    for way in (first, second):
        lake.run(flow(query))
        COMES_IN[way](lake, row)
        for _ in range(2):
            with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
                lake.run(flow(query))
        lake.sql(without)


def test_a_partition_without_a_value_counts(lake: Lake, looks: list[str]) -> None:
    lake.frame(TABLES["rides"], RIDES).write.format("delta").partitionBy("day").save(str(lake.path("rides")))
    lake.run(flow(BY_DAY))
    lake.add("rides", RIDES[8])
    lake.run(flow(BY_DAY))
    assert looks == []
    lake.frame(TABLES["rides"], [NO_DAY]).write.format("delta").mode("append").save(str(lake.path("rides")))
    with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
        lake.run(flow(BY_DAY))


def test_a_column_without_statistics_is_looked_into(lake: Lake, looks: list[str]) -> None:
    lake.make("rides", TABLES["rides"], RIDES)
    lake.run(flow(BY_DAY))
    lake.sql("ALTER TABLE {rides} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'fare')")
    assert looks == []
    lake.add("rides", RIDES[8])
    lake.run(flow(BY_DAY))
    assert looks == ["daily"]
    lake.add("rides", NO_DAY)
    with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
        lake.run(flow(BY_DAY))


def test_a_column_behind_another_name_in_the_log(lake: Lake, looks: list[str]) -> None:
    lake.make("rides", TABLES["rides"], RIDES)
    lake.sql("ALTER TABLE {rides} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql("ALTER TABLE {rides} RENAME COLUMN day TO on_day")
    query = "SELECT on_day AS day, sum(fare) AS fare FROM rides GROUP BY 1"
    lake.run(flow(query))
    lake.add("rides", RIDES[8])
    lake.run(flow(query))
    assert looks == []
    lake.add("rides", NO_DAY)
    with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
        lake.run(flow(query))


def test_a_predicate_that_may_be_null_by_itself_is_looked_into(lake: Lake, looks: list[str]) -> None:
    lake.make("rides", TABLES["rides"], RIDES)
    where = "try_divide(fare, fare - 10) < 100"
    query = "SELECT day, fare FROM rides"
    with untouched(lake, "rides", by=NullKeyError, match="1 row with NULL in fare"):
        lake.run(flow(query, where=where))
    assert looks == ["daily"]


def test_a_null_in_what_is_joined_matters(lake: Lake, looks: list[str]) -> None:
    lake.make("rides", TABLES["rides"], RIDES)
    lake.make("stations", TABLES["stations"], [(1, "2026-03-09", "Bern"), (2, "2026-03-08", "Chur")])
    lake.run(flow(BY_STATION))
    lake.add("rides", RIDES[8])
    lake.run(flow(BY_STATION))
    assert looks == []
    lake.sql("UPDATE {stations} SET opened = NULL WHERE id = 2")  # which no ride has
    lake.run(flow(BY_STATION))
    assert looks == ["daily"]
    lake.sql("UPDATE {stations} SET opened = NULL WHERE id = 1")
    with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
        lake.run(flow(BY_STATION))


def test_a_column_that_may_be_null_from_now_on_is_asked_about_again(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE {rides} (y INT, m INT NOT NULL, fare INT) USING DELTA")
    lake.sql("INSERT INTO {rides} VALUES (2026, 3, 1)")
    query = "SELECT make_date(y, m, 9) AS day, sum(fare) AS fare FROM rides GROUP BY 1"
    lake.run(flow(query))
    lake.sql("ALTER TABLE {rides} ALTER COLUMN m DROP NOT NULL")
    lake.sql("INSERT INTO {rides} VALUES (2026, NULL, 1)")
    with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
        lake.run(flow(query))
