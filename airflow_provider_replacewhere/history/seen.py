"""The ledger's runs and leases as the map of a table needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from airflow_provider_replacewhere.errors import HistoryRowError, PredicateError
from airflow_provider_replacewhere.history.leases import Lease, LeaseState
from airflow_provider_replacewhere.history.records import EventKind, Run, RunStatus
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.states import Ended, Writing
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.region import Region


def report_of(run: Run) -> RunReport | None:
    """What a run did; None where it did not end well, or its row cannot be read."""
    try:
        return run.report
    except HistoryRowError:
        return None


def ended(runs: Sequence[Run]) -> tuple[Ended, ...]:
    """Those runs of one target that have ended, the newest end first."""
    reports = {run.run_id: report_of(run) for run in runs}
    # What a failed run was to replace is told by its predicate; the types of its columns only by reports of others.
    known = next((report for report in reports.values() if report is not None and report.window_types), None)
    types = dict(known.window_types) if known else {}
    zone = known.time_zone if known else "UTC"
    found = []
    for run in runs:
        end = next((event for event in run.events if event.kind == str(run.status)), None)
        if run.status is RunStatus.RUNNING or end is None or end.recorded_at is None:
            continue
        report, is_well = reports[run.run_id], run.status is RunStatus.SUCCEEDED
        if is_well and report is None:
            continue
        message = str((run.error or {}).get("message") or run.status).splitlines()
        found.append(
            Ended(
                run_id=run.run_id,
                number=run.sequence,
                order=end.sequence,
                at=_ended_at(end.recorded_at, report),
                report=report,
                window=None if is_well else _window(run, types, zone),
                error=None if is_well else message[0] if message else str(run.status),
            )
        )
    return tuple(sorted(found, key=lambda each: -each.order))


def writing(leases: Iterable[Lease]) -> tuple[Writing, ...]:
    """The leases of runs that write now; those who wait do not."""
    return tuple(
        Writing(lease.run_id, lease.region, lease.acquired_at.isoformat(timespec="seconds"), lease.run)
        for lease in leases
        if lease.state is not LeaseState.WAITING
    )


def _ended_at(recorded: datetime, report: RunReport | None) -> str:
    """When a run ended by its own word: what a table's log tells of a lost run is recorded long after."""
    try:
        said = datetime.fromisoformat(report.finished_at) if report else recorded
    except ValueError:
        said = recorded
    return (said if said.tzinfo else recorded).astimezone(UTC).isoformat(timespec="seconds")


def _window(run: Run, types: Mapping[str, str], zone: str) -> Region | None:
    """What a run that did not end well was to replace; None where nothing tells."""
    begun = next((event for event in run.events if event.kind == EventKind.STARTED), None)
    if begun is None:
        return None
    try:
        if begun.window is not None:
            return parse_predicate(begun.window, types, zone)
        if begun.predicate is not None and begun.as_of is not None:
            return parse_predicate(begun.predicate, types, zone, datetime.fromisoformat(begun.as_of))
    except (PredicateError, ValueError):
        pass
    return None
