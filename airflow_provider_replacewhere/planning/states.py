"""What is known of some rows of a target, and the runs that it is known from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.coverage import Entry
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.predicates.region import Region


class State(StrEnum):
    """What is known of some rows, the most urgent first."""

    RUNNING = "running"
    FAILED = "failed"
    FOREIGN = "foreign change"
    STALE = "stale"
    MISSING = "missing"
    UNCHECKED = "unchecked"
    FRESH = "fresh"


MEANINGS: Mapping[State, str] = {
    State.FRESH: "the last run that looked proved it equal to the query",
    State.UNCHECKED: "was proven over older versions of the sources; no run has looked since newer ones were seen",
    State.STALE: "not proven: computed by another definition, undone, or by a run that proves nothing",
    State.MISSING: "no run that the ledger knows of has covered it",
    State.RUNNING: "a run holds it and is writing",
    State.FOREIGN: "somebody else changed it, and no run has repaired it",
    State.FAILED: "the last try failed, and the table is as it was",
}


@dataclass(frozen=True)
class Ended:
    """A run that has ended, as far as a map needs it.

    :param number: its number in the ledger, where its page is found
    :param order: the sequence number of its end
    :param at: when it ended, ISO 8601 in UTC
    :param report: None where it failed or was lost
    :param window: of one that failed or was lost, what it was to replace; None: not known
    :param error: of such a one, why, in a line
    """

    run_id: str
    number: int
    order: int
    at: str
    report: RunReport | None = None
    window: Region | None = None
    error: str | None = None

    @cached_property
    def entry(self) -> Entry | None:
        """What it proves; None where its report does not say, or cannot be read."""
        if self.report is None or self.report.coverage is None:
            return None
        try:
            return Entry.from_json(self.report.coverage)
        except (AttributeError, LookupError, PredicateError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Writing:
    """A run that holds a lease and is not known to have ended.

    :param since: when it was granted, ISO 8601 in UTC
    :param words: the run in words
    """

    run_id: str
    region: Region
    since: str
    words: str


@dataclass(frozen=True)
class Fact:
    """One thing that is known of some rows.

    :param why: in words, without the state
    :param run_id: the run that it is known from
    :param number: that run's number in the ledger; None where the page has not read so far back
    :param at: when, ISO 8601 in UTC
    :param sources: by name, the versions over which the rows were computed
    """

    state: State
    why: str
    run_id: str | None = None
    number: int | None = None
    at: str | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
