"""A throw-away Airflow: settings in the environment, one folder, one migrated SQLite metadata database."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_MARK = "REPLACEWHERE_TESTS_AIRFLOW_HOME"


def use_throw_away_home() -> Path:
    """Point this process, and those it starts, at a new ``AIRFLOW_HOME``; the same one for every later call.

    Airflow reads its settings when it is first imported, so this has to come before that: call it where a
    ``conftest.py`` begins. The home has an empty folder ``dags``, no connections, and no metadata database yet.
    """
    if _MARK in os.environ:
        return Path(os.environ[_MARK])
    if "airflow" in sys.modules:
        raise RuntimeError("Airflow was imported before its throw-away home was set, so it would use the user's own.")
    # Connections that the user keeps in the environment must not reach a test.
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        del os.environ[name]
    home = Path(tempfile.mkdtemp(prefix="replacewhere-airflow-"))
    atexit.register(_remove, home, os.getpid())
    (home / "dags").mkdir()
    os.environ |= {
        _MARK: str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        # The programs of this environment, spark-submit above all, before any other of the same name.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return home


def migrate_metadata(home: Path) -> None:
    """Create Airflow's own tables; costs nothing the second time."""
    done = home / "migrated"
    if done.exists():
        return
    # In a process of its own: Airflow's migrations configure logging and warn, which is not what a test is about.
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    migrated = subprocess.run(command, capture_output=True, text=True, check=False)
    if migrated.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{migrated.stdout[-4000:]}{migrated.stderr[-4000:]}")
    done.touch()


def _remove(home: Path, owner: int) -> None:
    # Airflow forks for its tasks, and a fork inherits what is to be done at the end.
    if os.getpid() == owner:
        shutil.rmtree(home, ignore_errors=True)
