"""Drivers that run elsewhere: a real YARN, from which a worker that takes the place of a lost one takes them up.

A case takes minutes, for YARN is asked every ten seconds or more: ``make chaos``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.on_yarn import stage_on
from tests.chaos.stage import Stage
from tests.yarn import Yarn, running_yarn

pytestmark = pytest.mark.long

FIRST, LOST, NEXT = (f"2026-03-{day}T00:00:00+00:00" for day in ("09", "10", "11"))

# The question was not answered; the lease is held; permission was given; the commit is made; all is done.
POINTS = ("asked", "before_permission", "permitted", "committed", "before_record")


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with running_yarn(tmp_path_factory.mktemp("yarn")) as found:
        yield found


@pytest.fixture(scope="module")
def stage(yarn: Yarn, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return stage_on(yarn, tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="module")
def deferring_stage(yarn: Yarn, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return stage_on(yarn, tmp_path_factory.mktemp("deferring"), deferrable=True)


@pytest.mark.parametrize("point", POINTS)
def test_the_next_try_takes_up_the_application_of_a_lost_worker(stage: Stage, yarn: Yarn, point: str) -> None:
    stage.begin()
    assert stage.run(FIRST) == "success"
    stage.add((10, 5))
    there = len(yarn.applications())

    assert stage.run(LOST, worker_fault=point) == "killed"
    stage.try_again(LOST)

    yarn.await_end()
    assert [app["finalStatus"] for app in yarn.applications()[there:]] == ["SUCCEEDED"], "one, and nobody killed it"
    assert stage.rows("daily") == stage.wanted()
    assert len(stage.commits()) == 2
    (run, _) = stage.runs()
    assert run.report is not None
    returned = stage.returned(LOST)["flows"]["daily"]
    assert (returned["run_id"], returned["token"]) == (run.report.run_id, run.report.token)
    assert (returned["mode"], returned["rows_written"]) == ("INCREMENTAL", 1)
    assert str(run.status) == "succeeded"
    assert not stage.store.leases(waiting=True)
    assert stage.link_to_spark(LOST) == f"http://{yarn.address}/proxy/{yarn.applications()[there]['id']}/"
    # A run of its own finds nothing left to do, and nothing of the earlier one in its way.
    assert stage.run(NEXT) == "success"
    assert stage.returned(NEXT)["flows"]["daily"]["mode"] == "NO_OP"


def test_a_cleared_task_cancels_what_a_lost_worker_left_behind(stage: Stage, yarn: Yarn) -> None:
    stage.begin()
    assert stage.run(FIRST) == "success"
    stage.add((10, 5))
    there = len(yarn.applications())

    assert stage.run(LOST, worker_fault="before_permission") == "killed"
    stage.clear(LOST)

    assert [app["finalStatus"] for app in yarn.applications()[there:]] == ["KILLED", "SUCCEEDED"]
    assert stage.rows("daily") == stage.wanted()
    assert len(stage.commits()) == 2
    assert [str(run.status) for run in stage.runs()] == ["succeeded", "lost", "succeeded"]


def test_a_task_that_is_told_to_end_cancels_its_application(stage: Stage, yarn: Yarn) -> None:
    stage.begin()
    assert stage.run(FIRST) == "success"
    stage.add((10, 5))
    before, there = stage.rows("daily"), len(yarn.applications())

    assert stage.run(LOST, worker_fault="told_to_end") == "failed"

    yarn.await_end()
    assert [app["finalStatus"] for app in yarn.applications()[there:]] == ["KILLED"]
    assert stage.rows("daily") == before
    assert [str(run.status) for run in stage.runs()] == ["failed", "succeeded"]
    assert not stage.store.leases(waiting=True)


def test_a_task_that_is_deferred_does_and_returns_what_a_plain_one_does(deferring_stage: Stage, yarn: Yarn) -> None:
    stage, there = deferring_stage, len(yarn.applications())
    stage.begin()
    assert stage.run(FIRST) == "success"
    stage.add((10, 5))

    assert stage.run(NEXT) == "success"

    yarn.await_end()
    assert [app["finalStatus"] for app in yarn.applications()[there:]] == ["SUCCEEDED", "SUCCEEDED"]
    assert stage.rows("daily") == stage.wanted()
    assert len(stage.commits()) == 2
    returned = stage.returned(NEXT)["flows"]["daily"]
    assert (returned["mode"], returned["rows_written"]) == ("INCREMENTAL", 1)
    assert [str(run.status) for run in stage.runs()] == ["succeeded", "succeeded"]
    assert not stage.store.leases(waiting=True)
