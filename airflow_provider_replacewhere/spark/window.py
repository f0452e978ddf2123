"""A predicate with the run's clock put in, checked by Spark itself before anything is deleted by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.flows.model import NullKeys
from airflow_provider_replacewhere.planning.window import Window, window_of
from airflow_provider_replacewhere.predicates.clock import Clock, freeze
from airflow_provider_replacewhere.predicates.parse import check, parse
from airflow_provider_replacewhere.predicates.render import literal, string
from airflow_provider_replacewhere.spark.errors import in_short
from airflow_provider_replacewhere.spark.jvm import class_name, walk
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.text import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def freeze_window(frame: DataFrame, predicate: Span, clock: Clock, null_keys: NullKeys) -> Window:
    """The window of one run.

    :param frame: the flow's query, in the flow's session
    :param predicate: text over the query's output columns
    :raises PredicateError: it is no predicate, names no column or an unknown one, or is always TRUE or never
    """
    session = frame.sparkSession
    columns = {f.name: sql_type(session, f.dataType) for f in frame.schema}
    parsed = parse(predicate)
    check(parsed, columns)
    frozen = freeze(parsed, clock, lambda expressions: evaluate(session, expressions))
    _check_with_spark(frame, frozen.sql, predicate)
    window = window_of(frozen, columns, clock, null_keys)
    if window.region.is_everything:
        raise _always_true(predicate)
    return window


def evaluate(session: SparkSession, expressions: Sequence[str]) -> list[str]:
    """The values of expressions without columns, as typed SQL literals.

    :raises PredicateError: Spark refuses one of them
    """
    try:
        frame = session.sql(f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(expressions))}")
        # As text, or as microseconds: a TIMESTAMP would come to Python in the time zone of this machine.
        reads = [
            f"unix_micros(c{i})" if field.dataType.typeName() == "timestamp" else f"CAST(c{i} AS STRING)"
            for i, field in enumerate(frame.schema)
        ]
        (row,) = frame.selectExpr(*reads).collect()
    except PySparkException as error:
        raise PredicateError(
            f"Spark cannot evaluate a part of the predicate: {in_short(error)}",
            hint=f"The parts are {'; '.join(expressions)}.",
        ) from error
    return [_literal(value, sql_type(session, field.dataType)) for value, field in zip(row, frame.schema, strict=True)]


def _literal(value: Any, data_type: str) -> str:
    if value is None:
        return f"CAST(NULL AS {data_type})"
    if data_type in ("TIMESTAMP", "BOOLEAN", "STRING"):
        return literal(value if data_type != "BOOLEAN" else value == "true", data_type.lower())
    if data_type in ("DATE", "TIMESTAMP_NTZ"):
        return f"{data_type} '{value}'"
    return f"CAST({string(value)} AS {data_type})"


def _check_with_spark(frame: DataFrame, sql: str, predicate: Span) -> None:
    """What Catalyst makes of the window, over rows it knows nothing about."""
    session = frame.sparkSession
    anything = session.createDataFrame(session.sparkContext.emptyRDD(), frame.schema)
    try:
        execution = anything.where(sql)._jdf.queryExecution()
        condition = next(node for node in walk(execution.analyzed()) if class_name(node) == "Filter").condition()
        folded = class_name(execution.optimizedPlan())
    except PySparkException as error:
        raise PredicateError(f"Spark refuses the predicate: {in_short(error)}", span=predicate) from error
    if not condition.deterministic():
        raise PredicateError(
            "The predicate gives another answer for every row each time it is asked.",
            hint="No system could say which rows it replaced. Compare a column with a bound instead.",
            span=predicate,
        )
    if folded == "LogicalRDD":
        raise _always_true(predicate)
    if folded == "LocalRelation":
        raise PredicateError(
            "The predicate is TRUE for no row at all.", hint="Check its bounds for a contradiction.", span=predicate
        )


def _always_true(predicate: Span) -> PredicateError:
    return PredicateError(
        "The predicate is TRUE for every row, so that the whole table would be replaced.",
        hint="To replace the whole table ask for a full refresh.",
        span=predicate,
    )
