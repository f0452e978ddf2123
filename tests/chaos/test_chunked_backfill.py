"""A backfill in chunks that dies or is stopped in the middle goes on where it was; what is done stays done."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from tests.chaos.stage import Stage

FIRST, NEXT = (f"2026-03-{day}T00:00:00+00:00" for day in ("11", "12"))
WINDOW = "day >= DATE'2026-03-01' AND day < DATE'2026-03-06'"
DAYS = [(date(2026, 3, day), day) for day in range(1, 6)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    arguments = {
        "overrides": [{"flow_name": "daily", "predicate_override": WINDOW}],
        "chunk": "day",
        "only_stale": True,
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
