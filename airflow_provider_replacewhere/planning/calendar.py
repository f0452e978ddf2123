"""The cells of a map: days, weeks, months or years of a column of times, ranges of any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from itertools import pairwise
from typing import Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.axes import TIMES, Axis, Row
from airflow_provider_replacewhere.planning.overview import Overview, Piece
from airflow_provider_replacewhere.planning.states import State
from airflow_provider_replacewhere.planning.words import plain
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.domains import Domain, Key
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.values import Values

UNITS = ("day", "week", "month", "year")
MOST_CELLS = 2_000
"""Five years of days, and some: with more than these in a row, cells are made coarser."""
MOST_CELLS_IN_ROWS = 8_000
"""The same for all rows together."""

_NEAR = (instants.days_of(date(1900, 1, 2)), instants.days_of(date(2200, 1, 1)))
_URGENCY = {state: number for number, state in enumerate(State)}


@dataclass(frozen=True)
class Cell:
    """A range of the column, ``low <= key < high``; None: no bound.

    :param label: the range for the eye
    :param state: of its most urgent part
    :param facts: what is known of its parts, the most urgent first: places in :attr:`~.overview.Overview.facts`
    :param shares: by state, how much of the range it takes, adding up to 1; a range without an end counts as one
    """

    low: Key | None
    high: Key | None
    label: str
    state: State
    facts: tuple[int, ...]
    shares: Mapping[State, float]


@dataclass(frozen=True)
class CellRow:
    """One row of cells, and what is known of rows of the table without a value in the column."""

    row: Row
    cells: tuple[Cell, ...]
    null: Cell


@dataclass(frozen=True)
class CoverageMap:
    """The cells of an overview.

    :param unit: one of :data:`UNITS`, or ``range`` where the column has no calendar
    :param rows: each with the same cells
    :param before: of each row, what lies before its first cell; None where there is nothing
    :param after: likewise
    """

    unit: str
    rows: tuple[CellRow, ...]
    before: tuple[Cell, ...]
    after: tuple[Cell, ...]

    def count(self) -> dict[State, int]:
        """By state, how many cells."""
        found = dict.fromkeys(State, 0)
        for row in self.rows:
            for cell in row.cells:
                found[cell.state] += 1
        return found


def cells_of(known: Overview, unit: str | None = None, first: str | None = None, end: str | None = None) -> CoverageMap:
    """Cut an overview into cells.

    The cells reach from the first bound that anything known has to the last one, or to the day of the last look.

    :param unit: None: days, or coarser where those are too many
    :param first: the first day to show, ``2026-01-31``; None: as far as anything is known
    :param end: the day behind the last one to show
    :raises RequestError: the unit is none, or one of the days is no date
    """
    if unit is not None and unit not in UNITS:
        raise RequestError(f"The unit is {unit!r}.", hint=f"Valid are {', '.join(UNITS)}.")
    axis = known.column
    if axis is None:
        return CoverageMap(unit or "range", (), (), ())
    if axis.domain.name in TIMES:
        unit, bounds = _calendar(known, axis, unit, _day(first), _day(end))
    else:
        unit, bounds = "range", _range_bounds(known, axis)
    zone = instants.zone(known.time_zone)
    rows, before, after = [], [], []
    for each in known.rows:
        cut = list(_cut(each.pieces, bounds))
        cells = [_cell(known, axis, unit, zone, low, high, parts) for low, high, parts in cut]
        rows.append(CellRow(each.row, tuple(cells[1:-1]), _null_cell(known, each.null)))
        before.append(cells[0])
        after.append(cells[-1])
    return CoverageMap(unit, tuple(rows), tuple(before), tuple(after))


def bounds_as_json(cell: Cell, domain: Domain) -> tuple[Any, Any]:
    """The first value of a cell and the first behind it, as the params of a backfill take them; None: no bound."""
    return _value(cell.low, domain), _value(cell.high, domain)


def column_type(domain: Domain) -> str | None:
    """The type of a range's values, as the params of a backfill name it; None where they have no name for it."""
    if domain.name in TIMES or domain.name == "string":
        return domain.name
    return "number" if domain.name in (*INTEGERS, "decimal", "double") else None


# -- where the cells begin


def _calendar(
    known: Overview, axis: Axis, unit: str | None, first: int | None, end: int | None
) -> tuple[str, list[Key]]:
    zone = instants.zone(known.time_zone)
    cuts = _cuts(known)
    # 9999-12-31 and its like stand for no bound.
    cuts = [cut for cut in cuts if _NEAR[0] <= day_of(cut, axis.domain, zone) < _NEAR[1]] or cuts
    lows = [day_of(cut, axis.domain, zone) for cut in cuts]
    # A bound at the beginning of a day belongs to the day before.
    ends = [day + (cut != _key_of(day, axis.domain, zone)) for day, cut in zip(lows, cuts, strict=True)]
    looked = _looked_at(known, zone)
    if looked is not None and (not cuts or _goes_on(known, cuts[-1])):
        lows, ends = [*lows, looked], [*ends, looked + 1]
    if not lows:
        return unit or "day", []
    low = min(lows) if first is None else first
    last = max(ends) if end is None else end
    low, last = max(low, instants.MIN_DAY), min(max(last, low + 1), instants.MAX_DAY)
    for able in UNITS if unit is None else (unit, *UNITS[UNITS.index(unit) + 1 :]):
        starts = _starts(low, last, able)
        count = 0
        found = []
        for count, day in enumerate(starts, start=1):
            if count > MOST_CELLS or count * len(known.rows) > MOST_CELLS_IN_ROWS:
                break
            found.append(_key_of(day, axis.domain, zone))
        else:
            return able, [*found, _key_of(last, axis.domain, zone)]
        if able == UNITS[-1]:
            return able, [*found, _key_of(last, axis.domain, zone)]
    raise AssertionError("years are always few enough")


def _starts(first: int, last: int, unit: str) -> Iterator[int]:
    """The first day, and each on which a unit begins up to the last."""
    day = first
    while day < last:
        yield day
        day = next_start(day, unit)


def next_start(day: int, unit: str) -> int:
    """The day on which the unit behind the one that holds a day begins; behind the last day that there is at most."""
    if unit == "day":
        return day + 1
    start = instants.truncate_date(day, unit)
    assert start is not None
    try:
        return start + 7 if unit == "week" else instants.add_months(start, 1 if unit == "month" else 12)
    except OverflowError:
        return instants.MAX_DAY + 1


def _looked_at(known: Overview, zone: tzinfo) -> int | None:
    report = known.looked.report if known.looked else None
    try:
        return None if report is None else instants.day_of(instants.instant_of(_instant(report.as_of)), zone)
    except (OverflowError, ValueError):
        return None


def _goes_on(known: Overview, cut: int) -> bool:
    """Whether something is known of what begins there, so that there is no last day but that of the last look."""
    return any(
        known.facts[piece.fact].state is not State.MISSING
        for row in known.rows
        for piece in row.pieces
        if (piece.low is None or piece.low <= cut) and (piece.high is None or piece.high > cut)  # type: ignore[operator]
    )


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _cuts(known: Overview) -> list[int]:
    cuts = {key for row in known.rows for piece in row.pieces for key in (piece.low, piece.high)}
    return sorted(key for key in cuts if isinstance(key, int))


def _range_bounds(known: Overview, axis: Axis) -> list[Key]:
    cuts = {key for row in known.rows for piece in row.pieces for key in (piece.low, piece.high) if key is not None}
    found: list[Key] = sorted(cuts)
    if len(found) == 1 and (second := axis.domain.next(found[0])) is not None:
        return [found[0], second]  # a bound alone has no range to show
    most = min(MOST_CELLS, max(2, MOST_CELLS_IN_ROWS // max(1, len(known.rows))))
    step = -(-len(found) // most) or 1
    return [*found[:-1:step], found[-1]] if found else []


def day_of(key: int, domain: Domain, zone: tzinfo) -> int:
    """The day that holds a value of a column of times, as days since 1970; the last that there is at most."""
    try:
        match domain.name:
            case "date":
                return min(max(key, instants.MIN_DAY), instants.MAX_DAY)
            case "timestamp":
                return instants.day_of(key, zone)
        return key // instants.MICROS_PER_DAY
    except OverflowError:
        return instants.MIN_DAY if key < 0 else instants.MAX_DAY


def _key_of(day: int, domain: Domain, zone: tzinfo) -> int:
    match domain.name:
        case "date":
            return day
        case "timestamp":
            return instants.start_of_day(day, zone)
    return day * instants.MICROS_PER_DAY


def _day(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return instants.days_of(datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC).date())
    except ValueError:
        raise RequestError(f"{text!r} is no date.", hint="Write it like 2026-01-31.") from None


# -- cutting


_Parts = list[tuple[int, float]]


def _cut(pieces: Sequence[Piece], bounds: Sequence[Key]) -> Iterator[tuple[Key | None, Key | None, _Parts]]:
    """Before the first bound, between each two, and behind the last: the facts, each with its share."""
    number = 0
    for low, high in pairwise((None, *bounds, None)):
        parts: _Parts = []
        while number < len(pieces):
            piece = pieces[number]
            start, stop = _later(piece.low, low), _earlier(piece.high, high)
            if stop is None or start is None or start < stop:  # type: ignore[operator]
                parts.append((piece.fact, _length(start, stop)))
            if piece.high is None or (high is not None and piece.high > high):  # type: ignore[operator]
                break
            number += 1
        yield low, high, parts


def _length(low: Key | None, high: Key | None) -> float:
    return float(high - low) if isinstance(low, int) and isinstance(high, int) else 1.0


def _later(a: Key | None, b: Key | None) -> Key | None:
    return b if a is None else a if b is None else max(a, b)


def _earlier(a: Key | None, b: Key | None) -> Key | None:
    return b if a is None else a if b is None else min(a, b)


def _cell(
    known: Overview, axis: Axis, unit: str, zone: tzinfo, low: Key | None, high: Key | None, parts: _Parts
) -> Cell:
    total = sum(length for _, length in parts) or 1.0
    shares: dict[State, float] = {}
    for fact, length in parts:
        state = known.facts[fact].state
        shares[state] = shares.get(state, 0.0) + length / total
    facts = sorted(dict.fromkeys(fact for fact, _ in parts), key=lambda n: _URGENCY[known.facts[n].state])
    state = min(shares, key=lambda state: _URGENCY[state])
    return Cell(low, high, _label(axis, unit, zone, low, high), state, tuple(facts), shares)


def _null_cell(known: Overview, fact: int) -> Cell:
    state = known.facts[fact].state
    return Cell(None, None, "NULL", state, (fact,), {state: 1.0})


# -- words


def _label(axis: Axis, unit: str, zone: tzinfo, low: Key | None, high: Key | None) -> str:
    edge = high if low is None else low
    if unit == "range" or not isinstance(edge, int):
        return plain(Values.of(axis.domain, [(low, high)]).to_sql(axis.name))
    day = day_of(edge, axis.domain, zone)
    text = instants.date_text(day)
    if low is None or high is None:
        return f"from {text} on" if high is None else f"before {text}"
    match unit:
        case "week":
            year, week, _ = instants.date_of(day).isocalendar()
            return f"week {week} of {year}, from {text}"
        case "month":
            return text[:7]
        case "year":
            return text[:4]
    return text


def _value(key: Key | None, domain: Domain) -> Any:
    if key is None:
        return None
    match domain.name:
        case "date":
            return instants.date_text(int(key))
        case "timestamp" | "timestamp_ntz":
            text = instants.wall_text(int(key), "T")
            return f"{text}+00:00" if domain.name == "timestamp" else text
        case name if name in INTEGERS:
            return key
        case "string":
            return key
    return domain.to_sql(key)
