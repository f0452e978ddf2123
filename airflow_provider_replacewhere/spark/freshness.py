"""What the logs say about the run's tables: the look at the world on which the decision stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Coverage, Pin
from airflow_provider_replacewhere.planning.decide import Reason, SourceChange
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark.jvm import Part, analysed
from airflow_provider_replacewhere.spark.landed import touched_in
from airflow_provider_replacewhere.spark.log import read_commits
from airflow_provider_replacewhere.spark.skipping import scanned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.spark.sources import Source
    from airflow_provider_replacewhere.spark.target import State, Target

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
    found = analysed(query)
    if any(part.kind in ANY_ROWS for part in found if not part.is_expression):
        return False
    return all(part.node.deterministic() and not _asks_outside(part) for part in found if part.is_expression)


def _asks_outside(expression: Part) -> bool:
    if expression.kind == "AttributeReference":
        return str(expression.node.name()).lower() == "_metadata"
    return expression.kind in OUTSIDE


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


def late_changes(
    session: SparkSession, state: State, types: Mapping[str, str], committed: int
) -> tuple[Region | None, ...]:
    """What others changed between the decision and the run's own commit: regions, or None for the whole table.

    :param state: the target as it was when the decision was taken
    :param types: of the columns that matter
    :param committed: the version of the run's commit
    """
    if committed == state.version + 1:
        return ()
    commits, changed = read_commits(session, state.path, state.version, committed - 1), touched_in(state)
    if commits is None:
        return (None,)
    return tuple(changed(commit, types) for commit in commits if commit.touches_table)


def estimate(target: Target, replaced: str | None) -> dict[str, int | None]:
    """How much of the target a run would touch, at most: by Delta's own data skipping, without a look at the rows.

    :param replaced: what would be replaced, as SQL; None for nothing
    """
    if replaced is None:
        return {"files": 0, "rows": 0, "bytes": 0}
    return scanned(target.frame().where(replaced))
