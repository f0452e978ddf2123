"""What an operator or a function makes of constants: the part of Spark that windows are made of.

Each rule gives Spark's value (ANSI mode, session time zone = the flow's) or None: then Spark itself has to be asked.
What Spark refuses raises :class:`ValueError` or :class:`OverflowError`.
"""

from __future__ import annotations

import operator
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from decimal import Decimal
from typing import cast

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.instants import MICROS_PER_SECOND
from airflow_provider_replacewhere.predicates.literals import INTEGERS, fits
from airflow_provider_replacewhere.predicates.nodes import COMPARISONS, Call, Cast, Literal

_TIMES = ("date", "timestamp", "timestamp_ntz")
_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MONTH_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAY_UNITS = {"DAY": 1, "DAYOFYEAR": 1, "WEEK": 7}
_MICRO_UNITS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}


@dataclass(frozen=True)
class Now:
    """The instant and the zone that the time functions see; ``as_of`` in microseconds since the epoch."""

    as_of: int
    zone: tzinfo
    zone_name: str


def fold(node: Call | Cast, now: Now) -> Literal | None:
    """The value of a part whose operands are all literals; None where only Spark knows."""
    if isinstance(node, Cast):
        return convert(cast(Literal, node.operand), node.type, now) if not node.lenient else None
    args = cast("tuple[Literal, ...]", node.args)
    if node.name in ("and", "or", "not"):
        return _logic(node.name, args)
    if node.name in ("is null", "isnull", "isnotnull"):
        return Literal("boolean", (args[0].value is None) == (node.name != "isnotnull"))
    if any(arg.value is None for arg in args):
        return None
    if node.name in COMPARISONS:
        return _compare(node.name, args[0], args[1])
    if node.name in ("+", "-"):
        return _add(args[0], args[1], -1 if node.name == "-" else 1, now)
    if node.name == "timestampadd":
        return _timestampadd(node.unit, args, now)
    if node.name == "timestampdiff":
        return None
    rule = _RULES.get(node.name)
    return rule(args, now) if rule else None


# -- casts


def convert(value: Literal, type_: str, now: Now) -> Literal | None:
    """Give what ``CAST(value AS type)`` gives."""
    if value.value is None:
        return Literal(type_.partition("(")[0], None)
    if value.type == type_:
        return value
    match value.type, type_:
        case "string", "date":
            return Literal("date", instants.read_date(str(value.value), now.as_of, now.zone))
        case "string", "timestamp" | "timestamp_ntz":
            return _read_timestamp(str(value.value), type_, now)
        case (("date" | "timestamp" | "timestamp_ntz"), ("date" | "timestamp" | "timestamp_ntz")):
            return _between_times(value, type_, now)
        case (("date" | "timestamp" | "timestamp_ntz"), "string"):
            return Literal("string", _text(value, now))
        case (("tinyint" | "smallint" | "int" | "bigint"), ("tinyint" | "smallint" | "int" | "bigint")):
            return _integer(_int(value), type_)
        case (("tinyint" | "smallint" | "int" | "bigint"), "string"):
            return Literal("string", str(value.value))
        case "string", ("tinyint" | "smallint" | "int" | "bigint"):
            text = str(value.value).strip()
            return _integer(int(text), type_) if text.lstrip("+-").isascii() and text.lstrip("+-").isdigit() else None
        case "string", ("float" | "double") if value.value in ("NaN", "Infinity", "-Infinity"):
            return Literal(type_, float(str(value.value)))
    return None


def _read_timestamp(text: str, type_: str, now: Now) -> Literal | None:
    read = instants.read_timestamp(text, now.as_of, now.zone)
    if read is None:
        return None
    time, is_instant = read
    if type_ == "timestamp":
        return Literal(type_, time if is_instant else instants.from_wall(time, now.zone))
    # A zone in the text of a TIMESTAMP_NTZ is ignored by some versions and refused by others.
    return (
        None
        if is_instant and not instants.is_moving(text)
        else Literal(type_, instants.to_wall(time, now.zone) if is_instant else time)
    )


def _between_times(value: Literal, type_: str, now: Now) -> Literal:
    if type_ == "date":
        return Literal("date", _days(value, now))
    wall = _int(value) * instants.MICROS_PER_DAY if value.type == "date" else _int(value)
    if type_ == "timestamp":
        return Literal(type_, instants.from_wall(wall, now.zone))
    return Literal(type_, instants.to_wall(wall, now.zone) if value.type == "timestamp" else wall)


def _text(value: Literal, now: Now) -> str:
    if value.type == "date":
        return instants.date_text(_int(value))
    return instants.wall_text(instants.to_wall(_int(value), now.zone) if value.type == "timestamp" else _int(value))


def _days(value: Literal, now: Now) -> int:
    """The date that Spark's implicit cast makes of an argument."""
    match value.type:
        case "date":
            return _int(value)
        case "timestamp":
            return instants.day_of(_int(value), now.zone)
        case "timestamp_ntz":
            return _int(value) // instants.MICROS_PER_DAY
        case "string":
            return instants.read_date(str(value.value), now.as_of, now.zone)
    raise ValueError(f"a {value.type.upper()} is no date")


def _int(value: Literal) -> int:
    assert isinstance(value.value, int), value
    return value.value


def _integer(value: int, type_: str) -> Literal:
    if not fits(value, type_):
        raise OverflowError(f"{value} does not fit into {type_.upper()}")
    return Literal(type_, value)


def _is_small_integer(value: Literal) -> bool:
    return value.type in ("tinyint", "smallint", "int")


# -- operators


def _logic(name: str, args: Sequence[Literal]) -> Literal | None:
    values = [arg.value for arg in args]
    if any(value is not None and not isinstance(value, bool) for value in values):
        return None
    if name == "not":
        return Literal("boolean", None if values[0] is None else not values[0])
    decisive = name == "or"
    if decisive in values:
        return Literal("boolean", decisive)
    return Literal("boolean", None if None in values else not decisive)


def _compare(name: str, left: Literal, right: Literal) -> Literal | None:
    integers = left.type in INTEGERS and right.type in INTEGERS
    if not integers and not (left.type == right.type and left.type in (*_TIMES, "boolean")):
        return None
    a, b = _int(left), _int(right)
    outcomes = {"=": a == b, "<=>": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return Literal("boolean", outcomes[name])


def _add(left: Literal, right: Literal, sign: int, now: Now) -> Literal | None:
    if left.type in INTEGERS and right.type in INTEGERS:
        return _integer(_int(left) + sign * _int(right), _wider(left.type, right.type))
    if sign > 0 and right.type in _TIMES:
        left, right = right, left
    if left.type == "date" and _is_small_integer(right):
        return _date(_int(left) + sign * _int(right))
    if left.type == "date" and right.type == "interval day":
        return _date(_int(left) + sign * (_int(right) // instants.MICROS_PER_DAY))
    if left.type == "date" and right.type == "interval month":
        return Literal("date", instants.add_months(_int(left), sign * _int(right)))
    if right.type.startswith("interval") and left.type in _TIMES:
        start = left if left.type != "date" else _between_times(left, "timestamp", now)
        amount = sign * _int(right)
        months, (days, micros) = (
            (amount, (0, 0)) if right.type == "interval month" else (0, instants.split_days(amount))
        )
        return _shift(start, now, months, days, micros)
    return None


def _shift(start: Literal, now: Now, months: int = 0, days: int = 0, micros: int = 0) -> Literal:
    if start.type == "timestamp_ntz":
        return Literal(start.type, instants.shift_wall(_int(start), months, days, micros))
    return Literal(start.type, instants.shift_instant(_int(start), now.zone, months, days, micros))


def _wider(left: str, right: str) -> str:
    names = list(INTEGERS)
    return names[max(names.index(left), names.index(right))]


def _of_integers(rule_of: Callable[[int, int], int]) -> Callable[[Sequence[Literal], Now], Literal | None]:
    def rule(args: Sequence[Literal], _: Now) -> Literal | None:
        left, right = args
        if left.type not in INTEGERS or right.type not in INTEGERS:
            return None
        return _integer(rule_of(_int(left), _int(right)), _wider(left.type, right.type))

    return rule


def _java_remainder(left: int, right: int) -> int:
    """The remainder has the sign of what is divided, unlike Python's."""
    if right == 0:
        raise ValueError("division by zero")
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def _negative(args: Sequence[Literal], _: Now) -> Literal | None:
    (value,) = args
    if value.type in INTEGERS:
        return _integer(-_int(value), value.type)
    if value.type.startswith("interval"):
        return Literal(value.type, -_int(value))
    if isinstance(value.value, Decimal | float):
        return Literal(value.type, -value.value)
    return None


def _concat(args: Sequence[Literal], now: Now) -> Literal | None:
    parts = [convert(arg, "string", now) for arg in args]
    if any(part is None for part in parts):
        return None
    return Literal("string", "".join(str(part.value) for part in parts if part))


# -- functions of dates and times


def _date(days: int) -> Literal:
    instants.date_of(days)
    return Literal("date", days)


def _date_add(sign: int) -> Callable[[Sequence[Literal], Now], Literal | None]:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 2 or not _is_small_integer(args[1]):
            return None
        return _date(_days(args[0], now) + sign * _int(args[1]))

    return rule


def _add_months(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or not _is_small_integer(args[1]):
        return None
    return Literal("date", instants.add_months(_days(args[0], now), _int(args[1])))


def _timestampadd(unit: str, args: Sequence[Literal], now: Now) -> Literal | None:
    amount, time = args
    if amount.type not in INTEGERS or time.type not in _TIMES:
        return None
    start = _between_times(time, "timestamp", now) if time.type == "date" else time
    count = _int(amount)
    if unit in _MONTH_UNITS:
        return _shift(start, now, months=count * _MONTH_UNITS[unit])
    if unit in _DAY_UNITS:
        return _shift(start, now, days=count * _DAY_UNITS[unit])
    # Spark 3 moves whole days by the calendar, Spark 4 by instants: where that differs, it has to be asked.
    days, micros = instants.split_days(count * _MICRO_UNITS[unit])
    by_calendar = _shift(start, now, days=days, micros=micros)
    return by_calendar if by_calendar == _shift(start, now, micros=count * _MICRO_UNITS[unit]) else None


def _datediff(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2:
        return None
    return Literal("int", _days(args[0], now) - _days(args[1], now))


def _last_day(args: Sequence[Literal], now: Now) -> Literal | None:
    day = instants.date_of(_days(args[0], now))
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
    start = _days(args[0], now)
    return _date(start + 1 + (wanted - instants.date_of(start + 1).weekday()) % 7)


def _trunc(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[1].type != "string":
        return None
    found = instants.truncate_date(_days(args[0], now), str(args[1].value))
    if found is None:
        raise ValueError(f"{args[1].value!r} is no unit of trunc: take YEAR, QUARTER, MONTH or WEEK")
    return _date(found)


def _date_trunc(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 2 or args[0].type != "string":
        return None
    time = convert(args[1], "timestamp", now)
    if time is None:
        return None
    found = instants.truncate_instant(_int(time), str(args[0].value), now.zone)
    if found is None:
        raise ValueError(f"{args[0].value!r} is no unit of date_trunc: take YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, …")
    return Literal("timestamp", found)


def _make_date(args: Sequence[Literal], now: Now) -> Literal | None:
    if len(args) != 3 or not all(map(_is_small_integer, args)):
        return None
    return convert(Literal("string", "{:04d}-{:d}-{:d}".format(*map(_int, args))), "date", now)


def _make_timestamp(type_: str) -> Callable[[Sequence[Literal], Now], Literal | None]:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 6 or not all(map(_is_small_integer, args)):
            return None
        text = "{:04d}-{:d}-{:d} {:d}:{:d}:{:d}".format(*map(_int, args))
        return convert(Literal("string", text), type_, now)

    return rule


def _cast_to(type_: str) -> Callable[[Sequence[Literal], Now], Literal | None]:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        return convert(args[0], type_, now) if len(args) == 1 else None

    return rule


def _part(name: str) -> Callable[[Sequence[Literal], Now], Literal | None]:
    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 1:
            return None
        day = instants.date_of(_days(args[0], now))
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


def _clock_part(unit: timedelta) -> Callable[[Sequence[Literal], Now], Literal | None]:
    micros, modulus = unit // timedelta(microseconds=1), 24 if unit == timedelta(hours=1) else 60

    def rule(args: Sequence[Literal], now: Now) -> Literal | None:
        if len(args) != 1 or args[0].type not in _TIMES:
            return None
        wall = _between_times(args[0], "timestamp_ntz", now)
        return Literal("int", _int(wall) // micros % modulus)

    return rule


def _clock(type_: str) -> Callable[[Sequence[Literal], Now], Literal | None]:
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


_RULES: dict[str, Callable[[Sequence[Literal], Now], Literal | None]] = {
    "current_date": _clock("date"),
    "curdate": _clock("date"),
    "current_timestamp": _clock("timestamp"),
    "now": _clock("timestamp"),
    "localtimestamp": _clock("timestamp_ntz"),
    "current_timezone": _zone_name,
    "unix_timestamp": _unix_timestamp,
    "*": _of_integers(operator.mul),
    "&": _of_integers(operator.and_),
    "|": _of_integers(operator.or_),
    "^": _of_integers(operator.xor),
    "%": _of_integers(_java_remainder),
    "mod": _of_integers(_java_remainder),
    "negative": _negative,
    "positive": lambda args, _: args[0],
    "||": _concat,
    "concat": _concat,
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
