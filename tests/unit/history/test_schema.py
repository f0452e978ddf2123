"""The schema comes up to date by itself, under a lock, and what is not ours is left alone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

from airflow_provider_replacewhere.errors import HistorySchemaError
from airflow_provider_replacewhere.history import schema, tables
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.store import HistoryStore
from tests.history import report

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

MIGRATIONS = Path(schema.__file__).with_name("migrations")


@pytest.fixture
def engine(history_url: str) -> Engine:
    """The same database, past the store."""
    return sa.create_engine(history_url, poolclass=NullPool)


def execute(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def insert_as_of_0001(engine: Engine, sequence: int, run_id: str, target: str) -> None:
    document = json.dumps(report(run_id, target=target).to_json(), sort_keys=True)
    execute(engine, "UPDATE replacewhere_counter SET last = last + 1")
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO replacewhere_events (sequence, recorded_at, run_key, kind, run_id, flow, target, report)"
                " VALUES (:sequence, '2026-03-10T00:00:00.000000+00:00', :run_id, 'succeeded', :run_id, 'f', :target,"
                " :report)"
            ),
            {"sequence": sequence, "run_id": run_id, "target": target, "report": document},
        )


def test_a_new_database_gets_the_newest_schema(store: HistoryStore, engine: Engine) -> None:
    assert store.schema_version() is None
    store.migrate()
    assert store.schema_version() == schema.REVISIONS[-1]
    with engine.connect() as connection:
        names = set(sa.inspect(connection).get_table_names())
    assert names == {*tables.metadata.tables, tables.VERSION_TABLE}


def test_migrating_again_changes_nothing(store: HistoryStore) -> None:
    store.record(report())
    store.migrate()
    assert len(store.runs()) == 1


def test_the_migrations_lead_to_the_tables_that_the_store_uses(store: HistoryStore, engine: Engine) -> None:
    store.migrate()
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": tables.VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, tables.metadata) == []


def test_the_known_revisions_are_those_of_the_scripts() -> None:
    script = ScriptDirectory(str(MIGRATIONS))
    assert tuple(found.revision for found in script.walk_revisions())[::-1] == schema.REVISIONS


def test_an_older_schema_is_upgraded_with_its_runs(history_url: str, engine: Engine) -> None:
    schema.migrate(Database(history_url), "0001")
    insert_as_of_0001(engine, 1, "first", "Sales.Daily")
    insert_as_of_0001(engine, 2, "second", "sales.daily")
    insert_as_of_0001(engine, 3, "path", "delta.`/Data`")
    store = HistoryStore(history_url)
    assert store.schema_version() == "0001"
    assert store.last_successful(["SALES.DAILY"])["SALES.DAILY"]["run_id"] == "second"
    assert store.schema_version() == schema.REVISIONS[-1]
    store.record(report("third", target="sales.daily"))
    assert [run.run_id for run in store.runs(target="sales.daily")] == ["third", "second", "first"]
    assert [run.sequence for run in store.runs()] == [4, 3, 2, 1]


def test_a_newer_schema_is_refused_and_left_as_it_is(store: HistoryStore, history_url: str, engine: Engine) -> None:
    store.record(report())
    execute(engine, "UPDATE replacewhere_alembic_version SET version_num = '0099'")
    other = HistoryStore(history_url)
    for use in (other.runs, other.migrate, other.schema_version, lambda: other.record(report("new"))):
        with pytest.raises(HistorySchemaError, match=r"schema version 0099; this version .* knows 0001 to 0004"):
            use()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM replacewhere_events").scalar() == 1


def test_tables_of_the_same_name_that_are_not_ours_are_refused(store: HistoryStore, engine: Engine) -> None:
    execute(engine, "CREATE TABLE replacewhere_events (a INTEGER)", "INSERT INTO replacewhere_events VALUES (7)")
    with pytest.raises(HistorySchemaError, match="has the tables replacewhere_events, but no schema version"):
        store.started("r", "f", "t")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT a FROM replacewhere_events").scalar() == 7


def test_other_tables_and_another_alembic_may_share_the_database(store: HistoryStore, engine: Engine) -> None:
    execute(
        engine,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('theirs')",
        "CREATE TABLE orders (id INTEGER)",
    )
    store.record(report())
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == ["theirs"]


def test_a_table_that_is_lost_is_an_error_of_the_schema(store: HistoryStore, engine: Engine) -> None:
    store.record(report())
    execute(engine, "DROP TABLE replacewhere_events")
    with pytest.raises(HistorySchemaError, match=r"cannot be used: .*replacewhere_events[\s\S]*nobody has changed"):
        store.runs()


def test_migrating_says_nothing_and_leaves_logging_alone(store: HistoryStore, caplog: pytest.LogCaptureFixture) -> None:
    root, alembic = logging.getLogger(), logging.getLogger("alembic")
    before = (list(root.handlers), alembic.level, alembic.disabled, logging.getLogger("airflow").disabled)
    with caplog.at_level(logging.INFO):
        level = root.level
        store.migrate()
        assert root.level == level
    assert [record for record in caplog.records if record.name.startswith("alembic")] == []
    assert (list(root.handlers), alembic.level, alembic.disabled, logging.getLogger("airflow").disabled) == before


ONE_PROCESS = """
import sys, time
from pathlib import Path
from airflow_provider_replacewhere.history.store import HistoryStore
import alembic.command
url, name, ready, go = sys.argv[1:]
Path(ready, name).touch()
while not Path(go).exists():
    time.sleep(0.005)
store = HistoryStore(url)
store.migrate()
store.started(name, "f", "t")
"""


@pytest.mark.parametrize("older", [False, True], ids=["from nothing", "from an older schema"])
def test_processes_that_migrate_at_once_all_succeed(
    history_url: str, engine: Engine, tmp_path: Path, older: bool
) -> None:
    if older:
        schema.migrate(Database(history_url), "0001")
        insert_as_of_0001(engine, 1, "old", "t")
    ready, go = tmp_path / "ready", tmp_path / "go"
    ready.mkdir()
    names = [f"process {number}" for number in range(3)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", ONE_PROCESS, history_url, name, str(ready), str(go)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in names
    ]
    while len(list(ready.iterdir())) < len(names) and all(process.poll() is None for process in processes):
        time.sleep(0.01)
    go.touch()
    output = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], output
    assert output == ["", "", ""]
    store = HistoryStore(history_url)
    assert {run.run_id for run in store.runs()} == {*names, *(["old"] if older else [])}
    assert store.schema_version() == schema.REVISIONS[-1]
