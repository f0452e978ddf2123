"""What a run may do at most."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import LimitExceededError, RequestError
from airflow_provider_replacewhere.planning.limits import Limits, days_of
from airflow_provider_replacewhere.predicates import Region, parse_predicate

AS_OF = datetime(2026, 3, 10, 12, tzinfo=UTC)
TYPES = {"day": "date", "at": "timestamp", "wall": "timestamp_ntz", "n": "int", "s": "string"}


def region(sql: str) -> Region:
    return parse_predicate(sql, TYPES)


@pytest.mark.parametrize(
    ("window", "days"),
    [
        ("day = DATE'2026-03-01'", 1),
        ("day >= DATE'2026-03-01' AND day < DATE'2026-03-08'", 7),
        ("day BETWEEN DATE'2016-03-01' AND DATE'2026-03-01'", 3653),
        ("day IN (DATE'2026-03-01', DATE'2026-03-05')", 5),
        ("day >= DATE'2026-03-04'", 7),  # to the end of the day of as_of
        ("day >= DATE'2026-04-01'", 0),
        ("day < DATE'2026-03-01'", None),
        ("day <> DATE'2026-03-01'", None),
        ("at >= TIMESTAMP'2026-03-01 06:00:00' AND at < TIMESTAMP'2026-03-01 18:00:00'", 0.5),
        ("wall >= TIMESTAMP_NTZ'2026-03-01 00:00:00' AND wall < TIMESTAMP_NTZ'2026-03-03 00:00:00'", 2),
        ("n = 5", None),
        ("n = 5 AND day = DATE'2026-03-01'", 1),
        ("n = 5 OR day = DATE'2026-03-01'", None),
        ("day >= DATE'2026-03-01' AND at >= TIMESTAMP'2026-03-10 00:00:00'", 1),
        ("day = DATE'2026-03-01' OR day = DATE'2026-03-02' AND s = 'x'", 2),
        ("s = 'x'", None),
    ],
)
def test_days_of_a_window(window: str, days: float | None) -> None:
    assert days_of(region(window), AS_OF) == days


def test_a_window_that_is_too_long_is_refused_with_both_numbers() -> None:
    week = region("day >= DATE'2026-03-01' AND day < DATE'2026-03-08'")
    Limits(max_window_days=7).check_window(week, "w", AS_OF)
    with pytest.raises(LimitExceededError, match=r"reaches over 7 days; max_window_days is 6\."):
        Limits(max_window_days=6).check_window(week, "w", AS_OF)
    with pytest.raises(LimitExceededError, match="has no first day"):
        Limits(max_window_days=6).check_window(region("n = 5"), "w", AS_OF)
    Limits().check_window(region("n = 5"), "w", AS_OF)


def test_too_many_deleted_rows_are_refused_with_all_numbers() -> None:
    Limits(max_deleted_rows=10, max_deleted_fraction=0.1).check_deleted("t", 10, 100)
    with pytest.raises(LimitExceededError, match=r"11 of the 100 rows of t \(11\.0%\); max_deleted_rows is 10\."):
        Limits(max_deleted_rows=10).check_deleted("t", 11, 100)
    with pytest.raises(LimitExceededError, match=r"max_deleted_rows is 5 and max_deleted_fraction is 0\.1"):
        Limits(max_deleted_rows=5, max_deleted_fraction=0.1).check_deleted("t", 11, 100)
    Limits(max_deleted_rows=0, max_deleted_fraction=0.0).check_deleted("t", 0, 0)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"max_deleted_rows": -1},
        {"max_deleted_rows": True},
        {"max_deleted_rows": "many"},
        {"max_deleted_fraction": 1.5},
        {"max_deleted_fraction": float("nan")},
        {"max_window_days": -0.5},
        {"on_empty": "delete"},
    ],
    ids=str,
)
def test_nonsense_is_refused(nonsense: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(nonsense))):
        Limits(**nonsense)
