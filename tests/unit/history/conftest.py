from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.history.store import HistoryStore
from tests.postgres import PostgresServer, postgres_server  # noqa: F401 (a fixture)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def history_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database().render_as_string(hide_password=False)


@pytest.fixture
def store(history_url: str) -> HistoryStore:
    return HistoryStore(history_url)
