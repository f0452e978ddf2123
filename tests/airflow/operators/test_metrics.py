"""What a task tells Airflow's metrics, on a real socket."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import ConcurrentWriteError
from airflow_provider_replacewhere.operators.metrics import counted
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode
from tests.airflow_dags import DagFolder
from tests.dag_process import run_in_process
from tests.history import failure, report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
UNTOLD = {"reason": "SOURCE_HISTORY_UNAVAILABLE", "table": "rides", "cause": "cleaned up"}


class Server:
    """What a statsd server receives."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.lines: list[str] = []
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    @property
    def port(self) -> str:
        return str(self.socket.getsockname()[1])

    def close(self) -> None:
        if self.socket.fileno() < 0:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def of_ours(self) -> dict[str, str]:
        """By metric, its value; of a timer, its kind alone."""
        ours = [line.removeprefix("airflow.replacewhere.") for line in self.lines if ".replacewhere." in line]
        found = dict(line.split(":", 1) for line in ours)
        return {name: re.sub(r"^[\d.]+\|ms$", "ms", value) for name, value in found.items()}

    def _listen(self) -> None:
        while datagram := self.socket.recv(65_536):
            self.lines += datagram.decode().splitlines()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_a_run_is_counted_under_names_that_hold_no_table(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("statsd")
    spark_submit.answer(report("{run_id}/daily", reasons=(UNTOLD, {"reason": "MADE_UP"})))
    dag_id = dags.write(f'ReplaceWhereOperator(task_id="t", {FLOW})')

    result = run_in_process(
        dags.folder / f"{dag_id}.py",
        tmp_path,
        AIRFLOW__METRICS__STATSD_ON="True",
        AIRFLOW__METRICS__STATSD_HOST="127.0.0.1",
        AIRFLOW__METRICS__STATSD_PORT=server.port,
    )

    assert result["state"] == "success", result["errors"]
    server.close()
    assert server.of_ours() == {
        "runs.full_recompute": "1|c",
        "reasons.source_history_unavailable": "1|c",
        "reasons.other": "1|c",
        "fallbacks_to_full": "1|c",
        "rows.deleted": "10|c",
        "rows.written": "12|c",
        "bytes.written": "4096|c",
        "duration": "ms",
    }


def names(outcome: JobOutcome, *, without_spark: bool = False, waited_seconds: float = 0.0) -> dict[str, object]:
    found = counted(outcome, without_spark=without_spark, waited_seconds=waited_seconds)
    return {each.name: each.count for each in found if each.name != "duration"}


def test_runs_that_needed_no_spark_are_counted() -> None:
    nothing = report(mode=Mode.NO_OP, reasons=(), replaced=None)
    assert names(JobOutcome("app-1", (nothing,)), without_spark=True) == {"runs.no_op": 1, "without_spark": 1}


def test_rows_of_a_run_that_was_adopted_are_not_counted_again() -> None:
    found = names(JobOutcome("app-1", (report(adopted="app-0/daily"),)))
    assert found == {"runs.full_recompute": 1, "reasons.first_refresh": 1, "adopted": 1}


def test_failures_are_counted_by_their_kind() -> None:
    unknown = failure(error={"type": "Surprise", "retryable": False, "message": "?"})
    error = ConcurrentWriteError("x").to_json()
    found = names(JobOutcome("app-1", failures=(failure(), unknown), error=error))
    assert found == {"failures.writeerror": 1, "failures.other": 1, "failures.concurrentwriteerror": 1}


def test_waiting_for_other_runs_is_counted() -> None:
    assert list(names(JobOutcome("app-1"), waited_seconds=1.5)) == ["lease.waits", "lease.waited"]


def test_a_plan_is_not_counted() -> None:
    assert names(JobOutcome("app-1", (report(dry_run=True),)), without_spark=True) == {}
