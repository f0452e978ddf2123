"""A backfill in chunks that dies or is stopped in the middle goes on where it was; what is done stays done."""

from __future__ import annotations

import faulthandler
from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.chaos.running import running, until
from tests.chaos.stage import Stage

FIRST, NEXT = (f"2026-03-{day}T00:00:00+00:00" for day in ("11", "12"))
WINDOW = "day >= DATE'2026-03-01' AND day < DATE'2026-03-06'"
YEAR = "day >= DATE'2026-03-01' AND day < DATE'2027-03-01'"
TOO_MUCH = 2**63 - 1
DAYS = [(date(2026, 3, day), day) for day in range(1, 6)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return backfilling(tmp_path_factory, WINDOW)


def backfilling(tmp_path_factory: pytest.TempPathFactory, window: str, **more: Any) -> Stage:
    arguments = {
        "overrides": [{"flow_name": "daily", "predicate_override": window}],
        "chunk": "day",
        "only_stale": True,
        **more,
    }
    return Stage.create(tmp_path_factory.mktemp("chunks"), arguments=arguments, operator="BackfillOperator")


def chunks_of(stage: Stage, status: str) -> list[int]:
    """The numbers of the chunks whose runs ended so, in order."""
    reports = [run.report for run in reversed(stage.runs()) if str(run.status) == status]
    return [report.chunk.number for report in reports if report is not None and report.chunk is not None]


def test_a_driver_that_dies_after_its_third_commit(stage: Stage) -> None:
    stage.begin()
    assert stage.run(FIRST, driver_fault="third_committed") == "failed"
    stage.await_drivers()
    assert stage.rows("daily") == DAYS[:3]

    stage.try_again(FIRST)
    stage.await_drivers()

    assert stage.rows("daily") == DAYS
    assert Counter(commit["window"] for commit in stage.commits()) == {
        f"(`day` = DATE '2026-03-{day:02d}')": 1 for day in range(1, 6)
    }
    assert chunks_of(stage, "succeeded")[-5:] == [1, 2, 3, 4, 5]
    returned = stage.returned(FIRST)["flows"]["daily"]
    assert returned["chunks"]["of"] == returned["chunks"]["ended_well"] == 5
    assert not stage.store.leases(waiting=True)


@pytest.mark.long
def test_a_user_who_stops_it_and_goes_on_later(stage: Stage) -> None:
    stage.begin()
    assert stage.run(FIRST, worker_fault="third_told_to_end") == "failed"
    assert stage.drivers_alive() == []
    assert stage.rows("daily") == DAYS[:2]
    assert not stage.store.leases(waiting=True)

    assert stage.run(NEXT) == "success"
    # Those of the first application and of the second: what nobody could record any more was in the table's log.
    assert sorted(chunks_of(stage, "succeeded")) == [1, 1, 2, 2, 3, 4, 5]
    assert stage.rows("daily") == DAYS
    assert len(stage.commits()) == 5, "what was fresh is not written again"
    assert stage.returned(NEXT)["flows"]["daily"]["chunks"] == {"of": 5, "ended_well": 5, "nothing_to_do": 2}


@pytest.mark.long
def test_a_year_of_days_of_which_one_fails(tmp_path_factory: pytest.TempPathFactory) -> None:
    faulthandler.cancel_dump_traceback_later()  # the suite's limit for one test is less than this takes
    stage = backfilling(tmp_path_factory, YEAR, on_chunk_failure="go_on")
    stage.begin()
    stage.add(*((day, 1) for day in range(11, 366)), (200, TOO_MUCH))
    broken = date(2026, 2, 28) + timedelta(days=200)

    assert stage.run(FIRST) == "failed"

    assert len(stage.commits()) == 364
    assert len(stage.rows("daily")) == 364
    assert broken not in [day for day, _ in stage.rows("daily")]
    (failure,) = stage.store.runs(status="failed", limit=None)
    assert "/200/" in failure.run_id
    assert not stage.store.leases(waiting=True)

    DeltaTable(str(stage.airflow.tables / "rides")).delete(f"fare = {TOO_MUCH}")
    assert stage.run(NEXT) == "success"

    assert len(stage.rows("daily")) == 365
    assert (broken, 1) in stage.rows("daily")
    assert len(stage.commits()) == 365, "what was fresh is not written again"
    assert stage.returned(NEXT)["flows"]["daily"]["chunks"] == {"of": 365, "ended_well": 365, "nothing_to_do": 364}


SCHEDULED = """
import datetime
from airflow.sdk import DAG
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

with DAG("scheduled", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    ReplaceWhereOperator(
        task_id="daily",
        target="daily",
        replace_where="day >= date_sub(current_date(), 7)",
        query="SELECT day, sum(fare) AS fare FROM rides GROUP BY day",
        partitioned_by=["day"],
        as_of="2026-03-10T12:00:00+00:00",
        root={root!r},
        refresh_policy="full",
        conf={{"spark.master": "local[1]", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}},
    )
"""


@pytest.mark.long
def test_it_and_the_scheduled_run_write_the_same_days(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Airflow's own scheduler runs both at once, and each waits where the other one writes."""
    window = "day >= DATE'2026-03-01' AND day < DATE'2026-03-11'"
    stage = backfilling(tmp_path_factory, window, only_stale=False)
    stage.begin()
    (stage.airflow.folder / "scheduled.py").write_text(SCHEDULED.format(root=str(stage.airflow.tables)))
    with running(stage) as site, site.part("scheduler"):
        until(lambda: site.ask("GET", "/api/v2/dags/scheduled"))
        backfill = site.trigger()
        until(lambda: stage.commits())
        scheduled = site.trigger("scheduled")
        path = f"/api/v2/dags/scheduled/dagRuns/{scheduled}"
        until(lambda: site.ask("GET", path)["state"] == site.state(backfill) == "success")
    assert stage.rows("daily") == [(date(2026, 3, day), day) for day in range(1, 11)]
    by_window = Counter(commit["window"] for commit in stage.commits())
    assert by_window == dict.fromkeys(by_window, 1)
    assert len(by_window) == 11, "ten days, and the window of the scheduled run"
    assert not stage.store.leases(waiting=True)
    assert {str(run.status) for run in stage.runs()} == {"succeeded"}
