"""Undoing a run: the region that it replaced is put back as it was before, in one commit, with a record of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from airflow_provider_replacewhere.errors import RegionHeldError, ReplaceWhereError, RequestError, UndoRefusedError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.landed import metadata_of
from airflow_provider_replacewhere.planning.leasing import Leases, NoLeases, Overlapped, Permit
from airflow_provider_replacewhere.planning.promise import Promise
from airflow_provider_replacewhere.planning.report import Found, Mode, RunReport
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.errors import causes, in_short
from airflow_provider_replacewhere.spark.freshness import coverage_of, estimate, late_changes
from airflow_provider_replacewhere.spark.landed import Look, look, touched_in
from airflow_provider_replacewhere.spark.log import commit_text, read_commits
from airflow_provider_replacewhere.spark.target import EVERYTHING, State, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.planning.request import RunRequest

# The form in which a report says that a run replaced the whole table.
WHOLE_TABLE = "TRUE"


def undo(session: SparkSession, request: RunRequest, found: list[Found], leases: Leases = NoLeases()) -> RunReport:
    """Put back what the run that a request names has replaced.

    The region counts as stale afterwards, so that the flow's next run recomputes it.

    :param found: takes the runs that the ledger does not know
    :param leases: who is asked for the region
    :raises RequestError: the run wrote nothing
    :raises UndoRefusedError: the table is another one by now, what was there before is gone, or the region was changed
        since and the request does not force it
    """
    assert request.undo is not None
    run = RunReport.from_json(request.undo.report)
    if run.replaced is None or run.target_version is None or run.mode is Mode.NO_OP:
        raise RequestError(f"The run {run.run_id} of {run.flow} wrote nothing, so that there is nothing to undo.")
    if request.dry_run:
        return _undo(session, request, run, found, lambda: None)
    region = _region(run) or Region.everything()
    with leases.holding(run.target, run.flow, f"{request.run_id}/{run.flow}", region) as held:
        if isinstance(held, Overlapped):
            raise RegionHeldError(f"Another run stands in the way.\n{held.holders}")
        return _undo(session, request, run, found, held)


def _undo(session: SparkSession, request: RunRequest, run: RunReport, found: list[Found], permit: Permit) -> RunReport:
    assert request.undo is not None
    started, force = datetime.now(UTC).isoformat(), request.undo.force
    directory = DirectoryCatalog(request.root) if request.root else None
    target = Target.at(session, TableName.parse(run.target), directory)
    state = _same_table(session, target, run)
    seen = look(session, state, coverage_of(request.coverage.get(run.target)))
    found.extend(Found(each.report, each.identity) for each in seen.runs)
    changed_since = _changed_since(session, state, run)
    if changed_since and not force:
        raise UndoRefusedError(
            f"{run.replaced} of {run.target} was changed after the run {run.run_id}: {_listed(changed_since)}.",
            hint="Undo the later runs first, or force it: what they wrote into that region is lost then.",
        )
    before = _before(session, state, run)
    assert run.replaced is not None
    where = EVERYTHING if run.replaced == WHOLE_TABLE else run.replaced
    report = _report(request, run, state, started, tuple(commit.version for commit in changed_since))
    if request.dry_run:
        return replace(report, estimate=estimate(target, where))
    promised = _promise(seen, run, state)
    permit()
    metadata = metadata_of(report, promised, request.identity)
    try:
        commit = target.replace(before.where(where), where, token=report.token, metadata=metadata, new_columns=False)
    except ReplaceWhereError as error:
        if not any("FileNotFoundException" in cause for cause in causes(error.__cause__ or error)):
            raise
        raise UndoRefusedError(
            f"The run {run.run_id} cannot be undone: files of {run.target} as it was before are gone.",
            hint="VACUUM removed them. Put the rows back by other means, or recompute them with a backfill.",
        ) from error
    late = late_changes(session, state, run.window_types, commit.version)
    return replace(
        report,
        target_version=commit.version,
        rows_deleted=commit.rows_deleted,
        rows_written=commit.rows_written,
        bytes_written=commit.bytes_written,
        coverage=promised.proven(report.run_id, commit.version, late).to_json(),
        finished_at=datetime.now(UTC).isoformat(),
    )


def _same_table(session: SparkSession, target: Target, run: RunReport) -> State:
    state = target.state()
    version = run.target_version
    assert version is not None
    text = None if state is None else commit_text(session, state.path, version)
    if state is None or text is None or parse_commit(version, text).token != run.token:
        cause = "is gone" if state is None else f"does not have that run's commit {version} in its log any more"
        raise UndoRefusedError(
            f"The run {run.run_id} cannot be undone: {run.target} {cause}.",
            hint="Restore it by other means: a backup, or RESTORE TABLE … TO VERSION AS OF a version it still has.",
        )
    return state


def _changed_since(session: SparkSession, state: State, run: RunReport) -> Sequence[LogCommit]:
    """The commits after the run's own that may have changed what it replaced."""
    assert run.target_version is not None
    commits = read_commits(session, state.path, run.target_version, state.version)
    if commits is None:
        raise UndoRefusedError(
            f"The run {run.run_id} cannot be undone: the log of {run.target} does not tell what happened since.",
            hint="Compare the table with its version before, and put rows back by hand.",
        )
    changed, region = touched_in(state), _region(run)
    return [
        commit for commit in commits if commit.touches_table and _overlap(region, changed(commit, run.window_types))
    ]


def _region(run: RunReport) -> Region | None:
    """What the run replaced; None: the whole table."""
    assert run.replaced is not None
    return None if run.replaced == WHOLE_TABLE else parse_predicate(run.replaced, dict(run.window_types))


def _overlap(one: Region | None, other: Region | None) -> bool:
    return one is None or other is None or not one.intersect(other).is_empty


def _before(session: SparkSession, state: State, run: RunReport) -> DataFrame:
    """The table as it was before the run, in the columns that it has now."""
    assert run.target_version is not None
    version = run.target_version - 1
    try:
        frame = session.read.format("delta").option("versionAsOf", str(version)).load(state.path)
    except PySparkException as error:
        raise UndoRefusedError(
            f"The run {run.run_id} cannot be undone: version {version} of {run.target} is gone: {in_short(error)}",
            hint="Its log was cleaned (delta.logRetentionDuration). Put the rows back by other means.",
        ) from error
    had = {field.name.lower(): field.dataType for field in frame.schema}
    has = {field.name.lower(): field.dataType for field in state.schema}
    if changed := [name for name, type_ in had.items() if has.get(name) != type_]:
        raise UndoRefusedError(
            f"The run {run.run_id} cannot be undone: {', '.join(changed)} of {run.target} was dropped or has another "
            f"type since version {version}.",
            hint=f"Restore the whole table instead: RESTORE TABLE … TO VERSION AS OF {version}.",
        )
    return frame.selectExpr(
        *(
            name if field.name.lower() in had else f"CAST(NULL AS {field.dataType.simpleString()}) AS {name}"
            for field, name in ((field, TableName((field.name,)).to_sql()) for field in state.schema)
        )
    )


def _report(request: RunRequest, run: RunReport, state: State, started: str, over: tuple[int, ...]) -> RunReport:
    assert run.replaced is not None
    reason = {"reason": "UNDO_REQUESTED", "run_id": run.run_id, "version": run.target_version}
    return replace(
        run,
        run_id=f"{request.run_id}/{run.flow}",
        mode=Mode.UNDO,
        reasons=({**reason, "over_versions": list(over)} if over else reason,),
        window=run.replaced,
        as_of=request.as_of.astimezone(UTC).isoformat(),
        override=True,
        predicate=run.replaced,
        source_versions={},
        target_version=state.version,
        rows_deleted=None,
        rows_written=None,
        rows_unchanged=None,
        bytes_written=None,
        planning_information={},
        token=request.token(run.flow, f"undo {run.token}", run.definition_hash),
        started_at=started,
        finished_at=started,
        evaluated={},
        expectations={},
        columns_added=(),
        fresh=None,
        coverage=None,
        lineage=None,
        nulls=None,
        fingerprint=None,
        unwatched=None,
        adopted=None,
        dry_run=request.dry_run,
    )


def _promise(seen: Look, run: RunReport, state: State) -> Promise:
    """The undone region is proven to be nothing; the rest of the table is as it was."""
    region = _region(run)
    bound = Region.everything() if region is None else region.hull(64)
    known = seen.coverage
    is_known = known.target_version is not None and known.target_id == state.table_id
    since = known.target_version if is_known and known.target_version is not None else state.version
    changes = seen.foreign(touched_in(state), run.window_types)
    return Promise(
        region=None,
        bound=bound,
        fresh=Region(),
        proves=False,
        definition_hash=run.definition_hash,
        sources={},
        target_id=state.table_id,
        decided_at=state.version,
        since=since,
        foreign=(None,) if changes is None else tuple(change.region for change in changes),
    )


def _listed(commits: Sequence[LogCommit]) -> str:
    return ", ".join(f"{commit.operation} at version {commit.version}" for commit in commits)
