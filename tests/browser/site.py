"""A real Airflow web server over a ledger that is filled, and a real browser: what a person has in front of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_replacewhere.history.store import HistoryStore
from tests.compose import ROOT
from tests.pages import fill

PASSWORDS = {"admin": "a long password", "viewer": "another password"}
SECONDS_TO_START = 240

BACKFILL_DAG = '''
"""The Dag that the page finds by its tag."""
from datetime import UTC, datetime

from airflow_provider_replacewhere.dags import backfill_dag

FLOWS = "".join(
    f"CREATE STREAMING TABLE {name} FLOW REPLACE WHERE ride_date >= current_date() BY NAME SELECT * FROM rides;"
    for name in ("daily_rides", "hourly_rides")
)
dag = backfill_dag(FLOWS, "backfill_rides", column="ride_date", start_date=datetime(2026, 1, 1, tzinfo=UTC))
'''


@dataclass(frozen=True)
class Site:
    """A web server that answers.

    :param address: without a slash at its end
    """

    address: str
    home: Path

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Status and text of an answer; redirects are followed."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.address + path, headers=headers)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ask(self, method: str, path: str, token: str, body: Any = None) -> int:
        """Status of an answer to something that changes Airflow."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.address + path, data, headers, method=method)
        ) as answer:
            status: int = answer.status
        return status

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": PASSWORDS[user]}).encode()
        request = urllib.request.Request(
            f"{self.address}/auth/token", body, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request) as answer:
            token: str = json.loads(answer.read())["access_token"]
        return token


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """A migrated home with a filled ledger and a backfill Dag, and its web server; ended with all that it started."""
    home = folder / "airflow"
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "backfill_rides.py").write_text(BACKFILL_DAG)
    (home / "passwords.json").write_text(json.dumps(PASSWORDS))
    fill(HistoryStore(f"sqlite:///{home / 'replacewhere' / 'history.db'}"))
    environment = _environment(home)
    for command in (["db", "migrate"], ["dags", "reserialize"]):
        _check(command, environment, folder)
    port = _free_port()
    with _server(port, environment, folder) as process:
        site = Site(f"http://127.0.0.1:{port}", home)
        _wait(site, process, folder)
        yield site


@contextmanager
def _server(port: int, environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "api-server.log").open("wb") as log:
        # A session of its own, so that the server and its workers end together.
        process = subprocess.Popen(
            [*command, "--workers", "1", "--apps", "core"],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(site: Site, process: subprocess.Popen[bytes], folder: Path) -> None:
    log = folder / "api-server.log"
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            if site.get("/api/v2/version")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.3)
    raise AssertionError(f"the web server does not answer:\n{log.read_text()[-4000:]}")


def _environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "REPLACEWHERE"))}
    return kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "only for this test, and long enough for the algorithm to accept it as a key",
        "AIRFLOW__API__SECRET_KEY": "only for this test",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }


def _check(command: list[str], environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def chromium() -> str | None:
    """Debian's browser, or another of the kind."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def launched(playwright: Any) -> Any:
    """The browser, without a window."""
    return playwright.chromium.launch(
        executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    )
