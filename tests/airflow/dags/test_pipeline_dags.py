"""A pipeline becomes tasks that are wired by who reads whom, at the price of reading its files."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator

from airflow_provider_replacewhere.dags import replace_where_dag, replace_where_task_group
from airflow_provider_replacewhere.dags.schedule import unix_cron
from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.operators import package

pytestmark = pytest.mark.matrix

START = {"start_date": datetime(2026, 1, 1, tzinfo=UTC)}


def flow(target: str, source: str, clauses: str = "") -> str:
    return (
        f"CREATE STREAMING TABLE {target} {clauses} FLOW REPLACE WHERE d >= current_date() BY NAME "
        f"SELECT d, n FROM {source};\n"
    )


PIPELINE = (
    flow("shop.weeks", "recent")
    + "CREATE TEMPORARY VIEW recent AS SELECT * FROM days WHERE n > 0;\n"
    + flow("days", "rides")
    + flow("stations", "rides JOIN places USING (d, n)")
)


@pytest.fixture(autouse=True)
def nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package.tempfile, "gettempdir", lambda: str(tmp_path))


def wiring(dag: DAG) -> dict[str, set[str]]:
    return {task.task_id: set(task.upstream_task_ids) for task in dag.tasks}


def assets(found: Any) -> list[str]:
    return sorted(asset.uri.rstrip("/") for asset in found)


def test_each_flow_is_a_task_behind_those_whose_targets_it_reads() -> None:
    dag = replace_where_dag(PIPELINE, "shop", operator={"root": "/lake"}, **START)
    assert wiring(dag) == {"days": set(), "shop_weeks": {"days"}, "stations": set()}
    weeks: Any = dag.get_task("shop_weeks")
    assert weeks.refresh_selection == ["shop.weeks"]
    assert weeks.root == "/lake"
    assert assets(weeks.outlets) == ["replacewhere://tables/shop.weeks"]
    stations: Any = dag.get_task("stations")
    assert assets(stations.inlets) == ["replacewhere://tables/places", "replacewhere://tables/rides"]
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    # For the scheduler it is the author's Dag, and relative paths of its tasks begin in the author's folder.
    assert dag.fileloc == __file__


def test_a_group_stands_among_other_tasks() -> None:
    with DAG("mixed", schedule=None, **START) as dag:
        before, after = BaseOperator(task_id="before"), BaseOperator(task_id="after")
        group = replace_where_task_group(PIPELINE, group_id="tables", asset_uri="s3://lake/{table}")
        before >> group >> after
    assert wiring(dag)["tables.days"] == {"before"}
    assert wiring(dag)["after"] == {"tables.shop_weeks", "tables.stations"}
    assert assets(dag.get_task("tables.days").outlets) == ["s3://lake/days"]


def test_all_flows_may_be_one_task() -> None:
    dag = replace_where_dag(PIPELINE, "shop", one_application=True, **START)
    assert wiring(dag) == {"all_tables": set()}
    (task,) = dag.tasks
    assert len(task.outlets) == 3


def test_a_pipeline_with_a_python_file_is_one_task(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text("raise AssertionError('it is not run here')")
    (tmp_path / "flow.sql").write_text(flow("days", "rides"))
    dag = replace_where_dag(str(tmp_path), "shop", **START)
    assert wiring(dag) == {"all_tables": set()}


def schedule_of(dag: Any) -> Any:
    """As the author gave it; Airflow 2 calls it otherwise."""
    return dag.schedule if hasattr(dag, "schedule") else dag.schedule_interval


def test_what_a_pipeline_declares_is_the_schedule() -> None:
    hourly = "SCHEDULE EVERY 6 HOURS"
    assert schedule_of(replace_where_dag(flow("a", "r", hourly), "d", **START)) == timedelta(hours=6)
    assert schedule_of(replace_where_dag(flow("a", "r"), "d", **START)) is None
    assert schedule_of(replace_where_dag(flow("a", "r", hourly), "d", schedule="@daily", **START)) == "@daily"
    cron = "SCHEDULE CRON '0 30 6 ? * 2-6' AT TIME ZONE 'Europe/Berlin'"
    timetable: Any = replace_where_dag(flow("a", "r", cron) + flow("b", "r", cron), "d", **START).timetable
    assert timetable.summary == "30 6 * * 1-5"
    assert "Berlin" in str(timetable.serialize())


def test_several_schedules_are_for_the_author_to_decide() -> None:
    text = flow("a", "r", "SCHEDULE EVERY 1 DAY") + flow("b", "r", "SCHEDULE EVERY 2 DAYS")
    with pytest.raises(DefinitionError, match="a: EVERY 1 DAYS, b: EVERY 2 DAYS"):
        replace_where_dag(text, "d", **START)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("0 6 * * *", "0 6 * * *"),
        ("0 0 6 * * ?", "0 6 * * *"),
        ("0 15 10 ? * MON-FRI", "15 10 * * MON-FRI"),
        ("0 15 10 ? * 1,7 *", "15 10 * * 0,6"),
        ("0 0/5 14 * * ?", "0/5 14 * * *"),
    ],
)
def test_quartz_is_understood(given: str, wanted: str) -> None:
    assert unix_cron(given) == wanted


@pytest.mark.parametrize("given", ["daily", "*/10 0 6 * * ?", "0 0 6 * * ? 2027"])
def test_what_airflow_cannot_keep_is_refused(given: str) -> None:
    with pytest.raises(DefinitionError, match="no cron expression that Airflow can keep"):
        unix_cron(given)


def test_a_selection_contradicts_a_task_for_each_table() -> None:
    with pytest.raises(DefinitionError, match="refresh_selection is given"):
        replace_where_dag(PIPELINE, "d", operator={"refresh_selection": ["days"]}, **START)


def test_a_kept_outline_needs_no_parser(tmp_path: Path) -> None:
    program = (
        "import sys; from airflow_provider_replacewhere.dags.outline import outline_of; "
        f"print(len(outline_of({PIPELINE!r}, ['.'], 'UTC').flows), 'sqlglot' in sys.modules)"
    )

    def read() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert read() == "3 True"
    assert read() == "3 False"
    (kept,) = tmp_path.glob("*/outlines/*.json")
    kept.write_text("{")
    assert read() == "3 True"
