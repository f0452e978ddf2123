"""Dags that wait for what others write, in a running Airflow with real Spark: by assets, and by their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.chaos.running import Site, running, until
from tests.chaos.stage import Stage

pytestmark = pytest.mark.long

DAGS = '''
from airflow.sdk import DAG, Asset, AssetAlias, PartitionedAssetTimetable
from airflow_provider_replacewhere.dags import replace_where_dag
from airflow_provider_replacewhere.operators.backfill import BackfillOperator
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

DAILY = Asset("replacewhere://tables/daily")
HOW = {{
    "root": {root!r},
    "as_of": "2026-03-10T12:00:00+00:00",
    "conf": {{"spark.master": "local[1]", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}},
}}
FLOW = {{
    "target": "daily",
    "replace_where": "day >= date_sub(current_date(), 7)",
    "query": "SELECT day, sum(fare) AS fare FROM rides GROUP BY day",
    "partitioned_by": ["day"],
}}
COPY = """CREATE STREAMING TABLE {{target}} FLOW REPLACE WHERE day >= date_sub(current_date(), 7) BY NAME
          SELECT day, fare FROM daily"""

with DAG("writes", schedule=None):
    ReplaceWhereOperator(task_id="daily", outlets=[AssetAlias("daily")], **FLOW, **HOW)

follows = replace_where_dag(COPY.format(target="copy"), "follows", schedule=[DAILY], operator=HOW)

with DAG("writes_days", schedule=None):
    ReplaceWhereOperator(task_id="daily", outlets=[DAILY], partition_keys="day", **FLOW, **HOW)

with DAG("follows_days", schedule=PartitionedAssetTimetable(assets=DAILY)):
    BackfillOperator(
        task_id="day",
        pipeline=COPY.format(target="days"),
        column="day",
        start="{{{{ dag_run.partition_key[:10] }}}}",
        end="{{{{ macros.ds_add(dag_run.partition_key[:10], 1) }}}}",
        **HOW,
    )
'''


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage.create(tmp_path_factory.mktemp("assets"), faulty_drivers=False)
    (stage.airflow.folder / "assets.py").write_text(DAGS.format(root=str(stage.airflow.tables)))
    return stage


@pytest.fixture(scope="module")
def site(stage: Stage) -> Iterator[Site]:
    with running(stage) as site, site.part("scheduler"):
        until(lambda: site.ask("GET", "/api/v2/dags/follows_days"))
        yield site


def runs(site: Site, dag: str) -> list[dict[str, Any]]:
    """The runs of a Dag, oldest first."""
    found: list[dict[str, Any]] = site.ask("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=id")["dag_runs"]
    return found


def run(site: Site, dag: str) -> None:
    there = site.trigger(dag)
    until(lambda: [each["state"] for each in runs(site, dag) if each["dag_run_id"] == there] == ["success"])


def test_a_dag_that_waits_for_a_table_runs_when_it_was_written_and_only_then(stage: Stage, site: Site) -> None:
    stage.begin()
    run(site, "writes")
    until(lambda: [each["state"] for each in runs(site, "follows")] == ["success"])
    assert stage.rows("copy") == stage.wanted()

    run(site, "writes")  # and finds nothing to do
    stage.add((10, 5))
    run(site, "writes")
    until(lambda: [each["state"] for each in runs(site, "follows")] == ["success", "success"])
    assert stage.rows("copy") == stage.wanted()


def test_a_dag_that_waits_for_partitions_runs_for_each_day_that_was_replaced(stage: Stage, site: Site) -> None:
    stage.begin()
    run(site, "writes_days")
    days = [date(2026, 3, day) for day in range(3, 11)]
    until(lambda: [each["state"] for each in runs(site, "follows_days")] == ["success"] * len(days))
    assert sorted(each["partition_key"] for each in runs(site, "follows_days")) == [f"{day}T00:00:00" for day in days]
    assert stage.rows("days") == stage.wanted()
    before = DeltaTable(str(stage.airflow.tables / "days")).version()

    stage.add((9, 5))
    run(site, "writes_days")
    until(lambda: [each["state"] for each in runs(site, "follows_days")] == ["success"] * (len(days) + 1))
    assert runs(site, "follows_days")[-1]["partition_key"] == "2026-03-09T00:00:00"
    assert stage.rows("days") == stage.wanted()
    assert DeltaTable(str(stage.airflow.tables / "days")).version() == before + 1
