"""Airflow in processes of its own, for tests that need real ``spark-submit`` and no part of the test process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compose import ROOT

LOCAL_SPARK = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


@dataclass(frozen=True)
class AirflowProcess:
    """A home with a migrated database, and the environment of the processes that use it.

    :param folder: holds the home and, in ``tables``, the directory catalog of the example Dags
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> AirflowProcess:
        airflow = cls(folder)
        airflow.check("-m", "airflow", "db", "migrate")
        return airflow

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "REPLACEWHERE"))}
        home = self.folder / "airflow"
        return kept | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(LOCAL_SPARK),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "REPLACEWHERE_ROOT": str(self.tables),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **changes,
        }

    def check(self, *command: str, given: str = "", **changes: str) -> str:
        """Run Python with these arguments and return what it printed.

        :raises AssertionError: it failed
        """
        done = subprocess.run(
            [sys.executable, *command],
            env=self.environment(**changes),
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        return done.stdout + done.stderr

    def run(self, file: Path, *runs: dict[str, Any], **changes: str) -> list[dict[str, Any]]:
        """Run the Dag called ``dag`` of a file, once for each of ``runs``; see :mod:`tests.run_dag`."""
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        printed = self.check("-m", "tests.run_dag", str(file), str(answer), given=json.dumps(runs), **changes)
        results: list[dict[str, Any]] = json.loads(answer.read_text())
        for result in results:
            result["printed"] = printed
        return results
