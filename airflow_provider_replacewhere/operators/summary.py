"""What people and downstream tasks see of a run: log lines, the XCom value, the extra of an asset event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.words import impact, plain, why
from airflow_provider_replacewhere.text import printable

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.leases import Lease

HEADLINES = {
    Mode.NO_OP: "nothing to do",
    Mode.INCREMENTAL: "replaced the stale part of its window",
    Mode.FULL_RECOMPUTE: "replaced its window",
    Mode.FULL_REFRESH: "replaced the whole table",
    Mode.UNDO: "put back what a run had replaced",
}
HEADLINES_OF_PLANS = {
    Mode.NO_OP: "nothing to do",
    Mode.INCREMENTAL: "would replace the stale part of its window",
    Mode.FULL_RECOMPUTE: "would replace its window",
    Mode.FULL_REFRESH: "would replace the whole table",
    Mode.UNDO: "would put back what a run had replaced",
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
    headline = (HEADLINES_OF_PLANS if report.dry_run else HEADLINES)[report.mode]
    chunk = f", chunk {report.chunk.number} of {report.chunk.of}" if report.chunk is not None else ""
    lines = [f"{report.target}{chunk}: {headline} ({report.mode})"]
    if report.chunk is not None and report.mode is Mode.NO_OP:
        return lines
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


def xcom_value(outcome: JobOutcome, request: RunRequest, leases: Sequence[Lease] = ()) -> dict[str, Any]:
    """The small JSON value that the task returns; everything else is in the ledger under ``run_id``.

    :param leases: of a plan, who is writing the targets now
    """
    return {
        "run_id": outcome.run_id,
        "as_of": request.as_of.isoformat(),
        "dry_run": request.dry_run,
        "flows": {flow: flow_value(reports) for flow, reports in _by_flow(outcome).items()},
        **({"plan": plan_text(outcome, leases)} if request.dry_run else {}),
    }


def plan_text(outcome: JobOutcome, leases: Sequence[Lease] = ()) -> str:
    """A plan for the person who is to approve it.

    :param leases: who is writing the targets now
    """
    lines: list[str] = []
    for report in outcome.reports:
        lines += report_lines(report)
        if cut := report.planning_information.get("chunks"):
            lines.append(f"  chunks         {len(cut):,}, from {plain(cut[0])} to {plain(cut[-1])}")
        lines += [f"  busy           {lease.run}" for lease in leases if lease.target.lower() == report.target.lower()]
    return "\n".join(lines)


def markdown_of_plan(plan: str) -> str:
    """What :func:`plan_text` gives, as a headline and a list for each flow.

    Airflow shows what it asks as Markdown. It makes one paragraph of plain lines, and of a block of code with a long
    line one that is so wide that the buttons for the answer are out of sight.
    """
    found = []
    for line in plan.splitlines():
        # Whatever is in names and values is shown as it is: in Markdown a backslash may stand before any punctuation.
        shown = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", line)
        name, _, value = shown.strip().partition("  ")
        found.append(f"- **{name}** {value.strip()}" if line.startswith("  ") else f"\n**{shown}**\n")
    return "\n".join(found).strip()


def parts(outcome: JobOutcome) -> list[dict[str, Any]]:
    """The chunks of a plan, each for a task of its own; the whole window where it is not cut."""
    found: list[dict[str, Any]] = []
    for report in outcome.reports:
        cut = report.planning_information.get("chunks") or [report.window]
        found += [
            {"flow": report.flow, "number": number, "of": len(cut), "predicate": sql}
            for number, sql in enumerate(cut, start=1)
        ]
    return found


def _by_flow(outcome: JobOutcome) -> dict[str, list[RunReport]]:
    found: dict[str, list[RunReport]] = {}
    for report in outcome.reports:
        found.setdefault(report.flow, []).append(report)
    return found


def asset_extra(name: str, uri: str, reports: Sequence[RunReport]) -> dict[str, Any] | None:
    """The extra for one outlet's event; None when nothing was written that concerns it.

    See :func:`concerned`.
    """
    found = concerned(name, uri, reports)
    return {"replacewhere": [_event_value(report) for report in found]} if found else None


def concerned(name: str, uri: str, reports: Sequence[RunReport]) -> list[RunReport]:
    """The runs that wrote something and that one outlet is about.

    An outlet that is called like a target, by its name or by the end of its URI, gets that target's run; any other
    outlet gets them all.
    """
    written = [report for report in reports if report.replaced is not None and not report.dry_run]
    if any(_is_named(report, name, uri) for report in reports):
        return [report for report in written if _is_named(report, name, uri)]
    return written


def _is_named(report: RunReport, name: str, uri: str) -> bool:
    target = report.target.replace("`", "").lower()
    return name.lower() == target or uri.lower().rstrip("/").endswith(f"/{target}")


def _event_value(report: RunReport) -> dict[str, Any]:
    value = report.to_json()
    return {key: value[key] for key in EVENT_KEYS}


def flow_value(reports: Sequence[RunReport]) -> dict[str, Any]:
    """What a flow's run did; of a backfill in chunks its last one, and sums over all."""
    last = reports[-1]
    value = last.to_json()
    found = {key: value[key] for key in FLOW_KEYS}
    if last.chunk is None:
        return found
    sums = {key: _sum(getattr(report, key) for report in reports) for key in ("rows_deleted", "rows_written")}
    nothing = sum(report.mode is Mode.NO_OP for report in reports)
    return {**found, **sums, "chunks": {"of": last.chunk.of, "ended_well": len(reports), "nothing_to_do": nothing}}


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


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
