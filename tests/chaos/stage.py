"""A flow in a real Airflow with real Spark, killed where a test says, and what is left afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_provider_replacewhere.history.records import Run
from airflow_provider_replacewhere.history.store import HistoryStore
from tests.airflow_process import AirflowProcess
from tests.compose import ROOT

Row = tuple[Any, ...]

DAG = """
import datetime

from airflow.sdk import DAG
from airflow_provider_replacewhere.operators.backfill import BackfillOperator
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

with DAG("flow", start_date=datetime.datetime(2026, 1, 1), schedule=None, catchup=False) as dag:
    {operator}(
        task_id="daily",
        target="daily",
        replace_where="day >= date_sub(current_date(), 7)",
        query="SELECT day, sum(fare) AS fare FROM rides GROUP BY day",
        partitioned_by=["day"],
        as_of="2026-03-10T12:00:00+00:00",
        root={root!r},
        history_conn_id="replacewhere_default",
        conf={{"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", **{conf!r}}},
        **{arguments!r},
    )
"""

WRAPPER = """#!{python}
import os, sys
from pathlib import Path

folder, words, environ = Path(__file__).parent, sys.argv[1:], dict(os.environ)
fault = folder / "fault"
environ["REPLACEWHERE_TEST_FAULT"] = fault.read_text() if fault.exists() else "none"
fault.unlink(missing_ok=True)
(application,) = [n for n, word in enumerate(words) if word.endswith("/replacewhere_application.py")]
words[application] = "{application}"
os.setsid()
with (folder / "pids").open("a") as pids:
    pids.write(f"{{os.getpid()}}\\n")
os.execve("{real}", ["{real}", *words], environ)
"""


@dataclass(frozen=True)
class Stage:
    """One Airflow home; each test begins with new tables and an empty ledger."""

    airflow: AirflowProcess
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        folder: Path,
        conf: Mapping[str, str] = MappingProxyType({"spark.master": "local[1]"}),
        arguments: Mapping[str, Any] = MappingProxyType({}),
        *,
        operator: str = "ReplaceWhereOperator",
        faulty_drivers: bool = True,
        **surroundings: str,
    ) -> Stage:
        """A home, and the Dag in it.

        :param conf: of Spark, besides what keeps it small
        :param arguments: of the operator, besides the flow
        :param operator: the class of the one task
        :param faulty_drivers: whether drivers can be told to die; they have to run on this machine then
        :param surroundings: variables of every process
        """
        stage = cls(AirflowProcess.create(folder), surroundings)
        stage.programs.mkdir()
        real = shutil.which("spark-submit", path=stage.airflow.environment()["PATH"])
        if faulty_drivers:
            wrapper = stage.programs / "spark-submit"
            application = Path(__file__).parent / "faulty_application.py"
            wrapper.write_text(WRAPPER.format(python=sys.executable, application=application, real=real))
            wrapper.chmod(0o755)
        stage.file.write_text(
            DAG.format(operator=operator, root=str(stage.airflow.tables), conf=dict(conf), arguments=dict(arguments))
        )
        return stage

    @property
    def programs(self) -> Path:
        return self.airflow.folder / "programs"

    @property
    def file(self) -> Path:
        return self.airflow.folder / "flow.py"

    @property
    def store(self) -> HistoryStore:
        return HistoryStore(f"sqlite:///{self.airflow.folder}/airflow/replacewhere/history.db")

    # -- what there is -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ten days of rides, and a target that holds what they gave before the last one came."""
        shutil.rmtree(self.airflow.tables, ignore_errors=True)
        shutil.rmtree(self.airflow.folder / "airflow" / "replacewhere", ignore_errors=True)
        (self.programs / "pids").unlink(missing_ok=True)
        self.airflow.tables.mkdir()
        self.add(*((day, day) for day in range(1, 11)))

    def add(self, *rides: tuple[int, int]) -> None:
        """Rides as others append them: day, the first of March 2026 being 1, and fare."""
        table = pa.table(
            {
                "day": pa.array([date(2026, 2, 28) + timedelta(days=day) for day, _ in rides], pa.date32()),
                "fare": pa.array([fare for _, fare in rides], pa.int64()),
            }
        )
        write_deltalake(str(self.airflow.tables / "rides"), table, mode="append")

    def rows(self, table: str) -> list[Row]:
        found = DeltaTable(str(self.airflow.tables / table)).to_pyarrow_table().to_pylist()
        return sorted((row["day"], row["fare"]) for row in found)

    def wanted(self) -> list[Row]:
        """What the window must hold, counted here."""
        totals: dict[date, int] = {}
        for day, fare in self.rows("rides"):
            totals[day] = totals.get(day, 0) + fare
        return sorted((day, fare) for day, fare in totals.items() if day >= date(2026, 3, 3))

    def commits(self) -> list[Mapping[str, Any]]:
        """What our commits to the target say of themselves, oldest first."""
        found = []
        for file in sorted((self.airflow.tables / "daily" / "_delta_log").glob("*.json")):
            info = next(
                json.loads(line)["commitInfo"] for line in file.read_text().splitlines() if "commitInfo" in line
            )
            if "userMetadata" in info:
                found.append(json.loads(info["userMetadata"])["replacewhere"])
        return found

    def runs(self) -> list[Run]:
        return self.store.runs()

    # -- what happens --------------------------------------------------------------------------------------------------

    def run(self, logical_date: str, *, driver_fault: str | None = None, worker_fault: str | None = None) -> str:
        """Run the Dag as a scheduler would; return the state of its run, or ``killed``."""
        if driver_fault is not None:
            (self.programs / "fault").write_text(driver_fault)
        program = ["tests.chaos.faulty_worker", worker_fault] if worker_fault else ["tests.run_dag"]
        answer = self.airflow.folder / "answer.json"
        answer.unlink(missing_ok=True)
        done = self._python(["-m", *program, str(self.file), str(answer)], json.dumps([{"logical_date": logical_date}]))
        if answer.exists():
            return str(json.loads(answer.read_text())[0]["state"])
        assert done.returncode < 0, done.stdout[-6000:]  # it was killed, and did not break
        return "killed"

    def try_again(self, logical_date: str) -> None:
        """The next try of the task of a Dag run that is there."""
        program = (
            "import sys; from pathlib import Path; from datetime import datetime; "
            "from tests.chaos.retry import try_again; try_again(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))"
        )
        done = self._python(["-c", program, str(self.file), logical_date])
        assert done.returncode == 0, done.stdout[-6000:]

    def clear(self, logical_date: str) -> None:
        """Clear the task of a Dag run that is there, and run it again."""
        program = (
            "import sys; from pathlib import Path; from datetime import datetime; "
            "from tests.chaos.retry import clear; clear(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))"
        )
        done = self._python(["-c", program, str(self.file), logical_date])
        assert done.returncode == 0, done.stdout[-6000:]

    def returned(self, logical_date: str) -> Any:
        """What the task of a Dag run returned last."""
        program = (
            "import json, sys; from pathlib import Path; from datetime import datetime; "
            "from tests.airflow_dags import load, result_of; "
            "found = result_of(load(Path(sys.argv[1])), datetime.fromisoformat(sys.argv[2])); "
            "Path(sys.argv[3]).write_text(json.dumps(found.values['daily']))"
        )
        answer = self.airflow.folder / "returned.json"
        done = self._python(["-c", program, str(self.file), logical_date, str(answer)])
        assert done.returncode == 0, done.stdout[-6000:]
        return json.loads(answer.read_text())

    def link_to_spark(self, logical_date: str) -> str:
        """Where the task of a Dag run leads for Spark's own pages."""
        program = (
            "import sys; from pathlib import Path; from datetime import datetime; "
            "from airflow_provider_replacewhere.links.operator_links import SparkLink; "
            "from tests.airflow_dags import of_task; "
            "pull = lambda task, session: task.xcom_pull(task_ids='daily', key=SparkLink().xcom_key, session=session); "
            "Path(sys.argv[2]).write_text(str(of_task('flow', 'daily', pull, datetime.fromisoformat(sys.argv[1]))))"
        )
        answer = self.airflow.folder / "link"
        done = self._python(["-c", program, logical_date, str(answer)])
        assert done.returncode == 0, done.stdout[-6000:]
        return answer.read_text()

    def await_drivers(self) -> None:
        """Until no Spark application that was started is alive, whoever started it."""
        while self.drivers_alive():
            time.sleep(0.2)

    def drivers_alive(self) -> list[int]:
        """The processes of Spark applications that were started and are still there."""
        pids = self.programs / "pids"
        return [int(pid) for pid in (pids.read_text().split() if pids.exists() else ()) if _is_alive(int(pid))]

    def _python(self, command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.programs}{os.pathsep}{self.airflow.environment()['PATH']}"
        return subprocess.run(
            [sys.executable, *command],
            env=self.airflow.environment(
                PATH=path, AIRFLOW__CORE__DAGS_FOLDER=str(self.airflow.folder), **self.surroundings
            ),
            cwd=ROOT,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def _is_alive(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
