"""A predicate's text, taken apart and checked against the target's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.functions import BOOLEAN
from airflow_provider_replacewhere.predicates.grammar import read
from airflow_provider_replacewhere.predicates.instants import is_moving
from airflow_provider_replacewhere.predicates.nodes import (
    ARITHMETIC,
    COMPARISONS,
    PREDICATES,
    Call,
    Cast,
    Column,
    Literal,
    Node,
)
from airflow_provider_replacewhere.predicates.truth import refuse_constant
from airflow_provider_replacewhere.predicates.types import SparkType, spark_type
from airflow_provider_replacewhere.text import Span


@dataclass(frozen=True)
class ParsedPredicate:
    """A predicate as written (``span``) and as understood (``node``, whose offsets count within the span)."""

    span: Span
    node: Node

    @property
    def text(self) -> str:
        return self.span.text


def parse(sql: str | Span) -> ParsedPredicate:
    """Take a predicate apart.

    Comments are dropped. Refused are subqueries, aggregate and window functions, ``*``, placeholders, ``;``, functions
    that are not on the list of allowed ones, and text after the condition.

    :raises PredicateError: the text is no predicate; the place is underlined
    """
    span = (Span.of(sql, "predicate") if isinstance(sql, str) else sql).strip()
    return ParsedPredicate(span, read(span))


def columns_of(predicate: ParsedPredicate) -> tuple[str, ...]:
    """The columns a predicate names, in order of appearance and as written; of a struct's field, the struct."""
    found: dict[str, str] = {}
    for part in predicate.node.walk():
        if isinstance(part, Column):
            found.setdefault(part.parts[0].lower(), part.parts[0])
    return tuple(found.values())


def check(predicate: ParsedPredicate, columns: Mapping[str, str]) -> None:
    """Check a predicate against the target's columns.

    :param columns: by name, the Spark type (``{"d": "date", "n": "decimal(10,2)"}``); names ignore letter case
    :raises PredicateError: an unknown or qualified column, no column at all, a predicate that is no BOOLEAN, one that
        is always TRUE or never TRUE, or a string that Spark would read as a moving time (``'today'``)
    """
    check_columns(predicate, columns)
    if predicate.node.is_constant:
        raise PredicateError(
            "The predicate names no column: Delta would replace the whole table.",
            hint=f"Bound one of the columns {_listed(columns)}.",
            span=predicate.span,
        )
    refuse_constant(predicate.node, predicate.span)


def check_columns(predicate: ParsedPredicate, columns: Mapping[str, str]) -> None:
    """The part of :func:`check` that also holds for a region, which may be constant.

    :raises PredicateError: an unknown or qualified column, a predicate that is no BOOLEAN, or a string that Spark would
        read as a moving time
    """
    types = {name.lower(): spark_type(type_) for name, type_ in columns.items()}
    for part in predicate.node.walk():
        if isinstance(part, Column):
            _check_column(part, predicate.span, columns, types)
    _check_boolean(predicate.node, predicate.span, types)
    _check_moving_strings(predicate.node, predicate.span, types)


def type_of(node: Node, types: Mapping[str, SparkType]) -> str | None:
    """The Spark type of a part, sizes left out; None where its form does not tell.

    :param types: the columns' types by name in lower case
    """
    match node:
        case Literal(type=type_):
            return type_
        case Column(parts=parts):
            found: SparkType | None = types.get(parts[0].lower())
            for name in parts[1:]:
                found = found.field(name) if found else None
            return found.name if found else None
        case Cast(type=type_):
            return type_.partition("(")[0]
        case Call(name=name) if name in PREDICATES or name in BOOLEAN:
            return "boolean"
        case Call(name=name):
            return _RESULTS.get(name)
    return None


_RESULTS = {
    **dict.fromkeys(
        ("current_date", "curdate", "date_sub", "add_months", "last_day", "next_day", "trunc", "make_date", "to_date"),
        "date",
    ),
    **dict.fromkeys(("current_timestamp", "now", "date_trunc", "make_timestamp", "to_timestamp"), "timestamp"),
    **dict.fromkeys(
        ("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"), "int"
    ),
    **dict.fromkeys(("hour", "minute", "second", "datediff", "date_diff", "length", "instr"), "int"),
    **dict.fromkeys(("||", "concat_ws", "lower", "upper", "trim", "substring", "substr", "date_format"), "string"),
}


def _check_column(column: Column, span: Span, columns: Mapping[str, str], types: Mapping[str, SparkType]) -> None:
    first, *fields = column.parts
    place = span.slice(column.start, column.end)
    found = types.get(first.lower())
    if found is None and fields and fields[0].lower() in types:
        raise PredicateError(
            f"{'.'.join(column.parts)} names its table, and a predicate is about the target's own columns.",
            hint=f"Write {'.'.join(fields)}.",
            span=place,
        )
    if found is None:
        near = get_close_matches(first.lower(), list(types), n=1)
        names = {name.lower(): name for name in columns}
        suggestion = f"Did you mean {names[near[0]]}?" if near else f"Its columns are {_listed(columns)}."
        raise PredicateError(f"{first} is no column of the target.", hint=suggestion, span=place)
    for name in fields:
        if found.name == "struct" and found.field(name) is None:
            raise PredicateError(
                f"{name} is no field of {first}.",
                hint=f"Its fields are {', '.join(f for f, _ in found.fields)}.",
                span=place,
            )
        if found.name not in ("struct", "map"):
            raise PredicateError(f"{first} is a {found.name.upper()}: it has no field {name}.", span=place)
        found = found.field(name) or SparkType("unknown")


def _check_boolean(node: Node, span: Span, types: Mapping[str, SparkType]) -> None:
    found = type_of(node, types)
    if isinstance(node, Call) and node.name in ARITHMETIC:
        found = "number or string"
    if found not in (None, "boolean", "null", "unknown"):
        raise PredicateError(
            f"A condition should stand here; this is a {found.upper()}.",
            hint="Compare it with something.",
            span=span.slice(node.start, node.end),
        )
    if isinstance(node, Call) and node.name in ("and", "or", "not"):
        for arg in node.args:
            _check_boolean(arg, span, types)


def _check_moving_strings(node: Node, span: Span, types: Mapping[str, SparkType]) -> None:
    """``d >= 'today'`` would be read by Spark's clock at the time of the write, not by the run's."""
    for part in node.walk():
        if not (isinstance(part, Call) and (part.name in COMPARISONS or part.name in ("in", "between"))):
            continue
        if all(type_of(arg, types) == "string" for arg in part.args):
            continue
        for arg in part.args:
            if isinstance(arg, Literal) and arg.type == "string" and is_moving(str(arg.value)):
                raise PredicateError(
                    f"{arg.value!r} means another time with every run.",
                    hint="Write current_date() or current_timestamp(), which follow the run's clock.",
                    span=span.slice(arg.start, arg.end),
                )


def _listed(columns: Mapping[str, str]) -> str:
    names = list(columns)
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
