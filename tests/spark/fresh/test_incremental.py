"""What of a window is recomputed when sources change, and why it is all of it where it is: on real tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.planning.report import RunReport
from tests.spark.tables import Lake, flow, rows_of

FACTS = "day DATE, at TIMESTAMP, station INT, fare INT"
STATIONS = [(0, "Bern"), (1, "Basel"), (2, "Chur")]
# Three rides a day, one at each station; one of them late in the evening.
RIDES = [
    (f"2026-03-{day:02}", f"2026-03-{day:02} {hour}:30:00", station, 10 * day + station)
    for day in range(1, 11)
    for station, hour in ((0, "06"), (1, "12"), (2, "23"))
]
START = "2026-03-03"
BY_CITY = """
    SELECT day, city, count(*) AS rides, sum(fare) AS fares FROM rides JOIN stations ON station = id GROUP BY day, city
"""
BY_DAY = "SELECT day, count(*) AS rides, sum(fare) AS fares FROM rides GROUP BY day"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", FACTS, RIDES)
    lake.make("stations", "id INT, city STRING", STATIONS)
    return lake


def recomputed(lake: Lake, query: str, key: str = "day") -> list[tuple[Any, ...]]:
    """What the query gives for the window, by Spark alone."""
    for table in ("rides", "stations", "regions"):
        query = re.sub(rf"(FROM|JOIN) {table}\b", rf"\1 {lake.sql_name(table)} AS {table}", query)
    return rows_of(lake.spark.sql(f"SELECT * FROM ({query}) WHERE {key} >= '{START}'"))


def run(lake: Lake, query: str, key: str = "day", **how: Any) -> RunReport:
    """One run, after which the table is what the query gives."""
    text = flow(query, where=f"{key} >= DATE'{START}'", clauses=how.pop("clauses", ""))
    report = lake.run(text, **how)
    assert rows_of(lake.read("daily")) == recomputed(lake, query, key)
    return report


TWO_DAYS = """
    INSERT INTO {rides} SELECT /*+ COALESCE(1) */ *
    FROM VALUES (DATE'2026-03-05', NULL, 0, 7), (DATE'2026-03-09', NULL, 0, 7)
"""


def days(*numbers: int) -> str:
    listed = [f"DATE '2026-03-{number:02}'" for number in numbers]
    return f"(`day` = {listed[0]})" if len(listed) == 1 else f"(`day` IN ({', '.join(listed)}))"


def causes(report: RunReport) -> list[tuple[str, str | None]]:
    return [(reason["reason"], reason.get("cause") or reason.get("operation")) for reason in report.reasons]


@pytest.mark.parametrize(
    ("statement", "stale", "found_by"),
    [
        ("INSERT INTO {rides} VALUES (DATE'2026-03-05', NULL, 0, 7)", days(5), "statistics"),
        (TWO_DAYS, days(5, 9), "rows"),
        ("DELETE FROM {rides} WHERE fare = 41", days(4), "rows"),
        ("UPDATE {rides} SET fare = 0 WHERE fare = 41", days(4), "rows"),
        ("UPDATE {rides} SET day = DATE'2026-03-08' WHERE fare = 41", days(4, 8), "rows"),
        ("UPDATE {rides} SET day = DATE'2026-02-08' WHERE fare = 41", days(4), "rows"),
        ("UPDATE {rides} SET at = NULL", None, None),  # a column that the query does not read
        ("UPDATE {rides} SET fare = fare WHERE fare > 50", None, None),
        ("INSERT INTO {rides} VALUES (DATE'2026-02-05', NULL, 0, 7)", None, None),
        ("OPTIMIZE {rides}", None, None),
    ],
)  # fmt: skip
def test_only_the_days_of_the_changed_rows_are_recomputed(
    lake: Lake, statement: str, stale: str | None, found_by: str | None
) -> None:
    run(lake, BY_DAY)
    before = lake.version("daily")
    lake.sql(statement)
    report = run(lake, BY_DAY)
    if stale is None:
        assert (report.mode, report.reasons, lake.version("daily")) == ("NO_OP", (), before)
        return
    assert (report.mode, report.replaced) == ("INCREMENTAL", stale)
    (reason,) = report.reasons
    assert (reason["reason"], reason["table"], reason["region"]) == ("SOURCE_CHANGED", "rides", stale)
    assert reason["found_by"] == found_by


def test_a_changed_dimension_row_makes_the_days_stale_that_meet_it(lake: Lake) -> None:
    lake.sql("DELETE FROM {rides} WHERE station = 2 AND day NOT IN (DATE'2026-03-04', DATE'2026-03-07')")
    run(lake, BY_CITY)
    lake.sql("UPDATE {stations} SET city = 'Thun' WHERE id = 2")
    assert run(lake, BY_CITY).replaced == days(4, 7)
    lake.sql("INSERT INTO {stations} VALUES (9, 'Olten')")
    assert run(lake, BY_CITY).mode == "NO_OP"


BY_REGION = """
    SELECT day, region, count(*) AS rides FROM rides JOIN stations ON station = id JOIN regions ON town = city
    GROUP BY day, region
"""
SOUTH = "UPDATE {regions} SET region = 'south' WHERE town = 'Chur'"
# Station 2 has rides on two days, station 1 on three others.
FEW_RIDES = """
    DELETE FROM {rides} WHERE station = 2 AND day NOT IN (DATE'2026-03-04', DATE'2026-03-07')
    OR station = 1 AND day NOT IN (DATE'2026-03-05', DATE'2026-03-08', DATE'2026-03-09')
"""
FIVE_DAYS = (
    "(((`day` >= DATE '2026-03-04') AND (`day` < DATE '2026-03-06'))"
    " OR ((`day` >= DATE '2026-03-07') AND (`day` < DATE '2026-03-10')))"
)


@pytest.mark.parametrize(
    ("statements", "stale"),
    [
        ([SOUTH], days(4, 7)),
        (["DELETE FROM {regions} WHERE town = 'Chur'"], days(4, 7)),
        (["INSERT INTO {regions} VALUES ('Thun', 'west')"], None),
        # Another station is in that town now.
        ([SOUTH, "UPDATE {stations} SET city = 'Chur' WHERE id = 1"], FIVE_DAYS),
        # The station that was in that town is in no town now.
        (["UPDATE {stations} SET city = 'Thun' WHERE id = 2", SOUTH], days(4, 7)),
        # The ride that was there is gone.
        (["DELETE FROM {rides} WHERE fare = 42", "DELETE FROM {regions} WHERE town = 'Chur'"], days(4, 7)),
    ],
)  # fmt: skip
def test_a_changed_row_of_a_dimensions_dimension_finds_its_days_too(
    lake: Lake, statements: list[str], stale: str | None
) -> None:
    lake.make("regions", "town STRING, region STRING", [("Bern", "west"), ("Basel", "north"), ("Chur", "east")])
    lake.sql(FEW_RIDES)
    run(lake, BY_REGION)
    for statement in statements:
        lake.sql(statement)
    report = run(lake, BY_REGION)
    assert report.replaced == stale


def test_two_rows_of_a_dimension_that_met_each_other_are_gone_together(lake: Lake) -> None:
    """Each is found through the other, as the other was before."""
    lake.make("trips", "day DATE, begin INT, stop INT", [("2026-03-05", 7, 8), ("2026-03-06", 0, 1)])
    lake.sql("INSERT INTO {stations} VALUES (7, 'Olten'), (8, 'Olten')")
    query = """
        SELECT day, s.city, e.id AS stop FROM stations s JOIN stations e ON s.city = e.city
        JOIN trips ON begin = s.id AND stop = e.id
    """
    text = flow(query, where=f"day >= DATE'{START}'")
    lake.run(text)
    assert rows_of(lake.read("daily")) == [("2026-03-05", "Olten", 8)]
    lake.sql("DELETE FROM {stations} WHERE city = 'Olten'")
    assert lake.run(text).replaced == days(5)
    assert rows_of(lake.read("daily")) == []


def test_two_rows_that_met_each_other_and_carry_the_day_are_gone_together(lake: Lake) -> None:
    """Each reaches the day by itself, and the other only where it still stands."""
    lake.make("crews", "id INT, mate INT, day DATE", [(1, 2, "2026-03-05"), (2, 1, "2026-03-05"), (3, 3, "2026-03-06")])
    lake.make("eves", "eve DATE", [("2026-03-04",), ("2026-03-05",)])
    query = """
        SELECT date_add(eve, 1) AS day, a.id, b.id AS mate FROM crews a JOIN crews b ON a.mate = b.id
        JOIN eves ON a.day = date_add(eve, 1) AND b.day = date_add(eve, 1)
    """
    text = flow(query, where=f"day >= DATE'{START}'")
    lake.run(text)
    assert len(rows_of(lake.read("daily"))) == 3
    lake.sql("DELETE FROM {crews} WHERE id < 3")
    assert lake.run(text).replaced == days(5)
    assert rows_of(lake.read("daily")) == [("2026-03-06", 3, 3)]


def test_a_column_beside_the_predicates_narrows_where_those_cannot(lake: Lake) -> None:
    query = "SELECT day, station, fare, row_number() OVER (PARTITION BY station ORDER BY at) AS ride FROM rides"
    run(lake, query)
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    report = run(lake, query)
    assert report.mode == "INCREMENTAL"
    assert report.replaced == f"((`day` >= DATE '{START}') AND ((`station` = 1) OR (`station` IS NULL)))"


def test_a_day_that_is_made_of_instants(lake: Lake) -> None:
    query = "SELECT CAST(at AS DATE) AS day, count(*) AS rides FROM rides GROUP BY CAST(at AS DATE)"
    run(lake, query)
    lake.sql("INSERT INTO {rides} VALUES (NULL, TIMESTAMP'2026-03-05 23:59:59.9', 0, 7)")
    report = run(lake, query)
    assert (report.mode, report.replaced) == ("INCREMENTAL", days(5))
    assert report.reasons[0]["found_by"] == "statistics"


def test_two_sources_make_both_their_days_stale(lake: Lake) -> None:
    query = "SELECT day, fare FROM rides UNION ALL SELECT CAST(at AS DATE), fare FROM others"
    lake.make("others", FACTS, RIDES[:6])
    text = flow(query, where=f"day >= DATE'{START}'")
    lake.run(text)
    lake.add("others", (None, "2026-03-05 12:00:00", 0, 1))
    lake.add("rides", ("2026-03-07", None, 0, 1))
    report = lake.run(text)
    assert (report.mode, report.replaced) == ("INCREMENTAL", days(5, 7))
    assert {reason["table"] for reason in report.reasons} == {"rides", "others"}


def test_what_another_flow_replaced_is_known_without_a_look_at_its_rows(lake: Lake) -> None:
    upstream = f"""
        CREATE STREAMING TABLE trips FLOW REPLACE WHERE day >= DATE'{START}' BY NAME SELECT day, fare FROM rides;
        CREATE STREAMING TABLE daily FLOW REPLACE WHERE day >= DATE'{START}'
            BY NAME SELECT day, sum(fare) AS fares FROM trips GROUP BY day;
    """
    lake.run_all(upstream)
    lake.sql("UPDATE {rides} SET fare = 0 WHERE fare = 41")
    trips, daily = lake.run_all(upstream)
    assert (trips.replaced, daily.replaced) == (days(4), days(4))
    assert rows_of(lake.read("daily")) == recomputed(lake, "SELECT day, sum(fare) AS fares FROM rides GROUP BY day")


@pytest.mark.parametrize(
    ("query", "stale", "found_by"),
    [
        ("SELECT * FROM {rides} WHERE day = DATE'2026-03-05' AND fare <> 51", days(5), "statistics"),
        # As many rows as before, which may be the same.
        ("SELECT day, at, station, 0 FROM {rides} WHERE day = DATE'2026-03-05'", days(5), "rows"),
        ("SELECT * FROM {rides} WHERE day = DATE'2026-03-05'", None, None),
    ],
)
def test_partitions_with_more_or_fewer_rows_than_before_are_not_looked_into(
    lake: Lake, query: str, stale: str | None, found_by: str | None
) -> None:
    lake.read("rides").write.format("delta").partitionBy("day").save(str(lake.path("parts")))
    shutil.rmtree(lake.path("rides"))
    lake.path("parts").rename(lake.path("rides"))
    run(lake, BY_DAY)
    lake.sql(f"INSERT INTO {{rides}} REPLACE WHERE day = DATE'2026-03-05' {query}")
    report = run(lake, BY_DAY)
    assert report.replaced == stale
    assert [reason["found_by"] for reason in report.reasons] == ([found_by] if found_by else [])


WINDOW_OF_CITIES = (
    "(((`city` IN ('Basel', 'Thun')) OR (`city` IS NULL))"
    " AND ((`day` >= DATE '2026-03-03') AND (`day` < DATE '2026-03-11')))"
)


@pytest.mark.parametrize(("station", "stale"), [(2, days(4, 7)), (1, WINDOW_OF_CITIES)])
def test_a_large_partner_is_asked_for_a_few_values_first(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, station: int, stale: str
) -> None:
    """Here the 5th and the 9th. Station 1 has rides on both, so that all days are taken for met."""
    from airflow_provider_replacewhere.spark import changes

    monkeypatch.setattr(changes, "LARGE_PARTNER", 0)
    monkeypatch.setattr(changes, "SAMPLE", 2)
    lake.sql(FEW_RIDES)
    text = flow(BY_CITY, where=f"day >= DATE'{START}' AND day < DATE'2026-03-11'")
    lake.run(text)
    lake.sql(f"UPDATE {{stations}} SET city = 'Thun' WHERE id = {station}")
    report = lake.run(text)
    assert report.replaced == stale
    assert rows_of(lake.read("daily")) == recomputed(lake, BY_CITY)


def test_lineage_is_asked_once_per_definition(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    from airflow_provider_replacewhere.spark import lineage

    ask = lineage.ask
    monkeypatch.setattr(lineage, "ask", lambda *of: asked.append(of) or ask(*of))  # type: ignore[func-returns-value]
    run(lake, BY_CITY)
    assert asked == []  # nothing to ask for yet
    for fare in (41, 51, 61):
        lake.sql(f"DELETE FROM {{rides}} WHERE fare = {fare}")
        assert run(lake, BY_CITY).mode == "INCREMENTAL"
    assert len(asked) == 1
    lake.sql("DELETE FROM {rides} WHERE fare = 71")
    other = BY_CITY.replace("count(*)", "count(fare)")
    assert causes(run(lake, other))[0][0] == "QUERY_FINGERPRINT_CHANGED"
    lake.sql("DELETE FROM {rides} WHERE fare = 81")
    assert run(lake, other).mode == "INCREMENTAL"
    assert len(asked) == 2


@pytest.mark.parametrize("layout", ["deletion vectors", "change data feed", "column mapping", "partitioned"])
def test_layouts_of_sources(lake: Lake, layout: str) -> None:
    properties = {
        "deletion vectors": "'delta.enableDeletionVectors' = 'true'",
        "change data feed": "'delta.enableChangeDataFeed' = 'true'",
        "column mapping": "'delta.columnMapping.mode' = 'name'",
        "partitioned": "'team' = 'sales'",
    }[layout]
    by = "PARTITIONED BY (day)" if layout == "partitioned" else ""
    lake.sql(f"CREATE TABLE {{rides2}} ({FACTS}) USING DELTA {by} TBLPROPERTIES ({properties})")
    lake.sql("INSERT INTO {rides2} SELECT * FROM {rides}")
    if layout == "column mapping":
        lake.sql("ALTER TABLE {rides2} RENAME COLUMN fare TO price")
        lake.sql("ALTER TABLE {rides2} RENAME COLUMN price TO fare")
    lake.path("rides").rename(lake.root / "elsewhere")
    lake.path("rides2").rename(lake.path("rides"))
    run(lake, BY_DAY)
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    lake.sql("UPDATE {rides} SET fare = 0 WHERE fare = 72")
    lake.sql("UPDATE {rides} SET fare = fare WHERE fare = 50")
    assert run(lake, BY_DAY).replaced == days(4, 7)


def test_everything_is_stale_where_no_filter_reaches(lake: Lake) -> None:
    query = "SELECT day, fare, (SELECT max(id) FROM stations) AS stations FROM rides"
    run(lake, query)
    lake.sql("INSERT INTO {stations} VALUES (9, 'Olten')")
    report = run(lake, query)
    assert report.mode == "FULL_RECOMPUTE"
    assert causes(report) == [("SOURCE_CHANGED", "no filter on the target reaches every read of stations")]


@pytest.mark.parametrize(
    ("statement", "reason", "cause"),
    [
        ("ALTER TABLE {rides} ALTER COLUMN at COMMENT 'start'", "SOURCE_CHANGED", "CHANGE COLUMN"),
        ("RESTORE TABLE {rides} TO VERSION AS OF 1", "SOURCE_REPLACED", "RESTORE"),
        ("CREATE OR REPLACE TABLE {rides} USING DELTA AS SELECT * FROM {rides} VERSION AS OF 0", "SOURCE_REPLACED",
         None),
    ],
)  # fmt: skip
def test_everything_is_stale_after_what_no_log_bounds(lake: Lake, statement: str, reason: str, cause: str) -> None:
    lake.sql("ALTER TABLE {rides} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    run(lake, BY_DAY)
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    lake.sql(statement)
    report = run(lake, BY_DAY)
    assert report.mode == "FULL_RECOMPUTE"
    assert causes(report) == [(reason, cause)]


def test_everything_is_stale_where_the_log_was_cleaned(lake: Lake) -> None:
    run(lake, BY_DAY)
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    lake.sql("INSERT INTO {rides} VALUES (DATE'2026-02-01', NULL, 0, 7)")
    _checkpoint(lake, "rides")
    for version in range(2):
        (lake.path("rides") / "_delta_log" / f"{version:020}.json").unlink()
    report = run(lake, BY_DAY)
    assert report.mode == "FULL_RECOMPUTE"
    assert [reason["reason"] for reason in report.reasons] == ["SOURCE_HISTORY_UNAVAILABLE"]


def _checkpoint(lake: Lake, table: str) -> None:
    jvm = lake.spark._jvm
    assert jvm is not None
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(lake.spark._jsparkSession, str(lake.path(table)))
    log.checkpoint()


@pytest.mark.parametrize("partitioned", [False, True])
def test_bounds_hold_where_the_changed_rows_are_gone(lake: Lake, settings: dict[str, str], partitioned: bool) -> None:
    """After VACUUM the removed rows cannot be read; what remains is what the log says of their files."""
    settings["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    by = "PARTITIONED BY (day)" if partitioned else ""
    shutil.rmtree(lake.path("rides"))
    lake.sql(f"CREATE TABLE {{rides}} ({FACTS}) USING DELTA {by}")
    for day in (4, 5, 6):
        lake.add("rides", (f"2026-03-{day:02}", None, 0, day))
    run(lake, BY_DAY)
    lake.sql("UPDATE {rides} SET fare = 0 WHERE day = DATE'2026-03-05'")
    lake.sql("VACUUM {rides} RETAIN 0 HOURS")
    report = run(lake, BY_DAY)
    assert "the changed rows cannot be read" in report.reasons[0]["cause"]
    # Of a file that was removed the log keeps the partition, and no statistics.
    assert report.replaced == (days(5) if partitioned else report.window)


def test_overrides_failures_and_foreign_changes_elsewhere_leave_it_possible(lake: Lake) -> None:
    run(lake, BY_DAY, clauses="PARTITIONED BY (day)")
    text = flow(BY_DAY, where=f"day >= DATE'{START}'", clauses="PARTITIONED BY (day)")
    lake.run(text, overrides={"daily": "day = DATE'2026-03-01'"})
    lake.sql("INSERT INTO {daily} VALUES (DATE'2026-01-01', 1, 1)")
    with pytest.raises(Exception, match="no column of the target"):
        lake.run(text, overrides={"daily": "moon = 1"})
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    report = lake.run(text)
    assert (report.mode, report.replaced) == ("INCREMENTAL", days(4))


def test_rows_that_are_rewritten_as_they_were_are_counted(lake: Lake) -> None:
    assert run(lake, BY_CITY).rows_unchanged == 0
    lake.sql("UPDATE {rides} SET fare = 0 WHERE fare = 41")
    changed = run(lake, BY_CITY)
    assert (changed.rows_deleted, changed.rows_written, changed.rows_unchanged) == (3, 3, 2)
    again = run(lake, BY_CITY, refresh_policy="full")
    assert (again.mode, again.rows_deleted, again.rows_unchanged) == ("FULL_RECOMPUTE", 24, 24)


def test_what_holds_the_same_rows_already_is_left_out(lake: Lake) -> None:
    run(lake, BY_CITY)
    before = lake.version("daily")
    same = run(lake, BY_CITY, refresh_policy="full", skip_unchanged=True)
    assert (same.mode, lake.version("daily")) == ("NO_OP", before)
    lake.sql("UPDATE {rides} SET fare = 0 WHERE fare = 41")
    one = run(lake, BY_CITY, refresh_policy="full", skip_unchanged=True)
    assert (one.mode, one.replaced, one.rows_unchanged) == ("INCREMENTAL", days(4), 2)
    assert run(lake, BY_CITY).mode == "NO_OP"


def test_a_view_of_the_catalog_is_seen_through(lake: Lake, database: str) -> None:
    lake.spark.sql(f"CREATE TABLE {database}.rides USING DELTA LOCATION '{Path(lake.path('rides'))}'")
    lake.spark.sql(f"CREATE VIEW {database}.cheap AS SELECT day, fare FROM {database}.rides WHERE fare < 200")
    text = flow(f"SELECT day, sum(fare) AS fares FROM {database}.cheap GROUP BY day", where=f"day >= DATE'{START}'")
    lake.run(text)
    lake.sql("UPDATE {rides} SET fare = 0 WHERE fare = 41")
    assert lake.run(text).replaced == days(4)


def test_both_sides_of_a_join_change_and_each_is_known_through_the_other(lake: Lake) -> None:
    """A ride that is gone met the city that its station had then, not the one that it has now."""
    query = "SELECT day, city, fare FROM rides JOIN stations ON station = id"
    text = flow(query, where="day >= DATE'2026-03-03' AND city >= 'A'")
    lake.run(text)
    lake.sql("DELETE FROM {rides} WHERE fare = 41")
    lake.sql("UPDATE {stations} SET city = 'Thun' WHERE id = 1")
    lake.run(text)
    assert rows_of(lake.read("daily")) == recomputed(lake, query)


def test_numbers_that_count_as_equal_are_told_apart(lake: Lake) -> None:
    lake.make("prices", "day DATE, price DOUBLE", [("2026-03-05", 0.0), ("2026-03-06", 1.0)])
    text = flow("SELECT day, CAST(price AS STRING) AS price FROM prices", where=f"day >= DATE'{START}'")
    lake.run(text)
    lake.sql("UPDATE {prices} SET price = -0.0D WHERE day = DATE'2026-03-05'")
    report = lake.run(text)
    assert report.replaced == days(5)
    assert rows_of(lake.read("daily")) == [("2026-03-05", "-0.0"), ("2026-03-06", "1.0")]
