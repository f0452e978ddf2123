"""Boxes: for each column a set of values; and unions of boxes in the one form that a set of rows has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from airflow_provider_replacewhere.predicates.domains import Domain, Key
from airflow_provider_replacewhere.predicates.values import Interval, Values

Path: TypeAlias = tuple[str, ...]
"""A column, or a field inside a struct: ``("d",)``, ``("st", "a")``."""

Choice: TypeAlias = Callable[[bool, bool], bool]
"""Whether a row is in the result, given whether it is in the first and in the second set."""


@dataclass(frozen=True)
class Box:
    """The rows whose columns all have one of these values; a column that is not named may have any, NULL included."""

    sides: tuple[tuple[Path, Values], ...] = ()

    @cached_property
    def by_path(self) -> dict[Path, Values]:
        return dict(self.sides)


def canonical(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Any boxes, overlapping or not, in the one form that their union has."""
    return combine(boxes, (), lambda a, _: a)


def combine(first: Sequence[Box], second: Sequence[Box], choose: Choice) -> tuple[Box, ...]:
    """Two unions of boxes as one: what ``choose`` takes of the rows in the one and in the other.

    The form is unique. By the columns in alphabetical order, the values of a column are grouped by what they leave open
    for the columns after it, so equal sets of rows give equal boxes, which never overlap.
    """
    domains = {path: values.domain for box in (*first, *second) for path, values in box.sides}
    paths = sorted(domains)
    return tuple(Box(sides) for sides in _combine(list(first), list(second), choose, paths, domains))


_Sides: TypeAlias = tuple[tuple[Path, Values], ...]


def _combine(
    first: Sequence[Box], second: Sequence[Box], choose: Choice, paths: Sequence[Path], domains: dict[Path, Domain]
) -> tuple[_Sides, ...]:
    if (not first and not choose(False, True)) or (not first and not second):
        return ()
    if not paths:
        return ((),) if choose(bool(first), bool(second)) else ()
    path, rest = paths[0], paths[1:]
    if not rest:
        values = _chosen(_united(path, domains[path], first), _united(path, domains[path], second), choose)
        return () if values.is_empty else ((),) if values.is_everything else (((path, values),),)
    groups: dict[tuple[_Sides, ...], list[Cell]] = {}
    known: dict[tuple[frozenset[int], frozenset[int]], tuple[_Sides, ...]] = {}
    for cell, mine, theirs in _cells(path, first, second):
        if (mine, theirs) not in known:
            known[mine, theirs] = _combine(
                [first[n] for n in sorted(mine)], [second[n] for n in sorted(theirs)], choose, rest, domains
            )
        if below := known[mine, theirs]:
            groups.setdefault(below, []).append(cell)
    found: list[_Sides] = []
    for below, cells in groups.items():
        values = Values.of(domains[path], [cell for cell in cells if cell is not None], None in cells)
        if not values.is_empty:
            found += below if values.is_everything else [((path, values), *sides) for sides in below]
    return tuple(found)


def _united(path: Path, domain: Domain, boxes: Iterable[Box]) -> Values:
    sides = [box.by_path.get(path) for box in boxes]
    if None in sides:
        return Values.everything(domain)
    known = [values for values in sides if values is not None]
    intervals = [interval for values in known for interval in values.intervals]
    return Values.of(domain, intervals, any(values.null for values in known))


def _chosen(first: Values, second: Values, choose: Choice) -> Values:
    match choose(True, True), choose(True, False), choose(False, True):
        case True, True, True:
            return first.union(second)
        case True, True, False:
            return first
        case True, False, False:
            return first.intersect(second)
        case False, True, False:
            return first.subtract(second)
    raise ValueError("only union, intersection, difference and the first itself are combinations of regions")


Cell: TypeAlias = Interval | None
"""A range of one column that no box divides; None is NULL."""


def _cells(
    path: Path, first: Sequence[Box], second: Sequence[Box]
) -> Iterator[tuple[Cell, frozenset[int], frozenset[int]]]:
    """The column's values in pieces, in order, NULL last; each with the boxes of either side that cover it.

    One sweep: a box comes and goes at the ends of its ranges, so only what changes is looked at.
    """
    active: tuple[set[int], set[int]] = (set(), set())
    with_null: tuple[set[int], set[int]] = (set(), set())
    changes: dict[Key, list[tuple[set[int], int]]] = {}
    for boxes, now, at_null in ((first, active[0], with_null[0]), (second, active[1], with_null[1])):
        for number, box in enumerate(boxes):
            values = box.by_path.get(path)
            if values is None or values.null:
                at_null.add(number)
            if values is None or values.starts_below_all:
                now.add(number)
            for cut in values.cuts if values else ():
                changes.setdefault(cut, []).append((now, number))
    start: Key | None = None
    for cut in sorted(changes):
        yield (start, cut), frozenset(active[0]), frozenset(active[1])
        for now, number in changes[cut]:
            now.symmetric_difference_update({number})
        start = cut
    yield (start, None), frozenset(active[0]), frozenset(active[1])
    yield None, frozenset(with_null[0]), frozenset(with_null[1])
