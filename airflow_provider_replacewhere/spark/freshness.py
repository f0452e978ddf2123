"""What the logs say about the run's tables: the look at the world on which the decision stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.decide import Facts, ForeignChange, Reason, SourceChange
from airflow_provider_replacewhere.planning.promise import Promise, proven, regions
from airflow_provider_replacewhere.planning.touched import touched
from airflow_provider_replacewhere.planning.window import Window
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.types import spark_type
from airflow_provider_replacewhere.spark.jvm import class_name, expressions, walk
from airflow_provider_replacewhere.spark.log import layout_of, read_commits
from airflow_provider_replacewhere.spark.skipping import scanned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.spark.sources import Source
    from airflow_provider_replacewhere.spark.target import Commit, State, Target

ANY_ROWS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample"})
OUTSIDE = frozenset(
    {"CurrentUser", "SessionUser", "CurrentCatalog", "CurrentDatabase", "CurrentSchema", "SparkVersion"}
)


def pins(sources: Iterable[Source]) -> dict[str, Pin | None]:
    """By name, the version at which each source is read; None for one that has no versions."""
    return {s.name: None if s.version is None else Pin(s.version, s.table_id) for s in sources}


def coverage_of(value: Mapping[str, Any] | None) -> Coverage:
    """The ledger's slice for one target; nothing is known where it is missing."""
    return Coverage() if value is None else Coverage.from_json(value)


def is_deterministic(query: DataFrame) -> bool:
    """Whether the query gives the same answer over the same rows, as far as Catalyst can tell.

    A LIMIT or a sample takes any rows, ``_metadata`` tells of files, and the user's name depends on who asks.
    """
    plan = query._jdf.queryExecution().analyzed()
    if any(class_name(node) in ANY_ROWS for node in walk(plan)):
        return False
    return all(e.deterministic() and not _asks_outside(e) for e in expressions(plan))


def _asks_outside(expression: Any) -> bool:
    kind = class_name(expression)
    return kind in OUTSIDE or (kind == "AttributeReference" and str(expression.name()).lower() == "_metadata")


def foreign_changes(
    session: SparkSession, state: State | None, window: Window, known: Coverage
) -> tuple[ForeignChange, ...] | None:
    """What was done to the target since the ledger last looked at it; None where its log does not tell.

    Every commit that is not in the ledger counts: one of ours whose report was lost proves nothing either.
    """
    if state is None or known.target_version is None or known.target_id != state.table_id:
        return ()
    return _changes(session, state, window, known.target_version, state.version)


def _changes(
    session: SparkSession, state: State, window: Window, after: int, upto: int
) -> tuple[ForeignChange, ...] | None:
    commits = read_commits(session, state.path, after, upto) if upto >= after else None
    if commits is None:
        return None
    of_target = {field.name.lower(): spark_type(field.dataType.simpleString()) for field in state.schema}
    # A column that the query gives in another type is written in the log as the table has it: '10' before '9'.
    types = {name: text for name, text in window.types.items() if of_target.get(name.lower()) == spark_type(text)}
    layout = layout_of(types, state.schema, state.partition_columns)
    return tuple(
        ForeignChange(commit.version, commit.operation, touched([commit], layout))
        for commit in commits
        if commit.changes_rows or commit.replaces_table or commit.changes_metadata
    )


def source_commits(
    session: SparkSession, path: str | None, before: Pin, now: Pin
) -> tuple[LogCommit, ...] | SourceChange:
    """The commits that changed rows of a source between two versions, or what makes them say nothing of it."""
    if before.version > now.version:
        return SourceChange(Reason.SOURCE_REPLACED, {"cause": "it is at an earlier version than it was"})
    commits = None if path is None else read_commits(session, path, before.version, now.version)
    if commits is None:
        return SourceChange(
            Reason.SOURCE_HISTORY_UNAVAILABLE, {"cause": "its log does not reach back to that version any more"}
        )
    for commit in commits:
        if commit.replaces_table or commit.changes_metadata:
            reason = Reason.SOURCE_REPLACED if commit.replaces_table else Reason.SOURCE_CHANGED
            return SourceChange(reason, {"operation": commit.operation, "version": commit.version})
    return tuple(commit for commit in commits if commit.changes_rows)


def entry(
    session: SparkSession,
    facts: Facts,
    promised: Promise,
    window: Window,
    state: State,
    commit: Commit | None,
    run_id: str,
) -> Entry:
    """What a run that ended well proves of its target.

    :param state: the target as it was when the decision was taken
    :param commit: what the run wrote; None for a NO_OP
    """
    return proven(
        facts,
        promised,
        run_id=run_id,
        target_id=state.table_id,
        decided_at=state.version,
        target_version=state.version if commit is None else commit.version,
        late=_late(session, state, window, commit),
    )


def _late(session: SparkSession, state: State, window: Window, commit: Commit | None) -> tuple[Region | None, ...]:
    """What others changed between the decision and the commit."""
    if commit is None or commit.version == state.version + 1:
        return ()
    return regions(_changes(session, state, window, state.version, commit.version - 1))


def estimate(target: Target, replaced: str | None) -> dict[str, int | None]:
    """How much of the target a run would touch, at most: by Delta's own data skipping, without a look at the rows.

    :param replaced: what would be replaced, as SQL; None for nothing
    """
    if replaced is None:
        return {"files": 0, "rows": 0, "bytes": 0}
    return scanned(target.frame().where(replaced))
