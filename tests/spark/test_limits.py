"""Checks before the commit: a run that would do too much is refused with its numbers, and the table is as it was."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.errors import EmptyResultError, LimitExceededError
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.report import Mode
from tests.spark.tables import WEEK, Lake, flow, untouched

RIDES = [(f"2026-03-{day:02d}", ride) for day in range(1, 11) for ride in range(4)]
DAILY = flow("SELECT day, ride FROM rides", where=WEEK)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, ride INT", RIDES)
    lake.run(DAILY, overrides={"daily": "day <= DATE'2026-03-10'"})  # 40 rows; 32 of them in the week
    return lake


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_deleted_rows=31), r"delete 32 of the 40 rows of daily \(80\.0%\); max_deleted_rows is 31"),
        (
            Limits(max_deleted_fraction=0.79),
            r"delete 32 of the 40 rows of daily \(80\.0%\); max_deleted_fraction is 0\.79",
        ),
        (Limits(max_window_days=7), r"reaches over 8 days; max_window_days is 7"),
    ],
    ids=["rows", "fraction", "days"],
)
def test_a_run_that_would_do_too_much_is_refused(lake: Lake, limits: Limits, message: str) -> None:
    lake.add("rides", ("2026-03-05", 9))
    with untouched(lake, "daily", by=LimitExceededError, match=message):
        lake.run(DAILY, refresh_policy="full", limits=limits)


def test_a_run_within_its_limits_goes_on(lake: Lake) -> None:
    lake.add("rides", ("2026-03-05", 9))
    limits = Limits(max_deleted_rows=32, max_deleted_fraction=0.8, max_window_days=8)
    assert lake.run(DAILY, refresh_policy="full", limits=limits).rows_deleted == 32


def test_only_the_stale_part_counts(lake: Lake) -> None:
    lake.add("rides", ("2026-03-05", 9))
    assert lake.run(DAILY, limits=Limits(max_deleted_rows=4)).rows_deleted == 4


def test_rows_that_deletion_vectors_hide_do_not_count(lake: Lake) -> None:
    lake.sql("ALTER TABLE {daily} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lake.sql("DELETE FROM {daily} WHERE ride > 0")
    assert lake.run(DAILY, refresh_policy="full", limits=Limits(max_deleted_rows=8)).rows_deleted == 8


def test_a_full_refresh_deletes_all_rows(lake: Lake) -> None:
    with untouched(lake, "daily", by=LimitExceededError, match=r"delete 40 of the 40 rows of daily \(100\.0%\)"):
        lake.run(DAILY, full_refresh=["daily"], allow_full_refresh=True, limits=Limits(max_deleted_rows=39))


def test_a_first_run_deletes_nothing(lake: Lake) -> None:
    new = DAILY.replace("TABLE daily", "TABLE fresh")
    assert lake.run(new, limits=Limits(max_deleted_rows=0, max_deleted_fraction=0.0)).rows_written == 32


def test_an_empty_result_is_refused_skipped_or_put_in_place(lake: Lake) -> None:
    lake.sql("DELETE FROM {rides} WHERE day = DATE'2026-03-05'")
    before = lake.rows("daily")
    with untouched(lake, "daily", by=EmptyResultError, match="gives no row for"):
        lake.run(DAILY, limits=Limits(on_empty="fail"))
    with_skip = lake.run(DAILY, limits=Limits(on_empty="skip"))
    assert with_skip.mode is Mode.NO_OP
    assert [reason["reason"] for reason in with_skip.reasons][-1] == "EMPTY_RESULT_SKIPPED"
    assert lake.rows("daily") == before
    # What was left alone was not proven by that.
    assert lake.run(DAILY).rows_deleted == 4
    assert lake.rows("daily") == [row for row in before if row[0] != "2026-03-05"]


def test_what_is_not_empty_is_written_from_one_evaluation(lake: Lake) -> None:
    lake.add("rides", ("2026-03-05", 9))
    assert lake.run(DAILY, limits=Limits(on_empty="fail")).rows_written == 5


def test_an_empty_result_makes_no_table_where_it_is_skipped(lake: Lake) -> None:
    new = flow("SELECT day, ride FROM rides WHERE ride > 100", target="none")
    assert lake.run(new, limits=Limits(on_empty="skip")).mode is Mode.NO_OP
    assert lake.version("none") == -1
    assert lake.run(new).mode is Mode.FULL_RECOMPUTE
