"""What runs tell Airflow's metrics. Every name comes from a short list: no table, Dag or run is in any of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow.providers.common.compat.sdk import Stats

from airflow_provider_replacewhere.errors import kinds_of_errors
from airflow_provider_replacewhere.planning.decide import Reason
from airflow_provider_replacewhere.planning.events import fell_back
from airflow_provider_replacewhere.planning.report import JobOutcome, RunReport

PREFIX = "replacewhere"

# The outcome was written elsewhere: what it names that nobody knows shares one name.
_OTHER = "other"
_REASONS = {*map(str, Reason), "UNDO_REQUESTED"}


@dataclass(frozen=True)
class Counted:
    """One number: a counter's, or milliseconds of a timer."""

    name: str
    count: int | timedelta

    def emit(self) -> None:
        """Tell Airflow."""
        name = f"{PREFIX}.{self.name}"
        if isinstance(self.count, timedelta):
            Stats.timing(name, self.count)
        else:
            Stats.incr(name, self.count)


def counted(outcome: JobOutcome, *, without_spark: bool, waited_seconds: float) -> list[Counted]:
    """The numbers of one application. Plans do nothing, and are not counted.

    :param without_spark: whether the worker could tell that there was nothing to do
    :param waited_seconds: how long the application waited for other runs
    """
    found = [each for report in outcome.reports if not report.dry_run for each in _of_run(report)]
    if without_spark:
        found.append(Counted("without_spark", sum(not report.dry_run for report in outcome.reports)))
    errors = [*(failure.error for failure in outcome.failures), *([outcome.error] if outcome.error else ())]
    found += [Counted(f"failures.{_known(str(error.get('type')), kinds_of_errors())}", 1) for error in errors]
    if waited_seconds:
        found += [Counted("lease.waits", 1), Counted("lease.waited", timedelta(seconds=waited_seconds))]
    return [each for each in found if each.count]


def _of_run(report: RunReport) -> Iterator[Counted]:
    yield Counted(f"runs.{report.mode.lower()}", 1)
    for code in dict.fromkeys(str(reason["reason"]) for reason in report.reasons):
        yield Counted(f"reasons.{_known(code, _REASONS)}", 1)
    if fell_back(report):
        yield Counted("fallbacks_to_full", 1)
    if report.adopted is not None:
        yield Counted("adopted", 1)  # its rows were counted by the try that wrote them
        return
    if report.replaced is not None:
        yield Counted("rows.deleted", report.rows_deleted or 0)
        yield Counted("rows.written", report.rows_written or 0)
        yield Counted("rows.unchanged", report.rows_unchanged or 0)
        yield Counted("bytes.written", report.bytes_written or 0)
    yield Counted("duration", datetime.fromisoformat(report.finished_at) - datetime.fromisoformat(report.started_at))


def _known(name: str, names: set[str]) -> str:
    return name.lower() if name in names else _OTHER
