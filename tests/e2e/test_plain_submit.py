"""The environment itself: Airflow's own operator runs a Delta job with the jars that pyspark holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compose import ROOT

PLAIN = Path(__file__).with_name("plain")


@pytest.mark.matrix
def test_a_dag_with_a_plain_spark_submit_operator_replaces_rows_of_a_delta_table(tmp_path: Path) -> None:
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PLAIN),
        "ANSWER_FOLDER": str(tmp_path),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
        ),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for command in (["-m", "airflow", "db", "migrate"], [str(PLAIN / "dag.py")]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["rows"] == [[0, "before"], [1, "after"], [2, "after"], [3, "before"], [4, "before"]]
