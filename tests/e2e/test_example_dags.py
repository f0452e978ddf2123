"""Every example Dag, run as a user would: real Airflow, real ``spark-submit``, real Delta tables."""

from __future__ import annotations

import shutil
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.airflow_process import AirflowProcess
from tests.compose import ROOT

DAGS = ROOT / "dags"
MARCH_10, MARCH_11 = "2026-03-10T00:00:00+00:00", "2026-03-11T00:00:00+00:00"
# The data is made once for all tests; the scheduled flow's own test runs the task that makes it.
WITH_DATA: dict[str, Any] = {"logical_date": MARCH_10, "done": "data"}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> AirflowProcess:
    """An Airflow, and the rides that were reported up to the morning of March 10."""
    airflow = AirflowProcess.create(tmp_path_factory.mktemp("examples"))
    (result,) = airflow.run(DAGS / "example_daily_rides.py", {"logical_date": MARCH_10, "done": "daily_rides"})
    assert result["state"] == "success", result["printed"][-6000:]
    return airflow


@pytest.fixture
def airflow(prepared: AirflowProcess) -> AirflowProcess:
    """The same, with no table but the sources."""
    for table in prepared.tables.iterdir():
        if table.name not in ("rides", "stations"):
            shutil.rmtree(table)
    return prepared


def rows(airflow: AirflowProcess, table: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(str(airflow.tables / table)).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def daily(airflow: AirflowProcess, first: date, last: date | None = None, city: str | None = None) -> Any:
    """What daily_rides should hold for these days, counted here in plain Python."""
    cities = {station: city for station, city, _ in rows(airflow, "stations")}
    totals: dict[tuple[date, str], tuple[int, Decimal]] = {}
    for _, day, _, station, fare in rows(airflow, "rides"):
        key = (day, cities[station])
        count, fares = totals.get(key, (0, Decimal(0)))
        totals[key] = (count + 1, fares + fare)
    return sorted(
        (*key, *total)
        for key, total in totals.items()
        if first <= key[0] and (last is None or key[0] <= last) and city in (None, key[1])
    )


@pytest.mark.matrix
def test_the_scheduled_flow_takes_in_the_late_rides_of_the_next_day(airflow: AirflowProcess) -> None:
    before = daily(airflow, date(2026, 3, 3))
    first, second = airflow.run(DAGS / "example_daily_rides.py", WITH_DATA, {"logical_date": MARCH_11})

    assert (first["state"], second["state"]) == ("success", "success"), first["printed"][-6000:]
    after = daily(airflow, date(2026, 3, 4))
    assert [row for row in before if row[0] == date(2026, 3, 8)] != [row for row in after if row[0] == date(2026, 3, 8)]
    kept = [row for row in before if row[0] == date(2026, 3, 3)]
    assert rows(airflow, "daily_rides") == kept + after
    summary = second["values"]["daily_rides"]["flows"]["daily_rides"]
    assert summary["window"] == "(`ride_date` >= DATE '2026-03-04')"
    # Only the days that changed are recomputed.
    old, new = ({day: [row for row in of if row[0] == day] for day, *_ in (*before, *after)} for of in (before, after))
    changed = [day for day in new if day >= date(2026, 3, 4) and old[day] != new[day]]
    assert summary["mode"] == "INCREMENTAL"
    assert summary["rows_deleted"] == sum(len(old[day]) for day in changed)
    assert summary["rows_written"] == sum(len(new[day]) for day in changed)


def test_a_pipeline_runs_one_task_for_each_table(airflow: AirflowProcess) -> None:
    (result,) = airflow.run(DAGS / "example_pipeline.py", WITH_DATA)

    assert result["state"] == "success", result["printed"][-6000:]
    window = daily(airflow, date(2026, 3, 3))
    assert rows(airflow, "daily_rides") == window
    revenue = rows(airflow, "station_revenue")
    assert sum(row[2] for row in revenue) == sum(row[3] for row in window)
    assert {row[0] for row in rows(airflow, "city_weeks")} == {date(2026, 3, 2), date(2026, 3, 9)}
    assert sum(row[2] for row in rows(airflow, "city_weeks")) == sum(row[2] for row in window)


def test_a_flow_runs_between_the_tasks_of_a_dag(airflow: AirflowProcess) -> None:
    (result,) = airflow.run(DAGS / "example_in_a_dag.py", WITH_DATA)

    assert result["state"] == "success", result["printed"][-6000:]
    busy = rows(airflow, "busy_hours")
    assert sum(row[2] for row in busy) == sum(row[2] for row in daily(airflow, date(2026, 3, 3)))
    assert result["values"]["publish"] == (
        f"{len(busy)} rows of busy_hours are new: (`ride_date` >= DATE '2026-03-03')"
    )


def test_a_backfill_replaces_the_range_of_the_form_and_refuses_the_rest(airflow: AirflowProcess) -> None:
    form = {"flow_name": "daily_rides", "start": "2026-02-20", "end": "2026-02-22", "equals": {"city": "Basel"}}
    refused = [
        "1=1; DROP TABLE rides",
        "ride_date IN (SELECT ride_date FROM rides)",
        "ride_date = DATE '2026-02-20' /*",
        "ride_date = '2026-02-20' OR '1'='1",
        "reflect('java.lang.System', 'exit', 1) = ride_date",
        "station_id = 1",
    ]
    runs = [
        {"conf": {"overrides": [{"flow_name": "daily_rides", "predicate_override": p}], "refresh_selection": []}}
        for p in refused
    ]

    good, *bad = airflow.run(
        DAGS / "example_backfill.py",
        *(
            {**WITH_DATA, "logical_date": f"2026-03-{10 + n}T00:00:00+00:00", **run}
            for n, run in enumerate([{"conf": form}, *runs])
        ),
    )

    assert good["state"] == "success", good["printed"][-6000:]
    assert rows(airflow, "daily_rides") == daily(airflow, date(2026, 2, 20), date(2026, 2, 21), "Basel")
    assert good["values"]["backfill"]["flows"]["daily_rides"]["override"] is True
    assert [run["state"] for run in bad] == ["failed"] * len(refused)
    assert DeltaTable(str(airflow.tables / "daily_rides")).version() == 1
    printed = good["printed"]
    assert "more than one way" not in printed
    assert "A ; has no place in a predicate." in printed
    assert "station_id is no column of the target." in printed


def test_the_backfill_dag_replaces_the_range_of_its_form_in_chunks(airflow: AirflowProcess) -> None:
    form = {"flow_name": "daily_rides", "start": "2026-02-20", "end": "2026-02-22", "chunk": "day", "ask": False}

    (result,) = airflow.run(DAGS / "example_backfill_form.py", {"logical_date": MARCH_10, "conf": form})

    assert result["state"] == "success", result["printed"][-6000:]
    assert rows(airflow, "daily_rides") == daily(airflow, date(2026, 2, 20), date(2026, 2, 21))
    assert DeltaTable(str(airflow.tables / "daily_rides")).version() == 2
    assert result["values"]["plan"]["dry_run"] is True
    assert result["values"]["backfill"]["flows"]["daily_rides"]["chunks"]["ended_well"] == 2


# Real Spark, killed with all its processes as soon as the driver's Python has started.
KILLED_SUBMIT = """#!{python}
import os, signal, subprocess, sys, time
from pathlib import Path

spark = subprocess.Popen(["{real}", *sys.argv[1:]], start_new_session=True)

def of_spark(stat):
    try:
        name, rest = stat.read_text().rsplit(")", 1)
    except OSError:
        return False
    return "(python" in name and rest.split()[3] == str(spark.pid)

while spark.poll() is None and not any(map(of_spark, Path("/proc").glob("[0-9]*/stat"))):
    time.sleep(0.1)
os.killpg(spark.pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_spark_submit_is_an_error_and_the_table_is_as_it_was(airflow: AirflowProcess, tmp_path: Path) -> None:
    (first,) = airflow.run(DAGS / "example_daily_rides.py", WITH_DATA)
    before, version = rows(airflow, "daily_rides"), DeltaTable(str(airflow.tables / "daily_rides")).version()
    real = shutil.which("spark-submit", path=airflow.environment()["PATH"])
    assert real is not None
    submit = tmp_path / "spark-submit"
    submit.write_text(KILLED_SUBMIT.format(python=sys.executable, real=real))
    submit.chmod(0o755)

    (killed,) = airflow.run(
        DAGS / "example_daily_rides.py",
        {**WITH_DATA, "logical_date": MARCH_11},
        PATH=f"{tmp_path}:{airflow.environment()['PATH']}",
    )

    assert (first["state"], killed["state"]) == ("success", "failed")
    assert "The Spark application ended without an outcome at " in killed["printed"]
    assert rows(airflow, "daily_rides") == before
    assert DeltaTable(str(airflow.tables / "daily_rides")).version() == version
