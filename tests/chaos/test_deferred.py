"""Tasks that have freed their worker while their application runs on a real YARN: what becomes of them.

The scheduler, the triggerer and the web server are Airflow's own. Somebody else holds the window, so that the driver
waits, and the triggerer answers it, when something happens to the task or to the triggerer.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.predicates import Region
from tests.chaos.on_yarn import stage_on
from tests.chaos.running import Site, running, until
from tests.chaos.stage import Stage
from tests.leases import claim, granted
from tests.yarn import Yarn, running_yarn

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with running_yarn(tmp_path_factory.mktemp("yarn")) as found:
        yield found


@pytest.fixture(scope="module")
def stage(yarn: Yarn, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    folder = tmp_path_factory.mktemp("deferred")
    return stage_on(yarn, folder, deferrable=True, retries=3, retry_delay=1.0, wait_seconds=3600)


@pytest.fixture
def hasty_stage(yarn: Yarn, tmp_path: Path) -> Stage:
    """Whose task may take no longer than a driver needs to get as far as its question."""
    return stage_on(yarn, tmp_path, deferrable=True, wait_seconds=3600, execution_timeout=timedelta(seconds=90))


@pytest.fixture(scope="module")
def site(stage: Stage) -> Iterator[Site]:
    with running(stage) as site, site.part("scheduler"):
        yield site


@pytest.fixture
def waiting(stage: Stage, site: Site) -> Iterator[tuple[str, Any, subprocess.Popen[bytes]]]:
    """A run that is deferred while its driver waits for a window, the lease on that, and the triggerer."""
    stage.begin()
    with site.part("triggerer") as triggerer:
        first = site.trigger()
        until(lambda: site.state(first) == "success")
        stage.add((10, 5))
        others = claim("somebody else", Region.everything(), target="daily")
        lease = granted(stage.store.acquire([others], seconds=3600))
        run = site.trigger()
        until(lambda: site.state(run) == "deferred" and len(stage.store.leases(waiting=True)) == 2)
        yield run, lease, triggerer


def one_write_more(stage: Stage, yarn: Yarn, before: int, *endings: str) -> None:
    """The window is as it should be, by one commit, and the applications since ended so."""
    yarn.await_end()
    assert stage.rows("daily") == stage.wanted()
    assert len(stage.commits()) == 2
    assert [app["finalStatus"] for app in yarn.applications()[before:]] == list(endings)
    assert not stage.store.leases(waiting=True)


def test_a_triggerer_that_is_killed_and_started_again(stage: Stage, site: Site, yarn: Yarn, waiting: Any) -> None:
    run, lease, triggerer = waiting
    there = len(yarn.applications())
    os.killpg(triggerer.pid, signal.SIGKILL)
    with site.part("triggerer"):
        stage.store.release(lease)
        until(lambda: site.state(run) == "success")
    one_write_more(stage, yarn, there - 1, "SUCCEEDED")


def test_a_deferred_task_that_is_marked_failed_and_cleared_later(
    stage: Stage, site: Site, yarn: Yarn, waiting: Any
) -> None:
    run, lease, _ = waiting
    there, before = len(yarn.applications()), stage.rows("daily")
    site.mark(run, "failed")
    yarn.await_end()
    assert yarn.applications()[there - 1]["finalStatus"] == "KILLED"
    assert stage.rows("daily") == before
    stage.store.release(lease)
    site.clear(run)
    until(lambda: site.state(run) == "success")
    one_write_more(stage, yarn, there - 1, "KILLED", "SUCCEEDED")


def test_a_deferred_task_that_is_cleared(stage: Stage, site: Site, yarn: Yarn, waiting: Any) -> None:
    run, lease, _ = waiting
    there = len(yarn.applications())
    site.clear(run)
    until(lambda: yarn.applications()[there - 1]["finalStatus"] == "KILLED")
    stage.store.release(lease)
    until(lambda: len(stage.commits()) == 2 and site.state(run) == "success")
    one_write_more(stage, yarn, there - 1, "KILLED", "SUCCEEDED")


def test_an_application_that_takes_longer_than_its_task_may_is_cancelled(hasty_stage: Stage, yarn: Yarn) -> None:
    stage, there = hasty_stage, len(yarn.applications())
    stage.begin()
    lease = granted(stage.store.acquire([claim("somebody else", Region.everything(), target="daily")], seconds=3600))
    with running(stage) as site, site.part("scheduler"), site.part("triggerer"):
        run = site.trigger()
        until(lambda: site.state(run) == "failed")
    yarn.await_end()
    assert [app["finalStatus"] for app in yarn.applications()[there:]] == ["KILLED"]
    assert not stage.commits()
    stage.store.release(lease)
