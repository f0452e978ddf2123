"""What the ledger keeps: events, which are only ever added, and the runs that are folded from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any

from airflow_provider_replacewhere.errors import HistoryRowError, RequestError, RunLostError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.planning.report import Failure, RunReport
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.text import shown


class EventKind(StrEnum):
    """The kinds of event that this version writes.

    A ledger may hold other kinds, written by a later version; a fold passes over those that it does not know.
    """

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


class RunStatus(StrEnum):
    """What is known of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class Event:
    """One change in the state of one run.

    :param run_id: the run; a run has at most one event of each kind
    :param kind: one of :class:`EventKind`, or a kind of a later version
    :param flow: the flow's name
    :param target: the target as the flow spells it; see :func:`target_key` for comparing
    :param sequence: place in the ledger, in the order of the commits; 0 before it was recorded
    :param recorded_at: when it was recorded, UTC; None before that. For people: nothing is ordered by it
    :param identity: the task that ran it
    :param mode: how much of the target was replaced, a name of :class:`~..planning.report.Mode`
    :param window: the predicate with the run's clock put in, canonical SQL
    :param replaced: the part of the window that was written, canonical SQL
    :param predicate: the predicate as written
    :param override: whether that predicate was given for this run only
    :param as_of: the instant that the run's time functions saw, ISO 8601
    :param definition_hash: what the query was
    :param token: identity of the write, as in the commit
    :param target_version: the target's Delta version after the run
    :param error: of a failed or lost run, as :meth:`~..errors.ReplaceWhereError.to_json` gives it
    :param report: of a successful run, the whole report as JSON
    :param unreadable: why its error or report, which the ledger holds, cannot be read; None: both can
    """

    run_id: str
    kind: str
    flow: str
    target: str
    sequence: int = 0
    recorded_at: datetime | None = None
    identity: Identity = Identity()
    mode: str | None = None
    window: str | None = None
    replaced: str | None = None
    predicate: str | None = None
    override: bool | None = None
    as_of: str | None = None
    definition_hash: str | None = None
    token: str | None = None
    target_version: int | None = None
    error: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    unreadable: str | None = None

    @classmethod
    def of_report(cls, report: RunReport, identity: Identity = Identity()) -> Event:
        """The run ended well."""
        return cls(
            run_id=report.run_id,
            kind=EventKind.SUCCEEDED,
            flow=report.flow,
            target=report.target,
            identity=identity,
            mode=report.mode,
            window=report.window,
            replaced=report.replaced,
            predicate=report.predicate,
            override=report.override,
            as_of=report.as_of,
            definition_hash=report.definition_hash,
            token=report.token,
            target_version=report.target_version,
            report=report.to_json(),
        )

    @classmethod
    def of_failure(cls, failure: Failure, identity: Identity = Identity()) -> Event:
        """The run failed."""
        return cls(
            run_id=failure.run_id,
            kind=EventKind.FAILED,
            flow=failure.flow,
            target=failure.target,
            identity=identity,
            error=dict(failure.error),
        )

    @classmethod
    def of_lost(cls, run_id: str, flow: str, target: str, why: RunLostError, identity: Identity = Identity()) -> Event:
        """Nobody will end the run any more."""
        return cls(run_id=run_id, kind=EventKind.LOST, flow=flow, target=target, identity=identity, error=why.to_json())


@dataclass(frozen=True)
class Run:
    """One run of one flow: the fold of its events.

    :param sequence: place of its first event in the ledger; runs are listed and paged by it
    :param started_at: when its first event was recorded, UTC
    :param finished_at: when its end was recorded, UTC; None while it runs
    """

    run_id: str
    flow: str
    target: str
    status: RunStatus
    sequence: int
    started_at: datetime
    finished_at: datetime | None
    events: tuple[Event, ...]

    @property
    def report(self) -> RunReport | None:
        """What it did; None unless it succeeded.

        :raises HistoryRowError: the ledger's row was changed by hand, or is damaged
        """
        event = self._event(EventKind.SUCCEEDED)
        if event is None or (event.report is None and event.unreadable is None):
            return None
        if event.report is None:
            raise unreadable_row(event.sequence, event.run_id, f"its report {event.unreadable}")
        try:
            return RunReport.from_json(event.report)
        except RequestError as error:
            raise unreadable_row(event.sequence, event.run_id, error.message) from error

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Why it failed or how it was lost, as JSON; None unless it did."""
        if self.status not in (RunStatus.FAILED, RunStatus.LOST):
            return None
        event = self._event(EventKind(self.status))
        return event.error if event else None

    @property
    def identity(self) -> Identity:
        """The task that ran it."""
        return self.events[-1].identity

    def _event(self, kind: EventKind) -> Event | None:
        return next((event for event in self.events if event.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: what a person wants to see of a run, and its report or error whole."""
        report = self._event(EventKind.SUCCEEDED)
        return {
            "run_id": self.run_id,
            "flow": self.flow,
            "target": self.target,
            "status": str(self.status),
            "sequence": self.sequence,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "report": dict(report.report) if report and report.report else None,
            "error": dict(self.error) if self.error else None,
            **({"unreadable": unreadable} if (unreadable := self._unreadable) else {}),
        }

    @property
    def _unreadable(self) -> str | None:
        return next((event.unreadable for event in self.events if event.unreadable), None)


def unreadable_row(sequence: int, run_id: str, why: str) -> HistoryRowError:
    """A row of the ledger's events that cannot be read, and what to do about it.

    :param why: in words, as part of a sentence
    """
    return HistoryRowError(
        f"Row {sequence} of the history, of the run {shown(run_id)}, cannot be read: {why.rstrip('.')}.",
        hint=f"It was changed by hand, or is damaged. Delete the row with sequence {sequence} from "
        "replacewhere_events: what then is not proven any more is recomputed, and the target's own log tells the next "
        "run what was committed.",
    )


def fold(events: Iterable[Event]) -> list[Run]:
    """Runs from recorded events in any order, the newest run first."""
    in_order = sorted(events, key=attrgetter("run_id", "sequence"))
    runs = [_run(tuple(group)) for _, group in groupby(in_order, key=attrgetter("run_id"))]
    return sorted(runs, key=attrgetter("sequence"), reverse=True)


def _run(events: tuple[Event, ...]) -> Run:
    kinds = {event.kind: event for event in events}
    # A commit stays a commit, whatever became of the task that was to report it: success wins over failure, and what
    # the run said itself over what others thought of it.
    end = kinds.get(EventKind.SUCCEEDED) or kinds.get(EventKind.FAILED) or kinds.get(EventKind.LOST)
    first = events[0]
    assert first.recorded_at is not None
    return Run(
        run_id=first.run_id,
        flow=first.flow,
        target=first.target,
        status=RunStatus(end.kind) if end else RunStatus.RUNNING,
        sequence=first.sequence,
        started_at=first.recorded_at,
        finished_at=end.recorded_at if end else None,
        events=events,
    )


def target_key(target: str) -> str:
    """What all spellings of one target have in common: no letter case (paths keep theirs), no needless backticks."""
    return str(TableName(TableName.parse(target).key))
