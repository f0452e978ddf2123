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
    """

    region: Region | None
    bound: Region
    fresh: Region
    proves: bool
    sources: Mapping[str, Pin]
    whole: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "region": None if self.region is None else self.region.to_json(),
            "bound": self.bound.to_json(),
            "fresh": self.fresh.to_json(),
            "proves": self.proves,
            "sources": {name: pin.to_json() for name, pin in self.sources.items()},
            "whole": self.whole,
        }


def promise(facts: Facts, decision: Decision) -> Promise:
    """What the run will have proven."""
    known = {name: pin for name, pin in facts.pins.items() if pin is not None}
    exact = facts.region.is_exact
    return Promise(
        region=facts.region if exact else None,
        bound=facts.region.hull(MOST_RANGES),
        fresh=decision.fresh if decision.mode in (Mode.INCREMENTAL, Mode.NO_OP) else Region(),
        proves=exact and not facts.evaluated and facts.query_is_deterministic and len(known) == len(facts.pins),
        sources=known,
        whole=decision.mode is Mode.FULL_REFRESH,
    )


def proven(
    facts: Facts,
    promised: Promise,
    *,
    run_id: str,
    target_id: str,
    decided_at: int,
    target_version: int,
    late: Sequence[Region | None] = (),
) -> Entry:
    """What a run that ended well proves of its target.

    :param decided_at: the target's version when the decision was taken
    :param target_version: its version now: that of the run's commit, or for a NO_OP ``decided_at``
    :param late: what others changed between the two
    """
    known = facts.coverage
    looked_back = known.target_version is not None and known.target_id == target_id
    region = promised.region
    if region is not None:
        # Only what was replaced was read at the commit's own version; the rest may have been changed in between.
        for change in late:
            region = region.subtract(promised.fresh if change is None else change.intersect(promised.fresh))
    return Entry(
        region=region,
        bound=promised.bound,
        proves=promised.proves,
        definition_hash=facts.definition_hash,
        sources=promised.sources,
        run_id=run_id,
        target_version=target_version,
        target_id=target_id,
        whole=promised.whole,
        foreign=(*regions(facts.foreign), *late),
        since=known.target_version if looked_back else decided_at,
    )


def regions(changes: Sequence[ForeignChange] | None) -> tuple[Region | None, ...]:
    """What foreign changes touched; changes that nobody knows of may have touched anything."""
    return (None,) if changes is None else tuple(change.region for change in changes)
