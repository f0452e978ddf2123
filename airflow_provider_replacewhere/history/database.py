"""The ledger's database as such: which driver, how a transaction begins, and what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import NullPool

from airflow_provider_replacewhere.errors import HistoryError, HistorySchemaError, RequestError

SQLITE_BUSY_SECONDS = 60

# By backend: drivers in the order of preference with the module that each needs, and the extra that installs one.
_DRIVERS: dict[str, tuple[tuple[tuple[str, str], ...], str | None]] = {
    "sqlite": ((("sqlite", "sqlite3"),), None),
    "postgresql": ((("postgresql+psycopg2", "psycopg2"), ("postgresql+psycopg", "psycopg")), "postgres"),
    "mysql": ((("mysql+mysqldb", "MySQLdb"), ("mysql+pymysql", "pymysql")), "mysql"),
}
BACKENDS = tuple(_DRIVERS)


class Database:
    """A database that transactions run in.

    No connection outlives its transaction, so a fork of the process is safe and an idle task holds none.

    :param url: SQLAlchemy URL; without a driver in it, one that is installed is taken
    :raises RequestError: the URL is none, names a database that is not supported, or its driver is not installed
    """

    def __init__(self, url: str | URL) -> None:
        self._url = with_driver(url)
        self._engine = _engine(self._url)

    @property
    def label(self) -> str:
        """The URL for messages and pages: without the password, and without parameters, which may hold one too."""
        return self._url.set(query={}).render_as_string(hide_password=True)

    @property
    def backend(self) -> str:
        """``sqlite``, ``postgresql`` or ``mysql``."""
        return self._url.get_backend_name()

    def make_folder(self) -> None:
        """Make the folder of an SQLite file where it is missing.

        :raises HistoryError: it cannot be made
        """
        file = self._url.database if self.backend == "sqlite" else None
        if not file:
            return
        try:
            # Predicates and reports name what is in the tables, so a folder that we make is closed to strangers.
            Path(file).parent.mkdir(mode=0o770, parents=True, exist_ok=True)
        except OSError as error:
            raise HistoryError(
                f"The folder of the history at {self.label} cannot be made: {error}.",
                hint="Make it, or let the user of this process write there.",
            ) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads.

        :raises HistoryError: the database does not answer
        :raises HistorySchemaError: it answers that it cannot
        """
        with self._explained(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that may write. On SQLite it holds the only write lock from its first moment on.

        :raises HistoryError: the database does not answer
        :raises HistorySchemaError: it answers that it cannot
        """
        engine = self._engine.execution_options(replacewhere_writes=True)
        with self._explained(), engine.begin() as connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            raise self._translated(error) from error

    def _translated(self, error: exc.DBAPIError) -> HistoryError | HistorySchemaError:
        said = " ".join(str(error.orig).split())
        sqlite_code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest of the bits tells variants apart
        if sqlite_code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return HistorySchemaError(
                f"The history at {self.label} is damaged or no SQLite file: {said}.",
                hint="Move the file away and start a new one, or restore it from a backup.",
            )
        transient = isinstance(error, exc.OperationalError | exc.InterfaceError | exc.InternalError)
        # SQLite has one class for what may pass and for statements that can never work; the code tells them apart.
        if (transient and sqlite_code != sqlite3.SQLITE_ERROR) or error.connection_invalidated:
            return HistoryError(
                f"The history at {self.label} does not answer: {said}.",
                hint="Check that the database runs, that the connection's host and login are right, and, for SQLite, "
                "that the folder and the file can be written.",
            )
        return HistorySchemaError(
            f"The history at {self.label} cannot be used: {said}.",
            hint="Check that its user may create and use tables, and that nobody has changed the replacewhere_ tables.",
        )


def database_time(connection: Connection) -> datetime:
    """What time it is for the database, UTC: one clock for all its users, however wrong theirs are.

    The moment of asking, not of the transaction's beginning: a transaction may have waited for a lock since. SQLite is
    no process of its own and has the clock of this one; only processes of one machine can share a file of it.
    """
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    if connection.dialect.name == "postgresql":
        said = connection.execute(sa.text("SELECT clock_timestamp() AT TIME ZONE 'UTC'")).scalar_one()
    else:
        said = connection.execute(sa.text("SELECT UTC_TIMESTAMP(6)")).scalar_one()
    return cast(datetime, said).replace(tzinfo=UTC)


def with_driver(url: str | URL) -> URL:
    """The URL with a driver that is installed, for SQLAlchemy's own default differs from version to version.

    :raises RequestError: the URL is none, names a database that is not supported, or its driver is not installed
    """
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        # Without the cause: SQLAlchemy puts the whole text, password and all, into its message.
        raise RequestError(
            "The history's URL cannot be read.", hint="Write it as backend://user:password@host:port/database."
        ) from None
    backend = {"postgres": "postgresql", "mariadb": "mysql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
    if backend not in _DRIVERS:
        raise RequestError(
            f"The history's URL names the database {backend!r}.", hint=f"Valid are {', '.join(BACKENDS)}."
        )
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise RequestError("The history's URL names no file.", hint="Write it as sqlite:////folder/history.db.")
    if "+" in parsed.drivername:
        return parsed
    drivers, extra = _DRIVERS[backend]
    for name, module in drivers:
        if find_spec(module):
            return parsed.set(drivername=name)
    raise RequestError(
        f"The history is to be kept in {backend}, and no driver for it is installed "
        f"(looked for {', '.join(module for _, module in drivers)}).",
        hint=f"Install one: pip install 'airflow-provider-replacewhere[{extra}]'.",
    )


def _engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {"timeout": SQLITE_BUSY_SECONDS} if url.get_backend_name() == "sqlite" else {}
    try:
        # Parameters are hidden because predicates are users' data, and errors end up in task logs.
        engine = sa.create_engine(url, future=True, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    except (ModuleNotFoundError, exc.NoSuchModuleError) as error:
        raise RequestError(
            f"The history's URL names the driver {url.drivername!r}, which is not installed: {error}.",
            hint="Install it, or leave the driver out of the URL.",
        ) from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _leave_transactions_to_us)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _leave_transactions_to_us(connection: Any, _record: Any) -> None:
    # Python's sqlite3 begins transactions late and ends them before DDL, which would undo both locking and atomic
    # migrations: https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#pysqlite-serializable
    connection.isolation_level = None


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("replacewhere_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
