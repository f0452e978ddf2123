"""The values of a Spark type as keys that sort as Spark sorts the values.

Every key has a next one, so each range can be written half-open. A date is its day, a timestamp its microsecond, a
DECIMAL its unscaled number, a DOUBLE the rank of its bits (-0.0 is 0.0, NaN is above infinity), a BOOLEAN 0 or 1.
Strings sort by code point, which is the order of their UTF-8 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias, cast

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.literals import EXACT, INTEGERS
from airflow_provider_replacewhere.predicates.render import literal
from airflow_provider_replacewhere.predicates.types import SparkType, spark_type

Key: TypeAlias = int | str | bytes

_WHOLE = frozenset({"date", "timestamp", "timestamp_ntz", "decimal", "double", "float", "boolean", *INTEGERS})
_TEXTS = frozenset({"string", "binary"})


@dataclass(frozen=True)
class Domain:
    """The values of one type.

    :param name: the type in lower case; ``float`` counts as ``double``, whose values include its own; a type without
        an order that is used here (ARRAY, STRUCT, strings with a collation, …) is ``other``, of which only NULL is told
        apart
    :param precision: of a DECIMAL
    :param scale: of a DECIMAL
    """

    name: str
    precision: int = 0
    scale: int = 0

    @classmethod
    def of(cls, type_: str | SparkType) -> Domain:
        """The domain of a column's type, given as Spark writes it."""
        if isinstance(type_, str):
            type_ = spark_type(type_)
        match type_.name:
            case "decimal":
                return cls("decimal", *(*type_.sizes, 0, 0)[:2])
            case "float":
                return cls("double")
            case "varchar":
                return cls("string")
            case name if name in _WHOLE | _TEXTS:
                return cls(name)
        return cls("other")

    @property
    def is_ordered(self) -> bool:
        return self.name != "other"

    def next(self, key: Key) -> Key:
        """The key that comes right after."""
        match key:
            case int():
                return key + 1
            case str():
                return key + "\0"
        return key + b"\0"

    def previous(self, key: Key) -> Key | None:
        """The key that comes right before, where there is exactly one such."""
        match key:
            case int():
                return key - 1
            case str():
                return key[:-1] if key.endswith("\0") else None
        return key[:-1] if key.endswith(b"\0") else None

    @property
    def bounds(self) -> tuple[Key | None, Key | None]:
        """The first key of all, and the first that is beyond all; None where nothing is said."""
        match self.name:
            case "boolean":
                return 0, 2
            case "decimal":
                return 1 - 10**self.precision, 10**self.precision
            case "double":
                return _rank(-math.inf), _rank(math.nan) + 1
            case "string":
                return "", None
            case "binary":
                return b"", None
            case name if name in INTEGERS:
                return -(1 << INTEGERS[name]), 1 << INTEGERS[name]
        return None, None

    def key(self, value: Any) -> Key:
        """The key of a Python value.

        :param value: bool, int, float, Decimal, str, bytes, date, or datetime: an aware one for a TIMESTAMP, a naive
            one for a TIMESTAMP_NTZ
        :raises PredicateError: the value is not of this type
        """
        found = self._key(value)
        if found is None:
            hint = "A TIMESTAMP is given as an aware datetime." if self.name == "timestamp" else ""
            raise PredicateError(f"{value!r} is no value of type {self.name.upper()}.", hint=hint)
        return found

    def _key(self, value: Any) -> Key | None:
        match self.name, value:
            case "date", datetime():
                return None
            case "date", date():
                return instants.days_of(value)
            case "timestamp", datetime() if value.tzinfo is not None:
                return instants.instant_of(value)
            case "timestamp_ntz", datetime() if value.tzinfo is None:
                return instants.wall_of(value)
            case "boolean", bool():
                return int(value)
            case "decimal", Decimal() | int():
                return _unscaled(Decimal(value), self.scale)
            case "double", float() | int():
                return _rank(float(value))
            case "string", str():
                return value
            case "binary", bytes() | bytearray():
                return bytes(value)
            case name, int() if name in INTEGERS and not isinstance(value, bool):
                return value
        return None

    def to_sql(self, key: Key) -> str | None:
        """The key as a literal; None where Spark has no literal for it."""
        match self.name:
            case "boolean":
                return literal(bool(key), "boolean")
            case "decimal":
                return literal(Decimal(cast(int, key)).scaleb(-self.scale, EXACT), "decimal")
            case "double":
                return literal(_unranked(cast(int, key)), "double")
        try:
            return literal(key, self.name)
        except OverflowError:
            return None

    def to_json(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    def key_to_json(self, key: Key | None) -> Any:
        return key.hex() if isinstance(key, bytes) else key

    def key_from_json(self, value: Any) -> Key | None:
        return bytes.fromhex(value) if self.name == "binary" and value is not None else cast("Key | None", value)


@cache
def _of(type_: str | SparkType) -> tuple[str, int, int]:
    if isinstance(type_, str):
        if "collate" in type_.lower():
            return "other", 0, 0
        type_ = spark_type(type_)
    match type_.name:
        case "decimal":
            precision, scale = (*type_.sizes, 0, 0)[:2]
            return "decimal", precision, scale
        case "float":
            return "double", 0, 0
        case "varchar":
            return "string", 0, 0
        case name if name in _WHOLE | _TEXTS:
            return name, 0, 0
    return "other", 0, 0


@cache
def _one_of_each(name: str, precision: int, scale: int) -> Domain:
    return Domain(name, precision, scale)


def _unscaled(value: Decimal, scale: int) -> int | None:
    if not value.is_finite():
        return None
    scaled = value.scaleb(scale, EXACT)
    return int(scaled) if scaled == scaled.to_integral_value(context=EXACT) else None


def _rank(value: float) -> int:
    """Where a double stands among all of them."""
    if math.isnan(value):
        return _rank(math.inf) + 1
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    # Negative numbers sort by their magnitude, backwards; -0.0 falls on 0.
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _unranked(rank: int) -> float:
    if rank > _rank(math.inf):
        return math.nan
    value: float = struct.unpack(">d", struct.pack(">q", abs(rank)))[0]
    return -value if rank < 0 else value


def resolve(path: tuple[str, ...], columns: Mapping[str, str]) -> tuple[tuple[str, ...], Domain] | None:
    """A column as the table spells it, with its domain; None where it is none of the table's."""
    for name, text in columns.items():
        if name.lower() != path[0].lower():
            continue
        if len(path) == 1:
            return (name,), Domain.of(text)
        type_ = spark_type(text)
        names = [name]
        for part in path[1:]:
            field = next(((f, t) for f, t in type_.fields if f.lower() == part.lower()), None)
            if field is None:
                return None
            names.append(field[0])
            type_ = field[1]
        return tuple(names), Domain.of(type_)
    return None
