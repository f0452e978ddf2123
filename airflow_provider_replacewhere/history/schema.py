"""The versions of the ledger's schema: telling which one is there, and migrating to the newest under a lock."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import HistoryError, HistorySchemaError
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.tables import PREFIX, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

# In their order. A constant, so that a ledger that is up to date is known to be so without importing Alembic.
REVISIONS = ("0001", "0002", "0003", "0004")

LOCK_SECONDS = 120
_POSTGRESQL_LOCK = 0x5245504C57484552  # "REPLWHER"
_MYSQL_LOCK = f"{PREFIX}migration"

# Alembic's context and operations are globals of the process.
_one_migration_per_process = Lock()


def found_revision(connection: Connection, label: str) -> str | None:
    """Which of :data:`REVISIONS` is there; None where there is none.

    :param label: how to name the database in an error
    :raises HistorySchemaError: the schema is of a newer version, or the tables are not ours
    """
    present = set(sa.inspect(connection).get_table_names())
    found = _revision(connection) if VERSION_TABLE in present else None
    ours = sorted(present & set(metadata.tables))
    if found is None and ours:
        raise HistorySchemaError(
            f"The history at {label} has the tables {', '.join(ours)}, but no schema version in {VERSION_TABLE}.",
            hint="They were made by something else, or by a migration that was cut off: use another database.",
        )
    if found is not None and found not in REVISIONS:
        raise HistorySchemaError(
            f"The history at {label} has schema version {found}; this version of airflow-provider-replacewhere knows "
            f"{REVISIONS[0]} to {REVISIONS[-1]}.",
            hint="A newer version has migrated it. Upgrade airflow-provider-replacewhere here too.",
        )
    return found


def migrate(database: Database, revision: str = REVISIONS[-1]) -> None:
    """Bring the schema to ``revision``. Any number of processes may do so at once: one migrates, the others wait.

    :raises HistorySchemaError: the schema is of a newer version, or the tables are not ours
    :raises HistoryError: the database does not answer, or another migration does not end
    """
    with _one_migration_per_process, _lock(database), database.writing() as connection:
        if found_revision(connection, database.label) != REVISIONS[-1]:
            _upgrade(connection, revision)


def _revision(connection: Connection) -> str | None:
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))
    found: str | None = connection.execute(sa.select(version.c.version_num)).scalar()
    return found


@contextmanager
def _lock(database: Database) -> Iterator[None]:
    """Hold other migrations off until this one is committed, which is why the lock has a connection of its own.

    SQLite needs nothing here: the writing transaction holds the file's lock from its first moment on.
    """
    if database.backend == "sqlite":
        yield
        return
    with database.reading() as connection:
        if database.backend == "postgresql":
            connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRESQL_LOCK})
            yield
            return
        held = connection.execute(
            sa.text("SELECT GET_LOCK(:name, :seconds)"), {"name": _MYSQL_LOCK, "seconds": LOCK_SECONDS}
        ).scalar()
        if held != 1:
            raise HistoryError(
                f"Another migration of the history at {database.label} has not ended within {LOCK_SECONDS} seconds.",
                hint="Look for a process that hangs, then try again.",
            )
        # The end of the connection gives the lock back.
        yield


def _upgrade(connection: Connection, revision: str) -> None:
    with _quiet_alembic():
        # Imported here because Alembic takes long to import, and a ledger seldom needs migrating.
        from alembic import command
        from alembic.config import Config

        config = Config()
        folder = str(Path(__file__).with_name("migrations"))
        config.set_main_option("script_location", folder.replace("%", "%%"))
        config.attributes.update(connection=connection, metadata=metadata, version_table=VERSION_TABLE)
        command.upgrade(config, revision)


@contextmanager
def _quiet_alembic() -> Iterator[None]:
    """Keep Alembic's progress out of the logs of a task that only wanted to record its run."""
    logger = logging.getLogger("alembic")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
