"""What people do in a running Airflow while a task is at work: each way ends with one write and no application left.

The scheduler, the web server and the supervisors of tasks are Airflow's own. Somebody else holds the window, so that
each application waits, and is at work when it is marked, cleared, or loses its scheduler.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_replacewhere.predicates import Region
from tests.chaos.running import Site, running, until
from tests.chaos.stage import Stage
from tests.leases import claim, granted

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    arguments = {"retries": 3, "retry_delay": 1.0, "wait_seconds": 3600}
    return Stage.create(tmp_path_factory.mktemp("people"), arguments=arguments)


@pytest.fixture(scope="module")
def site(stage: Stage) -> Iterator[Site]:
    with running(stage) as site:
        yield site


@pytest.fixture
def waiting(stage: Stage, site: Site) -> Iterator[tuple[str, Any, subprocess.Popen[bytes]]]:
    """A run whose driver waits for a window that somebody else holds, that lease, and the scheduler."""
    stage.begin()
    with site.part("scheduler") as scheduler:
        first = site.trigger()
        until(lambda: site.state(first) == "success")
        stage.await_drivers()
        stage.add((10, 5))
        others = claim("somebody else", Region.everything(), target="daily")
        lease = granted(stage.store.acquire([others], seconds=3600))
        run = site.trigger()
        until(lambda: len(stage.store.leases(waiting=True)) == 2)
        yield run, lease, scheduler
    stage.await_drivers()


def is_over(stage: Stage) -> bool:
    return not stage.drivers_alive() and len(stage.store.leases(waiting=True)) == 1


def one_write_more(stage: Stage) -> None:
    assert stage.rows("daily") == stage.wanted()
    assert len(stage.commits()) == 2
    assert not stage.store.leases(waiting=True)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_task_that_is_marked_while_it_runs_and_cleared_later(
    stage: Stage, site: Site, waiting: Any, state: str
) -> None:
    run, lease, _ = waiting
    before = stage.rows("daily")
    site.mark(run, state)
    until(lambda: is_over(stage))
    assert stage.rows("daily") == before
    assert site.state(run) == state
    stage.store.release(lease)
    site.clear(run)
    until(lambda: len(stage.commits()) == 2 and site.state(run) == "success")
    one_write_more(stage)


def test_a_task_that_is_cleared_while_it_runs(stage: Stage, site: Site, waiting: Any) -> None:
    run, lease, _ = waiting
    first = set(stage.drivers_alive())
    site.clear(run)
    until(lambda: not first & set(stage.drivers_alive()))
    stage.store.release(lease)
    until(lambda: len(stage.commits()) == 2 and site.state(run) == "success")
    one_write_more(stage)


def test_a_whole_run_that_is_cleared_is_done_again(stage: Stage, site: Site, waiting: Any) -> None:
    run, lease, _ = waiting
    stage.store.release(lease)
    until(lambda: site.state(run) == "success")
    one_write_more(stage)
    site.clear_whole(run)
    until(lambda: site.state(run) != "success")
    until(lambda: site.state(run) == "success")
    assert stage.rows("daily") == stage.wanted()
    assert [str(found.status) for found in stage.runs()] == ["succeeded"] * 3, "it ran again"
    assert len(stage.commits()) == 2, "and found that everything was fresh"


def test_a_scheduler_that_is_killed_and_started_again(stage: Stage, site: Site, waiting: Any) -> None:
    run, lease, process = waiting
    os.killpg(process.pid, signal.SIGKILL)  # and with it the workers that it had started
    with site.part("scheduler"):
        stage.store.release(lease)
        until(lambda: site.state(run) == "success")
    stage.await_drivers()
    one_write_more(stage)
