"""Every example Dag, run as a user would: real Airflow, real ``spark-submit``, real Delta tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.airflow_process import AirflowProcess
from tests.compose import ROOT

DAY = {"logical_date": "2026-03-10T00:00:00+00:00"}
NEXT_DAY = {"logical_date": "2026-03-11T00:00:00+00:00"}


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> AirflowProcess:
    return AirflowProcess.create(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def airflow(migrated: AirflowProcess, tmp_path: Path) -> Iterator[AirflowProcess]:
    """The migrated home, with tables of this test alone."""
    yield migrated


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    found = DeltaTable(str(root / table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


@pytest.mark.matrix
def test_the_scheduled_flow_takes_in_the_late_rides_of_the_next_day(airflow: AirflowProcess) -> None:
    first, second = airflow.run(ROOT / "dags" / "example_daily_rides.py", DAY, NEXT_DAY)
    print(first["printed"])
    assert first["state"] == "success"
    assert second["state"] == "success"
    print(first["values"], second["values"])
    print(len(rows(airflow.tables, "daily_rides")), rows(airflow.tables, "daily_rides")[:5])
