"""Which runs the ledger may forget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter


@dataclass(frozen=True)
class Outline:
    """As much of a run as decides whether it is kept.

    :param key: what the run is removed by
    :param target: the target's key
    :param sequence: place of its first event in the ledger
    :param last_at: when its last event was recorded, UTC
    :param succeeded_as: place of its success in the ledger; None unless it succeeded
    :param ended: whether it succeeded, failed or was lost
    """

    key: str
    target: str
    sequence: int
    last_at: datetime
    succeeded_as: int | None
    ended: bool


def forgettable(
    runs: Iterable[Outline], now: datetime, *, keep_days: float | None = None, keep_runs: int | None = None
) -> Set[str]:
    """Keys of the runs that neither limit keeps.

    What a next run decides by is never forgotten: runs that have not ended, and each target's last success.

    :param keep_days: keep runs whose last event is at most so many days old
    :param keep_runs: keep so many runs of each target, the newest
    """
    by_target: defaultdict[str, list[Outline]] = defaultdict(list)
    for run in runs:
        by_target[run.target].append(run)
    oldest = now - timedelta(days=keep_days) if keep_days is not None else None
    found: set[str] = set()
    for of_target in by_target.values():
        newest_first = sorted(of_target, key=attrgetter("sequence"), reverse=True)
        last_success = max((run.succeeded_as for run in of_target if run.succeeded_as is not None), default=None)
        for run in newest_first[keep_runs or 0 :]:
            is_recent = oldest is not None and run.last_at >= oldest
            is_needed = not run.ended or (run.succeeded_as is not None and run.succeeded_as == last_success)
            if not is_recent and not is_needed:
                found.add(run.key)
    return found
