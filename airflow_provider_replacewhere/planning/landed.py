"""Our runs as a target's own log tells them: every commit carries the report and the promise of its run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from airflow_provider_replacewhere.errors import PredicateError, RequestError
from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Coverage
from airflow_provider_replacewhere.planning.promise import Promise
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates.region import Region

METADATA_VERSION = 1

_LEFT_OUT = ("lineage", "nulls", "coverage", "estimate", "dry_run")
"""Parts of a report that a commit does not carry: what can be asked again, and what only a plan has."""

Touched: TypeAlias = Callable[[LogCommit, Mapping[str, str]], Region | None]
"""The rows that a commit may have changed, by columns with their Spark types; None: any row."""


@dataclass(frozen=True)
class Landed:
    """One of our commits.

    :param report: of its run, with what the commit says of itself, but without what it proves
    :param identity: the task that ran it
    """

    report: RunReport
    promise: Promise
    identity: Identity

    @property
    def version(self) -> int:
        assert self.report.target_version is not None
        return self.report.target_version


@dataclass(frozen=True)
class Counts:
    """What Delta says that one commit did; None where it does not."""

    rows_deleted: int | None
    rows_written: int | None
    bytes_written: int | None


def metadata_of(report: RunReport, promised: Promise, identity: Identity) -> str:
    """What a commit says of itself, so that the log alone tells which run wrote it, from what, and what it proves.

    :param report: as it stands before the commit
    """
    value = {name: part for name, part in report.to_json().items() if name not in _LEFT_OUT}
    value |= {"version": METADATA_VERSION, "promise": promised.to_json(), "identity": asdict(identity)}
    return json.dumps({"replacewhere": value}, sort_keys=True)


def landed(commit: LogCommit) -> Landed | None:
    """The run that a commit is of; None where it is none of ours, or not of this version of the package."""
    try:
        value = dict(json.loads(commit.user_metadata or "")["replacewhere"])
        if value.pop("version") != METADATA_VERSION:
            return None
        promised, identity = Promise.from_json(value.pop("promise")), Identity(**value.pop("identity"))
        counts = counts_of(commit)
        report = replace(
            RunReport.from_json(value),
            target_version=commit.version,
            rows_deleted=counts.rows_deleted,
            rows_written=counts.rows_written,
            bytes_written=counts.bytes_written,
            finished_at=_instant(commit.info["timestamp"]),
        )
    except (AttributeError, LookupError, PredicateError, RequestError, TypeError, ValueError):
        return None
    return Landed(report, promised, identity)


def counts_of(commit: LogCommit) -> Counts:
    """How many rows a commit deleted and wrote."""
    metrics = commit.info.get("operationMetrics", {})

    def number(name: str) -> int | None:
        # A commit without any file wrote and deleted nothing, and Delta gives it no metrics.
        return int(metrics[name]) if name in metrics else None if commit.changes_rows else 0

    written, copied = number("numOutputRows"), number("numCopiedRows")
    return Counts(
        rows_deleted=number("numDeletedRows"),
        # Rows that shared a file with the window are written again; Delta counts them among the output.
        rows_written=None if written is None else written - (copied or 0),
        bytes_written=number("numOutputBytes"),
    )


@dataclass(frozen=True)
class Replay:
    """What a target's log says beyond what was known of the target.

    :param coverage: with our own commits folded in
    :param runs: those commits, in their order, each with what it proves in its report
    :param rest: the other commits that touch the table and came after the last of ours
    """

    coverage: Coverage
    runs: tuple[Landed, ...]
    rest: tuple[LogCommit, ...]


def replay(known: Coverage, table_id: str, commits: Iterable[LogCommit], touched: Touched) -> Replay:
    """Fold our own commits into what is known of a target.

    :param known: what is known up to the version before the first of the commits; nothing where it is about another
        table
    :param commits: successive ones, none missing, up to the table's newest version
    """
    coverage = known if known.target_id == table_id else Coverage(sequence=known.sequence)
    runs: list[Landed] = []
    rest: list[LogCommit] = []
    seen: list[LogCommit] = []
    for commit in commits:
        run = landed(commit)
        if run is None or run.promise.target_id != table_id:
            seen.append(commit)
            rest += [commit] if commit.touches_table else []
            continue
        decided_at, types = run.promise.decided_at, run.report.window_types
        late = [touched(other, types) for other in seen if other.version > decided_at and other.touches_table]
        since, before = run.promise.since, run.promise.foreign
        if coverage.target_version is not None:
            since = coverage.target_version
            before = tuple(touched(other, types) for other in rest if other.version <= decided_at)
        promised = replace(run.promise, since=since, foreign=before)
        proof = promised.proven(run.report.run_id, commit.version, late)
        coverage = coverage.with_entry(proof)
        runs.append(replace(run, report=replace(run.report, coverage=proof.to_json())))
        rest = []
        seen.append(commit)
    return Replay(coverage, tuple(runs), tuple(rest))


def adopted(report: RunReport, run_id: str) -> RunReport:
    """The report of a run whose commit an earlier try of it had made.

    It proves nothing: that try's own record does, in its place among the commits.

    :param report: of that try
    """
    return replace(report, run_id=run_id, adopted=report.run_id, coverage=None)


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
