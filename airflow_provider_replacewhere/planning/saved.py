"""What runs of one flow saved against recomputing the whole window each time, as far as their reports tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.states import Ended


@dataclass(frozen=True)
class Saved:
    """A comparison of runs with the last one that recomputed the whole window.

    :param runs: how many are compared
    :param seconds: what they took less, together; negative where they took more
    :param rows: what they wrote less, together; None where counts are missing
    :param against: the number of the run that recomputed the whole window
    """

    runs: int
    seconds: float
    rows: int | None
    against: int

    def to_json(self) -> dict[str, Any]:
        return {"runs": self.runs, "seconds": round(self.seconds, 3), "rows": self.rows, "against_run": self.against}


def saved(ended: Sequence[Ended]) -> Saved | None:
    """What the runs of the newest definition saved; None where none of them recomputed its whole window.

    Runs with a predicate of their own are left out: theirs are other windows.
    """
    regular = [
        (run, run.report)
        for run in sorted(ended, key=lambda run: -run.order)
        if run.report is not None and not run.report.override and run.report.adopted is None
    ]
    if not regular:
        return None
    same = [(run, report) for run, report in regular if report.definition_hash == regular[0][1].definition_hash]
    whole = next(((run, report) for run, report in same if report.mode is Mode.FULL_RECOMPUTE), None)
    seconds_of_whole = None if whole is None else seconds(whole[1])
    if whole is None or seconds_of_whole is None:
        return None
    less = [report for _, report in same if report.mode in (Mode.NO_OP, Mode.INCREMENTAL)]
    times = [seconds_of_whole - took for report in less if (took := seconds(report)) is not None]
    if not times:
        return None
    written = [0 if report.mode is Mode.NO_OP else report.rows_written for report in less]
    rows_of_whole = whole[1].rows_written
    counted = [rows_of_whole - n for n in written if n is not None and rows_of_whole is not None]
    return Saved(len(less), sum(times), sum(counted) if len(counted) == len(less) else None, whole[0].number)


def seconds(report: RunReport) -> float | None:
    """How long a run took, its Spark application's start not counted; None where its instants cannot be read."""
    try:
        took = datetime.fromisoformat(report.finished_at) - datetime.fromisoformat(report.started_at)
    except (TypeError, ValueError):
        return None
    return took.total_seconds()
