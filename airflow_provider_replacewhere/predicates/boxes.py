"""Boxes: for each column a set of values; and unions of boxes in the one form that a set of rows has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from airflow_provider_replacewhere.predicates.domains import Domain
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
    first: list[Box], second: list[Box], choose: Choice, paths: list[Path], domains: dict[Path, Domain]
) -> tuple[_Sides, ...]:
    if (not first and not choose(False, True)) or (not first and not second):
        return ()
    if not paths:
        return ((),) if choose(bool(first), bool(second)) else ()
    path, rest = paths[0], paths[1:]
    groups: dict[tuple[_Sides, ...], Values] = {}
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[_Sides, ...]] = {}
    for cell in _cells(path, domains[path], (*first, *second)):
        mine, theirs = _covering(cell, path, first), _covering(cell, path, second)
        if (mine, theirs) not in known:
            known[mine, theirs] = _combine([first[n] for n in mine], [second[n] for n in theirs], choose, rest, domains)
        below = known[mine, theirs]
        if below:
            groups[below] = groups[below].union(cell) if below in groups else cell
    return tuple(
        sides if values.is_everything else ((path, values), *sides)
        for below, values in groups.items()
        for sides in below
    )


def _cells(path: Path, domain: Domain, boxes: Iterable[Box]) -> Iterable[Values]:
    """The column's values cut into pieces that no box divides, in order; NULL is the last."""
    sides = [box.by_path[path] for box in boxes if path in box.by_path]
    if not sides:
        yield Values.everything(domain)
        return
    cuts = sorted({key for values in sides for key in values.cuts})
    intervals: Iterable[Interval] = pairwise((None, *cuts, None))
    for interval in intervals:
        cell = Values.of(domain, [interval])
        if not cell.is_empty:
            yield cell
    yield Values.nothing(domain, null=True)


def _covering(cell: Values, path: Path, boxes: Sequence[Box]) -> tuple[int, ...]:
    return tuple(
        number for number, box in enumerate(boxes) if path not in box.by_path or box.by_path[path].contains(cell)
    )
