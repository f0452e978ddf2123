"""Every test here runs on a real Airflow with a throw-away home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.airflow_home import migrate_metadata, use_throw_away_home
from tests.jvm import let_java_start_quickly

HOME = use_throw_away_home()  # before any test module imports Airflow

import pytest  # noqa: E402

from tests.postgres import postgres_server  # noqa: E402, F401 (a fixture)

let_java_start_quickly()


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """``AIRFLOW_HOME`` of this session, with a migrated metadata database, as ``dag.test()`` needs; made once."""
    migrate_metadata(HOME)
    return HOME


@pytest.fixture
def history_file() -> Iterator[Path]:
    """The file of the ledger that is used without a connection; not there at first."""
    file = HOME / "replacewhere" / "history.db"
    file.unlink(missing_ok=True)
    yield file
    file.unlink(missing_ok=True)
