"""Dags of one test each, run by ``dag.test`` in this process, and a stand-in for ``spark-submit``."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow_dags import DagFolder, only_our_warnings_count
from tests.spark_submit import SparkSubmitStandIn

LOCAL_SPARK = json.dumps({"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}})


@pytest.fixture(scope="session")
def running_airflow(airflow_home: Path) -> Path:
    """Airflow, ready for ``dag.test``."""
    from tests.execution_api import start_execution_api

    with only_our_warnings_count():
        start_execution_api()
    return airflow_home


@pytest.fixture
def dags(
    running_airflow: Path, history_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DagFolder]:
    """A folder from which Airflow reads Dags, an empty ledger, and a connection to Spark."""
    folder = DagFolder(tmp_path / "dags")
    folder.folder.mkdir()
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", folder.bundle())
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
    yield folder
    with only_our_warnings_count():
        gc.collect()  # the Spark provider's hook leaves the pipe of its child to the garbage collector


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSubmitStandIn:
    """In place of Spark: notes how it was called and answers as told. For tests of the Airflow side only."""
    stand_in = SparkSubmitStandIn.install(tmp_path / "stand-in")
    monkeypatch.setenv("PATH", f"{stand_in.folder}{os.pathsep}{os.environ['PATH']}")
    return stand_in
