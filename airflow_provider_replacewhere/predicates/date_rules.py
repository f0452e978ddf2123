"""What the functions of dates and times make of constants."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.casts import (
    TIMES,
    Now,
    between_times,
    convert,
    days_of,
    int_of,
    is_small_integer,
)
from airflow_provider_replacewhere.predicates.instants import MICROS_PER_SECOND
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.nodes import Literal

Rule: TypeAlias = Callable[[Sequence[Literal], Now], Literal | None]
"""From a function's arguments, none of them NULL, to its value; None where only Spark knows it."""

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MONTH_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAY_UNITS = {"DAY": 1, "DAYOFYEAR": 1, "WEEK": 7}
_MICRO_UNITS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}


def shift(start: Literal, now: Now, months: int = 0, days: int = 0, micros: int = 0) -> Literal:
    """A timestamp moved: months and days by the calendar of its zone, then microseconds that really pass."""
    if start.type == "timestamp_ntz":
        return Literal(start.type, instants.shift_wall(int_of(start), months, days, micros))
    return Literal(start.type, instants.shift_instant(int_of(start), now.zone, months, days, micros))


def date_literal(days: int) -> Literal:
    """:raises OverflowError: the day lies outside the years 1 to 9999"""
    instants.date_of(days)
    return Literal("date", days)


def _date_add(sign: int) -> Rule:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 2 or not is_small_integer(args[1]):
            return None
        return date_literal(days_of(args[0], now) + sign * int_of(args[1]))

    return rule


def _add_months(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or not is_small_integer(args[1]):
        return None
    return Literal("date", instants.add_months(days_of(args[0], now), int_of(args[1])))


def timestampadd(unit: str, args: Sequence[Literal], now: Now) -> Literal | None:
    """The value of ``timestampadd(unit, amount, time)``."""
    amount, time = args
    if amount.type not in INTEGERS or time.type not in TIMES:
        return None
    start = between_times(time, "timestamp", now) if time.type == "date" else time
    count = int_of(amount)
    if unit in _MONTH_UNITS:
        return shift(start, now, months=count * _MONTH_UNITS[unit])
    if unit in _DAY_UNITS:
        return shift(start, now, days=count * _DAY_UNITS[unit])
    # Spark 3 moves whole days by the calendar, Spark 4 by instants: where that differs, it has to be asked.
    days, micros = instants.split_days(count * _MICRO_UNITS[unit])
    by_calendar = shift(start, now, days=days, micros=micros)
    return by_calendar if by_calendar == shift(start, now, micros=count * _MICRO_UNITS[unit]) else None


def _datediff(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2:
        return None
    return Literal("int", days_of(args[0], now) - days_of(args[1], now))


def _last_day(args: Sequence[Literal], now: Now) -> Literal | None:
    day = instants.date_of(days_of(args[0], now))
    return Literal("date", instants.days_of(day.replace(day=monthrange(day.year, day.month)[1])))


def _next_day(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[1].type != "string":
        return None
    name = str(args[1].value).strip().upper()
    wanted = next(
        (n for n, day in enumerate(_DAYS) if name in (day, day[:2]) or (len(name) > 3 and name.startswith(day))), None
    )
    if wanted is None:
        raise ValueError(f"{name} is no day of the week")
    start = days_of(args[0], now)
    return date_literal(start + 1 + (wanted - instants.date_of(start + 1).weekday()) % 7)


def _trunc(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[1].type != "string":
        return None
    found = instants.truncate_date(days_of(args[0], now), str(args[1].value))
    if found is None:
        raise ValueError(f"{args[1].value!r} is no unit of trunc: take YEAR, QUARTER, MONTH or WEEK")
    return date_literal(found)


def _date_trunc(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[0].type != "string":
        return None
    time = convert(args[1], "timestamp", now)
    if time is None:
        return None
    found = instants.truncate_instant(int_of(time), str(args[0].value), now.zone)
    if found is None:
        raise ValueError(f"{args[0].value!r} is no unit of date_trunc: take YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, …")
    return Literal("timestamp", found)


def _make_date(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 3 or not all(map(is_small_integer, args)):
        return None
    return convert(Literal("string", "{:04d}-{:d}-{:d}".format(*map(int_of, args))), "date", now)


def _make_timestamp(type_: str) -> Rule:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 6 or not all(map(is_small_integer, args)):
            return None
        text = "{:04d}-{:d}-{:d} {:d}:{:d}:{:d}".format(*map(int_of, args))
        return convert(Literal("string", text), type_, now)

    return rule


def _cast_to(type_: str) -> Rule:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        return convert(args[0], type_, now) if len(args) == 1 else None

    return rule


def _part(name: str) -> Rule:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 1:
            return None
        day = instants.date_of(days_of(args[0], now))
        return Literal("int", _DATE_PARTS[name](day))

    return rule


_DATE_PARTS: dict[str, Callable[..., int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "dayofmonth": lambda d: d.day,
    "dayofweek": lambda d: d.isoweekday() % 7 + 1,
    "weekday": lambda d: d.weekday(),
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "weekofyear": lambda d: d.isocalendar().week,
}
_EXTRACT = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    **dict.fromkeys(("DAYOFYEAR", "DOY"), "dayofyear"),
}


def _date_part(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[0].type != "string":
        return None
    name = _EXTRACT.get(str(args[0].value).upper())
    return _part(name)(args[1:], now) if name else None


def _clock_part(unit: timedelta) -> Rule:
    micros, modulus = unit // timedelta(microseconds=1), 24 if unit == timedelta(hours=1) else 60

    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 1 or args[0].type not in TIMES:
            return None
        wall = between_times(args[0], "timestamp_ntz", now)
        return Literal("int", int_of(wall) // micros % modulus)

    return rule


def _clock(type_: str) -> Rule:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if args:
            raise ValueError("it takes no argument")
        return convert(Literal("timestamp", now.as_of), type_, now)

    return rule


def _zone_name(_: Sequence[Literal], now: Now) -> Literal | None:
    return Literal("string", now.zone_name)


def _unix_timestamp(args: Sequence[Literal], now: Now) -> Literal | None:
    if args:
        return None
    seconds = abs(now.as_of) // MICROS_PER_SECOND
    return Literal("bigint", seconds if now.as_of >= 0 else -seconds)


DATE_RULES: dict[str, Rule] = {
    "current_date": _clock("date"),
    "curdate": _clock("date"),
    "current_timestamp": _clock("timestamp"),
    "now": _clock("timestamp"),
    "localtimestamp": _clock("timestamp_ntz"),
    "current_timezone": _zone_name,
    "unix_timestamp": _unix_timestamp,
    "date_add": _date_add(1),
    "dateadd": _date_add(1),
    "date_sub": _date_add(-1),
    "add_months": _add_months,
    "datediff": _datediff,
    "date_diff": _datediff,
    "last_day": _last_day,
    "next_day": _next_day,
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "make_date": _make_date,
    "make_timestamp": _make_timestamp("timestamp"),
    "make_timestamp_ltz": _make_timestamp("timestamp"),
    "make_timestamp_ntz": _make_timestamp("timestamp_ntz"),
    "to_date": _cast_to("date"),
    "to_timestamp": _cast_to("timestamp"),
    "to_timestamp_ltz": _cast_to("timestamp"),
    "to_timestamp_ntz": _cast_to("timestamp_ntz"),
    "date_part": _date_part,
    "datepart": _date_part,
    "hour": _clock_part(timedelta(hours=1)),
    "minute": _clock_part(timedelta(minutes=1)),
    "second": _clock_part(timedelta(seconds=1)),
    **{name: _part(name) for name in _DATE_PARTS},
}
