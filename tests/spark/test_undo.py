"""A window can be undone: what one run replaced is put back, unless that would lose what came after."""

from __future__ import annotations

import shutil

import pytest

from airflow_provider_replacewhere.errors import RequestError, UndoRefusedError
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.spark.tables import WEEK, Lake, flow, untouched

RIDES = [(f"2026-03-{day:02d}", day) for day in range(1, 11)]
DAILY = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=WEEK, clauses="PARTITIONED BY (day)")
WRONG = DAILY.replace("sum(fare)", "-sum(fare)")


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, fare INT", RIDES)
    lake.run(DAILY, overrides={"daily": "day <= DATE'2026-03-10'"})
    return lake


def undo(lake: Lake, report: RunReport, *, force: bool = False) -> RunReport:
    return lake.session.undo(report.run_id, force=force)


def test_what_a_run_replaced_is_put_back_and_recorded(lake: Lake) -> None:
    before = lake.rows("daily")
    wrong = lake.run(WRONG)
    assert lake.rows("daily") != before
    undone = undo(lake, wrong)
    assert lake.rows("daily") == before
    assert (undone.mode, undone.replaced, undone.rows_deleted, undone.rows_written) == (Mode.UNDO, wrong.replaced, 8, 8)
    assert undone.reasons == ({"reason": "UNDO_REQUESTED", "run_id": wrong.run_id, "version": wrong.target_version},)
    assert lake.version("daily") == undone.target_version == (wrong.target_version or 0) + 1
    recorded = lake.session.history.runs(limit=1)[0]
    assert recorded.report == undone


def test_the_undone_region_is_stale_and_the_rest_is_fresh(lake: Lake) -> None:
    lake.run(DAILY)
    override = lake.run(DAILY, overrides={"daily": "day IN (DATE'2026-03-04', DATE'2026-03-05')"})
    undo(lake, override)
    again = lake.run(DAILY)
    assert (again.mode, again.replaced) == (Mode.INCREMENTAL, override.replaced)


def test_an_undo_can_be_undone(lake: Lake) -> None:
    wrong = lake.run(WRONG)
    held = lake.rows("daily")
    undo(lake, undo(lake, wrong))
    assert lake.rows("daily") == held


def test_rows_outside_stay_whatever_happened_to_them_since(lake: Lake) -> None:
    one_day = lake.run(DAILY.replace("sum(fare)", "-sum(fare)"), overrides={"daily": "day = DATE'2026-03-05'"})
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-03-01'")
    lake.run(DAILY, overrides={"daily": "day = DATE'2026-03-09'"})
    held = [row for row in lake.rows("daily") if row[0] != "2026-03-05"]
    undo(lake, one_day)
    assert lake.rows("daily") == sorted([*held, ("2026-03-05", 5)])


@pytest.mark.parametrize("by_us", [True, False], ids=["a later run", "another writer"])
def test_what_came_later_is_lost_only_by_force(lake: Lake, by_us: bool) -> None:
    before = lake.rows("daily")
    wrong = lake.run(WRONG)
    if by_us:
        lake.add("rides", ("2026-03-10", 5))
        lake.run(DAILY)
    else:
        lake.sql("UPDATE {daily} SET fare = 0 WHERE day = DATE'2026-03-10'")
    with untouched(lake, "daily", by=UndoRefusedError, match="was changed after the run .* at version"):
        undo(lake, wrong)
    assert undo(lake, wrong, force=True).reasons[0]["over_versions"] == [lake.version("daily") - 1]
    assert lake.rows("daily") == before


def test_a_full_refresh_is_undone_whole(lake: Lake) -> None:
    before = lake.rows("daily")
    refreshed = lake.run(DAILY, full_refresh=["daily"], allow_full_refresh=True)
    assert lake.rows("daily") != before
    undo(lake, refreshed)
    assert lake.rows("daily") == before


def test_a_new_column_stays_empty(lake: Lake) -> None:
    wider = lake.run(DAILY.replace("AS fare", "AS fare, count(*) AS n"))
    undo(lake, wider)
    assert {row[2] for row in lake.rows("daily")} == {None}


def test_a_first_run_is_undone_to_an_empty_window(lake: Lake) -> None:
    new = lake.run(DAILY.replace("TABLE daily", "TABLE other"))
    undo(lake, new)
    assert lake.rows("other") == []


def test_a_plan_says_what_it_would_touch(lake: Lake) -> None:
    wrong = lake.run(WRONG)
    held, runs = lake.version("daily"), len(lake.session.history.runs())
    plan = lake.session.undo(wrong.run_id, dry_run=True)
    assert plan.dry_run
    assert plan.estimate["files"] == 8
    assert (lake.version("daily"), len(lake.session.history.runs())) == (held, runs)


def test_what_wrote_nothing_or_is_not_there_cannot_be_undone(lake: Lake) -> None:
    lake.run(DAILY)
    with untouched(lake, "daily", by=RequestError, match="wrote nothing"):
        undo(lake, lake.run(DAILY))
    with untouched(lake, "daily", by=RequestError, match="has no run nobody"):
        lake.session.undo("nobody")


def test_a_version_that_is_gone_is_said_to_be_so(lake: Lake) -> None:
    wrong = lake.run(WRONG)
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-03-01'")
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.sql("VACUUM {daily} RETAIN 0 HOURS")
    lake.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with untouched(lake, "daily", by=UndoRefusedError, match="files .* are gone|is gone"):
        undo(lake, wrong)


def test_another_table_of_the_name_is_not_touched(lake: Lake) -> None:
    wrong = lake.run(WRONG)
    shutil.rmtree(lake.path("daily"))
    lake.run(DAILY)
    lake.run(DAILY, refresh_policy="full")
    with untouched(lake, "daily", by=UndoRefusedError, match="does not have that run's commit"):
        undo(lake, wrong)
