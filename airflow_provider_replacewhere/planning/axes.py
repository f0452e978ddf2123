"""The columns along which a map of a table runs, and regions as seen along them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from airflow_provider_replacewhere.planning.words import plain
from airflow_provider_replacewhere.predicates.boxes import Path
from airflow_provider_replacewhere.predicates.domains import Domain, Key
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Values
from airflow_provider_replacewhere.text import printable

TIMES = ("date", "timestamp", "timestamp_ntz")
MOST_ROWS = 40
"""A second column with more values that make a difference is not spread out into rows."""

_NAMED = 4


@dataclass(frozen=True)
class Axis:
    """A column, or a field of a struct, with the values that it may have."""

    path: Path
    domain: Domain

    @property
    def name(self) -> str:
        """As a person writes it."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Row:
    """Values of the second column for which everything along the first one is the same.

    :param values: None: all there are
    """

    label: str
    values: Values | None = None

    def slab(self, axis: Axis | None) -> Region:
        """All rows of the table that have one of these values."""
        return Region.everything() if axis is None or self.values is None else Region.of(axis.path, self.values)

    def equals(self) -> list[Any] | None:
        """The values as JSON, for the params of a backfill; None where they are no few values that JSON can write."""
        if self.values is None or self.values.domain.name not in ("string", "boolean", *INTEGERS):
            return None
        points = _points(self.values)
        if points is None:
            return None
        as_json = [bool(p) if self.values.domain.name == "boolean" else p for p in points]
        return [*as_json, *([None] if self.values.null else [])]


def axes_of(regions: Sequence[Region], column: str | None = None) -> tuple[Axis | None, Axis | None]:
    """The column that a map runs along, and the one whose values are its rows; None where there is none.

    The first is one of dates or timestamps if any region bounds such a column, else any column with an order. Of
    several it is the one that most regions bound.

    :param column: the name of the first, in any letter case, where a person has chosen one
    """
    count: Counter[Path] = Counter()
    domains: dict[Path, Domain] = {}
    for region in regions:
        for path, values in {side for box in region.boxes for side in box.sides}:
            domains.setdefault(path, values.domain)
        count.update(region.columns)
    by_use = sorted(count, key=lambda path: (-count[path], path))
    able = [path for path in by_use if domains[path].is_ordered]
    times = [path for path in able if domains[path].name in TIMES]
    chosen = [path for path in able if column is not None and ".".join(path).lower() == column.lower()]
    first = next(iter((*chosen, *times, *able)), None)
    second = next((path for path in by_use if path != first), None)
    return tuple(None if path is None else Axis(path, domains[path]) for path in (first, second))  # type: ignore[return-value]


def of_one_kind(regions: Iterable[Region]) -> list[bool]:
    """By region, whether its columns have the types that those before it gave them; else it cannot be compared."""
    domains: dict[Path, Domain] = {}
    found = []
    for region in regions:
        sides = {path: values.domain for box in region.boxes for path, values in box.sides}
        fits = all(domains.get(path, domain) == domain for path, domain in sides.items())
        found.append(fits)
        if fits:
            domains |= sides
    return found


def touched(region: Region, axis: Axis, rows_by: Axis | None = None, row: Row = Row("all")) -> Values:
    """The values of a column that some row of the region may have, of those in one row of the map."""
    boxes = region.boxes
    if rows_by is not None and row.values is not None:
        of_row = row.values
        boxes = tuple(
            b for b in boxes if (v := b.by_path.get(rows_by.path)) is None or not v.intersect(of_row).is_empty
        )
    sets = [box.by_path.get(axis.path) for box in boxes]
    if None in sets:
        return Values.everything(axis.domain)
    known = [values for values in sets if values is not None]
    return Values.of(axis.domain, [i for values in known for i in values.intervals], any(v.null for v in known))


def filled(region: Region, slab: Region, axis: Axis) -> Values:
    """The values of a column for which *every* row of the slab is certainly in the region."""
    return touched(slab.subtract(region), axis).complement()


def together(regions: Sequence[Region]) -> Region:
    """The union of many regions, taken in pairs so that no large one is built again and again."""
    if len(regions) > 2:
        half = len(regions) // 2
        return together(regions[:half]).union(together(regions[half:]))
    return reduce(Region.union, regions, Region.empty())


def rows_of(regions: Sequence[Region], axis: Axis | None) -> tuple[Row, ...]:
    """The values of a column in as few groups as the regions tell apart; one for all where they are too many."""
    if axis is None:
        return (Row("all"),)
    sets = list(dict.fromkeys(v for region in regions for b in region.boxes if (v := b.by_path.get(axis.path))))
    cuts = sorted({cut for values in sets for cut in values.cuts})
    if len(cuts) * len(sets) > 200_000:
        return (Row("all"),)
    groups: dict[tuple[bool, ...], list[tuple[Key | None, Key | None]]] = {}
    for low, high in zip((None, *cuts), (*cuts, None), strict=True):
        members = tuple(values.starts_below_all if low is None else low in values for values in sets)
        groups.setdefault(members, []).append((low, high))
    of_null = tuple(values.null for values in sets)
    groups.setdefault(of_null, [])
    found = [Values.of(axis.domain, intervals, key == of_null) for key, intervals in groups.items()]
    # Where NULL is like the other values that nobody named, it needs no row of its own.
    found = [values for values in found if not values.is_empty]
    if len(found) < 2 or len(found) > MOST_ROWS:
        return (Row("all"),)
    return tuple(Row(_label(values, axis), values) for values in sorted(found, key=_place))


def _place(values: Values) -> tuple[bool, bool, str]:
    points = _points(values)
    first = values.intervals[0][0] if values.intervals else None
    return points is None, first is None, f"{first:040d}" if isinstance(first, int) else str(first)


def _label(values: Values, axis: Axis) -> str:
    points = _points(values)
    if points is None:
        if values.intervals[0][0] is None and values.intervals[-1][1] is None:
            return "all others"
        return plain(values.to_sql(axis.name))
    names = [p if isinstance(p, str) else str(axis.domain.to_sql(p)) for p in points[:_NAMED]]
    names += [f"{len(points) - _NAMED} more"] if len(points) > _NAMED else []
    return ", ".join(printable(name) or "''" for name in (*names, *(["NULL"] if values.null else [])))


def _points(values: Values) -> list[Key] | None:
    """The single values of a set; None where it holds ranges."""
    points = []
    for low, high in values.intervals:
        if values.domain.name == "boolean" and high is None:
            high = 2
        if values.domain.name in ("boolean", "string") and low is None:
            low = 0 if values.domain.name == "boolean" else ""
        if low is None or high != values.domain.next(low):
            return None
        points.append(low)
    return points
