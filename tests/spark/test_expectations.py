"""Expectations: rows that break them are counted, dropped, or fail the run; and are judged as they are written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, ExpectationError
from tests.spark.tables import Lake, flow, untouched

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col

@dp.table(replace_where="day >= date_sub(current_date(), 7)")
@dp.expect("known zone", col("zone").isNotNull())
@dp.expect_all_or_drop({"has fare": "fare IS NOT NULL", "no refund": col("fare") >= 0})
@dp.expect_or_fail("possible", "fare < 1000")
def daily():
    return spark.read.table("rides")
"""
SQL = flow(
    "SELECT * FROM rides",
    clauses="""(
      CONSTRAINT `known zone` EXPECT (zone IS NOT NULL),
      CONSTRAINT `has fare` EXPECT (fare IS NOT NULL) ON VIOLATION DROP ROW,
      CONSTRAINT `no refund` EXPECT (fare >= 0) ON VIOLATION DROP ROW,
      CONSTRAINT possible EXPECT (fare < 1000) ON VIOLATION FAIL UPDATE
    )""",
)


@pytest.mark.parametrize("form", ["sql", "python"])
def test_rows_are_counted_dropped_or_fail_the_run(lake: Lake, tmp_path: Path, form: str) -> None:
    file = tmp_path / "flow.py"
    file.write_text(PYTHON)
    pipeline = SQL if form == "sql" else file
    columns = "day DATE, zone STRING, fare DOUBLE"
    lake.make("daily", columns, [("2026-03-08", "before", 1.0), ("2026-02-01", "kept", -1.0)])
    rows = [
        ("2026-03-08", "fine", 2.0),
        ("2026-03-08", None, 3.0),
        ("2026-03-08", "refund", -4.0),
        ("2026-03-08", None, None),
        ("2026-02-01", "outside the window", 5000.0),
    ]
    lake.make("rides", columns, [*rows, ("2026-03-09", "impossible", 1000.0), ("2026-03-09", "unknown", None)])
    with untouched(
        lake, "daily", by=ExpectationError, match="(?s)break the expectation possible: .*Nothing was written"
    ):
        lake.run(pipeline)

    lake.make("rides", columns, rows)
    # NULL is no TRUE: the row without a fare breaks what is asked of fares, and would fail the run if it were kept.
    possible = "fare < 1000"
    if form == "sql":
        pipeline = SQL.replace(possible, f"{possible} OR fare IS NULL")
    else:
        file.write_text(PYTHON.replace(possible, f"{possible} OR fare IS NULL"))
    report = lake.run(pipeline)
    assert lake.rows("daily") == [
        ("2026-02-01", "kept", -1.0),
        ("2026-03-08", None, 3.0),
        ("2026-03-08", "fine", 2.0),
    ]
    assert report.expectations == {
        "known zone": {"action": "WARN", "violations": 2},
        "has fare": {"action": "DROP ROW", "violations": 1},
        "no refund": {"action": "DROP ROW", "violations": 2},
        "possible": {"action": "FAIL UPDATE", "violations": 0},
    }
    assert (report.rows_deleted, report.rows_written) == (1, 2)


def test_a_second_run_in_one_session_judges_the_rows_that_are_there_then(lake: Lake, tmp_path: Path) -> None:
    """Rows are kept in memory between judging and writing; unversioned files must not be answered from there later."""
    files = tmp_path / "files"
    pipeline = flow(
        f"SELECT * FROM parquet.`{files}`", clauses="(CONSTRAINT cheap EXPECT (fare < 10) ON VIOLATION DROP ROW)"
    )
    for fare in (1.0, 2.0):
        written = lake.frame("day DATE, fare DOUBLE", [("2026-03-08", fare), ("2026-03-08", 99.0)])
        written.write.parquet(str(tmp_path / "written"), mode="overwrite")
        # Put there by somebody else, so that Spark does not hear of it.
        shutil.rmtree(files, ignore_errors=True)
        shutil.move(tmp_path / "written", files)
        lake.run(pipeline)
        assert lake.rows("daily") == [("2026-03-08", fare)]
    assert nothing_is_kept_in_memory(lake)


def nothing_is_kept_in_memory(lake: Lake) -> bool:
    return bool(lake.spark._jsparkSession.sharedState().cacheManager().isEmpty())


def test_an_expectation_that_cannot_be_evaluated_is_named_and_nothing_is_written(lake: Lake) -> None:
    columns = "day DATE, zone STRING"
    lake.make("rides", columns, [("2026-03-08", "north")])
    lake.make("daily", columns, [("2026-03-08", "before")])
    for condition in ("fare > 0", "zone > (SELECT 1, 2)", "CAST(zone AS INT) > 0", "zone AND"):
        with untouched(lake, "daily", by=DefinitionError, match="expectation"):
            lake.run(flow("SELECT * FROM rides", clauses=f"(CONSTRAINT good EXPECT ({condition}))"))
    assert nothing_is_kept_in_memory(lake)


def test_rows_that_differ_each_time_are_judged_as_they_are_written(lake: Lake) -> None:
    lake.make("rides", "day DATE, ride INT", [("2026-03-08", n) for n in range(40)])
    report = lake.run(
        flow(
            "SELECT day, ride, rand() AS luck FROM rides",
            clauses="(CONSTRAINT lucky EXPECT (luck > 0.5) ON VIOLATION DROP ROW)",
        )
    )
    rows = lake.rows("daily")
    assert len(rows) == 40 - report.expectations["lucky"]["violations"] == report.rows_written
    assert all(luck > 0.5 for _, _, luck in rows)
