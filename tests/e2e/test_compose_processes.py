"""The services of the compose file as plain processes, with its own commands, settings and health checks.

Only what Docker would give is replaced: the names of other services by addresses of this machine, fixed ports by free
ones, and folders of the image by folders of the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from deltalake import DeltaTable

from airflow_provider_replacewhere.history.store import HistoryStore
from tests import compose
from tests.cluster import SparkCluster, free_port
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.cluster, pytest.mark.postgres]

DAG = "example_daily_rides"
LASTING = ("api-server", "dag-processor", "triggerer", "scheduler")
HEALTH_LIMIT = 300.0
RUN_LIMIT = 600.0


@dataclass(frozen=True)
class Stack:
    """The running services.

    :param replaced: text in the file -> what stands for it on this machine
    :param environment: the environment of every process
    :param folder: logs of the processes, and the data folder
    """

    replaced: dict[str, str]
    environment: dict[str, str]
    folder: Path

    def translate(self, command: list[str]) -> list[str]:
        """Return a command of the file as it runs here."""
        return [_replace(argument, self.replaced) for argument in command]

    def is_healthy(self, name: str) -> bool:
        """Run the health check of a service."""
        check = self.translate(compose.commands()[f"{name} health"])
        return subprocess.run(check, env=self.environment, capture_output=True, check=False).returncode == 0

    def api(self, path: str, body: dict[str, Any] | None = None, *, method: str = "GET", token: str = "") -> Any:
        """Ask Airflow's REST interface."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.replaced['8080']}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def logs(self) -> str:
        """Return the end of each process's output."""
        return "\n".join(f"{log.name}:\n{log.read_text()[-2500:]}" for log in sorted(self.folder.glob("*.log")))


def _replace(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def _environment(replaced: dict[str, str], folder: Path) -> dict[str, str]:
    """Return the environment that the file gives to Airflow, on top of this process's own."""
    given = {name: _replace(value, replaced) for name, value in compose.airflow_environment().items()}
    here = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(compose.ROOT / "dags"),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": replaced["8974"],
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    }
    outside = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return outside | given | here


def _make_databases(server: PostgresServer) -> None:
    """Do what the image of PostgreSQL does with the file's environment, and with what is mounted into it."""
    image = ["CREATE USER airflow PASSWORD 'airflow'", "CREATE DATABASE airflow OWNER airflow"]
    mounted = (compose.ROOT / "docker" / "history.sql").read_text()
    with sa.create_engine(server.url, isolation_level="AUTOCOMMIT").connect() as connection:
        for statement in [*image, *filter(str.strip, mounted.split(";"))]:
            connection.exec_driver_sql(statement)
    connection.engine.dispose()


@contextlib.contextmanager
def _process(name: str, stack: Stack) -> Iterator[None]:
    """Run one service in a process group of its own, and end exactly that group."""
    command = stack.translate(compose.commands()[name])
    with (stack.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=stack.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        for kill in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, kill)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        assert process.returncode is not None


def _await_health(name: str, stack: Stack) -> None:
    deadline = time.monotonic() + HEALTH_LIMIT
    while not stack.is_healthy(name):
        assert time.monotonic() < deadline, f"{name} did not become healthy\n{stack.logs()}"
        time.sleep(1)


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, spark_cluster: SparkCluster
) -> Iterator[Stack]:
    """The whole file, up and healthy."""
    folder = tmp_path_factory.mktemp("compose")
    (folder / "data").mkdir()
    master, port = spark_cluster.master.rsplit(":", 1)
    replaced = {
        "spark://spark-master": master,
        "7077": port,
        "@postgres:5432": f"@127.0.0.1:{postgres_server.url.port}",
        '"postgres", "port": 5432': f'"127.0.0.1", "port": {postgres_server.url.port}',
        "http://api-server:": "http://127.0.0.1:",
        "http://localhost:": "http://127.0.0.1:",
        "8080": str(free_port()),
        "8974": str(free_port()),
        "/data": str(folder / "data"),
    }
    found = Stack(replaced, _environment(replaced, folder), folder)
    _make_databases(postgres_server)
    init = found.translate(compose.commands()["init"])
    done = subprocess.run(init, env=found.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with contextlib.ExitStack() as processes:
        for names in (LASTING[:1], LASTING[1:]):  # as in the file, the scheduler waits for a healthy api-server
            for name in names:
                processes.enter_context(_process(name, found))
            for name in names:
                _await_health(name, found)
        yield found


def test_every_service_of_airflow_becomes_healthy(stack: Stack) -> None:
    health = stack.api("/api/v2/monitor/health")
    parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    assert {name: part["status"] for name, part in health.items()} == dict.fromkeys(parts, "healthy")


def test_a_scheduled_flow_runs_on_the_spark_cluster_and_is_recorded_in_the_database(stack: Stack) -> None:
    token = stack.api("/auth/token")["access_token"]
    stack.api(f"/api/v2/dags/{DAG}", {"is_paused": False}, method="PATCH", token=token)
    deadline = time.monotonic() + RUN_LIMIT
    states: list[str] = []
    while states not in (["success"], ["failed"]) and time.monotonic() < deadline:
        time.sleep(2)
        states = [run["state"] for run in stack.api(f"/api/v2/dags/{DAG}/dagRuns", token=token)["dag_runs"]]
    assert states == ["success"], stack.logs()

    rows = DeltaTable(str(stack.folder / "data" / "daily_rides")).to_pyarrow_table().num_rows
    connection = json.loads(stack.environment["AIRFLOW_CONN_REPLACEWHERE_DEFAULT"])
    login = f"{connection['login']}:{connection['password']}@{connection['host']}:{connection['port']}"
    (run,) = HistoryStore(f"postgresql+psycopg2://{login}/{connection['schema']}").runs()
    assert run.report is not None
    assert (run.report.flow, run.report.rows_written) == ("daily_rides", rows)
    assert rows > 0
