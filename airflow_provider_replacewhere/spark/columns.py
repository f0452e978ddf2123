"""A PySpark Column as Spark SQL text, before anything in it is resolved."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.spark.jvm import class_name, seq

# Column operators are functions with these names; Spark's own .sql() writes them as calls, which nobody can read.
INFIX = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "and": "AND",
    "or": "OR",
    "+": "+",
    "-": "-",
    "*": "*",
    "/": "/",
    "%": "%",
    "&": "&",
    "|": "|",
    "^": "^",
    "like": "LIKE",
    "rlike": "RLIKE",
    "ilike": "ILIKE",
}
PREFIX = {"!": "NOT", "not": "NOT", "negative": "-", "~": "~"}


def column_to_sql(session: SparkSession, column: object) -> str:
    """The SQL text of a predicate given as a Column; a string is taken as it is.

    :raises DefinitionError: it is neither, or holds something that has no SQL form
    """
    if isinstance(column, str):
        return column
    if not isinstance(column, Column):
        raise DefinitionError(
            f"replace_where is a {type(column).__name__}.",
            hint='Give a Column, as in col("d") >= F.date_sub(F.current_date(), 7), or its SQL text.',
        )
    return _sql(session._jsparkSession.expression(column._jc))


def _sql(expression: Any) -> str:
    kind = class_name(expression)
    if kind == "UnresolvedAttribute":
        return TableName(tuple(seq(expression.nameParts()))).to_sql()
    if kind == "UnresolvedFunction":
        return _call(".".join(seq(expression.nameParts())), [_sql(child) for child in seq(expression.children())])
    if kind == "Cast":
        return f"CAST({_sql(expression.child())} AS {expression.dataType().sql()})"
    if kind == "Alias":
        return _sql(expression.child())
    if kind == "Literal":
        return _literal(expression)
    # What came from F.expr is infix already, with its own parts still unresolved.
    return f"({expression.sql()})"


def _call(name: str, arguments: list[str]) -> str:
    symbol = name.lower()
    if symbol in INFIX and len(arguments) == 2:
        return f"({arguments[0]} {INFIX[symbol]} {arguments[1]})"
    if symbol in PREFIX and len(arguments) == 1:
        return f"({PREFIX[symbol]} {arguments[0]})"
    if symbol == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if symbol == "isnull":
        return f"({arguments[0]} IS NULL)"
    if symbol == "isnotnull":
        return f"({arguments[0]} IS NOT NULL)"
    return f"{name}({', '.join(arguments)})"


def _literal(expression: Any) -> str:
    text = str(expression.sql())
    if expression.dataType().typeName() == "timestamp" and expression.value() is not None:
        # Spark writes the session's wall time without saying so; the instant itself has no such doubt.
        return f"timestamp_micros({expression.value()})"
    return text
