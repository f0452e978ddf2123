"""The ledger for people who look at it: it is read, and never written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import HistorySchemaError
from airflow_provider_replacewhere.history import schema
from airflow_provider_replacewhere.history.coverage import read_coverage
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.records import Run
from airflow_provider_replacewhere.history.rows import target_digest
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.tables import events
from airflow_provider_replacewhere.planning.coverage import Coverage

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

MOST_RUNS = 1_000
"""So many runs of a table are read for its map, the newest. What they prove is folded from all."""
# Databases limit the number of values in one statement.
_ASK_AT_ONCE = 500


@dataclass(frozen=True)
class Target:
    """A table that the ledger knows.

    :param name: as its last run spelled it
    :param sequence: of the last event that speaks of it
    """

    name: str
    sequence: int


@dataclass(frozen=True)
class Look:
    """What is known of one target.

    :param runs: the newest first
    :param is_whole: whether these are all that the ledger holds
    """

    coverage: Coverage
    runs: tuple[Run, ...]
    is_whole: bool


class HistoryView(HistoryStore):
    """A ledger that is only read. It makes no folder, no file and no table, and migrates nothing.

    :param url: SQLAlchemy URL
    :param clock: what time it is, UTC, for leases; the database's own clock by default
    :raises RequestError: the URL is none, names a database that is not supported, or its driver is not installed
    """

    def __init__(self, url: str | URL, *, clock: Callable[[], datetime] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._database: _ReadOnly = _ReadOnly(url)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has recorded anything in it yet.

        :raises HistoryError: the database does not answer
        :raises HistorySchemaError: its schema is not ours, or of a newer version
        """
        return not self._ready and (self._database.is_absent or self._found() is None)

    def targets(self) -> list[Target]:
        """All targets, by name."""
        self._prepare()
        # Answered from the index alone, however long the reports are.
        query = sa.select(sa.func.max(events.c.sequence)).group_by(events.c.target_key)
        found = []
        with self._database.reading() as connection:
            numbers = list(connection.execute(query).scalars())
            for start in range(0, len(numbers), _ASK_AT_ONCE):
                some = numbers[start : start + _ASK_AT_ONCE]
                names = sa.select(events.c.target, events.c.sequence).where(events.c.sequence.in_(some))
                found += [Target(name, sequence) for name, sequence in connection.execute(names)]
        return sorted(found, key=lambda target: target.name.lower())

    def look(self, target: str, most: int = MOST_RUNS) -> Look:
        """What is known of a target.

        :param most: so many runs at most, the newest
        """
        runs = self.runs(target=target, limit=most + 1)
        with self._database.reading() as connection:
            coverage, _ = read_coverage(connection, target_digest(target))
        return Look(coverage, tuple(runs[:most]), len(runs) <= most)

    def _prepare(self) -> None:
        if self._ready:
            return
        found = self._found()
        if found != schema.REVISIONS[-1]:
            raise HistorySchemaError(
                f"The history at {self.url} has {f'schema version {found}' if found else 'no tables yet'}; this page "
                f"reads version {schema.REVISIONS[-1]}.",
                hint="The next run brings it up to date. To do it now: replacewhere history --history URL.",
            )
        self._ready = True

    def _found(self) -> str | None:
        with self._database.reading() as connection:
            return schema.found_revision(connection, self._database.label)


class _ReadOnly(Database):
    @property
    def is_absent(self) -> bool:
        """Whether it is an SQLite file that is not there: to open it would make it."""
        file = self._url.database if self.backend == "sqlite" else None
        return file is not None and not Path(file).exists()

    def make_folder(self) -> None:
        """Leave the disk as it is."""

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        raise AssertionError("the ledger is only looked at here")
        yield
