"""From what changed in a source to the values of a target's column that it may have changed, by bounds alone.

No row is looked at: the question whether a range of values can come from a region of the source is one of the region
algebra, which knows what ``CAST(ts AS DATE) = v`` means for ``ts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache, reduce
from typing import TypeAlias, cast

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.lineage import Arrival
from airflow_provider_replacewhere.planning.touched import Layout, touched
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.literals import INTEGERS, MICROS_PER_DAY
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.render import quoted
from airflow_provider_replacewhere.predicates.values import Interval, Values

MOST_TESTS = 500
"""So many ranges of values are tried one by one; a window of more is told apart in coarser ones."""

Whole: TypeAlias = tuple[int | None, int | None]
"""A range of keys that are whole numbers."""

_CONSTANTS = frozenset({"true", "false", "null"})
_HALVED = frozenset({"date", "timestamp", "timestamp_ntz", *INTEGERS})


def rows_changed(commits: Iterable[LogCommit], layout: Layout, columns: Mapping[str, str], time_zone: str) -> Region:
    """A region of the source that holds every row which some commits added, removed or changed.

    :param layout: how the log speaks of the columns that matter
    :param columns: all of the source's columns, with their Spark types
    """
    changed = Region.empty()
    for commit in commits:
        region = touched([commit], layout)
        if region is None:
            region = Region.everything()
        if commit.replaced_by_us is not None:
            region = region.intersect(_bound(commit.replaced_by_us, tuple(columns.items()), time_zone))
        changed = changed.union(region)
    return changed


def meets(where: Iterable[str], columns: Mapping[str, str], time_zone: str) -> Region:
    """A region that holds every row which meets all of some conditions."""
    typed = tuple(columns.items())
    return reduce(Region.intersect, (_bound(sql, typed, time_zone) for sql in where), Region.everything())


@lru_cache(maxsize=128)
def _bound(sql: str, columns: tuple[tuple[str, str], ...], time_zone: str) -> Region:
    """An exact region around the rows for which a condition is TRUE; all rows where it is not understood."""
    try:
        found = parse_predicate(sql, dict(columns), time_zone)
    except PredicateError:
        return Region.everything()
    return found if found.is_exact else found.hull(MOST_TESTS)


def values_from(
    rows: Region, arrival: Arrival, within: Values, columns: Mapping[str, str], time_zone: str
) -> Values | None:
    """The values of the target's column that rows of a region of the source may have; None: nothing is known.

    :param within: the values that matter, NULL left out: those in the window
    :param columns: the source's columns, with their Spark types
    """
    rows = rows.intersect(meets(arrival.where, columns, time_zone))
    if rows.is_empty:
        return Values.nothing(within.domain)
    for name, type_ in columns.items():
        if arrival.value == quoted(name) or arrival.value.lower() == name.lower() not in _CONSTANTS:
            return _of_column(rows, name, within) if Domain.of(type_) == within.domain else None
    return _of_expression(rows, arrival.value, within, columns, time_zone)


def _of_column(rows: Region, name: str, within: Values) -> Values:
    found = Values.nothing(within.domain)
    for box in rows.boxes:
        side = box.by_path.get((name,))
        found = found.union(within if side is None else side.intersect(within))
    return found.not_null()


def _of_expression(
    rows: Region, value: str, within: Values, columns: Mapping[str, str], time_zone: str
) -> Values | None:
    """By halving the ranges of values until each is found to be out of reach, or is one value."""

    def reached(low: int | None, high: int | None) -> bool | None:
        bounds = [
            f"({value}) {sign} {within.domain.to_sql(key)}"
            for sign, key in ((">=", low), ("<", high))
            if key is not None
        ]
        try:
            region = parse_predicate(" AND ".join(bounds), columns, time_zone)
        except PredicateError:
            return None
        return region.overlaps(rows) if region.is_exact else None

    if within.domain.name not in _HALVED:
        return None
    todo = [piece for low, high in within.intervals for piece in _bounded(cast(Whole, (low, high)), within.domain)]
    found: list[Interval] = []
    tests = 0
    while todo:
        low, high = todo.pop()
        if (low is None and high is None) or tests >= MOST_TESTS:
            found.append((low, high))
            continue
        tests += 1
        hit = reached(low, high)
        if hit is None:
            return None
        if hit and low is not None and high is not None and high - low > 1:
            middle = (low + high) // 2
            todo += [(low, middle), (middle, high)]
        elif hit:
            found.append((low, high))
    return Values.of(within.domain, found)


def _bounded(interval: Whole, domain: Domain) -> Iterator[Whole]:
    """A range in pieces of which all are bounded that hold values as people write them."""
    low, high = interval
    days = Domain.of("date")
    if domain.name in INTEGERS:
        first, end = cast(Whole, domain.bounds)
    else:
        micros = 1 if domain == days else MICROS_PER_DAY
        first, end = (cast(int, days.key(day)) * micros for day in (date(1000, 1, 1), date(9000, 1, 1)))
    assert first is not None
    assert end is not None
    below, above = low if low is not None else first, high if high is not None else end
    if below >= above:
        yield interval
        return
    yield below, above
    if low is None and domain.name not in INTEGERS:
        yield None, below
    if high is None and domain.name not in INTEGERS:
        yield above, None
