"""Which part of a target equals its query, for which definition and over which versions of the sources.

Coverage is a pure fold over the reports of the runs that ended well, in the order in which they were recorded. A report
brings an *entry* along, which says what the run proves. Whatever is in doubt proves nothing: a region that is called
fresh and is not would never be computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_replacewhere.predicates.region import Region

# Daily windows leave one strip behind each day, and the whole coverage goes along with every request. Beyond these many
# fragments, and ranges in them, the oldest are forgotten, which costs work, not truth.
MOST_FRAGMENTS = 500
MOST_RANGES = 2_000
MOST_RANGES_OF_ONE = 500


@dataclass(frozen=True)
class Pin:
    """One version of one Delta table; ``table_id`` tells a table from another of the same name."""

    version: int
    table_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "table_id": self.table_id}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Pin:
        pin = cls(**value)
        _require("version", pin.version, int)
        _require("table_id", pin.table_id, str, type(None))
        return pin


@dataclass(frozen=True)
class Fragment:
    """A region of the target that equals what the query of one definition gives over one set of source versions."""

    region: Region
    definition_hash: str
    sources: Mapping[str, Pin]
    run_id: str

    def to_json(self) -> dict[str, Any]:
        return {
            "region": self.region.to_json(),
            "definition_hash": self.definition_hash,
            "sources": {name: pin.to_json() for name, pin in self.sources.items()},
            "run_id": self.run_id,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Fragment:
        """:raises (LookupError, TypeError, ValueError, AttributeError, PredicateError): it is none"""
        _require("definition_hash", value["definition_hash"], str)
        _require("run_id", value["run_id"], str)
        return cls(
            region=Region.from_json(value["region"]),
            definition_hash=value["definition_hash"],
            sources={name: Pin.from_json(pin) for name, pin in value["sources"].items()},
            run_id=value["run_id"],
        )


@dataclass(frozen=True)
class Entry:
    """What one run that ended well says about its target.

    :param region: what the run left equal to its query; None where that is no exact region
    :param bound: an exact region that holds every row which the run may have touched; None: the whole table
    :param proves: whether what the run wrote may be called fresh later: nothing in predicate or query was random, and
        every source had a version
    :param whole: whether everything outside ``region`` was emptied, as a full refresh does
    :param target_version: the target's version after the run; the target's log is known up to here
    :param foreign: what others changed in the target after ``since``: regions, or None for the whole table
    :param since: the version of the target after which every commit was looked at; None: none was
    """

    region: Region | None
    bound: Region | None
    proves: bool
    definition_hash: str
    sources: Mapping[str, Pin]
    run_id: str
    target_version: int
    target_id: str | None
    whole: bool = False
    foreign: tuple[Region | None, ...] = ()
    since: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "region": _to_json(self.region),
            "bound": _to_json(self.bound),
            "proves": self.proves,
            "definition_hash": self.definition_hash,
            "sources": {name: pin.to_json() for name, pin in self.sources.items()},
            "run_id": self.run_id,
            "target_version": self.target_version,
            "target_id": self.target_id,
            "whole": self.whole,
            "foreign": [_to_json(region) for region in self.foreign],
            "since": self.since,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
        """:raises (LookupError, TypeError, ValueError, AttributeError, PredicateError): it is none"""
        _require("proves", value["proves"], bool)
        _require("whole", value["whole"], bool)
        _require("definition_hash", value["definition_hash"], str)
        _require("run_id", value["run_id"], str)
        _require("target_version", value["target_version"], int)
        _require("target_id", value["target_id"], str, type(None))
        _require("since", value["since"], int, type(None))
        return cls(
            **{
                **value,
                "region": _from_json(value["region"]),
                "bound": _from_json(value["bound"]),
                "sources": {name: Pin.from_json(pin) for name, pin in value["sources"].items()},
                "foreign": tuple(_from_json(region) for region in value["foreign"]),
            }
        )


@dataclass(frozen=True)
class Coverage:
    """All that is known of one target, in disjoint fragments, oldest first.

    :param target_id: Delta's id of the table that the fragments speak of
    :param target_version: the target's log has been looked at up to this version
    :param sequence: the ledger's sequence number of the last report that was folded in
    """

    fragments: tuple[Fragment, ...] = ()
    target_id: str | None = None
    target_version: int | None = None
    sequence: int = 0

    def with_entry(self, entry: Entry, sequence: int | None = None) -> Coverage:
        """The coverage after one more run."""
        known = self if entry.target_id == self.target_id else Coverage()
        known = known.without(entry.foreign)
        if known.target_version is not None and (entry.since is None or entry.since > known.target_version):
            # The run was asked for before the last one was recorded: nobody has looked at the commits in between.
            known = known.without([None])
        if known.target_version is not None and entry.target_version < known.target_version:
            # Recorded late: a run that committed after this one is in the ledger already and may have overwritten it.
            behind = known.without([None if entry.whole else entry.bound])
            return replace(behind, sequence=self.sequence if sequence is None else sequence)
        if entry.whole:
            known = replace(known, fragments=())
        touched = entry.bound if entry.region is None else entry.region
        fragments = known.without([touched]).fragments
        if entry.region is not None and entry.proves and not entry.region.is_empty:
            proven = entry.region.subset(MOST_RANGES_OF_ONE)
            if not proven.is_empty:
                new = Fragment(proven, entry.definition_hash, dict(entry.sources), entry.run_id)
                fragments = _joined(fragments, new)
        return Coverage(
            fragments=_newest(fragments),
            target_id=entry.target_id,
            target_version=entry.target_version,
            sequence=self.sequence if sequence is None else sequence,
        )

    def without(self, regions: Iterable[Region | None]) -> Coverage:
        """The coverage after these regions were changed; None stands for the whole table."""
        fragments = self.fragments
        for region in regions:
            fragments = () if region is None else tuple(_uncovered(fragments, region))
        return replace(self, fragments=fragments)

    def gaps(self, window: Region) -> Region:
        """What of a window no run has ever covered, whatever its definition."""
        gap = window
        for fragment in self.comparable(window):
            gap = gap.subtract(fragment.region)
        return gap

    def comparable(self, window: Region) -> tuple[Fragment, ...]:
        """The fragments that may reach into a window, and whose columns have the types that they have there."""
        return tuple(
            fragment
            for fragment in self.fragments
            if not fragment.region.is_apart(window) and fragment.region.has_types_of(window)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "fragments": [fragment.to_json() for fragment in self.fragments],
            "target_id": self.target_id,
            "target_version": self.target_version,
            "sequence": self.sequence,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Coverage:
        """:raises (LookupError, TypeError, ValueError, AttributeError, PredicateError): it is none"""
        _require("target_id", value["target_id"], str, type(None))
        _require("target_version", value["target_version"], int, type(None))
        _require("sequence", value["sequence"], int)
        return cls(**{**value, "fragments": tuple(Fragment.from_json(f) for f in value["fragments"])})


def fold(entries: Iterable[tuple[int, Entry]], start: Coverage = Coverage()) -> Coverage:
    """The coverage after some more runs, each with its sequence number in the ledger."""
    coverage = start
    for sequence, entry in entries:
        coverage = coverage.with_entry(entry, sequence)
    return coverage


def _uncovered(fragments: Iterable[Fragment], region: Region) -> Iterable[Fragment]:
    for fragment in fragments:
        if fragment.region.is_apart(region):
            yield fragment
            continue
        if not fragment.region.has_types_of(region):
            continue  # a column has another type now: nothing is known of the rows that the fragment spoke of
        rest = fragment.region.subtract(region)
        if not rest.is_empty:
            yield replace(fragment, region=rest)


def _joined(fragments: tuple[Fragment, ...], new: Fragment) -> tuple[Fragment, ...]:
    """One more fragment, as one with what was proven before of the same query over the same sources.

    So the chunks of a backfill do not take the room of a year of daily runs.
    """
    for number, fragment in enumerate(fragments):
        if (
            fragment.definition_hash == new.definition_hash
            and fragment.sources == new.sources
            and fragment.region.size + new.region.size <= MOST_RANGES_OF_ONE // 5
            and fragment.region.has_types_of(new.region)
        ):
            together = replace(new, region=fragment.region.union(new.region))
            return (*fragments[:number], *fragments[number + 1 :], together)
    return (*fragments, new)


def _newest(fragments: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    kept = fragments[-MOST_FRAGMENTS:]
    ranges = sum(fragment.region.size for fragment in kept)
    while ranges > MOST_RANGES:
        ranges -= kept[0].region.size
        kept = kept[1:]
    return kept


def _require(name: str, value: Any, *types: type) -> None:
    """Coverage that was changed by hand, or comes from elsewhere, must not be taken for more than it says.

    :raises TypeError: the value is of none of these types; True and False are no numbers
    """
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise TypeError(f"{name} is {value!r}")


def _to_json(region: Region | None) -> Any:
    return None if region is None else region.to_json()


def _from_json(value: Any) -> Region | None:
    return None if value is None else Region.from_json(value)
