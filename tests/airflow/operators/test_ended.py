"""A task that is told to end, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from tests.airflow_dags import DagFolder
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

TASK = (
    """ReplaceWhereOperator(task_id="t", target="daily", replace_where="d > current_date()", query="SELECT d FROM r")"""
)


def test_a_task_that_is_told_to_end_ends_its_application_and_is_recorded(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path
) -> None:
    spark_submit.leave(None, seconds=300)
    file = dags.folder / f"{dags.write(TASK)}.py"
    root = Path(__file__).parents[3]
    with (tmp_path / "log").open("w") as log:
        task = subprocess.Popen(
            [sys.executable, "-m", "tests.run_dag", str(file), str(tmp_path / "answer")],
            env=os.environ | {"PYTHONPATH": str(root)},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
        )
    assert task.stdin is not None
    task.stdin.write(json.dumps([{"logical_date": "2026-03-10T00:00:00+00:00"}]))
    task.stdin.close()
    _wait_for(lambda: (spark_submit.folder / "pid").exists(), tmp_path / "log")

    task.send_signal(signal.SIGTERM)
    task.wait(timeout=120)

    _wait_for(lambda: not spark_submit.is_running, tmp_path / "log")
    (run,) = PredicateHistoryHook().runs()
    assert str(run.status) == "failed", (tmp_path / "log").read_text()[-4000:]


def _wait_for(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(log.read_text()[-4000:])
        time.sleep(0.2)
