"""What once let a stale region pass for fresh, or a row outside the window be deleted."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_provider_replacewhere.errors import DefinitionError
from tests.spark.tables import NOON, Lake, flow, instant


def test_a_window_is_one_of_the_targets_types_not_of_the_querys(lake: Lake) -> None:
    lake.make("numbers", "n INT, v STRING", [(4, "new"), (6, "new")])
    lake.make("daily", "n DECIMAL(12,2), v STRING")
    lake.sql("INSERT INTO {daily} VALUES (5.50BD, 'outside')")
    lake.run(flow("SELECT * FROM numbers", where="n <= 5"))
    assert {tuple(row) for row in lake.read("daily").collect()} == {
        (Decimal("4.00"), "new"),
        (Decimal("5.50"), "outside"),
    }


def test_an_expectation_that_asks_the_clock_is_another_one_the_next_day(lake: Lake) -> None:
    lake.make("days", "day DATE", [("2026-03-09",), ("2026-03-11",)])
    pipeline = flow(
        "SELECT day FROM days",
        where="day >= DATE '2026-03-01'",
        clauses="(CONSTRAINT past EXPECT (day <= current_date()) ON VIOLATION DROP ROW)",
    ).replace("daily (", "daily (day DATE, ")
    lake.run(pipeline, as_of=NOON)
    assert lake.rows("daily") == [("2026-03-09",)]
    lake.run(pipeline, as_of=instant("2026-03-12T00:00:00"))
    assert lake.rows("daily") == [("2026-03-09",), ("2026-03-11",)]


def test_a_second_version_of_one_table_is_a_source_of_its_own(lake: Lake) -> None:
    lake.make("days", "day DATE, n INT", [("2026-03-09", 1)])
    lake.make("days", "day DATE, n INT", [("2026-03-09", 2)])
    lake.make("days", "day DATE, n INT", [("2026-03-09", 3)])
    query = "SELECT a.day, a.n - b.n AS more FROM days a JOIN days VERSION AS OF {} b ON a.day = b.day"
    lake.run(flow(query.format(0)))
    assert lake.rows("daily") == [("2026-03-09", 2)]
    lake.run(flow(query.format(1)))
    assert lake.rows("daily") == [("2026-03-09", 1)]


def test_a_struct_that_is_called_like_its_source_is_not_guessed_at(lake: Lake) -> None:
    lake.make("pairs", "a INT, s STRUCT<a: INT>", [])
    with pytest.raises(DefinitionError, match="s is a source of the query and a column of its result"):
        lake.run(flow("SELECT * FROM pairs AS s", where="s.a = 1"))
    assert not lake.path("daily").exists()
