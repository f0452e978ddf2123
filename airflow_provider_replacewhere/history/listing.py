"""Which runs of the ledger are listed: a page of them, along the primary key however long the history."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.records import EventKind, RunStatus
from airflow_provider_replacewhere.history.rows import target_digest
from airflow_provider_replacewhere.history.tables import events

# Where a person's text is looked for; reports are long and hold every version of every source.
_TEXTS = ("run_id", "flow", "target", "dag_id", "dag_run_id", "predicate", "window_sql", "replaced_sql", "error")


def page_of(
    target: str | None = None,
    flow: str | None = None,
    status: RunStatus | str | None = None,
    mode: str | None = None,
    text: str | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> sa.Select[Any]:
    """The keys of runs, the newest first.

    :param mode: only those that ended well in this mode
    :param text: only those with this text, in any letter case, in their flow, target, task, condition or error
    :raises RequestError: the status is none
    """
    first, other = events.alias("first"), events.alias("other")
    of_same_run = other.c.run_key == first.c.run_key
    # A run is listed by its first event.
    page = sa.select(first.c.run_key).where(~sa.exists().where(of_same_run, other.c.sequence < first.c.sequence))
    if target is not None:
        page = page.where(first.c.target_key == target_digest(target))
    if flow is not None:
        page = page.where(first.c.flow == flow)
    if before is not None:
        page = page.where(first.c.sequence < before)
    if mode is not None:
        page = page.where(
            sa.exists().where(of_same_run, other.c.kind == EventKind.SUCCEEDED.value, other.c.mode == mode)
        )
    if text:
        # Lower case on both sides: databases differ in what LIKE makes of letter case.
        has_text = [sa.func.lower(events.c[name]).contains(text.lower(), autoescape=True) for name in _TEXTS]
        page = page.where(first.c.run_key.in_(sa.select(events.c.run_key).where(sa.or_(*has_text))))
    if status is not None:
        page = page.where(_is(status, first.c.run_key))
    page = page.order_by(first.c.sequence.desc())
    return page.limit(limit) if limit is not None else page


def _is(status: RunStatus | str, run_key: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Most runs end well, so those that did not are looked up as a set: the index alone tells them."""
    match status:
        case RunStatus.SUCCEEDED:
            return _ended(run_key, EventKind.SUCCEEDED)
        case RunStatus.FAILED:
            return run_key.in_(_keys(EventKind.FAILED)) & ~_ended(run_key, EventKind.SUCCEEDED)
        case RunStatus.LOST:
            better = _ended(run_key, EventKind.SUCCEEDED) | _ended(run_key, EventKind.FAILED)
            return run_key.in_(_keys(EventKind.LOST)) & ~better
        case RunStatus.RUNNING:
            ends = [EventKind.SUCCEEDED.value, EventKind.FAILED.value, EventKind.LOST.value]
            is_end = sa.case((events.c.kind.in_(ends), 1), else_=0)
            without = sa.select(events.c.run_key).group_by(events.c.run_key).having(sa.func.max(is_end) == 0)
            return run_key.in_(without)
    raise RequestError(f"The status is {status!r}.", hint=f"Valid are {', '.join(RunStatus)}.")


def _keys(kind: EventKind) -> sa.Select[Any]:
    return sa.select(events.c.run_key).where(events.c.kind == kind.value)


def _ended(run_key: sa.ColumnElement[str], kind: EventKind) -> sa.ColumnElement[bool]:
    other = events.alias("end")
    return sa.exists().where(other.c.run_key == run_key, other.c.kind == kind.value)
