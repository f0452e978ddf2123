"""A ledger's database as its users open it: migrated at the first use, asked for the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.history import schema
from airflow_provider_replacewhere.history.database import Database, database_time

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection


class Base:
    """What everything that is kept in a ledger's database has in common.

    :param url: SQLAlchemy URL
    :param clock: what time it is, UTC, for leases; the database's own clock by default
    :raises RequestError: the URL is none, names a database that is not supported, or its driver is not installed
    """

    def __init__(self, url: str | URL, *, clock: Callable[[], datetime] | None = None) -> None:
        self._database = Database(url)
        self._clock = clock
        self._ready = False

    @property
    def url(self) -> str:
        """Where the ledger is, without the password."""
        return self._database.label

    def migrate(self) -> None:
        """Bring the schema to the newest version; nothing to do is no error. Safe in several processes at once."""
        self._database.make_folder()
        schema.migrate(self._database)
        self._ready = True

    def schema_version(self) -> str | None:
        """The version of the schema that is there; None where there is none. Does not migrate."""
        self._database.make_folder()
        with self._database.reading() as connection:
            return schema.found_revision(connection, self._database.label)

    def _prepare(self) -> None:
        if self._ready:
            return
        self._database.make_folder()
        with self._database.reading() as connection:
            found = schema.found_revision(connection, self._database.label)
        if found != schema.REVISIONS[-1]:
            schema.migrate(self._database)
        self._ready = True

    def _time(self, connection: Connection) -> datetime:
        return self._clock() if self._clock else database_time(connection)


def worker_time() -> datetime:
    """When something was recorded: for people, nothing is ordered by it."""
    return datetime.now(UTC)
