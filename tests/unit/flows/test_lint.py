"""Warnings about flows whose work cannot be kept small."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.flows import parse_sql
from airflow_provider_replacewhere.flows.lint import lint


def messages(predicate: str, query: str) -> list[str]:
    text = f"CREATE STREAMING TABLE t FLOW REPLACE WHERE {predicate} BY NAME {query}"
    return [f"{warning.span.text}: {warning.message.split(':')[0]}" for warning in lint(parse_sql(text))]


MOVES = "The window's upper bound moves with the time of the run, so it is another one in each run."


@pytest.mark.parametrize(
    ("predicate", "query", "expected"),
    [
        ("total > 9", "SELECT day, sum(x) AS total FROM o GROUP BY day", ["total: total is an aggregate"]),
        (
            "total > 9 AND total < 99",
            "SELECT day, sum(x) AS total FROM o GROUP BY day",
            ["total: total is an aggregate"],
        ),
        ("n = 1", "SELECT row_number() OVER (ORDER BY x) n FROM o", ["n: n is a value of a window function"]),
        ("c > 1", "SELECT a + b AS c FROM o", ["c: c is made of several columns"]),
        (
            "day > '2026-01-01'",
            "WITH q AS (SELECT id, max(day) AS day FROM o GROUP BY id) SELECT * FROM q",
            ["day: day is not among the columns of GROUP BY"],
        ),
        ("day < current_date()", "SELECT day FROM o", [f"day < current_date(): {MOVES}"]),
        ("now() >= ts", "SELECT ts FROM o", [f"now() >= ts: {MOVES}"]),
    ],
)
def test_work_that_cannot_be_kept_small_is_named(predicate: str, query: str, expected: list[str]) -> None:
    assert messages(predicate, query) == expected


@pytest.mark.parametrize(
    ("predicate", "query"),
    [
        ("day >= date_sub(current_date(), 7)", "SELECT day, sum(x) AS total FROM o GROUP BY day"),
        ("day >= '2026-01-01' AND region = 'CH'", "SELECT day, region, count(*) FROM o GROUP BY ALL"),
        ("day >= DATE'2026-01-01' AND region IN ('CH')", "SELECT day, region, count(*) FROM o GROUP BY day, region"),
        ("day >= '2026-01-01'", "SELECT CAST(ts AS DATE) AS day, count(*) FROM o GROUP BY 1"),
        ("day >= '2026-01-01'", "SELECT date(ts) AS day, count(*) FROM o GROUP BY date(ts)"),
        ("day >= '2026-01-01'", "SELECT o.day, count(*) FROM o GROUP BY o.day, region"),
        ("day >= '2026-01-01'", "SELECT day, count(*) FROM o GROUP BY CUBE (day, region)"),
        ("day >= '2026-01-01'", "SELECT day FROM a UNION ALL SELECT day FROM b"),
        ("current_date() <= day", "SELECT day FROM o"),
        ("day >= '2026-01-01'", "SELECT FROM WHERE"),
        ("day >=", "TABLE o"),
    ],
)
def test_no_warning_without_cause(predicate: str, query: str) -> None:
    assert messages(predicate, query) == []


def test_a_warning_shows_the_place_and_the_fix() -> None:
    (warning,) = lint(
        parse_sql("CREATE STREAMING TABLE t\nFLOW REPLACE WHERE n > 9 BY NAME\nSELECT count(*) AS n FROM o", "t.sql")
    )
    assert str(warning) == (
        "t.sql:2:20: n is an aggregate: each run has to compute it for all rows before it can tell which are "
        "replaced.\n"
        "  2 | FLOW REPLACE WHERE n > 9 BY NAME\n"
        "    |                    ^\n"
        "Write the condition over a column that comes from a source as it is, such as a date or a region."
    )
