"""The Dags of the documentation are made as they are written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_replacewhere.operators.versions import airflow_line
from tests.docs import ROOT, Block, blocks

OURS = tuple(f"airflow_provider_replacewhere.{package}" for package in ("operators", "dags", "hooks"))
DAGS = [block for block in blocks("python") if any(package in block.text for package in OURS)]


@pytest.mark.parametrize("block", DAGS, ids=str)
@pytest.mark.usefixtures("history_file")
def test_a_dag_of_the_documentation_is_made(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_home: Path
) -> None:
    shutil.copytree(ROOT / "dags" / "pipelines", tmp_path / "pipelines")
    file = tmp_path / "dag.py"
    file.write_text(block.text)
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, str(file), "exec"), {"__name__": "dag"})


# What a Dag file has around the lines that a page shows alone.
AROUND = """
from airflow.providers.common.compat.sdk import DAG, Asset, AssetAlias
try:
    from airflow.sdk import task
except ImportError:
    from airflow.decorators import task

from airflow_provider_replacewhere.operators.backfill import BackfillOperator
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

RIDES = Asset("s3://lake/daily_rides")
"""
PARTITIONS = "from airflow.sdk import CronPartitionTimetable, PartitionedAssetTimetable"
FRAGMENTS = [block for block in blocks("python") if block.file.name == "observing.md" and block not in DAGS]


@pytest.mark.parametrize("block", FRAGMENTS, ids=str)
@pytest.mark.usefixtures("history_file", "airflow_home")
def test_a_part_of_a_dag_of_the_documentation_is_made(block: Block) -> None:
    names: dict[str, object] = {"__name__": "dag"}
    exec(AROUND, names)
    if "PartitionTimetable" in block.text or "PartitionedAssetTimetable" in block.text:
        if airflow_line() in ("2", "3.0", "3.1"):
            pytest.skip("partitions came with Airflow 3.2")
        exec(PARTITIONS, names)
    exec(compile(block.text, str(block), "exec"), names)


def test_there_are_parts_of_dags_to_make() -> None:
    assert len(FRAGMENTS) >= 5
