"""The Python dialect: decorators with the names and arguments of Spark's declarative pipelines.

A file that says ``from pyspark import pipelines as dp`` is run with this module in the place of ``pyspark.pipelines``.
Decorators only take note; nothing is run, and pyspark is not needed. Functions come back undecorated, so a file's
functions can be called in tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar, overload

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.declarations import (
    Declarations,
    Place,
    QueryFunction,
    TableDeclaration,
    ViewDeclaration,
)
from airflow_provider_replacewhere.flows.model import OnViolation
from airflow_provider_replacewhere.text import Document, Span

__all__ = [
    "collecting",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "table",
    "temporary_view",
    "view",
]

Function = TypeVar("Function", bound=QueryFunction)
Decorator = Callable[[Function], Function]

_active: ContextVar[Declarations | None] = ContextVar("declarations", default=None)

_TABLE_WITH_FLOW = "Write @table(replace_where=…) over a function that gives the rows."
_REFUSED = {
    "append_flow": _TABLE_WITH_FLOW,
    "apply_changes": _TABLE_WITH_FLOW,
    "apply_changes_from_snapshot": _TABLE_WITH_FLOW,
    "create_auto_cdc_flow": _TABLE_WITH_FLOW,
    "create_auto_cdc_from_snapshot_flow": _TABLE_WITH_FLOW,
    "create_streaming_table": f"{_TABLE_WITH_FLOW} Table and flow are declared in one.",
    "create_sink": f"A flow writes to a Delta table. {_TABLE_WITH_FLOW}",
    "create_table": _TABLE_WITH_FLOW,
    "create_target_table": _TABLE_WITH_FLOW,
    "foreach_batch_sink": f"A flow writes to a Delta table. {_TABLE_WITH_FLOW}",
    "materialized_view": f"For a table that is kept: {_TABLE_WITH_FLOW} For rows computed anew: @temporary_view.",
    "replace_flow": f"Rows are replaced by a predicate, not by key. {_TABLE_WITH_FLOW}",
}
_REFUSED_ARGUMENTS = {
    "path": "Name the table delta.`/path`, or let the catalog choose the place.",
    "cluster_by_auto": "Name the columns: cluster_by=[…].",
    "replace_using": "Rows are replaced by a predicate: replace_where=….",
    "sequence_by": "Rows are replaced by a predicate: replace_where=….",
    "row_filter": "Create a view with the condition on top of the table.",
    "private": "Leave it out: all tables of a pipeline are tables of the catalog.",
    "temporary": "Write @temporary_view.",
}


@contextmanager
def collecting(document: Document | None = None) -> Iterator[Declarations]:
    """While this is open, decorators register in the :class:`Declarations` that it gives.

    :param document: the file that is being run, so that errors can show its lines; it has to be compiled under the
        document's name
    """
    declarations = Declarations(document)
    token = _active.set(declarations)
    try:
        yield declarations
    finally:
        _active.reset(token)


def table(
    query_function: object = None,
    *,
    replace_where: object = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    schema: object = None,
    format: str | None = None,  # noqa: A002 - the name in Spark's own decorator
    **others: object,
) -> Decorator[Function]:
    """Declare a target and its REPLACE WHERE flow; the decorated function gives the source DataFrame.

    :param query_function: never given: it is there so that ``@table`` without parentheses is refused in words
    :param replace_where: predicate over the target's columns: a Column or a string
    :param name: the target's name; the function's unless given
    :param comment: the comment of a table that is created
    :param spark_conf: Spark settings for this flow's query alone
    :param table_properties: properties for a table that is created; ``replacewhere.*`` as in :mod:`.settings`
    :param partition_cols: columns by which a table that is created is partitioned
    :param cluster_by: columns by which a table that is created is clustered
    :param schema: the target's columns, as a DDL string or a StructType
    :param format: ``delta``, which is also the default
    :raises DefinitionError: there is no predicate, or an argument that has no meaning here
    """
    place = _caller()
    declarations = _declarations("table", place)
    fail = _failing(place)
    if query_function is not None or replace_where is None:
        fail("@table has no replace_where.", 'Write @table(replace_where=…), such as replace_where="day >= …".')
    for argument, value in others.items():
        if argument not in _REFUSED_ARGUMENTS:
            fail(f"@table has no argument {argument}.", "See its documentation for those it has.")
        if value:
            fail(f"@table does not support {argument}.", _REFUSED_ARGUMENTS[argument])
    if format is not None and format.lower() != "delta":
        fail(f"The format of a target is Delta, not {format}.", "Leave format out.")
    if partition_cols and cluster_by:
        fail("A Delta table is either partitioned or clustered.", "Give partition_cols or cluster_by.")

    def register(function: Function) -> Function:
        declarations.tables.append(
            TableDeclaration(
                name=name or _name_of(function, fail),
                function=function,
                replace_where=replace_where,
                place=place,
                comment=comment,
                partition_cols=_strings(partition_cols, "partition_cols", fail),
                cluster_by=_strings(cluster_by, "cluster_by", fail),
                table_properties=_conf(table_properties),
                schema=schema,
                spark_conf=_conf(spark_conf),
            )
        )
        return function

    return register


@overload
def temporary_view(query_function: Function) -> Function: ...
@overload
def temporary_view(
    *, name: str | None = None, comment: str | None = None, spark_conf: Mapping[str, str] | None = None
) -> Decorator[Function]: ...
def temporary_view(
    query_function: Function | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Function | Decorator[Function]:
    """Declare a view that lives for one run of the pipeline; the decorated function gives its DataFrame.

    :param query_function: the function, where the decorator is written without parentheses
    :param name: the view's name; the function's unless given
    :param comment: what the view is for; kept nowhere
    :param spark_conf: Spark settings for this view's query alone
    """
    place = _caller()
    declarations = _declarations("temporary_view", place)

    def register(function: Function) -> Function:
        named = name or _name_of(function, _failing(place))
        declarations.views.append(ViewDeclaration(named, function, place, comment, _conf(spark_conf)))
        return function

    return register if query_function is None else register(query_function)


view = temporary_view


def expect(name: str, condition: object) -> Decorator[Function]:
    """Rows that break the condition (a string or a Column) are counted and kept.

    :param name: the expectation's name, which reports use
    :param condition: over the query's columns: a string or a Column
    """
    return _expecting({name: condition}, OnViolation.WARN)


def expect_or_drop(name: str, condition: object) -> Decorator[Function]:
    """Rows that break the condition are left out.

    :param name: the expectation's name, which reports use
    :param condition: over the query's columns: a string or a Column
    """
    return _expecting({name: condition}, OnViolation.DROP_ROW)


def expect_or_fail(name: str, condition: object) -> Decorator[Function]:
    """A row that breaks the condition fails the run; the table stays as it was.

    :param name: the expectation's name, which reports use
    :param condition: over the query's columns: a string or a Column
    """
    return _expecting({name: condition}, OnViolation.FAIL_UPDATE)


def expect_all(conditions: Mapping[str, object]) -> Decorator[Function]:
    """Several of :func:`expect`.

    :param conditions: by name of the expectation
    """
    return _expecting(conditions, OnViolation.WARN)


def expect_all_or_drop(conditions: Mapping[str, object]) -> Decorator[Function]:
    """Several of :func:`expect_or_drop`.

    :param conditions: by name of the expectation
    """
    return _expecting(conditions, OnViolation.DROP_ROW)


def expect_all_or_fail(conditions: Mapping[str, object]) -> Decorator[Function]:
    """Several of :func:`expect_or_fail`.

    :param conditions: by name of the expectation
    """
    return _expecting(conditions, OnViolation.FAIL_UPDATE)


def _expecting(conditions: Mapping[str, object], action: OnViolation) -> Decorator[Function]:
    declarations = _declarations("expect", _caller(2))

    def register(function: Function) -> Function:
        # Decorators run from the function upwards; new ones in front restores the order of the file.
        found = declarations.expectations.setdefault(function, [])
        found[:0] = [(name, condition, action) for name, condition in conditions.items()]
        return function

    return register


def __getattr__(name: str) -> Any:
    """What Spark's and Databricks' pipelines have beside this is refused when it is called, with the place."""
    if name not in _REFUSED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*_: object, **__: object) -> NoReturn:
        _failing(_caller())(f"{name} declares another kind of flow or table.", _REFUSED[name])

    return refuse


Fail = Callable[[str, str], NoReturn]


def _failing(place: Place) -> Fail:
    def fail(message: str, hint: str) -> NoReturn:
        raise DefinitionError(message, hint=hint, span=_span(place))

    return fail


def _span(place: Place) -> Span | None:
    declarations = _active.get()
    return place.span(declarations.document if declarations else None)


def _declarations(decorator: str, place: Place) -> Declarations:
    declarations = _active.get()
    if declarations is None:
        raise DefinitionError(
            f"@{decorator} is used outside a pipeline: nothing is reading this file as one.",
            hint="Give the file to ReplaceWhereOperator, to LocalSession.run, or to the command: replacewhere run.",
            span=place.span(),
        )
    return declarations


def _caller(above: int = 1) -> Place:
    """Where the function that asks was called."""
    frame = inspect.currentframe()
    for _ in range(above + 1):
        frame = frame.f_back if frame else None
    return Place(frame.f_code.co_filename, frame.f_lineno) if frame else Place("<unknown>", 0)


def _name_of(function: object, fail: Fail) -> str:
    if not callable(function):
        fail(f"A {type(function).__name__} is decorated, not a function.", "Put the decorator over a function.")
    return str(getattr(function, "__name__", ""))


def _strings(value: Sequence[object] | None, argument: str, fail: Fail) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(item, str) for item in value or ()):
        fail(f"{argument} is {value!r}.", f"Give a list of names of columns: {argument}=['day'].")
    return tuple(str(item) for item in value or ())


def _conf(value: Mapping[str, Any] | None) -> dict[str, str]:
    """Values as Spark has them: booleans in lower case."""
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in (value or {}).items()}
