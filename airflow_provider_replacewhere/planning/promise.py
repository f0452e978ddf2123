"""What a run proves of its target: promised when it is decided, proven when its commit stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.planning.coverage import Entry, Pin
from airflow_provider_replacewhere.planning.decide import Decision, Facts, ForeignChange
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.predicates.region import Region

MOST_RANGES = 64
"""A bound with more ranges than this is widened to its hull."""


@dataclass(frozen=True)
class Promise:
    """What a run proves of its target once its commit stands; it is written into the commit, so that the log keeps it.

    :param region: the window; None where it is no exact region
    :param bound: an exact region that holds the window
    :param fresh: the part of the window that is left alone, because it was proven fresh when the decision was taken
    :param proves: whether what the run writes may be called fresh later
    :param decided_at: the target's version when the decision was taken
    :param since: the version after which the decision looked at every commit of others
    :param foreign: what those commits changed: regions, or None for the whole table
    :param whole: whether everything outside the window is emptied, as a full refresh does
    """

    region: Region | None
    bound: Region
    fresh: Region
    proves: bool
    definition_hash: str
    sources: Mapping[str, Pin]
    target_id: str
    decided_at: int
    since: int
    foreign: tuple[Region | None, ...] = ()
    whole: bool = False

    def proven(self, run_id: str, target_version: int, late: Sequence[Region | None] = ()) -> Entry:
        """What the run has proven, once it has ended well.

        :param target_version: the target's version now: that of the run's commit, or for a NO_OP ``decided_at``
        :param late: what others changed between the two
        """
        region = self.region
        if region is not None:
            # Only what was replaced was read at the commit's own version; the rest may have been changed in between.
            for change in late:
                region = region.subtract(self.fresh if change is None else change.intersect(self.fresh))
        return Entry(
            region=region,
            bound=self.bound,
            proves=self.proves,
            definition_hash=self.definition_hash,
            sources=self.sources,
            run_id=run_id,
            target_version=target_version,
            target_id=self.target_id,
            whole=self.whole,
            foreign=(*self.foreign, *late),
            since=self.since,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "region": None if self.region is None else self.region.to_json(),
            "bound": self.bound.to_json(),
            "fresh": self.fresh.to_json(),
            "proves": self.proves,
            "definition_hash": self.definition_hash,
            "sources": {name: pin.to_json() for name, pin in self.sources.items()},
            "target_id": self.target_id,
            "decided_at": self.decided_at,
            "since": self.since,
            "foreign": [None if region is None else region.to_json() for region in self.foreign],
            "whole": self.whole,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Promise:
        """:raises (LookupError, TypeError, ValueError, AttributeError, PredicateError): it is none"""
        if not isinstance(value["proves"], bool) or not isinstance(value["whole"], bool):
            raise TypeError("proves or whole is no BOOLEAN")
        for name in ("decided_at", "since"):
            if not isinstance(value[name], int) or isinstance(value[name], bool):
                raise TypeError(f"{name} is no number")
        return cls(
            **{
                **value,
                "region": None if value["region"] is None else Region.from_json(value["region"]),
                "bound": Region.from_json(value["bound"]),
                "fresh": Region.from_json(value["fresh"]),
                "sources": {name: Pin.from_json(pin) for name, pin in value["sources"].items()},
                "foreign": tuple(None if region is None else Region.from_json(region) for region in value["foreign"]),
            }
        )


def promise(facts: Facts, decision: Decision, target_id: str, decided_at: int) -> Promise:
    """What the run will have proven.

    :param target_id: of the target, which by now exists
    :param decided_at: its version when the decision was taken
    """
    pins = {name: pin for name, pin in facts.pins.items() if pin is not None}
    exact = facts.region.is_exact
    known = facts.coverage
    looked_back = known.target_version if known.target_id == target_id else None
    return Promise(
        region=facts.region if exact else None,
        bound=facts.region.hull(MOST_RANGES),
        fresh=decision.fresh if decision.mode in (Mode.INCREMENTAL, Mode.NO_OP) else Region(),
        proves=exact and not facts.evaluated and facts.query_is_deterministic and len(pins) == len(facts.pins),
        definition_hash=facts.definition_hash,
        sources=pins,
        target_id=target_id,
        decided_at=decided_at,
        since=decided_at if looked_back is None else looked_back,
        foreign=regions(facts.foreign),
        whole=decision.mode is Mode.FULL_REFRESH,
    )


def regions(changes: Sequence[ForeignChange] | None) -> tuple[Region | None, ...]:
    """What foreign changes touched; changes that nobody knows of may have touched anything."""
    return (None,) if changes is None else tuple(change.region for change in changes)
