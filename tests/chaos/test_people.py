"""What people do in a running Airflow while a task is at work: each way ends with one write and no application left.

The scheduler, the web server and the supervisors of tasks are Airflow's own. Somebody else holds the window, so that
each application waits, and is at work when it is marked, cleared, or loses its scheduler.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_replacewhere.predicates import Region
from tests.chaos.stage import Stage
from tests.daemons import daemon
from tests.leases import claim, granted

pytestmark = pytest.mark.long

PATIENCE = 300.0
RUNS = "/api/v2/dags/flow/dagRuns"


@dataclass(frozen=True)
class Site:
    """Airflow's web server, for who is an administrator."""

    address: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with urllib.request.urlopen(f"{self.address}/auth/token") as answer:
            token = json.loads(answer.read())["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.address + path, data, headers, method=method)
        ) as answer:
            return json.loads(answer.read() or "null")

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"{RUNS}/{run}/taskInstances/daily")["state"])


def until(what: Callable[[], Any]) -> None:
    """Wait for something that is to come."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(urllib.error.URLError, ConnectionError):
            if what():
                return
        time.sleep(0.5)
    raise AssertionError("it did not come in time")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    arguments = {"retries": 3, "retry_delay": 1.0, "wait_seconds": 3600}
    return Stage.create(tmp_path_factory.mktemp("people"), arguments=arguments)


def surroundings(stage: Stage, port: int) -> dict[str, str]:
    address = f"http://127.0.0.1:{port}"
    return stage.airflow.environment(
        PATH=f"{stage.programs}{os.pathsep}{stage.airflow.environment()['PATH']}",
        AIRFLOW__CORE__DAGS_FOLDER=str(stage.airflow.folder),
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{address}/execution/",
        AIRFLOW__CORE__PARALLELISM="2",
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__API__BASE_URL=address,
        AIRFLOW__API__WORKERS="1",
        AIRFLOW__API_AUTH__JWT_SECRET="only for this test, and long enough to be taken for a key by the algorithm",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT="20",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL="5",
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="10",
    )


@pytest.fixture(scope="module")
def site(stage: Stage) -> Iterator[Site]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = surroundings(stage, port)
    folder = stage.airflow.folder
    with (
        part("api-server", environment, folder / "api-server.log"),
        part("dag-processor", environment, folder / "dag-processor.log"),
    ):
        site = Site(f"http://127.0.0.1:{port}")
        until(lambda: site.ask("GET", "/api/v2/dags/flow"))
        yield site


@contextmanager
def part(name: str, environment: dict[str, str], log: Any) -> Iterator[subprocess.Popen[bytes]]:
    with daemon([sys.executable, "-m", "airflow", name], environment, log) as process:
        yield process


@pytest.fixture
def scheduler(stage: Stage, site: Site) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts one; those that are still there at the end are ended."""
    running: list[Any] = []
    environment = surroundings(stage, int(site.address.rpartition(":")[2]))

    def start() -> subprocess.Popen[bytes]:
        running.append(part("scheduler", environment, stage.airflow.folder / f"scheduler-{len(running)}.log"))
        return running[-1].__enter__()  # type: ignore[no-any-return]

    yield start
    for each in running:
        each.__exit__(None, None, None)


@pytest.fixture
def waiting(stage: Stage, site: Site, scheduler: Any) -> Iterator[tuple[str, Any, subprocess.Popen[bytes]]]:
    """A run whose driver waits for a window that somebody else holds, that lease, and the scheduler."""
    stage.begin()
    process = scheduler()
    first = trigger(site)
    until(lambda: site.state(first) == "success")
    stage.await_drivers()
    stage.add((10, 5))
    lease = granted(stage.store.acquire([claim("somebody else", Region.everything(), target="daily")], seconds=3600))
    run = trigger(site)
    until(lambda: len(stage.store.leases(waiting=True)) == 2)
    yield run, lease, process
    stage.await_drivers()


def trigger(site: Site) -> str:
    return str(site.ask("POST", RUNS, {"logical_date": None})["dag_run_id"])


def clear(site: Site, **what: Any) -> None:
    asked = {"dry_run": False, "only_failed": False, "reset_dag_runs": True, "task_ids": ["daily"], **what}
    site.ask("POST", "/api/v2/dags/flow/clearTaskInstances", asked)


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
    site.ask("PATCH", f"{RUNS}/{run}/taskInstances/daily", {"new_state": state})
    until(lambda: is_over(stage))
    assert stage.rows("daily") == before
    assert site.state(run) == state
    stage.store.release(lease)
    clear(site, dag_run_id=run)
    until(lambda: len(stage.commits()) == 2 and site.state(run) == "success")
    one_write_more(stage)


def test_a_task_that_is_cleared_while_it_runs(stage: Stage, site: Site, waiting: Any) -> None:
    run, lease, _ = waiting
    first = set(stage.drivers_alive())
    clear(site, dag_run_id=run)
    until(lambda: not first & set(stage.drivers_alive()))
    stage.store.release(lease)
    until(lambda: len(stage.commits()) == 2 and site.state(run) == "success")
    one_write_more(stage)


def test_a_whole_run_that_is_cleared_is_done_again(stage: Stage, site: Site, waiting: Any) -> None:
    run, lease, _ = waiting
    stage.store.release(lease)
    until(lambda: site.state(run) == "success")
    one_write_more(stage)
    site.ask("POST", f"{RUNS}/{run}/clear", {"dry_run": False, "only_failed": False})
    until(lambda: site.state(run) != "success")
    until(lambda: site.state(run) == "success")
    assert stage.rows("daily") == stage.wanted()
    assert [str(found.status) for found in stage.runs()] == ["succeeded"] * 3, "it ran again"
    assert len(stage.commits()) == 2, "and found that everything was fresh"


def test_a_scheduler_that_is_killed_and_started_again(stage: Stage, site: Site, waiting: Any, scheduler: Any) -> None:
    run, lease, process = waiting
    os.killpg(process.pid, signal.SIGKILL)  # and with it the workers that it had started
    scheduler()
    stage.store.release(lease)
    until(lambda: site.state(run) == "success")
    stage.await_drivers()
    one_write_more(stage)
