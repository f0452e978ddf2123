"""What runs replaced, as keys of Airflow's asset partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.partitions import check_partition_keys, keys_of
from airflow_provider_replacewhere.planning.report import RunReport
from tests.history import report

DATE = {"d": "date"}


def replaced(sql: str, types: dict[str, str] = DATE, **changes: Any) -> RunReport:
    run = report("r/f", replaced=sql, window_types=types, as_of="2026-03-05T04:30:00+00:00", time_zone="UTC")
    return replace(run, **changes)


@pytest.mark.parametrize(
    ("unit", "keys"),
    [
        ("day", ["2026-02-27", "2026-02-28", "2026-03-01"]),
        ("week", ["2026-02-23"]),
        ("month", ["2026-02-01", "2026-03-01"]),
        ("year", ["2026-01-01"]),
    ],
)
def test_every_unit_of_which_a_part_was_replaced_has_a_key(unit: str, keys: list[str]) -> None:
    run = replaced("d >= '2026-02-27' AND d < '2026-03-02'")

    assert keys_of([run], unit) == [f"{key}T00:00:00" for key in keys]


def test_days_between_that_were_fresh_have_none() -> None:
    run = replaced("d = '2026-02-27' OR d = '2026-03-02'")

    assert keys_of([run], "day") == ["2026-02-27T00:00:00", "2026-03-02T00:00:00"]


def test_a_range_without_an_end_reaches_to_the_day_that_the_run_was_for() -> None:
    assert keys_of([replaced("d >= '2026-03-04'")], "day") == ["2026-03-04T00:00:00", "2026-03-05T00:00:00"]
    assert keys_of([replaced("d >= '2026-03-04'", time_zone="America/New_York")], "day") == ["2026-03-04T00:00:00"]


def test_a_range_of_timestamps_has_the_days_of_the_flows_time_zone() -> None:
    utc = "t >= TIMESTAMP'2026-03-01 00:00:00+00:00' AND t < TIMESTAMP'2026-03-02 00:00:00+00:00'"

    assert keys_of([replaced(utc, {"t": "timestamp"})], "day") == ["2026-03-01T00:00:00"]
    assert keys_of([replaced(utc, {"t": "timestamp"}, time_zone="Europe/Berlin")], "day") == [
        "2026-03-01T00:00:00",
        "2026-03-02T00:00:00",
    ]


def test_chunks_of_one_backfill_have_their_keys_together() -> None:
    runs = [replaced("d = '2026-03-02'"), replaced("d = '2026-03-01'"), replaced("FALSE")]

    assert keys_of(runs, "day") == ["2026-03-01T00:00:00", "2026-03-02T00:00:00"]
    assert keys_of(runs, "week") == ["2026-02-23T00:00:00", "2026-03-02T00:00:00"]


def test_a_further_column_changes_nothing() -> None:
    run = replaced("d = '2026-03-01' AND region = 'north'", {"d": "date", "region": "string"})

    assert keys_of([run], "day") == ["2026-03-01T00:00:00"]


@pytest.mark.parametrize(
    ("sql", "types", "problem"),
    [
        ("d < '2026-03-01'", DATE, "has no beginning"),
        ("TRUE", {}, "bounds no column of dates or timestamps"),
        ("n = 1", {"n": "int"}, "bounds no column of dates or timestamps"),
        ("d = '2026-03-01' AND e = '2026-03-01'", {"d": "date", "e": "date"}, "bounds several columns of dates"),
        ("d >= '2000-01-01'", DATE, "More than 1000 days were replaced"),
    ],
)
def test_what_no_keys_can_name_is_refused(sql: str, types: dict[str, str], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        keys_of([replaced(sql, types)], "day")


def test_a_unit_that_is_none_is_refused() -> None:
    check_partition_keys("week")
    with pytest.raises(RequestError, match="partition_keys is 'fortnight'"):
        check_partition_keys("fortnight")
