"""Numbers and intervals as Spark reads them from a text."""

from __future__ import annotations

import re
import struct
from decimal import Context, Decimal

from airflow_provider_replacewhere.predicates.nodes import Literal

EXACT = Context(prec=1_000)
"""For Decimals: Python's own context rounds at 28 digits, where Spark's have 38."""
MOST_DIGITS = 38
"""Of a DECIMAL, before and after the point together."""

INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
"""Integer types, narrowest first, with the number of bits beside the sign."""

MICROS_PER_DAY = 86_400_000_000
_MICROS = {
    "WEEK": 7 * MICROS_PER_DAY,
    "DAY": MICROS_PER_DAY,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_FIELDS = {
    ("YEAR", "MONTH"): r"(\d+)-(\d+)",
    ("DAY", "HOUR"): r"(\d+) (\d{1,2})",
    ("DAY", "MINUTE"): r"(\d+) (\d{1,2}):(\d{1,2})",
    ("DAY", "SECOND"): r"(\d+) (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)",
    ("HOUR", "MINUTE"): r"(\d+):(\d{1,2})",
    ("HOUR", "SECOND"): r"(\d+):(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)",
    ("MINUTE", "SECOND"): r"(\d+):(\d{1,2}(?:\.\d{1,6})?)",
}
_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")


def fits(value: int, type_: str) -> bool:
    """Whether an integer type holds a value."""
    return -(1 << INTEGERS[type_]) <= value < 1 << INTEGERS[type_]


def number(text: str, *, negative: bool = False) -> Literal:
    """A number with Spark's type for it: by its suffix, else the narrowest of INT, BIGINT and DECIMAL.

    :raises ValueError: the number is too large for the type of its suffix
    """
    found = re.fullmatch(r"([\d.]+(?:[eE][+-]?\d+)?)(BD|[LSYDF])?", text, re.IGNORECASE)
    assert found is not None, text
    digits, suffix = ("-" if negative else "") + found[1], (found[2] or "").upper()
    if suffix in ("L", "S", "Y"):
        type_ = {"L": "bigint", "S": "smallint", "Y": "tinyint"}[suffix]
        if "." in digits or "e" in digits.lower() or not fits(int(_decimal(digits)), type_):
            raise ValueError(f"{text} is no {type_.upper()}.")
        return Literal(type_, int(digits))
    if suffix == "D" or (not suffix and "e" in digits.lower()):
        return Literal("double", float(digits))
    if suffix == "F":
        return Literal("float", struct.unpack("f", struct.pack("f", float(digits)))[0])
    if suffix == "BD" or "." in digits:
        return Literal("decimal", _decimal(digits))
    value = _decimal(digits)
    type_ = next((name for name in ("int", "bigint") if fits(int(value), name)), "decimal")
    return Literal(type_, value if type_ == "decimal" else int(value))


def _decimal(digits: str) -> Decimal:
    """:raises ValueError: no DECIMAL of Spark's has so many digits"""
    value = Decimal(digits)
    _, places, exponent = value.as_tuple()
    # An exponent of millions is ten characters here and as many digits when it is written out.
    if not isinstance(exponent, int) or max(len(places) + max(exponent, 0), -exponent) > MOST_DIGITS:
        raise ValueError(f"This number has more than {MOST_DIGITS} digits.")
    return value


def interval_of_units(words: list[str]) -> Literal:
    """``["7", "DAYS", "2", "HOURS"]`` as an interval.

    :raises ValueError: no interval, or one of months as well as days
    """
    if not words or len(words) % 2:
        raise ValueError("This is no interval: write numbers with units, such as INTERVAL 7 DAYS.")
    months = micros = 0
    units = [word.upper().rstrip("S") for word in words[1::2]]
    for amount, unit in zip(words[::2], units, strict=True):
        fraction = unit == "SECOND"
        if not re.fullmatch(r"[+-]{0,2}\d+(\.\d{1,6})?" if fraction else r"[+-]{0,2}\d+", amount):
            raise ValueError(f"{amount} is no number of {unit.lower()}s.")
        value = Decimal(amount.lstrip("+-")) * (-1) ** amount.count("-")
        if unit in _MONTHS:
            months += int(value) * _MONTHS[unit]
        elif unit in _MICROS:
            micros += int(value * _MICROS[unit])
        else:
            raise ValueError(f"{unit} is no unit of an interval.")
    if {*units} & {*_MONTHS}:
        if {*units} & {*_MICROS}:
            raise ValueError("An interval cannot have months as well as days: add two intervals.")
        return Literal("interval month", months)
    return Literal("interval day" if {*units} <= {"DAY", "WEEK"} else "interval second", micros)


def interval_of(text: str, first: str, last: str) -> Literal:
    """``INTERVAL 'text' first TO last``.

    :raises ValueError: the text has not that form
    """
    pattern = _FIELDS.get((first, last))
    found = pattern and re.fullmatch(r"([+-]{0,2})" + pattern, text.strip())
    if not found:
        raise ValueError(f"{text!r} is no interval of {first} TO {last}.")
    sign, parts = (-1) ** found[1].count("-"), found.groups()[1:]
    if first == "YEAR":
        if int(parts[1]) > 11:
            raise ValueError(f"{text!r} has more than 11 months.")
        return Literal("interval month", sign * (int(parts[0]) * 12 + int(parts[1])))
    fields = _ORDER[_ORDER.index(first) : _ORDER.index(last) + 1]
    limits = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}
    if any(Decimal(part) >= limits[field] for part, field in list(zip(parts, fields, strict=True))[1:]):
        raise ValueError(f"{text!r} has a field that is too large for {first} TO {last}.")
    micros = sum(int(Decimal(part) * _MICROS[field]) for part, field in zip(parts, fields, strict=True))
    return Literal("interval second", sign * micros)
