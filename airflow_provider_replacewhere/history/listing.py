"""Which runs of the ledger are listed: a page of them, along the primary key however long the history."""

from __future__ import annotations

from collections.abc import Mapping
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
        has_text = [sa.func.lower(other.c[name]).contains(text.lower(), autoescape=True) for name in _TEXTS]
        page = page.where(sa.exists().where(of_same_run, sa.or_(*has_text)))
    if status is not None:
        ended = {
            kind: sa.exists().where(of_same_run, other.c.kind == kind.value)
            for kind in (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.LOST)
        }
        page = page.where(_is(status, ended))
    page = page.order_by(first.c.sequence.desc())
    return page.limit(limit) if limit is not None else page


def _is(status: RunStatus | str, ended: Mapping[EventKind, sa.ColumnElement[bool]]) -> sa.ColumnElement[bool]:
    succeeded, failed, lost = (ended[kind] for kind in (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.LOST))
    match status:
        case RunStatus.SUCCEEDED:
            return succeeded
        case RunStatus.FAILED:
            return failed & ~succeeded
        case RunStatus.LOST:
            return lost & ~failed & ~succeeded
        case RunStatus.RUNNING:
            return ~lost & ~failed & ~succeeded
    raise RequestError(f"The status is {status!r}.", hint=f"Valid are {', '.join(RunStatus)}.")
