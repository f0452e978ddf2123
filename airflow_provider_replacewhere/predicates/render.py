"""A tree as canonical Spark SQL: typed literals, quoted names, every operator in parentheses, no ``BETWEEN``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.grammar import read
from airflow_provider_replacewhere.predicates.nodes import (
    ARITHMETIC,
    COMPARISONS,
    QUANTIFIED,
    Call,
    Cast,
    Column,
    Field,
    Literal,
    Node,
    Value,
)
from airflow_provider_replacewhere.text import Span

_PREFIX = {"negative": "-", "positive": "+", "~": "~", "not": "NOT "}
_SUFFIX = {"is null": "IS NULL", "is true": "IS TRUE", "is false": "IS FALSE"}
_INFIX = COMPARISONS | ARITHMETIC | {"and", "or", "like", "ilike", "rlike"}
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\b": "\\b", "\x1a": "\\Z"}


def to_sql(node: Node) -> str:
    """The SQL that means the same to Spark, in whatever session (its time zone matters to casts and functions only)."""
    match node:
        case Literal(type=type_, value=value):
            return literal(value, type_)
        case Column(parts=parts):
            return ".".join(map(quoted, parts))
        case Field(base=base, name=name):
            return f"({to_sql(base)}).{quoted(name)}"
        case Cast(operand=operand, type=type_, lenient=lenient):
            return f"{'TRY_CAST' if lenient else 'CAST'}({to_sql(operand)} AS {type_.upper()})"
        case Call():
            return _call(node)
    raise AssertionError(node)


def with_null_keys(sql: str, columns: Sequence[str]) -> str:
    """The window that also holds the rows for which the predicate is NULL.

    :param sql: a window as :func:`to_sql` gives it
    :param columns: the columns it names; with one, the rows where that (or the one field of it) is NULL are meant
    """
    paths = {node.parts for node in read(Span.of(sql, "window")).walk() if isinstance(node, Column)}
    if len(columns) == 1 and len(paths) == 1:
        return f"({sql}) OR ({to_sql(Column(paths.pop()))} IS NULL)"
    return f"({sql}) OR (({sql}) IS NULL)"


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: Value, type_: str) -> str:
    """A constant as SQL that Spark reads back as the same value of the same type.

    :param value: as in :class:`~airflow_provider_replacewhere.predicates.nodes.Literal`: a date is days since
        1970-01-01, a timestamp microseconds since the epoch
    :param type_: a Spark type name; sizes of DECIMAL do not matter
    """
    type_ = type_.partition("(")[0]
    if value is None:
        return "NULL" if type_ == "null" else f"CAST(NULL AS {type_.upper()})"
    match type_, value:
        case "boolean", bool():
            return "TRUE" if value else "FALSE"
        case "string", str():
            return string(value)
        case "binary", bytes():
            return f"X'{value.hex().upper()}'"
        case "decimal", Decimal():
            return f"{value:f}BD"
        case "float" | "double", float() if math.isfinite(value):
            return f"{value!r}{type_[0].upper()}"
        case "float" | "double", float():
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{name}' AS {type_.upper()})"
        case _, int() if type_ in _INTEGRAL and not isinstance(value, bool):
            return _INTEGRAL[type_](value)
    raise ValueError(f"{value!r} is no value of type {type_}")


def string(value: str) -> str:
    """A string in quotes that Spark's parser reads back, whatever it holds."""
    return "'" + "".join(_ESCAPES.get(character, character) for character in value) + "'"


def _day_to_second(micros: int) -> str:
    days, rest = divmod(abs(micros), instants.MICROS_PER_DAY)
    seconds, fraction = divmod(rest, instants.MICROS_PER_SECOND)
    sign = "-" if micros < 0 else ""
    return f"{sign}{days} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


_INTEGRAL: dict[str, Callable[[int], str]] = {
    "tinyint": "{}Y".format,
    "smallint": "{}S".format,
    "int": "{}".format,
    "bigint": "{}L".format,
    "date": lambda value: f"DATE '{instants.date_text(value)}'",
    "timestamp": lambda value: f"TIMESTAMP '{instants.wall_text(value, 'T')}Z'",
    "timestamp_ntz": lambda value: f"TIMESTAMP_NTZ '{instants.wall_text(value)}'",
    "interval month": lambda value: f"INTERVAL '{value}' MONTH",
    "interval day": lambda value: f"INTERVAL '{value // instants.MICROS_PER_DAY}' DAY",
    "interval second": lambda value: f"INTERVAL '{_day_to_second(value)}' DAY TO SECOND",
}


def _call(node: Call) -> str:
    name, args = node.name, node.args
    sql = [to_sql(arg) for arg in args]
    match name, args:
        case "not", (Call(name="between"),):
            operand, low, high = map(to_sql, args[0].children)
            return f"(({operand} < {low}) OR ({operand} > {high}))"
        case "between", _:
            return f"(({sql[0]} >= {sql[1]}) AND ({sql[0]} <= {sql[2]}))"
        case "case", _:
            pairs = "".join(f" WHEN {w} THEN {t}" for w, t in zip(sql[::2], sql[1::2], strict=False))
            return f"CASE{pairs}{f' ELSE {sql[-1]}' if len(sql) % 2 else ''} END"
        case "in", _:
            return f"({sql[0]} IN ({', '.join(sql[1:])}))"
        case "like" | "ilike", (_, _, escape):
            return f"({sql[0]} {name.upper()} {sql[1]} ESCAPE {to_sql(escape)})"
        case "[]", _:
            return f"{sql[0]}[{sql[1]}]"
        case "row", _:
            return f"({', '.join(sql)})"
    if name in _PREFIX:
        return f"({_PREFIX[name]}{sql[0]})"
    if name in _SUFFIX:
        return f"({sql[0]} {_SUFFIX[name]})"
    if name in QUANTIFIED:
        return f"({sql[0]} {name.upper()} ({', '.join(sql[1:])}))"
    if name in _INFIX:
        return f"({f' {name.upper()} '.join(sql)})"
    return f"{name}({', '.join([node.unit, *sql] if node.unit else sql)})"
