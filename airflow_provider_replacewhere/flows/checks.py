"""What can be wrong with a pipeline as a whole, though each statement of it is well-formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, Refresh, Table, View
from airflow_provider_replacewhere.flows.reads import order
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.text import Span

Declared = TypeVar("Declared", Flow, Table, View)


def check(pipeline: Pipeline) -> None:
    """Refuse a pipeline that cannot be run as it is declared.

    :raises DefinitionError: two flows for one target, two tables, views or flows of one name, a view named like a
        table, a flow without predicate, a layout over undeclared columns, a refresh of a table without a flow, a flow
        that reads its own target, or flows and views that read each other in a circle
    """
    for table in _twins(pipeline.tables, lambda table: table.name.key):
        raise _twice(f"{table[1].name} is declared twice.", "Declare a table once.", *table)
    for view in _twins(pipeline.views, lambda view: view.name.key):
        raise _twice(f"There are two views named {view[1].name}.", "Rename one of them.", *view)
    for flow in _twins(pipeline.flows, lambda flow: flow.target.key):
        hint = "A table has one flow: join the two queries with UNION ALL, or write to two tables."
        raise _twice(f"{flow[1].target} is the target of two flows.", hint, *flow)
    for flow in _twins(pipeline.flows, lambda flow: flow.name.lower()):
        raise _twice(f"There are two flows named {flow[1].name}.", "Rename one of them.", *flow)
    _views_apart_from_tables(pipeline)
    for each in pipeline.flows:
        _predicate(each)
    for target in (*pipeline.tables, *(each.table for each in pipeline.flows)):
        _layout(target)
    # A Python file may still declare the flow that a refresh asks for; the driver checks again once it has run it.
    if not pipeline.python:
        for refresh in pipeline.refreshes:
            _fed(refresh, pipeline)
    order(pipeline)


def _twins(declared: Iterable[Declared], key: Callable[[Declared], object]) -> Iterator[tuple[Declared, Declared]]:
    """Pairs of a declaration and a later one with the same key."""
    seen: dict[object, Declared] = {}
    for one in declared:
        first = seen.setdefault(key(one), one)
        if first is not one:
            yield first, one


def _twice(message: str, hint: str, first: Flow | Table | View, second: Flow | Table | View) -> DefinitionError:
    return DefinitionError(message, hint=_with_first(first.span, hint), span=second.span)


def _with_first(first: Span | None, hint: str, what: str = "The first is") -> str:
    return f"{what} at {first.where}:\n{first.excerpt()}\n{hint}" if first else hint


def _views_apart_from_tables(pipeline: Pipeline) -> None:
    tables = {table.name.key: table.span for table in pipeline.tables}
    tables |= {flow.target.key: flow.span for flow in pipeline.flows}
    for view in pipeline.views:
        if view.name.key in tables:
            raise DefinitionError(
                f"The view {view.name} has the name of a target.",
                hint=_with_first(tables[view.name.key], "Rename the view.", "The target is"),
                span=view.span,
            )


def _predicate(flow: Flow) -> None:
    span = flow.replace_where
    tokens = list(scan(span.document, span.start, span.end))
    if not tokens or (len(tokens) == 1 and tokens[0].is_("NULL")):
        raise DefinitionError(
            f"The flow {flow.name} has {'NULL' if tokens else 'nothing'} as its predicate.",
            hint="Write a condition over the target's columns, such as d >= date_sub(current_date(), 7).",
            span=span if tokens else flow.span,
        )


def _layout(table: Table) -> None:
    if not table.columns:
        return
    known = {column.name.lower() for column in table.columns}
    for clause, names in (("PARTITIONED BY", table.partitioned_by), ("CLUSTER BY", table.clustered_by)):
        for name in names:
            if name.lower() not in known:
                raise DefinitionError(
                    f"{clause} names {name}, which is no column of {table.name}.",
                    hint=f"Its columns are {', '.join(column.name for column in table.columns)}.",
                    span=table.span,
                )
    if {name.lower() for name in table.partitioned_by} == known:
        raise DefinitionError(
            f"{table.name} is partitioned by all its columns.", hint="Leave one out.", span=table.span
        )


def _fed(refresh: Refresh, pipeline: Pipeline) -> None:
    targets = {flow.target.key: str(flow.target) for flow in pipeline.flows}
    if refresh.target.key not in targets:
        raise DefinitionError(
            f"No flow feeds {refresh.target}, so it cannot be refreshed.",
            hint=f"Flows feed {', '.join(targets.values())}." if targets else "Declare a flow for it.",
            span=refresh.span,
        )
