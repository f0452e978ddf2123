"""Adding events to the ledger, within a transaction that is open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.base import worker_time
from airflow_provider_replacewhere.history.counter import lock_counter
from airflow_provider_replacewhere.history.records import Event
from airflow_provider_replacewhere.history.rows import digest, row_of, to_text
from airflow_provider_replacewhere.history.tables import counter, events

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def append(connection: Connection, new: Iterable[Event]) -> bool:
    """Add events; one that is there already is passed over.

    :return: whether any was added
    :raises RequestError: a run is recorded with another report
    """
    sequence = lock_counter(connection)
    once = {(event.run_id, event.kind): event for event in reversed(tuple(new))}
    added = [event for event in reversed(once.values()) if not _is_recorded(connection, event)]
    for number, event in enumerate(added, start=sequence + 1):
        connection.execute(events.insert().values(row_of(event, number, worker_time())))
    connection.execute(counter.update().values(last=sequence + len(added)))
    return bool(added)


def _is_recorded(connection: Connection, event: Event) -> bool:
    """:raises RequestError: the run is recorded with another report"""
    query = sa.select(events.c.report, events.c.token)
    found = connection.execute(
        query.where(events.c.run_key == digest(event.run_id), events.c.kind == event.kind)
    ).first()
    if found is None:
        return False
    # A run whose commit was found by another before its own report came is told in other words, but is the same.
    if found.report != to_text(event.report) and (found.token is None or found.token != event.token):
        raise RequestError(
            f"The run {event.run_id} of {event.flow} is in the history with another report.",
            hint="A run id names one run: give every try and every run its own.",
        )
    return True
