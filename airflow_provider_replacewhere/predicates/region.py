"""A region: a set of rows as a finite union of boxes, some of them with a condition that only Spark can decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.boxes import Box, Path, canonical, combine
from airflow_provider_replacewhere.predicates.domains import Key
from airflow_provider_replacewhere.predicates.render import quoted
from airflow_provider_replacewhere.predicates.values import Extent, Interval, Values

REGION_VERSION = 1


@dataclass(frozen=True, order=True)
class Condition:
    """An opaque condition: a row meets it when the SQL is TRUE in a session of that time zone."""

    sql: str
    time_zone: str


Conditions: TypeAlias = tuple[Condition, ...]


@dataclass(frozen=True)
class Part:
    """The rows inside one of the boxes that meet all the conditions."""

    boxes: tuple[Box, ...]
    conditions: Conditions = ()


@dataclass(frozen=True)
class Region:
    """A set of rows of a table.

    Regions are compared as sets where they are exact: equal sets are equal values. With opaque conditions the algebra
    errs to the safe side: :meth:`contains` is True only if it is certain, :meth:`subtract` leaves rather too much.

    :param parts: the rows in any of them; at most one for each set of conditions, the exact one first
    """

    parts: tuple[Part, ...] = ()

    # -- making one

    @classmethod
    def empty(cls) -> Region:
        """No row."""
        return cls()

    @classmethod
    def everything(cls) -> Region:
        """Every row."""
        return cls((Part((Box(),)),))

    @classmethod
    def of(cls, path: Path, values: Values) -> Region:
        """The rows whose column has one of these values."""
        if values.is_everything:
            return cls.everything()
        return cls.empty() if values.is_empty else cls((Part((Box(((path, values),)),)),))

    @classmethod
    def opaque(cls, sql: str, time_zone: str) -> Region:
        """The rows for which a condition is TRUE that is not understood here."""
        return cls((Part((Box(),), (Condition(sql, time_zone),)),))

    # -- asking it

    @property
    def is_empty(self) -> bool:
        """Whether it is certain that no row is in it."""
        return not self.parts

    @property
    def is_exact(self) -> bool:
        """Whether it has no opaque rest."""
        return not any(part.conditions for part in self.parts)

    @property
    def is_everything(self) -> bool:
        """Whether it is certain that every row is in it."""
        return self.parts[:1] == (Part((Box(),)),)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All boxes, opaque conditions left out."""
        return tuple(box for part in self.parts for box in part.boxes)

    @property
    def columns(self) -> tuple[Path, ...]:
        """The columns that the boxes bound, in alphabetical order."""
        return tuple(sorted({path for box in self.boxes for path, _ in box.sides}))

    @cached_property
    def size(self) -> int:
        """The number of ranges and points that its SQL has to name."""
        return sum(max(1, sum(len(v.intervals) + v.null for _, v in box.sides)) for box in self.boxes)

    def contains_row(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is in the region.

        :param row: by column, as Python values (see :meth:`Domain.key`); a struct as a mapping; None is NULL
        :raises PredicateError: an opaque condition would have to decide, or a value is not of its column's type
        """
        undecided: Conditions = ()
        for part in self.parts:
            if any(all(_cell(row, path, values) in values for path, values in box.sides) for box in part.boxes):
                if not part.conditions:
                    return True
                undecided = part.conditions
        if undecided:
            raise PredicateError(f"Whether the row is in the region only Spark can tell, by {undecided[0].sql}.")
        return False

    def contains(self, other: Region) -> bool:
        """Whether it is certain that every row of the other is in this."""
        return other.subtract(self).is_empty

    def overlaps(self, other: Region) -> bool:
        """Whether a row may be in both; False only if it is certain that there is none."""
        return not self.intersect(other).is_empty

    def is_apart(self, other: Region) -> bool:
        """Whether the first and last values of some column show that no row is in both: quick, and often enough."""
        if not self.parts or not other.parts:
            return True
        theirs = other._extents
        return any(path in theirs and extent.is_apart(theirs[path]) for path, extent in self._extents.items())

    def has_types_of(self, other: Region) -> bool:
        """Whether both give each column that they share the same type; regions that do not cannot be compared."""
        types = {path: values.domain for box in self.boxes for path, values in box.sides}
        sides = (side for box in other.boxes for side in box.sides)
        return all(types.get(path, values.domain) == values.domain for path, values in sides)

    @cached_property
    def _extents(self) -> Mapping[Path, Extent]:
        """From the first to the last value of each column that all boxes bound."""
        first, *others = (box.by_path for box in self.boxes)
        common = [path for path in first if all(path in box for box in others)]
        return {path: Extent.around([first[path], *(box[path] for box in others)]) for path in common}

    # -- the algebra

    def union(self, other: Region) -> Region:
        return _region((*self.parts, *other.parts))

    def intersect(self, other: Region) -> Region:
        if self.is_apart(other):
            return Region()
        return _region(
            Part(
                combine(mine.boxes, theirs.boxes, lambda a, b: a and b),
                tuple(sorted({*mine.conditions, *theirs.conditions})),
            )
            for mine, theirs in product(self.parts, other.parts)
        )

    def subtract(self, other: Region) -> Region:
        """The rows that are not in the other; with an opaque condition in the other, some that are."""
        if self.is_apart(other):
            return self
        return _region(_without(part, other.parts) for part in self.parts)

    # -- fewer boxes

    def hull(self, size: int) -> Region:
        """An exact region of at most about ``size`` ranges that holds all of this one: for what is *replaced*."""
        exact = Region.empty()
        for part in self.parts:
            exact = exact.union(_region([Part(part.boxes)]))
        if exact.size <= size:
            return exact
        boxes = exact.boxes
        common = [path for path in exact.columns if all(path in box.by_path for box in boxes)]
        if not common:
            return Region.everything()
        each = max(1, size // len(common))
        sides = []
        for path in common:
            values = boxes[0].by_path[path]
            for box in boxes[1:]:
                values = values.union(box.by_path[path])
            sides.append((path, _closed(values, each)))
        return _region([Part(canonical([Box(tuple(sides))]))])

    def subset(self, size: int) -> Region:
        """An exact region of at most about ``size`` ranges that lies inside this one: for what is called *fresh*."""
        kept: list[Box] = []
        left = size
        for box in self.parts[0].boxes if self.parts and not self.parts[0].conditions else ():
            if left <= 0:
                break
            if len(box.sides) == 1:
                (path, values) = box.sides[0]
                box = Box(((path, _widest(values, left)),))
            cost = max(1, sum(len(values.intervals) + values.null for _, values in box.sides))
            if cost <= left:
                kept.append(box)
                left -= cost
        return _region([Part(canonical(kept))])

    # -- out and in

    def to_sql(self) -> str:
        """Canonical SQL that is TRUE for the rows in the region and for no other; ``FALSE`` if there is none."""
        found = [sql for part in self.parts for sql in _part_to_sql(part)]
        if not found:
            return "FALSE"
        return found[0] if len(found) == 1 else f"({' OR '.join(found)})"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; keys of values as :mod:`predicates.domains` defines them."""
        return {
            "version": REGION_VERSION,
            "parts": [
                {
                    "boxes": [[[list(path), values.to_json()] for path, values in box.sides] for box in part.boxes],
                    "conditions": [[condition.sql, condition.time_zone] for condition in part.conditions],
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, value: Any) -> Region:
        """:raises PredicateError: the document is no region, or one of another version"""
        version = value.get("version") if isinstance(value, Mapping) else None
        if version != REGION_VERSION:
            raise PredicateError(
                f"The region has version {version}; this package reads version {REGION_VERSION}.",
                hint="Let everything that shares a ledger run the same version of airflow-provider-replacewhere.",
            )
        try:
            return _region(
                Part(
                    canonical(
                        [Box(tuple((tuple(p), Values.from_json(v)) for p, v in sides)) for sides in part["boxes"]]
                    ),
                    tuple(Condition(*condition) for condition in part["conditions"]),
                )
                for part in value["parts"]
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise PredicateError(f"The region cannot be read: {error}.") from error


def _region(parts: Iterable[Part]) -> Region:
    """Parts whose boxes have their one form, joined by conditions, and without what weaker conditions hold."""
    grouped: dict[Conditions, tuple[Box, ...]] = {}
    for part in parts:
        known = grouped.get(part.conditions)
        grouped[part.conditions] = part.boxes if known is None else combine(known, part.boxes, lambda a, b: a or b)
    found: list[Part] = []
    for conditions in sorted(grouped, key=lambda c: (len(c), c)):
        part = Part(grouped[conditions], conditions)
        if _without(part, found).boxes:
            found.append(part)
    return Region(tuple(found))


def _without(part: Part, others: Sequence[Part]) -> Part:
    """The part without what surely is in one of the others: those whose conditions are all conditions here."""
    boxes = part.boxes
    for other in others:
        if {*other.conditions} <= {*part.conditions}:
            boxes = combine(boxes, other.boxes, lambda a, b: a and not b)
    return Part(boxes, part.conditions)


def _cell(row: Mapping[str, Any], path: Path, values: Values) -> Key | None:
    value: Any = row
    for name in path:
        try:
            value = None if value is None else value[name]
        except (KeyError, TypeError, ValueError):
            raise PredicateError(f"The row has no {'.'.join(path)}.", hint=f"It has {', '.join(row)}.") from None
    if value is None:
        return None
    return values.domain.key(value) if values.domain.is_ordered else 0


def _part_to_sql(part: Part) -> list[str]:
    conditions = [condition.sql for condition in part.conditions]
    found = []
    for box in part.boxes:
        sides = [values.to_sql(".".join(map(quoted, path))) for path, values in box.sides]
        terms = [*sides, *conditions]
        found.append("TRUE" if not terms else terms[0] if len(terms) == 1 else f"({' AND '.join(terms)})")
    return found


def _closed(values: Values, most: int) -> Values:
    """The set with its narrowest gaps filled, until it has at most so many ranges."""
    intervals = list(values.intervals)
    if len(intervals) <= most:
        return values
    gaps = range(len(intervals) - 1)
    if all(isinstance(key, int) for interval in intervals for key in interval if key is not None):
        order = sorted(gaps, key=lambda n: int(intervals[n][1] or 0) - int(intervals[n + 1][0] or 0))
    else:
        order = list(gaps)
    kept = sorted(order[: most - 1])
    starts, ends = [0, *(n + 1 for n in kept)], [*kept, len(intervals) - 1]
    closed: list[Interval] = [(intervals[a][0], intervals[b][1]) for a, b in zip(starts, ends, strict=True)]
    return Values.of(values.domain, closed, values.null)


def _widest(values: Values, most: int) -> Values:
    """At most so many of the set's ranges, the widest; NULL is kept and counts."""
    room = most - values.null

    def width(interval: Interval) -> float:
        low, high = interval
        return float(high - low) if isinstance(low, int) and isinstance(high, int) else float("inf")

    kept = sorted(values.intervals, key=width, reverse=True)[: max(0, room)]
    return Values.of(values.domain, kept, values.null)
