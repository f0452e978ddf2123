"""The coverage of targets, folded from the ledger's reports and kept, so that each report is folded once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.history.records import EventKind
from airflow_provider_replacewhere.history.tables import coverage as kept
from airflow_provider_replacewhere.history.tables import events
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

# A document that was changed by hand, or is damaged, may fail in any of these ways.
_UNREADABLE = (AttributeError, KeyError, PredicateError, RecursionError, TypeError, ValueError)

# So many reports are folded anew for each plan before the fold is kept: writing it costs more than folding a few.
KEEP_AFTER = 5


def read_coverage(connection: Connection, target_key: str) -> tuple[Coverage, int]:
    """The coverage of a target, and how many reports had to be folded for it."""
    while True:
        kept_before = _kept(connection, target_key)
        found = _fold(connection, target_key, kept_before)
        # Unless the database shows one moment to a whole transaction, reports may be pruned between the two reads.
        if _kept_sequence(connection, target_key) == kept_before.sequence:
            return found


def _fold(connection: Connection, target_key: str, coverage: Coverage) -> tuple[Coverage, int]:
    query = (
        sa.select(events.c.sequence, events.c.report)
        .where(
            events.c.target_key == target_key,
            events.c.kind == EventKind.SUCCEEDED.value,
            events.c.sequence > coverage.sequence,
        )
        .order_by(events.c.sequence)
        # Long ledgers do not fit in memory.
        .execution_options(stream_results=True)
    )
    folded = 0
    for sequence, report in connection.execute(query):
        folded += 1
        coverage = _with_report(coverage, sequence, report)
    return coverage, folded


def _with_report(coverage: Coverage, sequence: int, report: str) -> Coverage:
    try:
        value = json.loads(report)
        if value.get("adopted") is not None:
            # The commit is an earlier try's, whose own record tells of it in its place among the commits.
            return replace(coverage, sequence=sequence)
        entry = None if value["coverage"] is None else Entry.from_json(value["coverage"])
    except _UNREADABLE:
        entry = None
    # A report that says nothing of what it proves comes from a version that did not know: nothing is proven.
    return Coverage(sequence=sequence) if entry is None else coverage.with_entry(entry, sequence)


def keep_coverage(connection: Connection, target_key: str, coverage: Coverage) -> None:
    """Keep a fold, unless one that goes further is kept. Inside a writing transaction that holds the counter."""
    if coverage.sequence <= _kept_sequence(connection, target_key):
        return
    connection.execute(kept.delete().where(kept.c.target_key == target_key))
    document = json.dumps(coverage.to_json(), sort_keys=True, ensure_ascii=False)
    connection.execute(kept.insert().values(target_key=target_key, sequence=coverage.sequence, document=document))


def _kept(connection: Connection, target_key: str) -> Coverage:
    query = sa.select(kept.c.sequence, kept.c.document).where(kept.c.target_key == target_key)
    found = connection.execute(query).first()
    if found is None:
        return Coverage()
    try:
        coverage = Coverage.from_json(json.loads(found.document))
        return replace(coverage, sequence=found.sequence)
    except _UNREADABLE:
        # Not readable: what came after it is, and what is not known is recomputed.
        return Coverage(sequence=found.sequence)


def _kept_sequence(connection: Connection, target_key: str) -> int:
    query = sa.select(kept.c.sequence).where(kept.c.target_key == target_key)
    return int(connection.execute(query).scalar() or 0)
