"""What must hold before anything is written; a check that fails leaves the table as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_replacewhere.errors import (
    EmptyResultError,
    ExpectationError,
    FullRefreshRefusedError,
    NullKeyError,
)
from airflow_provider_replacewhere.flows.model import Flow, OnViolation
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.window import Window
from airflow_provider_replacewhere.spark.prepared import no_expectation
from airflow_provider_replacewhere.spark.skipping import gives_nothing, scanned
from airflow_provider_replacewhere.spark.target import RESET_ALLOWED, State, Target


def check_full_refresh(target: Target, flow: Flow, state: State | None, window: Window, *, allowed: bool) -> None:
    """Refuse a full refresh that is not allowed, saying what it would lose.

    :raises FullRefreshRefusedError: by the run or by the table
    """
    if state is None:
        return
    properties = {**flow.table.properties, **state.properties}
    forbidden = next((v for k, v in properties.items() if k.lower() == RESET_ALLOWED), "true").lower() == "false"
    if allowed and not forbidden:
        return
    lost = target.count_outside(window.sql) if set(window.columns) <= {field.name for field in state.schema} else None
    count = "rows" if lost is None else "1 row" if lost == 1 else f"{lost} rows"
    hint = (
        f"The table says {RESET_ALLOWED} = false: change that property first."
        if forbidden
        else "Set allow_full_refresh=True to lose them, or refresh a window."
    )
    raise FullRefreshRefusedError(
        f"A full refresh of {target} would lose {count} outside {window.sql}.", hint=hint, span=flow.span
    )


def may_have_null_keys(query: DataFrame, window: Window, flow: Flow) -> bool:
    """Whether there may be rows of which the predicate cannot tell whether they belong, and they are to be refused.

    A range window neither deletes such rows nor may they be written, so they would be lost without a word.
    """
    keys = {name.lower() for name in window.columns}
    return flow.null_keys == "fail" and any(f.nullable for f in query.schema if f.name.lower() in keys)


def check_null_keys(query: DataFrame, window: Window, flow: Flow) -> None:
    """Refuse rows of which the predicate cannot tell whether they belong, by looking for them.

    :raises NullKeyError: there are some
    """
    undecided = query.where(window.unknown)
    unknown = 0 if gives_nothing(undecided) else undecided.count()
    if unknown:
        raise NullKeyError(
            f"The query of {flow.name} gives {unknown} {'row' if unknown == 1 else 'rows'} with NULL in "
            f"{' or '.join(window.columns)}, so that the predicate cannot tell whether they belong to the window.",
            hint="Set null_keys (table property replacewhere.nullKeys) to 'drop' to leave them out, to 'include' to "
            "have them replaced with every window, or give the column a value in the query.",
            span=flow.replace_where,
        )


def check_deleted(target: Target, replaced: str, limits: Limits) -> None:
    """Refuse a run that would delete more rows of the target than it may.

    :param replaced: the condition of the rows that are deleted
    :raises LimitExceededError: it would
    """
    if not limits.counts_deleted:
        return
    inside = target.frame().where(replaced)
    # The statistics tell how many there are at most, which is often enough.
    at_most = scanned(inside)["rows"]
    if limits.max_deleted_fraction is None and at_most is not None and at_most <= (limits.max_deleted_rows or 0):
        return
    limits.check_deleted(str(target), inside.count(), target.frame().count())


def is_refused_as_empty(rows: DataFrame, flow: Flow, replaced: str, limits: Limits) -> bool:
    """Whether there is no row to be written, so that the target is to be left as it is.

    :raises EmptyResultError: there is none, and there must be some
    """
    if limits.on_empty == "replace" or not rows.isEmpty():
        return False
    if limits.on_empty == "skip":
        return True
    raise EmptyResultError(
        f"The query of {flow.name} gives no row for {replaced}, which the run would have emptied.",
        hint="Look at the sources; set on_empty='replace' where a window may well become empty.",
        span=flow.span,
    )


@contextmanager
def checked(rows: DataFrame, flow: Flow, *, keep: bool) -> Iterator[tuple[DataFrame, dict[str, dict[str, Any]]]]:
    """The rows that are to be written, and how many broke each expectation.

    :param keep: whether they are read more than once even without expectations
    :raises ExpectationError: one broke an expectation that fails the run
    """
    if not flow.table.expectations and not keep:
        yield rows, {}
        return
    # Counted and written from one evaluation: a query may not give the same rows twice.
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _judged(kept, flow)
    finally:
        # The very frame that was kept: a later run over the same files would be answered from memory.
        kept.unpersist()


def _judged(rows: DataFrame, flow: Flow) -> tuple[DataFrame, dict[str, dict[str, Any]]]:
    expectations = flow.table.expectations
    if not expectations:
        return rows, {}
    broken = {e.name: f"NOT coalesce(CAST(({e.condition}) AS BOOLEAN), false)" for e in expectations}
    try:
        counts = rows.agg(*(F.count_if(F.expr(sql)).alias(name) for name, sql in broken.items())).collect()[0]
    except PySparkException as error:
        raise no_expectation(flow, error) from error
    found = {e.name: {"action": str(e.on_violation), "violations": int(counts[e.name])} for e in expectations}
    failed = [e for e in expectations if e.on_violation is OnViolation.FAIL_UPDATE and counts[e.name]]
    if failed:
        raise ExpectationError(
            f"{counts[failed[0].name]} rows for {flow.target} break the expectation {failed[0].name}: "
            f"{failed[0].condition}.",
            hint="Nothing was written. Correct the source or the query, or let the expectation drop the rows.",
            span=flow.table.span,
        )
    for expectation in expectations:
        if expectation.on_violation is OnViolation.DROP_ROW:
            rows = rows.where(f"NOT ({broken[expectation.name]})")
    return rows, found
