"""What a cast makes of a constant, and how Spark takes a constant for a date, a number or a text.

As in ANSI mode, with the flow's zone for the session's. What Spark refuses raises :class:`ValueError` or
:class:`OverflowError`; None means that only Spark knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.literals import EXACT, fits
from airflow_provider_replacewhere.predicates.nodes import Literal

TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Now:
    """The instant and the zone that the time functions see; ``as_of`` in microseconds since the epoch."""

    as_of: int
    zone: tzinfo
    zone_name: str


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
            return between_times(value, type_, now)
        case (("date" | "timestamp" | "timestamp_ntz"), "string"):
            return Literal("string", _text(value, now))
        case (("tinyint" | "smallint" | "int" | "bigint"), ("tinyint" | "smallint" | "int" | "bigint")):
            return integer(int_of(value), type_)
        case (("tinyint" | "smallint" | "int" | "bigint"), "string"):
            return Literal("string", str(value.value))
        case "string", ("tinyint" | "smallint" | "int" | "bigint"):
            text = str(value.value).strip()
            digits = text.lstrip("+-")
            # Python reads no number of thousands of digits; what has that many is none of Spark's.
            return integer(int(text), type_) if digits.isascii() and digits.isdigit() and len(digits) < 100 else None
        case "string", _ if type_ == "double" or type_.startswith("decimal("):
            return _read_number(str(value.value), type_)
    return None


_NUMBER = re.compile(r"NaN|-?Infinity|[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def _read_number(text: str, type_: str) -> Literal | None:
    if not _NUMBER.fullmatch(text):
        return None
    if type_ == "double":
        return Literal(type_, float(text))
    precision, scale = map(int, type_.removeprefix("decimal(").removesuffix(")").split(","))
    try:
        number = Decimal(text)
        # What has to be rounded is left to Spark.
        if not number.is_finite() or number.copy_abs() >= 10 ** (precision - scale):
            return None
        exact = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
        return Literal("decimal", exact) if exact == number else None
    except ArithmeticError:
        return None  # digits or an exponent beyond what a DECIMAL can have


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


def between_times(value: Literal, type_: str, now: Now) -> Literal:
    """A date or a timestamp as another of the three types."""
    if type_ == "date":
        return Literal("date", days_of(value, now))
    wall = int_of(value) * instants.MICROS_PER_DAY if value.type == "date" else int_of(value)
    if type_ == "timestamp":
        return Literal(type_, instants.from_wall(wall, now.zone))
    return Literal(type_, instants.to_wall(wall, now.zone) if value.type == "timestamp" else wall)


def _text(value: Literal, now: Now) -> str:
    if value.type == "date":
        return instants.date_text(int_of(value))
    return instants.wall_text(instants.to_wall(int_of(value), now.zone) if value.type == "timestamp" else int_of(value))


def days_of(value: Literal, now: Now) -> int:
    """The date that Spark's implicit cast makes of an argument."""
    match value.type:
        case "date":
            return int_of(value)
        case "timestamp":
            return instants.day_of(int_of(value), now.zone)
        case "timestamp_ntz":
            return int_of(value) // instants.MICROS_PER_DAY
        case "string":
            return instants.read_date(str(value.value), now.as_of, now.zone)
    raise ValueError(f"a {value.type.upper()} is no date")


def int_of(value: Literal) -> int:
    """The whole number by which a literal is kept."""
    assert isinstance(value.value, int), value
    return value.value


def integer(value: int, type_: str) -> Literal:
    """:raises OverflowError: the type does not hold the value"""
    if not fits(value, type_):
        raise OverflowError(f"{value} does not fit into {type_.upper()}")
    return Literal(type_, value)


def is_small_integer(value: Literal) -> bool:
    """Whether a literal may be a number of days or months: BIGINT may not."""
    return value.type in ("tinyint", "smallint", "int")
