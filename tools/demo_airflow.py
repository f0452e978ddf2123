"""A throw-away Airflow for the demo: one folder, an SQLite database, no service; everything it says goes to one log."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_JAVA = 17
LOCAL_SPARK = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class AirflowFailedError(DemoError):
    """Airflow ended with an error; ``said`` is what it wrote to the log, without lines of its own logging."""

    def __init__(self, message: str, said: list[str]) -> None:
        super().__init__(message)
        self.said = said


@dataclass(frozen=True)
class ThrowAwayAirflow:
    """An ``AIRFLOW_HOME`` below ``folder``, its log, and the folder of the tables that its Dags write."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> ThrowAwayAirflow:
        """A fresh home, with the metadata database of an earlier demo's first migration where there is one.

        :raises DemoError: Java is missing, or Airflow's own tables cannot be made
        """
        airflow = cls(folder)
        airflow._check_java()
        for old in (airflow.home, airflow.tables):
            shutil.rmtree(old, ignore_errors=True)
        airflow.home.mkdir(parents=True)
        airflow.log.write_text("")
        empty = folder / f"airflow-{version('apache-airflow')}.db"
        if not empty.exists():
            airflow._run("db", "migrate")
            part = empty.with_suffix(".part")
            shutil.copyfile(airflow.home / "airflow.db", part)
            part.replace(empty)
        shutil.copyfile(empty, airflow.home / "airflow.db")
        return airflow

    @property
    def home(self) -> Path:
        return self.folder / "airflow"

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    @property
    def log(self) -> Path:
        return self.folder / "demo.log"

    @property
    def history_url(self) -> str:
        """Where the provider keeps its history when it has no connection."""
        return f"sqlite:///{self.home / 'replacewhere' / 'history.db'}"

    def run_dag(self, dag_id: str, day: date, conf: Mapping[str, object] | None = None) -> None:
        """Run a Dag of ``dags/`` for one day, all its tasks one after another.

        :raises DemoError: a task failed
        """
        self._run(*dags_test(dag_id, day, conf))

    def _run(self, *arguments: str) -> None:
        self.run_module("airflow", *arguments)

    def run_module(self, *words: str) -> None:
        """Run ``python -m`` with these words, its output into the log.

        :raises DemoError: it failed
        """
        command = [sys.executable, "-m", *words]
        with self.log.open("a") as log:
            print("\n$", *words, file=log, flush=True)
            # A session of its own, so that an interrupt ends Airflow, spark-submit and the JVM together.
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(), stdout=log, stderr=log, start_new_session=True
            )
            try:
                status = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
        if status != 0:
            lines = self.log.read_text().rpartition("\n$ ")[2].splitlines()[1:]
            said = [line for line in lines if line.strip() and not line[:4].isdigit()]
            raise AirflowFailedError(f"`{' '.join(words)}` failed with exit status {status}.", said)

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "REPLACEWHERE", "SPARK_"))}
        return kept | {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(LOCAL_SPARK),
            # This environment's spark-submit before any other.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYSPARK_PYTHON": sys.executable,
            "REPLACEWHERE_ROOT": str(self.tables),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Each JVM lives for seconds: it is not worth optimising.
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def _check_java(self) -> None:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=f"{home}/bin" if home else None)
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr if java else ""
        found = re.search(r'version "(\d+)', answer)
        if found is None or int(found[1]) < OLDEST_JAVA:
            where = f"JAVA_HOME ({home})" if home else "PATH"
            what = f"There is no `java` on {where}" if found is None else f"The Java on {where} is version {found[1]}"
            raise DemoError(f"{what}. Spark 4 needs Java {OLDEST_JAVA} or later: install it, then run this again.")


def dags_test(dag_id: str, day: date, conf: Mapping[str, object] | None = None) -> list[str]:
    """The words behind ``airflow`` that run a Dag for one day."""
    return ["dags", "test", dag_id, day.isoformat(), *(["--conf", json.dumps(conf)] if conf else [])]
