"""The Dags of the documentation are made as they are written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
