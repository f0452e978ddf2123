"""A running Airflow around a stage: its web server, Dag processor, scheduler and triggerer, and whom they answer."""

from __future__ import annotations

import json
import os
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

from tests.chaos.stage import Stage
from tests.daemons import daemon

PATIENCE = 300.0


@dataclass(frozen=True)
class Site:
    """Airflow's web server, for who is an administrator.

    :param stage: whose Dags it has
    """

    address: str
    stage: Stage

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with urllib.request.urlopen(f"{self.address}/auth/token") as answer:
            token = json.loads(answer.read())["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.address + path, data, headers, method=method)
        ) as answer:
            return json.loads(answer.read() or "null")

    @contextmanager
    def part(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A scheduler, a triggerer, or another part of Airflow, in a process group of its own."""
        log = self.stage.airflow.folder / f"{name}-{time.monotonic_ns()}.log"
        with daemon([sys.executable, "-m", "airflow", name], surroundings(self.stage, self.address), log) as process:
            yield process

    # -- the Dag "flow" and its task "daily" --

    def trigger(self, dag: str = "flow", **more: Any) -> str:
        """Start a run of a Dag; the id of the run."""
        body = {"logical_date": None, **more}
        return str(self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"])

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"/api/v2/dags/flow/dagRuns/{run}/taskInstances/daily")["state"])

    def mark(self, run: str, state: str) -> None:
        path = f"/api/v2/dags/flow/dagRuns/{run}/taskInstances/daily"
        self.ask("PATCH", path, {"new_state": state})

    def clear(self, run: str) -> None:
        """Clear the task of a run."""
        asked = {"dry_run": False, "only_failed": False, "reset_dag_runs": True, "task_ids": ["daily"]}
        self.ask("POST", "/api/v2/dags/flow/clearTaskInstances", {**asked, "dag_run_id": run})

    def clear_whole(self, run: str) -> None:
        """Clear a run with all its tasks."""
        self.ask("POST", f"/api/v2/dags/flow/dagRuns/{run}/clear", {"dry_run": False, "only_failed": False})


@contextmanager
def running(stage: Stage) -> Iterator[Site]:
    """A web server and a Dag processor; schedulers and triggerers are started by tests."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{found.getsockname()[1]}"
    site = Site(address, stage)
    with site.part("api-server"), site.part("dag-processor"):
        until(lambda: site.ask("GET", "/api/v2/dags/flow"))
        yield site


def until(what: Callable[[], Any]) -> None:
    """Wait for something that is to come."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(urllib.error.URLError, ConnectionError):
            if what():
                return
        time.sleep(0.5)
    raise AssertionError("it did not come in time")


def surroundings(stage: Stage, address: str) -> dict[str, str]:
    """The environment of every part."""
    return stage.airflow.environment(
        **stage.surroundings,
        PATH=f"{stage.programs}{os.pathsep}{stage.airflow.environment()['PATH']}",
        AIRFLOW__CORE__DAGS_FOLDER=str(stage.airflow.folder),
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{address}/execution/",
        AIRFLOW__CORE__PARALLELISM="2",
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=address.rpartition(":")[2],
        AIRFLOW__API__BASE_URL=address,
        AIRFLOW__API__WORKERS="1",
        AIRFLOW__API_AUTH__JWT_SECRET="only for this test, and long enough to be taken for a key by the algorithm",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT="20",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL="5",
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="10",
    )
