"""What people and downstream tasks see of a run: log lines, the XCom value, the extra of an asset event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.words import impact, plain, why
from airflow_provider_replacewhere.text import printable

HEADLINES = {
    Mode.NO_OP: "nothing to do",
    Mode.INCREMENTAL: "replaced the stale part of its window",
    Mode.FULL_RECOMPUTE: "replaced its window",
    Mode.FULL_REFRESH: "replaced the whole table",
    Mode.UNDO: "put back what a run had replaced",
}


def request_lines(request: RunRequest, master: str) -> list[str]:
    """What is about to be asked of Spark."""
    what = ", ".join(request.select) or (request.arguments.target if request.arguments else "all flows")
    sources = ", ".join(document.name for document in request.documents) or "arguments"
    lines = [
        f"{'Planning' if request.dry_run else 'Running'} {what} from {sources} on {master}",
        f"  as of          {request.as_of.isoformat()} ({request.time_zone})",
    ]
    lines += [f"  override       {o.flow_name}: {printable(o.predicate_override)}" for o in request.overrides]
    if request.undo is not None:
        forced = ", forced" if request.undo.force else ""
        lines.append(f"  undo           {request.undo.report['run_id']}{forced}")
    if request.full_refresh:
        lines.append(f"  full refresh   {', '.join(request.full_refresh)}")
    return lines


def report_lines(report: RunReport) -> list[str]:
    """One run, readable at a glance."""
    headline = HEADLINES[report.mode]
    if report.dry_run and report.replaced is not None:
        headline = f"would have {headline}"
    lines = [f"{report.target}: {headline} ({report.mode})"]
    if report.adopted is not None:
        lines.append(f"  adopted        the commit of an earlier try, {report.adopted}: nothing was written again")
    lines.append(f"  why            {', '.join(why(report))}")
    lines.append(f"  window         {plain(report.window)}{'  (override)' if report.override else ''}")
    if report.replaced is not None and report.replaced != report.window:
        lines.append(f"  replaced       {plain(report.replaced)}")
    if report.fresh is not None:
        lines.append(f"  fresh          {plain(report.fresh)}")
    if (touches := impact(report)) is not None:
        lines.append(f"  touches        {touches}")
    if report.replaced is not None and not report.dry_run:
        same = f", {_count(report.rows_unchanged)} of them as they were" if report.rows_unchanged else ""
        lines.append(
            f"  rows           {_count(report.rows_deleted)} removed, {_count(report.rows_written)} written{same}"
        )
        lines.append(f"  version        {report.target_version}, token {report.token}")
    lines.append(f"  sources        {_versions(report)}")
    if report.columns_added:
        lines.append(f"  new columns    {', '.join(report.columns_added)}")
    lines += [
        f"  expectation    {name}: {found.get('violations')} rows break it ({found.get('action')})"
        for name, found in report.expectations.items()
        if found.get("violations")
    ]
    return lines


def failure_lines(failure: Failure) -> list[str]:
    """One run that failed; the error's text itself is raised."""
    return [f"{failure.target}: failed, the table is as it was ({failure.error.get('type')})"]


def xcom_value(outcome: JobOutcome, request: RunRequest) -> dict[str, Any]:
    """The small JSON value that the task returns; everything else is in the ledger under ``run_id``."""
    return {
        "run_id": outcome.run_id,
        "as_of": request.as_of.isoformat(),
        "dry_run": request.dry_run,
        "flows": {report.flow: _flow_value(report) for report in outcome.reports},
    }


def asset_extra(name: str, uri: str, reports: Sequence[RunReport]) -> dict[str, Any] | None:
    """The extra for one outlet's event; None when nothing was written that concerns it.

    An outlet that is called like a target, by its name or by the end of its URI, gets that target's run; any other
    outlet gets them all.
    """
    written = [report for report in reports if report.replaced is not None and not report.dry_run]
    own = [report for report in written if _is_named(report, name, uri)]
    others_are_named = any(_is_named(report, name, uri) for report in reports)
    concerned = own if others_are_named else written
    return {"replacewhere": [_event_value(report) for report in concerned]} if concerned else None


def _is_named(report: RunReport, name: str, uri: str) -> bool:
    target = report.target.replace("`", "").lower()
    return name.lower() == target or uri.lower().rstrip("/").endswith(f"/{target}")


def _event_value(report: RunReport) -> dict[str, Any]:
    value = report.to_json()
    return {key: value[key] for key in EVENT_KEYS}


def _flow_value(report: RunReport) -> dict[str, Any]:
    value = report.to_json()
    return {key: value[key] for key in FLOW_KEYS}


FLOW_KEYS = (
    "target",
    "run_id",
    "mode",
    "reasons",
    "window",
    "replaced",
    "fresh",
    "override",
    "rows_deleted",
    "rows_written",
    "rows_unchanged",
    "target_version",
    "source_versions",
    "token",
)
EVENT_KEYS = ("target", "run_id", "mode", "replaced", "rows_deleted", "rows_written", "target_version")


def _count(number: int | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"


def _versions(report: RunReport) -> str:
    return (
        ", ".join(name if version is None else f"{name}@{version}" for name, version in report.source_versions.items())
        or "none"
    )
