"""A side of a comparison that follows one column in order, and the place of a constant among its values.

``trunc(d, 'MM') >= DATE '2026-03-15'`` is a range of ``d`` because ``trunc`` never puts a later day before an earlier
one: for each value there is a first key of the column from which on the term reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias, cast

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.boxes import Path
from airflow_provider_replacewhere.predicates.casts import Now, convert
from airflow_provider_replacewhere.predicates.domains import Domain, Key, resolve
from airflow_provider_replacewhere.predicates.instants import MICROS_PER_DAY
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.nodes import Call, Cast, Column, Literal, Node

Reach: TypeAlias = Callable[[int], int]
"""From a value of the term to the first key of the column at which the term is that or more."""

_DATE = Domain("date")
_MOST_DIGITS = 38


@dataclass(frozen=True)
class Term:
    """A non-decreasing function of one column; NULL exactly where the column is.

    :param path: the column
    :param column: its domain
    :param result: the domain of the term's values
    :param reach: None for the column itself
    """

    path: Path
    column: Domain
    result: Domain
    reach: Reach | None = None

    def first(self, key: Key) -> Key:
        """The column's first key at which the term is ``key`` or more."""
        return key if self.reach is None else self.reach(cast(int, key))

    def then(self, result: Domain, reach: Reach) -> Term:
        """The term after one more step."""
        inner = self.reach
        return Term(self.path, self.column, result, reach if inner is None else lambda key: inner(reach(key)))


class _NoTermError(Exception):
    """The expression follows no single column in order."""


def term_of(node: Node, columns: Mapping[str, str], now: Now) -> Term | None:
    """The term that an expression is; None where it is none that is known here."""
    try:
        return _term(node, columns, now)
    except _NoTermError:
        return None


def _term(node: Node, columns: Mapping[str, str], now: Now) -> Term:
    match node:
        case Column(parts=parts):
            found = resolve(parts, columns)
            if found is None:
                raise _NoTermError
            return Term(*found, found[1])
        case Cast(operand=operand, type=type_, lenient=False):
            return _cast(_term(operand, columns, now), type_, now.zone)
        case Call(name="to_date", args=(operand,)):
            return _cast(_term(operand, columns, now), "date", now.zone)
        case Call(name="year", args=(operand,)) | Call(name="date_part", args=(Literal(value="YEAR"), operand)):
            return _cast(_term(operand, columns, now), "date", now.zone).then(Domain("int"), _first_day_of_year)
        case Call(name="trunc", args=(operand, Literal(value=str() as level))):
            return _truncated(_cast(_term(operand, columns, now), "date", now.zone), level)
        case Call(name="date_trunc", args=(Literal(value=str() as level), operand)):
            return _truncated_instant(_term(operand, columns, now), level, now.zone)
        case Call(name="add_months", args=(operand, Literal(type="int", value=int() as months))):
            return _months_later(_cast(_term(operand, columns, now), "date", now.zone), months)
        case Call(name="date_add" | "date_sub" as name, args=(operand, Literal(type="int", value=int() as days))):
            moved = days if name == "date_add" else -days
            return _days_later(_cast(_term(operand, columns, now), "date", now.zone), moved)
        case Call(name="+" | "-" as name, args=(operand, Literal() as amount)):
            return _moved(_term(operand, columns, now), amount, 1 if name == "+" else -1)
        case Call(name="+", args=(Literal() as amount, operand)):
            return _moved(_term(operand, columns, now), amount, 1)
    raise _NoTermError


def _cast(term: Term, type_: str, zone: tzinfo) -> Term:
    match term.result.name, type_:
        case (source, target) if source == target and source in ("date", "timestamp", "timestamp_ntz"):
            return term
        case "timestamp", "date":
            return term.then(_DATE, lambda day: _first_instant(day, zone))
        case "timestamp_ntz", "date":
            return term.then(_DATE, lambda day: day * MICROS_PER_DAY)
        case "date", "timestamp":
            return term.then(Domain("timestamp"), lambda instant: _first_day_from(instant, zone))
        case "date", "timestamp_ntz":
            return term.then(Domain("timestamp_ntz"), lambda wall: -(-wall // MICROS_PER_DAY))
    raise _NoTermError


def _first_instant(day: int, zone: tzinfo) -> int:
    """The first instant of a day, if from there on it is never an earlier day again."""
    start = instants.start_of_day(day, zone)
    before, after = start, start + MICROS_PER_DAY
    if instants.offset_at(after, zone) < instants.offset_at(before, zone):
        while after - before > 1:
            middle = (before + after) // 2
            if instants.offset_at(middle, zone) < instants.offset_at(start, zone):
                after = middle
            else:
                before = middle
        # Clocks that are set back over midnight show the day before once more: then the day is no single range.
        if instants.day_of(after, zone) < day:
            raise _NoTermError
    return start


def _first_day_from(instant: int, zone: tzinfo) -> int:
    day = instants.day_of(instant, zone) - 1
    while instants.start_of_day(day, zone) < instant:
        day += 1
    return day


def _first_day_of_year(year: int) -> int:
    if not 1 <= year <= 10_000:
        raise _NoTermError
    if year == 10_000:
        return instants.MAX_DAY + 1
    return instants.days_of(instants.date_of(0).replace(year=year, month=1, day=1))


def _truncated(term: Term, level: str) -> Term:
    if term.result != _DATE or instants.truncate_date(0, level) is None:
        raise _NoTermError
    return term.then(_DATE, lambda day: _next_start(day, level))


def _next_start(day: int, level: str) -> int:
    """The day itself if a unit starts with it, else the start of the next."""
    start = instants.truncate_date(day, level)
    while start is not None and start < day:
        # The longest unit is a year.
        later = next(
            instants.truncate_date(start + step, level) for step in (8, 32, 93, 367) if _later(start, step, level)
        )
        start = later
    return cast(int, start)


def _later(start: int, step: int, level: str) -> bool:
    found = instants.truncate_date(start + step, level)
    return found is not None and found > start


def _truncated_instant(term: Term, level: str, zone: tzinfo) -> Term:
    """By days or more: a day is a range of instants, and a unit of days a range of days."""
    days = _cast(term, "date", zone)
    return _cast(days if level.upper() in ("DAY", "DD") else _truncated(days, level), "timestamp", zone)


def _days_later(term: Term, days: int) -> Term:
    if term.result != _DATE:
        raise _NoTermError
    return term.then(_DATE, lambda day: day - days)


def _months_later(term: Term, months: int) -> Term:
    if term.result != _DATE:
        raise _NoTermError

    def reach(day: int) -> int:
        # The ends of months are clamped, so the first day that reaches it lies near the same day of the other month.
        start = instants.add_months(day, -months) - 4
        if instants.add_months(start, months) >= day:
            raise _NoTermError
        return next(found for found in range(start, start + 9) if instants.add_months(found, months) >= day)

    return term.then(_DATE, reach)


def _moved(term: Term, amount: Literal, sign: int) -> Term:
    if not isinstance(amount.value, int):
        raise _NoTermError
    match amount.type:
        case "tinyint" | "smallint" | "int":
            return _days_later(term, sign * amount.value)
        case "interval day":
            return _days_later(term, sign * amount.value // MICROS_PER_DAY)
        case "interval month":
            return _months_later(term, sign * amount.value)
    raise _NoTermError


# -- constants among the values


def place(term: Term, value: Literal, now: Now) -> tuple[Key | None, Key | None] | None:
    """The column's first key at which the term is the value or more, and the first at which it is more.

    None where Spark's way of comparing the two is not known here.

    :raises ValueError: the value is a string that is none of the term's values
    """
    try:
        cut = _cut(term.result, value, now)
        return None if cut is None else (term.first(cut[0]), term.first(cut[1]))
    except (_NoTermError, OverflowError, StopIteration):
        return None


def _cut(domain: Domain, value: Literal, now: Now) -> tuple[Key, Key] | None:
    match domain.name:
        case "date" | "timestamp" | "timestamp_ntz":
            return _cut_time(domain, value, now)
        case "string" | "binary" if value.type == domain.name:
            key = cast(Key, value.value)
            return key, domain.next(key)
        case "boolean" if isinstance(value.value, bool):
            return int(value.value), int(value.value) + 1
        case "double":
            return _cut_double(domain, value)
        case "decimal":
            return _cut_exact(value, domain.precision, domain.scale)
        case name if name in INTEGERS:
            return _cut_exact(value, 20 if name == "bigint" else 10, 0, whole=name)
    return None


def _cut_time(domain: Domain, value: Literal, now: Now) -> tuple[Key, Key] | None:
    match domain.name, value.type:
        case "date", "timestamp":
            instant = cast(int, value.value)
            return _first_day_from(instant, now.zone), _first_day_from(instant + 1, now.zone)
        case "date", "timestamp_ntz":
            wall = cast(int, value.value)
            return -(-wall // MICROS_PER_DAY), wall // MICROS_PER_DAY + 1
        case "timestamp_ntz", "timestamp":
            # Spark compares the column's instants, and those of a skipped hour are not in order.
            return None
        case _, "date" | "timestamp" | "timestamp_ntz" | "string":
            converted = convert(value, domain.name, now)
            return None if converted is None else (key := cast(int, converted.value), key + 1)
    return None


def _cut_double(domain: Domain, value: Literal) -> tuple[Key, Key] | None:
    if isinstance(value.value, bool) or not isinstance(value.value, int | float | Decimal):
        return None
    if value.type in INTEGERS and abs(cast(int, value.value)) >= 1 << 24:
        # Depending on its version and mode Spark compares a FLOAT with it as FLOAT.
        return None
    key = cast(int, domain.key(float(value.value)))
    return key, key + 1


def _cut_exact(value: Literal, digits: int, scale: int, whole: str = "") -> tuple[Key, Key] | None:
    """Among whole numbers of a unit of ``10**-scale``."""
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return None
    if isinstance(number, float) and (whole not in ("tinyint", "smallint", "int") or not math.isfinite(number)):
        # Spark compares as DOUBLE, which holds not every value of the column.
        return None
    if isinstance(number, Decimal):
        own = number.as_tuple()
        own_scale = max(0, -cast(int, own.exponent))
        if max(digits - scale, len(own.digits) - own_scale) + max(scale, own_scale) > _MOST_DIGITS:
            return None
    scaled = Fraction(number) * 10**scale
    return math.ceil(scaled), math.floor(scaled) + 1
