"""Dags in a process of its own, where Airflow reads its settings and its plugins anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run_in_process(file: Path, folder: Path, **settings: str) -> dict[str, Any]:
    """Run the Dag of a file once, with these settings in the environment; see :mod:`tests.run_dag`.

    :raises AssertionError: the process failed
    """
    answer = folder / "answer.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.run_dag", str(file), str(answer)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])} | settings,
        cwd=folder,
        input=json.dumps([{"logical_date": "2026-03-10T00:00:00+00:00"}]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    (result,) = json.loads(answer.read_text())
    assert isinstance(result, dict)
    return result
