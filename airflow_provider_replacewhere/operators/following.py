"""How far an application is, told and recorded while it runs: the driver writes its outcome anew as it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.planning.report import JobOutcome

if TYPE_CHECKING:
    from airflow_provider_replacewhere.planning.report import RunReport

LOCAL_SECONDS, REMOTE_SECONDS = 5.0, 15.0
"""Between two looks; each reads the whole outcome where it has changed."""

# How long the end of a task waits for a look that is under way.
_GOODBYE_SECONDS = 15.0


class Outcomes(Protocol):
    """The place of an application's outcome."""

    def outcome_so_far(self) -> JobOutcome | None:
        """What the driver has written by now; None where it is nothing new."""


@dataclass
class Progress:
    """How far the chunks of each flow are.

    :param clock: seconds that never go back
    """

    clock: Callable[[], float] = time.monotonic
    _began: dict[str, tuple[float, int]] = field(default_factory=dict)

    def lines(self, outcome: JobOutcome) -> list[str]:
        """A line for each flow that is being run in chunks and is not through yet."""
        last: dict[str, RunReport] = {report.flow: report for report in outcome.reports if report.chunk is not None}
        found = []
        for flow, report in last.items():
            assert report.chunk is not None
            number, of = report.chunk.number, report.chunk.of
            began, first = self._began.setdefault(flow, (self.clock(), number))
            if number == of:
                continue
            rows = sum(each.rows_written or 0 for each in outcome.reports if each.flow == flow)
            found.append(f"{flow}: chunk {number:,} of {of:,} is done, {rows:,} rows written")
            if number > first:
                left = (self.clock() - began) / (number - first) * (of - number)
                found[-1] += f", about {_in_words(left)} left"
        return found


def _in_words(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def following(
    outcomes: Outcomes,
    record: Callable[[JobOutcome], object],
    say: Callable[[list[str]], None],
    warn: Callable[[str], None],
    *,
    every_seconds: float = LOCAL_SECONDS,
) -> Iterator[None]:
    """Record and tell what an application has done so far, while the body waits for its end.

    Nothing depends on it: what cannot be read or recorded in between is recorded in the end.

    :param record: is given what is new, from another thread
    :param warn: told of the first look that failed
    """
    follower = _Follower(outcomes, record, say, warn, every_seconds)
    thread = threading.Thread(target=follower.run, name="progress of the application", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        # Nobody reads the outcome now; what is not in it yet is found in the tables' logs by the next run.
        follower.look_for_the_last_time = True
        raise
    finally:
        follower.stopped.set()
        thread.join(_GOODBYE_SECONDS)


@dataclass
class _Follower:
    outcomes: Outcomes
    record: Callable[[JobOutcome], object]
    say: Callable[[list[str]], None]
    warn: Callable[[str], None]
    every_seconds: float
    stopped: threading.Event = field(default_factory=threading.Event)
    progress: Progress = field(default_factory=Progress)
    look_for_the_last_time: bool = False
    _known: set[str] = field(default_factory=set)
    _has_failed: bool = False

    def run(self) -> None:
        while not self.stopped.wait(self.every_seconds):
            self._try_to_look()
        if self.look_for_the_last_time:
            self._try_to_look()

    def _try_to_look(self) -> None:
        try:
            self._look()
        except Exception as error:  # of the store, of the database, or of the letters: the end tells
            if not self._has_failed:
                self._has_failed = True
                text = str(error) if isinstance(error, ReplaceWhereError) else repr(error)
                self.warn(f"The progress of the application is not recorded now: {text}")

    def _look(self) -> None:
        outcome = self.outcomes.outcome_so_far()
        if outcome is None:
            return
        reports = tuple(report for report in outcome.reports if report.run_id not in self._known)
        failures = tuple(failure for failure in outcome.failures if failure.run_id not in self._known)
        if reports or failures:
            self.record(JobOutcome(outcome.run_id, reports, failures, found=outcome.found))
            self._known.update(report.run_id for report in reports)
            self._known.update(failure.run_id for failure in failures)
            self.say(self.progress.lines(outcome))
