"""From bounds of a source's rows to the target's values: never too few."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.planning.changes import LogCommit, net_files, parse_commit
from airflow_provider_replacewhere.planning.lineage import Arrival, Lineage, Partner
from airflow_provider_replacewhere.planning.mapping import rows_changed, values_from
from airflow_provider_replacewhere.planning.touched import Layout
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.values import Values

COLUMNS = {"ts": "timestamp", "d": "date", "n": "int", "s": "string"}
MARCH = "d >= DATE '2026-03-01' AND d < DATE '2026-04-01'"
ZONES = ("UTC", "Europe/Zurich", "America/New_York", "Asia/Kathmandu", "Pacific/Apia")


def rows(sql: str, zone: str = "UTC") -> Region:
    return parse_predicate(sql, COLUMNS, zone)


def within(sql: str) -> Values:
    (box,) = rows(sql).boxes
    ((_, values),) = box.sides
    return values.not_null()


def mapped(changed: str, value: str, window: str = MARCH, zone: str = "UTC", where: tuple[str, ...] = ()) -> str | None:
    found = values_from(rows(changed, zone), Arrival(value, where, ()), within(window), COLUMNS, zone)
    return None if found is None else found.to_sql("v")


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ("d = DATE '2026-03-05'", "d", "(v = DATE '2026-03-05')"),
        ("d = DATE '2026-02-05'", "d", "FALSE"),
        ("n = 5", "d", "((v >= DATE '2026-03-01') AND (v < DATE '2026-04-01'))"),
        ("d IN (DATE '2026-03-05', DATE '2026-03-09')", "date_add(d, 1)",
         "(v IN (DATE '2026-03-06', DATE '2026-03-10'))"),
        ("ts >= TIMESTAMP '2026-03-05 03:00:00Z' AND ts < TIMESTAMP '2026-03-06 00:00:00Z'", "CAST(ts AS DATE)",
         "(v = DATE '2026-03-05')"),
        ("ts IS NULL", "CAST(ts AS DATE)", "FALSE"),
        ("ts >= TIMESTAMP '2026-03-05 03:00:00Z' AND n = 1", "CAST(date_trunc('month', ts) AS DATE)",
         "(v = DATE '2026-03-01')"),
        ("n = 1", "CASE WHEN n = 1 THEN d END", None),
        ("n = 1", "DATE '2026-03-05'", "(v = DATE '2026-03-05')"),
        ("n = 1", "n", None),  # of another type than the target's column
    ],
)  # fmt: skip
def test_values_that_changed_rows_may_have(changed: str, value: str, expected: str | None) -> None:
    assert mapped(changed, value) == expected


def test_a_constant_is_not_a_column_of_that_name() -> None:
    columns = {"true": "boolean"}
    changed, window = parse_predicate("`true` = false", columns), Values.of(Domain.of("boolean"), [(1, 2)])
    assert values_from(changed, Arrival("`true`", (), ()), window, columns, "UTC") == Values.nothing(window.domain)
    assert values_from(changed, Arrival("true", (), ()), window, columns, "UTC") is None


def test_conditions_of_the_query_bound_the_rows() -> None:
    assert mapped("n = 5", "d", where=("(n > 5)",)) == "FALSE"
    assert mapped("n >= 0", "d", where=("(d = DATE '2026-03-07')",)) == "(v = DATE '2026-03-07')"
    assert mapped("d = DATE '2026-03-07'", "d", where=("(s RLIKE 'x')",)) == "(v = DATE '2026-03-07')"


instants = st.timedeltas(timedelta(0), timedelta(days=50)).map(lambda later: datetime(2026, 2, 20, tzinfo=UTC) + later)


@given(instants, st.timedeltas(timedelta(microseconds=1), timedelta(days=3)), st.sampled_from(ZONES), st.data())
def test_no_day_of_a_changed_instant_is_missed(start: datetime, long: timedelta, zone: str, data: Any) -> None:
    inside = start + data.draw(st.timedeltas(timedelta(0), long - timedelta(microseconds=1)))
    changed = f"ts >= TIMESTAMP '{start.isoformat()}' AND ts < TIMESTAMP '{(start + long).isoformat()}'"
    found = values_from(rows(changed), Arrival("CAST(ts AS DATE)", (), ()), within(MARCH), COLUMNS, zone)
    assert found is not None
    day = inside.astimezone(ZoneInfo(zone)).date()
    key = Domain.of("date").key(day)
    assert key in found or not date(2026, 3, 1) <= day < date(2026, 4, 1)
    # And none that no changed instant is in.
    last = (start + long - timedelta(microseconds=1)).astimezone(ZoneInfo(zone)).date()
    first = start.astimezone(ZoneInfo(zone)).date()
    assert all(first <= date(1970, 1, 1) + timedelta(days=k) <= last for a, b in found.intervals for k in range(a, b))  # type: ignore[arg-type]


def commit(version: int, *actions: dict[str, Any], **info: Any) -> LogCommit:
    return parse_commit(version, "\n".join(json.dumps(a) for a in ({"commitInfo": info}, *actions)))


def added(path: str, low: str, high: str) -> dict[str, Any]:
    stats = {"numRecords": 2, "minValues": {"d": low}, "maxValues": {"d": high}, "nullCount": {"d": 0}}
    return {"add": {"path": path, "partitionValues": {}, "size": 9, "dataChange": True, "stats": json.dumps(stats)}}


def removed(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True}}


def of_ours(predicate: str, **parameters: Any) -> dict[str, Any]:
    return {
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "predicate": predicate, **parameters},
        "readVersion": 3,
        "userMetadata": json.dumps({"replacewhere": {"token": "t", "replaced": predicate}}),
    }


def test_what_one_of_our_runs_replaced_bounds_what_its_files_do_not() -> None:
    files = (removed("a"), added("b", "2026-03-01", "2026-03-31"))
    layout = Layout({"d": "date"})

    def changed(**info: Any) -> Region:
        return rows_changed([commit(4, *files, **info)], layout, COLUMNS, "UTC")

    ours = of_ours("(`d` = DATE '2026-03-05')")
    assert changed(**ours) == rows("d = DATE '2026-03-05'")
    assert changed(**of_ours("(`n` = 7)")) == rows("n = 7")
    assert changed(**{**ours, "userMetadata": None}).is_everything
    assert changed(**{**ours, "operation": "MERGE"}).is_everything
    assert changed(**of_ours("(`d` = DATE '2026-03-05')", mode="Append")).is_everything
    assert changed(**of_ours("true")).is_everything
    # Somebody else's condition beside our metadata, which a session can keep: its instants may name no zone.
    assert changed(**{**of_ours("(`d` = DATE '2026-03-06')"), "userMetadata": ours["userMetadata"]}).is_everything
    del ours["readVersion"]  # the first commit of a table: Delta neither deletes nor checks a row
    assert changed(**ours).is_everything


def test_files_that_came_and_went_between_two_versions_are_left_out() -> None:
    gone, new = net_files([
        commit(1, added("a", "2026-03-01", "2026-03-02"), added("b", "2026-03-01", "2026-03-02")),
        commit(2, removed("a"), removed("old")),
        commit(3, added("old", "2026-03-01", "2026-03-02"), removed("older")),
    ])  # fmt: skip
    assert [file.path for file in gone] == ["older"]
    assert [file.path for file in new] == ["b"]


def test_lineage_is_kept_for_its_definition_alone() -> None:
    partner = Partner("rides", ("(day IS NOT NULL)",), ("(partner.station = changed.id)",), ("day", "station"))
    further = Partner("stations", (), ("(partner.city = changed.city)",), ("id", "city"), partner)
    arrivals = {
        "stations": {"day": (Arrival("day", (), ("id", "city"), partner), Arrival("x", ("(x > 1)",), ("x",)))},
        "regions": {"day": (Arrival("day", (), ("city",), further),)},
    }
    lineage = Lineage("abc", arrivals, ("day",))
    kept = json.loads(json.dumps(lineage.to_json()))
    assert kept == lineage.to_json()
    assert Lineage.from_json(kept, "abc") == lineage
    assert Lineage.from_json(kept, "abd") is None
    assert Lineage.from_json(None, "abc") is None
    assert Lineage.from_json({**kept, "version": 0}, "abc") is None
    assert Lineage.from_json({**kept, "arrivals": [1]}, "abc") is None
