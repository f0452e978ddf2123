"""Airflow with the page in it, over the demo's tables: ``python -m tools.demo_site``, or ``make airflow``.

Plays the demo first where it was not played. Then somebody deletes three days of the table by hand, the flow runs on
the next morning, and Airflow's own web server, scheduler and triggerer start: the page shows which days are stale, its
form starts a backfill for them, a person approves it. Ctrl-C ends everything.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from airflow_provider_replacewhere.errors import ReplaceWhereError
from tools.demo import DAY_2, FOLDER, TARGET, WIDTH, Demo, explain, last_run, short
from tools.demo_airflow import DemoError, ThrowAwayAirflow

DAY_3 = DAY_2 + timedelta(days=1)
DELETED = (date(2026, 2, 20), date(2026, 2, 23))
DELETION = f"ride_date >= DATE '{DELETED[0]}' AND ride_date < DATE '{DELETED[1]}'"
SECONDS_TO_START = 300
PAGE = f"/replacewhere/table?target={TARGET}"


class DemoSite:
    """The demo's Airflow, open to a browser on this machine."""

    def __init__(self, console: Console, port: int, folder: Path = FOLDER) -> None:
        self.console = console
        self.folder = folder
        self.airflow = ThrowAwayAirflow(folder)
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Prepare, serve, and wait until somebody ends it.

        :raises DemoError: something failed, or the port is taken
        """
        self._check_port()
        if not self._was_played():
            Demo(self.console, self.folder).play()
        if not self._was_deleted():
            self._delete()
        with self.console.status("Airflow starts"), self._standalone() as process:
            self._wait(process)
            self._tell()
            status = process.wait()
        raise DemoError(f"Airflow ended with exit status {status}; see {short(self.airflow.log)}.")

    def _was_played(self) -> bool:
        with suppress(ReplaceWhereError):
            return (self.airflow.tables / TARGET).is_dir() and last_run(self.airflow) is not None
        return False

    def _was_deleted(self) -> bool:
        history = DeltaTable(self.airflow.tables / TARGET).history()
        return any(commit.get("operation") == "DELETE" for commit in history)

    def _delete(self) -> None:
        self.console.print(Rule("Somebody deletes three days by hand", align="left"))
        self.console.print(Text(f"{TARGET}: delete where {DELETION}", style="cyan"))
        with self.console.status("Spark deletes"):
            self.airflow.run_module("tools.delete_rows", str(self.airflow.tables / TARGET), DELETION)
        with self.console.status(f"the morning of {DAY_3:%d %B}: the flow runs, and finds a commit of somebody else's"):
            self.airflow.run_dag("example_daily_rides", DAY_3)

    @contextmanager
    def _standalone(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "airflow", "standalone"]
        environment = self.airflow.environment() | {
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            # Nobody but who is on this machine gets here.
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        }
        with self.airflow.log.open("a") as log:
            # A session of its own, so that all that it starts ends with it.
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            try:
                yield process
            finally:
                for end in (signal.SIGTERM, signal.SIGKILL):
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, end)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=30)
                        break

    def _check_port(self) -> None:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", self.port))
            except OSError as error:
                raise DemoError(
                    f"Port {self.port} cannot be had: {error.strerror}. Give another: make airflow PORT=…"
                ) from error

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until and process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{self.address}/api/v2/version"):
                return
            time.sleep(0.5)
        raise DemoError(f"Airflow's web server does not answer; see {short(self.airflow.log)}.")

    def _tell(self) -> None:
        first, end = DELETED
        self.console.print(Rule("Airflow runs", align="left", style="bold"))
        steps = [
            f"Open {self.address}{PAGE} (in Airflow's menu: Browse, Freshness).",
            f"{first} to {end - timedelta(days=1)} are marked, a cell says why. Click the ends, the second with Shift.",
            "`Backfill this range` opens the form with the range in it; trigger it.",
            "Follow its link to the run: Airflow plans, then shows `Required Actions`. Read the plan, approve.",
            "Look at the map again: the days turn fresh.",
        ]
        for number, step in enumerate(steps, start=1):
            self.console.print(Text(f"{number}  ", style="bold").append(step, style="not bold"), soft_wrap=True)
        self.console.print(Text("Ctrl-C ends it.", style="dim"))


def main() -> int:
    """Serve until interrupted; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_site", description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the demo's tables and its Airflow are")
    given = parser.parse_args()
    console = Console(highlight=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    site = DemoSite(console, given.port, given.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        site.open()
    except (DemoError, ReplaceWhereError, OSError) as error:
        explain(error, site.airflow, console)
        return 1
    except KeyboardInterrupt:
        console.print("\nEnded.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
