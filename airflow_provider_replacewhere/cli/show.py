"""Results as people read them in a terminal: tables at most 100 characters wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.flows.lint import lint
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, Schedule
from airflow_provider_replacewhere.flows.reads import order, reads
from airflow_provider_replacewhere.history.leases import in_words
from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.words import impact, plain, why

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.leases import Lease
    from airflow_provider_replacewhere.history.records import Run
    from airflow_provider_replacewhere.planning.rebuild import Rebuilt

WIDTH = 100
_NARROWEST = 30


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """Rows below their headings. The last column is wrapped, numbers stand to the right.

    :param rows: texts; a line end in the last one starts a new line in its column
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    right = [_are_numbers([row[i] for row in rows]) for i in range(len(head) - 1)]
    rest = max(_NARROWEST, width - sum(widths) - 2 * len(widths))
    lines = []
    for row in (head, *rows):
        cells = [text.rjust(w) if r else text.ljust(w) for text, w, r in zip(row, widths, right, strict=False)]
        last = [piece for line in row[-1].split("\n") for piece in _wrapped(line, rest)]
        for number, piece in enumerate(last):
            front = cells if number == 0 else [" " * w for w in widths]
            lines.append("  ".join((*front, piece)).rstrip())
    return lines


def flows_as_json(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The flows in the order in which they run."""
    return [
        {
            "flow": flow.name,
            "target": str(flow.target),
            "replace_where": flow.replace_where.text,
            "reads": [str(name) for name in reads(flow)],
            "schedule": schedule(flow.table.schedule),
            "time_zone": flow.time_zone,
            "null_keys": flow.null_keys,
            "declared_at": flow.span.where if flow.span else None,
            "warnings": [str(warning) for warning in lint(Pipeline(flows=(flow,)))],
        }
        for flow in order(pipeline)
    ]


def flows_as_text(pipeline: Pipeline) -> list[str]:
    """The flows in the order in which they run."""
    flows = order(pipeline)
    count = f"{len(flows)} flows, in the order in which they run" if len(flows) > 1 else "1 flow"
    views = [str(view.name) for view in pipeline.views]
    rows = [
        [
            str(number),
            _flow_and_target(flow),
            schedule(flow.table.schedule) or "-",
            "\n".join((f"where {' '.join(flow.replace_where.text.split())}", f"reads {_names(reads(flow))}")),
        ]
        for number, flow in enumerate(flows, start=1)
    ]
    warnings = [line for warning in lint(pipeline) for line in ("", f"warning: {warning}")]
    return [f"{count}:", "", *table(["#", "flow", "schedule", "replaces"], rows), *_views(views), *warnings]


def schedule(value: Schedule | None) -> str | None:
    """A schedule as one writes it, without the word SCHEDULE."""
    if value is None:
        return None
    if value.cron is not None:
        return f"CRON '{value.cron}'" + (f" AT TIME ZONE '{value.time_zone}'" if value.time_zone else "")
    return f"EVERY {value.every} {value.unit}"


def outcome_as_text(outcome: JobOutcome, request: RunRequest) -> list[str]:
    """What one command did or, of a dry run, would do; errors are shown elsewhere, but for all after the first."""
    lines = [f"{'Plan as of' if request.dry_run else 'As of'} {request.as_of.isoformat()}", ""]
    if outcome.reports:
        counted = [] if request.dry_run else ["removed", "written", "version"]
        rows = [_report_row(report, counted=not request.dry_run) for report in outcome.reports]
        lines += table(["table", "mode", *counted, "window"], rows)
    lines += [_failure_line(failure) for failure in outcome.failures]
    lines += [line for failure in outcome.failures[1:] for line in ("", str(failure.error["message"]))]
    return lines


def runs_as_text(runs: Sequence[Run], url: str) -> list[str]:
    """Runs, one a row."""
    if not runs:
        return [f"The history at {url} has no such run."]
    head = ["run", "started (UTC)", "table", "outcome", "removed", "written", "window"]
    rows = [_run_row(run) for run in runs]
    return [*table(head, rows), "", "replacewhere history --run RUN shows one of them in detail."]


def run_as_text(run: Run) -> list[str]:
    """One run in detail."""
    lines = _fields(
        {
            "run": f"{run.sequence}, {run.run_id}",
            "flow": run.flow,
            "table": run.target,
            "status": str(run.status),
            "started": run.started_at.isoformat(sep=" ", timespec="seconds"),
            "finished": run.finished_at.isoformat(sep=" ", timespec="seconds") if run.finished_at else None,
            "task": _task(run),
            **(_report_fields(run.report) if run.report is not None else {}),
        }
    )
    if run.error is not None:
        lines += ["", str(run.error["message"])]
    return lines


def leases_as_text(leases: Sequence[Lease], url: str) -> list[str]:
    """Leases and those who wait for one, one a row."""
    if not leases:
        return [f"The history at {url} has no such lease: nobody is writing."]
    head = ["lease", "table", "state", "since (UTC)", "heard of", "until", "region"]
    return table(head, [_lease_row(lease) for lease in leases])


def rebuilt_as_json(found: Sequence[Rebuilt]) -> list[dict[str, Any]]:
    """What tables' logs told."""
    return [
        {
            "table": each.table,
            "runs": [run.report.to_json() for run in each.runs],
            "later_commits_of_others": [
                {"version": commit.version, "operation": commit.operation} for commit in each.others
            ],
        }
        for each in found
    ]


def rebuilt_as_text(found: Sequence[Rebuilt]) -> list[str]:
    """What tables' logs told, one table a row."""
    rows = [
        [
            each.table,
            _count(len(each.runs)),
            _count(each.runs[-1].version) if each.runs else "-",
            ", ".join(f"{commit.operation} at {commit.version}" for commit in each.others) or "-",
        ]
        for each in found
    ]
    return table(["table", "runs found", "last version", "commits of others since"], rows)


def broken_as_text(lease: Lease) -> list[str]:
    """A lease that was broken by hand."""
    return [
        f"Lease {lease.fence} on {lease.target} is broken: {in_words(lease.region)} is free.",
        f"It was that of {lease.run}, which can no longer commit under it.",
    ]


def _lease_row(lease: Lease) -> list[str]:
    return [
        str(lease.fence),
        lease.target,
        str(lease.state),
        lease.acquired_at.isoformat(sep=" ", timespec="seconds")[:19],
        lease.renewed_at.strftime("%H:%M:%S"),
        lease.expires_at.strftime("%H:%M:%S"),
        f"{in_words(lease.region)}\n{lease.run}",
    ]


def _report_row(report: RunReport, *, counted: bool) -> list[str]:
    notes = [plain(report.window) + (" (override)" if report.override else "")]
    if report.replaced is not None and report.replaced != report.window:
        notes.append(f"{'would replace' if report.dry_run else 'replaced'} {plain(report.replaced)}")
    if report.fresh is not None:
        notes.append(f"fresh {plain(report.fresh)}")
    notes.append("why " + ", ".join(why(report)))
    if (touches := impact(report)) is not None:
        notes.append(f"touches {touches}")
    notes += [f"new column {name}" for name in report.columns_added]
    notes += [
        f"{found['violations']} rows break {name} ({found['action']})"
        for name, found in report.expectations.items()
        if found["violations"]
    ]
    numbers = (report.rows_deleted, report.rows_written, report.target_version) if counted else ()
    counts = [_count(number) for number in numbers]
    return [report.target, str(report.mode), *counts, "\n".join(notes)]


def _run_row(run: Run) -> list[str]:
    report = run.report
    note = str(run.error["message"]).splitlines()[0] if run.error else ""
    return [
        str(run.sequence),
        run.started_at.isoformat(sep=" ", timespec="seconds")[:19],
        run.target,
        _outcome(run, report),
        _count(report.rows_deleted if report else None),
        _count(report.rows_written if report else None),
        plain(report.window) + (" (override)" if report.override else "") if report else note,
    ]


def _outcome(run: Run, report: RunReport | None) -> str:
    if report is None:
        return str(run.status)
    return f"{report.mode} (adopted)" if report.adopted else str(report.mode)


def _report_fields(report: RunReport) -> dict[str, str | None]:
    return {
        "as of": f"{report.as_of} ({report.time_zone})",
        "predicate": report.predicate + ("  (override)" if report.override else ""),
        "window": report.window,
        "mode": str(report.mode),
        "adopted": f"the commit of {report.adopted}; this try wrote nothing" if report.adopted else None,
        "why": "\n".join(why(report)),
        "replaced": report.replaced or "nothing",
        "fresh": report.fresh,
        "rows": f"{_count(report.rows_deleted)} removed, {_count(report.rows_written)} written",
        "bytes": _count(report.bytes_written),
        "version": _count(report.target_version),
        "sources": ", ".join(_source(name, version) for name, version in report.source_versions.items()) or "none",
        "others": _others(report),
        "new columns": ", ".join(report.columns_added) or None,
        "evaluated": "\n".join(f"{part} = {value}" for part, value in report.evaluated.items()) or None,
        "expectations": "\n".join(
            f"{name}: {found['violations']} rows break it ({found['action']})"
            for name, found in report.expectations.items()
        )
        or None,
        "definition": report.definition_hash,
        "token": report.token,
    }


def _others(report: RunReport) -> str | None:
    """The commits of other writers that the run came upon in its target's log."""
    target = report.planning_information.get("target_table_information") or {}
    commits = target.get("commits_of_others") or ()
    return ", ".join(f"{commit['operation']} at version {commit['version']}" for commit in commits) or None


def _fields(values: Mapping[str, str | None]) -> list[str]:
    """Names and values; values that are None are left out."""
    return table(["", ""], [[name, value] for name, value in values.items() if value is not None])[1:]


def _task(run: Run) -> str | None:
    task = run.identity
    if task.dag_id is None:
        return None
    return f"{task.dag_id}.{task.task_id}, {task.dag_run_id}, try {task.try_number}"


def _failure_line(failure: Failure) -> str:
    return f"{failure.target}: failed ({failure.error['type']}); the table is as it was"


def _source(name: str, version: int | None) -> str:
    return name if version is None else f"{name} at version {version}"


def _flow_and_target(flow: Flow) -> str:
    target = str(flow.target)
    return target if flow.name.lower() == target.lower() else f"{flow.name} into {target}"


def _views(names: Sequence[str]) -> list[str]:
    return ["", f"Views: {', '.join(names)}"] if names else []


def _names(values: Iterable[object]) -> str:
    return ", ".join(map(str, values)) or "nothing by name"


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False) or [""]


def _are_numbers(texts: Sequence[str]) -> bool:
    digits = [text.replace(",", "") for text in texts if text != "-"]
    return bool(digits) and all(map(str.isdigit, digits))


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
