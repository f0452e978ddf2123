"""What the logs say about the run's tables: the look at the world on which the decision stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.decide import Decision, Facts, ForeignChange, Unchanged
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.touched import Layout, touched
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark.jvm import expressions
from airflow_provider_replacewhere.spark.log import read_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.spark.sources import Source
    from airflow_provider_replacewhere.spark.target import Commit, State
    from airflow_provider_replacewhere.spark.window import Window

PHYSICAL_NAME = "delta.columnMapping.physicalName"


def pins(sources: Iterable[Source]) -> dict[str, Pin | None]:
    """By name, the version at which each source is read; None for one that has no versions."""
    return {s.name: None if s.version is None else Pin(s.version, s.table_id) for s in sources}


def coverage_of(value: Mapping[str, Any] | None) -> Coverage:
    """The ledger's slice for one target; nothing is known where it is missing."""
    return Coverage() if value is None else Coverage.from_json(value)


def is_deterministic(query: DataFrame) -> bool:
    """Whether the query gives the same answer over the same rows, as far as Catalyst can tell."""
    return all(e.deterministic() for e in expressions(query._jdf.queryExecution().analyzed()))


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
    layout = Layout(
        types=window.types,
        partition_columns=frozenset(
            name
            for name in window.types
            if name.lower() in {partition.lower() for partition in state.partition_columns}
        ),
        physical={
            field.name: field.metadata[PHYSICAL_NAME] for field in state.schema if PHYSICAL_NAME in field.metadata
        },
    )
    return tuple(
        ForeignChange(commit.version, commit.operation, touched([commit], layout))
        for commit in commits
        if commit.changes_rows or commit.replaces_table or commit.changes_metadata
    )


def unchanged_in(session: SparkSession, sources: Iterable[Source]) -> Unchanged:
    """A test whether a source's rows are the same at two versions, as far as its log tells."""
    paths = {source.name: source.path for source in sources}
    answers: dict[tuple[str, Pin, Pin], bool] = {}

    def unchanged(name: str, before: Pin, now: Pin) -> bool:
        if before == now:
            return True
        key = (name, before, now)
        if key not in answers:
            path = paths.get(name)
            commits = None
            if path is not None and before.table_id == now.table_id and before.version < now.version:
                commits = read_commits(session, path, before.version, now.version)
            answers[key] = commits is not None and not any(
                c.changes_rows or c.replaces_table or c.changes_metadata for c in commits
            )
        return answers[key]

    return unchanged


def entry(
    session: SparkSession,
    facts: Facts,
    decision: Decision,
    window: Window,
    state: State,
    commit: Commit | None,
    run_id: str,
) -> Entry:
    """What a run that ended well proves of its target.

    :param state: the target as it was when the decision was taken
    :param commit: what the run wrote; None for a NO_OP
    """
    known = {name: pin for name, pin in facts.pins.items() if pin is not None}
    proves = (
        not facts.evaluated
        and facts.query_is_deterministic
        and len(known) == len(facts.pins)
        and window.region.is_exact
    )
    late = _late(session, state, window, commit)
    region: Region | None = window.region if window.region.is_exact else None
    if region is not None and decision.mode in (Mode.INCREMENTAL, Mode.NO_OP):
        # Only what was replaced was read at the commit's own version; the rest may have been changed in between.
        for change in late:
            region = region.subtract(decision.fresh if change is None else change.intersect(decision.fresh))
    return Entry(
        region=region,
        bound=window.region.hull(64),
        proves=proves,
        definition_hash=facts.definition_hash,
        sources=known,
        run_id=run_id,
        target_version=state.version if commit is None else commit.version,
        target_id=state.table_id,
        whole=decision.mode is Mode.FULL_REFRESH,
        foreign=(*_regions(facts.foreign), *late),
    )


def _late(session: SparkSession, state: State, window: Window, commit: Commit | None) -> tuple[Region | None, ...]:
    """What others changed between the decision and the commit."""
    if commit is None or commit.version == state.version + 1:
        return ()
    return _regions(_changes(session, state, window, state.version, commit.version - 1))


def _regions(changes: tuple[ForeignChange, ...] | None) -> tuple[Region | None, ...]:
    return (None,) if changes is None else tuple(change.region for change in changes)
