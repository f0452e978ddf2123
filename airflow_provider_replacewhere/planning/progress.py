"""How far backfills in chunks have come, as the reports of their chunks tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.saved import seconds
from airflow_provider_replacewhere.planning.states import Ended


@dataclass(frozen=True)
class Backfill:
    """One backfill in chunks, of one flow.

    :param id: the application that ran its last chunk
    :param done: how many chunks ended well; those that were fresh already count
    :param of: how many there are
    :param skipped: how many of those that are done were fresh already
    :param failed: how many failed
    :param rows: written by those that are done; None where counts are missing
    :param left: how long the rest takes if its chunks take as long as those that wrote; None where nobody can tell
    :param last: the newest of its runs
    """

    id: str
    flow: str
    target: str
    done: int
    of: int
    skipped: int
    failed: int
    rows: int | None
    left: timedelta | None
    last: Ended

    @property
    def is_done(self) -> bool:
        return self.done >= self.of

    def to_json(self) -> dict[str, Any]:
        return {
            "backfill": self.id,
            "flow": self.flow,
            "target": self.target,
            "done": self.done,
            "of": self.of,
            "skipped": self.skipped,
            "failed": self.failed,
            "rows_written": self.rows,
            "seconds_left": None if self.left is None else round(self.left.total_seconds()),
            "last_run": self.last.number,
            "last_at": self.last.at,
        }


def backfills(ended: Sequence[Ended]) -> tuple[Backfill, ...]:
    """The backfills that these runs were chunks of, the newest first."""
    found: dict[tuple[str, str], list[Ended]] = {}
    for run in sorted(ended, key=lambda run: -run.order):
        if run.report is not None and run.report.chunk is not None:
            found.setdefault((run.report.chunk.backfill, run.report.target), []).append(run)
    return tuple(_backfill(runs, ended) for runs in found.values())


def _backfill(runs: Sequence[Ended], all_runs: Sequence[Ended]) -> Backfill:
    newest = runs[0]
    report = newest.report
    assert report is not None
    assert report.chunk is not None
    # A later try of the task does what is missing: chunks are told apart by their number.
    chunks = {run.report.chunk.number: run.report for run in reversed(runs) if run.report and run.report.chunk}
    written = [each for each in chunks.values() if each.mode is not Mode.NO_OP]
    counts = [each.rows_written for each in written]
    known = [count for count in counts if count is not None]
    times = [took for each in written if (took := seconds(each)) is not None]
    of, done = report.chunk.of, len(chunks)
    mean = sum(times) / len(times) if times else None
    # A chunk that failed has no report that names it; its run's id begins with the application's.
    failed = [run for run in all_runs if run.report is None and run.run_id.startswith(f"{report.chunk.backfill}/")]
    return Backfill(
        id=report.chunk.backfill,
        flow=report.flow,
        target=report.target,
        done=done,
        of=of,
        skipped=done - len(written),
        failed=len(failed),
        rows=sum(known) if len(known) == len(counts) else None,
        left=None if mean is None or done >= of else timedelta(seconds=mean * (of - done)),
        last=newest,
    )
