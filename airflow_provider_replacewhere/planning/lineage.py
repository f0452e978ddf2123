"""How a filter on a target's column reaches the tables that its query reads.

This is what Catalyst answered (:mod:`..spark.lineage`), written down as SQL, so that it is asked once per definition.

The claim behind it: where the filter ``column = v`` reaches *every* scan of a source as ``value = v``, the rows of the
query with that ``v`` are made from those rows of the source alone whose ``value`` is ``v``. So if none of the rows that
were added to the source and removed from it has that value, the target's rows with ``v`` are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LINEAGE_VERSION = 2

CHANGED, PARTNER = "changed", "partner"
"""The aliases by which :attr:`Partner.on` names the two sides of a join."""

MOST_HOPS = 3
"""So many tables stand between a scan and the filter at most, the one that the filter reaches among them."""


@dataclass(frozen=True)
class Partner:
    """The source with which a scan is joined, where the filter reaches the scan only through that join.

    Where the filter reaches the partner itself only through a join, the partner has a partner, and so on.

    :param source: its name
    :param where: conditions over its columns, all of which its rows meet in the query
    :param on: conditions over the columns of both, as ``changed.c`` and ``partner.c``, all of which joined rows meet
    :param used: the columns of it that the query reads in that scan
    :param partner: with which it is joined in turn, and is then called ``changed`` itself
    """

    source: str
    where: tuple[str, ...]
    on: tuple[str, ...]
    used: tuple[str, ...]
    partner: Partner | None = None

    @property
    def chain(self) -> tuple[Partner, ...]:
        """This one, its partner, and so on to the one that the filter reaches."""
        return (self,) if self.partner is None else (self, *self.partner.chain)


@dataclass(frozen=True)
class Arrival:
    """How the filter ``column = v`` reaches one scan of a source.

    :param value: SQL over the source's columns, or over the last partner's: only rows for which it is ``v`` matter to
        ``v``
    :param where: conditions over the source's columns; rows that do not meet them matter to no ``v``
    :param used: the source's columns that the query reads in this scan
    """

    value: str
    where: tuple[str, ...]
    used: tuple[str, ...]
    partner: Partner | None = None


@dataclass(frozen=True)
class Lineage:
    """What reaches what, for one definition and one set of types of the target's columns.

    :param key: tells both
    :param arrivals: by source and then by the target's column, how the filter reaches each of the source's scans;
        a column that misses one of them is left out
    :param asked: the target's columns that were tried
    """

    key: str
    arrivals: Mapping[str, Mapping[str, tuple[Arrival, ...]]] = field(default_factory=dict)
    asked: tuple[str, ...] = ()

    def of(self, source: str) -> Mapping[str, tuple[Arrival, ...]]:
        """By column, the arrivals at a source."""
        return self.arrivals.get(source, {})

    def to_json(self) -> dict[str, Any]:
        return {
            "version": LINEAGE_VERSION,
            "key": self.key,
            "asked": list(self.asked),
            "arrivals": {
                source: {column: [_to_json(arrival) for arrival in arrivals] for column, arrivals in columns.items()}
                for source, columns in self.arrivals.items()
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None, key: str) -> Lineage | None:
        """The lineage of that key, or None where the document is of another, or of another version."""
        try:
            if value is None or (value["version"], value["key"]) != (LINEAGE_VERSION, key):
                return None
            return cls(
                key,
                {
                    source: {column: tuple(map(_arrival, arrivals)) for column, arrivals in columns.items()}
                    for source, columns in value["arrivals"].items()
                },
                tuple(value["asked"]),
            )
        except (KeyError, TypeError, AttributeError):
            return None


def _to_json(arrival: Arrival) -> dict[str, Any]:
    return {
        "value": arrival.value,
        "where": list(arrival.where),
        "used": list(arrival.used),
        "partner": arrival.partner and _partner_to_json(arrival.partner),
    }


def _partner_to_json(partner: Partner) -> dict[str, Any]:
    return {
        "source": partner.source,
        "where": list(partner.where),
        "on": list(partner.on),
        "used": list(partner.used),
        "partner": partner.partner and _partner_to_json(partner.partner),
    }


def _arrival(value: Mapping[str, Any]) -> Arrival:
    return Arrival(value["value"], tuple(value["where"]), tuple(value["used"]), _partner(value["partner"]))


def _partner(value: Mapping[str, Any] | None) -> Partner | None:
    if value is None:
        return None
    where, on, used = (tuple(value[name]) for name in ("where", "on", "used"))
    return Partner(value["source"], where, on, used, _partner(value["partner"]))
