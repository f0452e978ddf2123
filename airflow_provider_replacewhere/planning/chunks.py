"""A wide window cut into chunks along one of its columns, at the boundaries of the flow's own calendar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from itertools import count, pairwise
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.chunking import Chunking
from airflow_provider_replacewhere.planning.weights import Weight, even_cuts
from airflow_provider_replacewhere.planning.words import plain
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.boxes import Path
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Extent, Values

if TYPE_CHECKING:
    from airflow_provider_replacewhere.predicates.domains import Key

MOST_CHUNKS = 5_000
"""More commits than these in one backfill are a mistyped bound, or the wrong unit."""

_TIMES = ("date", "timestamp", "timestamp_ntz")


def chunks(
    window: Region, how: Chunking, time_zone: str, weights: Callable[[Path], Sequence[Weight]] = lambda _: ()
) -> tuple[Region, ...]:
    """The chunks of a window, in the order in which they are to be run.

    No row is in two of them, and each row of the window is in one. Rows without a value are in the oldest chunk.

    :param time_zone: whose days, weeks and months they are; IANA name
    :param weights: how much lies where along a column; asked only where the chunks are to be of even weight
    :raises RequestError: the window cannot be cut so, or falls into too many chunks
    """
    path, extent = _column(window, how)
    found: list[Region] = []
    tz = instants.zone(time_zone)
    cuts = _even(window, path, extent, how, tz, weights) if how.is_by_weight else _cuts(window, extent, how, tz)
    for low, high in pairwise(cuts):
        values = Values.of(extent.domain, [(low, high)], null=not found and extent.null)
        chunk = window.intersect(Region.of(path, values))
        found += [] if chunk.is_empty else [chunk]
    return tuple(found if how.order == "oldest" else reversed(found))


def _column(window: Region, how: Chunking) -> tuple[Path, Extent]:
    """The column to cut along, and from where to where."""
    wanted = None if how.column is None else how.column.strip("`").lower()
    extents = window.extents
    able = [
        path for path, extent in extents.items() if wanted in (None, ".".join(path).lower()) and _is_able(extent, how)
    ]
    if len(able) == 1:
        return able[0], extents[able[0]]
    if able:
        raise RequestError(
            f"{plain(window.to_sql())} can be cut along {' or '.join(map('.'.join, able))}.",
            hint="Give the column to cut along.",
        )
    kind = "dates or timestamps"
    if how.by == "values" or how.is_by_weight:
        kind = "whole numbers, DECIMALs or dates" if how.by == "values" else f"whole numbers, DECIMALs, {kind}"
    along = f" along {how.column}" if how.column else ""
    raise RequestError(
        f"{plain(window.to_sql())} cannot be cut{along} by {how.by}: that takes a first and a last value of a column "
        f"of {kind}.",
        hint=f"Bound such a column on both sides; bounded are {', '.join(map('.'.join, extents)) or 'none'}.",
    )


def _is_able(extent: Extent, how: Chunking) -> bool:
    if not extent.any or extent.low is None or extent.high is None:
        return False
    if how.is_by_weight:
        return extent.domain.name in (*INTEGERS, "decimal", *_TIMES)
    return extent.domain.name in ((*INTEGERS, "decimal", "date") if how.by == "values" else _TIMES)


def _even(
    window: Region,
    path: Path,
    extent: Extent,
    how: Chunking,
    tz: tzinfo,
    weights: Callable[[Path], Sequence[Weight]],
) -> list[Key]:
    """Where chunks of about the same weight begin, and the end of the last."""
    first, last, domain = extent.low, extent.high, extent.domain
    assert isinstance(first, int)
    assert isinstance(last, int)

    def unit(key: int) -> tuple[int, int]:
        if domain.name not in _TIMES:
            step = 10**domain.scale if domain.name == "decimal" else 1
            begins = first + (key - first) // step * step
            return begins, begins + step
        day = _day_of(key, domain, tz)
        return _key_of(day, domain, tz), _key_of(day + 1, domain, tz)

    found = weights(path)
    if not found:
        raise RequestError(
            f"No statistics tell how many {how.by} there are along {'.'.join(path)}.",
            hint="Cut by days or values instead.",
        )
    cuts = even_cuts(found, first, last, how.size, unit, MOST_CHUNKS)
    if cuts is None:
        raise _too_many(window, how)
    return [*cuts, last]


def _cuts(window: Region, extent: Extent, how: Chunking, tz: tzinfo) -> list[Key]:
    """Where the chunks begin, and the end of the last."""
    first, last = extent.low, extent.high
    assert isinstance(first, int)
    assert isinstance(last, int)
    found: list[Key] = [first]
    for cut in _boundaries(first, extent.domain, how, tz):
        if cut >= last:
            break
        if cut > first:
            found.append(cut)
        if len(found) > MOST_CHUNKS:
            raise _too_many(window, how)
    return [*found, last]


def _too_many(window: Region, how: Chunking) -> RequestError:
    return RequestError(
        f"{plain(window.to_sql())} falls into more than {MOST_CHUNKS} chunks of {how.size} "
        f"{how.by if how.size == 1 or how.by.endswith('s') else how.by + 's'}.",
        hint="Look whether a bound is mistyped, or take larger chunks.",
    )


def _boundaries(first: int, domain: Domain, how: Chunking, tz: tzinfo) -> Iterator[int]:
    """The beginnings of chunks, from that which holds the first key on, as far as the calendar goes."""
    if how.by == "values":
        yield from count(first, how.size * (10**domain.scale if domain.name == "decimal" else 1))
    day = _day_of(first, domain, tz)
    start = day if how.by == "day" else instants.truncate_date(day, how.by)
    assert start is not None
    for number in count(0, how.size):
        try:
            yield _key_of(_moved(start, number, how.by), domain, tz)
        except OverflowError:  # behind the year 9999 there is no boundary any more
            return


def _day_of(key: int, domain: Domain, tz: tzinfo) -> int:
    match domain.name:
        case "date":
            return key
        case "timestamp":
            return instants.day_of(key, tz)
    return key // instants.MICROS_PER_DAY


def _key_of(day: int, domain: Domain, tz: tzinfo) -> int:
    instants.date_of(day)
    match domain.name:
        case "date":
            return day
        case "timestamp":
            return instants.start_of_day(day, tz)
    return day * instants.MICROS_PER_DAY


def _moved(day: int, number: int, unit: str) -> int:
    match unit:
        case "month":
            return instants.add_months(day, number)
        case "year":
            return instants.add_months(day, 12 * number)
    return day + number * (7 if unit == "week" else 1)
