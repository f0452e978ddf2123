"""Who reads whom, as far as the texts tell: for the order of flows and for finding cycles.

This is advice. What a query really reads is known to Spark alone; a table that is missed here costs the order, not the
correctness of one flow's run.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, TableName, View
from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.text import Document

Key = tuple[str, ...]
_BEFORE_A_TABLE = ("FROM", "JOIN", "TABLE", ",", "(", "LATERAL")


def references(query: str) -> tuple[TableName, ...] | None:
    """The tables and views that a query names, each once, in the order of the text; None where sqlglot cannot parse it.

    Names of common table expressions are left out, and names in hints.
    """
    try:
        tree = sqlglot.parse_one(query, dialect="databricks")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Query):  # TABLE t, which sqlglot takes for an expression with an alias
        return None
    found = (
        TableName(tuple(part.name for part in table.parts))
        for table in tree.find_all(exp.Table, bfs=False)
        if isinstance(table.this, exp.Identifier) and not table.find_ancestor(exp.Hint) and not _is_cte(table)
    )
    return tuple({name.key: name for name in found}.values())


def _is_cte(table: exp.Table) -> bool:
    """Whether the name means a common table expression that is in sight at this place."""
    if len(table.parts) > 1:
        return False
    inner: exp.Expr = table
    while (outer := inner.parent) is not None:
        if any(cte.alias.lower() == table.name.lower() for cte in _ctes_in_sight(outer, inner)):
            return True
        inner = outer
    return False


def _ctes_in_sight(outer: exp.Expr, inner: exp.Expr) -> list[exp.Expr]:
    """The common table expressions that ``outer`` declares for its part ``inner``."""
    if isinstance(inner, exp.With):
        return []
    if isinstance(outer, exp.With):
        before = list(takewhile(lambda cte: cte is not inner, outer.expressions))
        return list(outer.expressions) if outer.args.get("recursive") else before
    with_ = outer.args.get("with_")
    return list(with_.expressions) if with_ else []


def _mentioned(query: str) -> Iterator[TableName]:
    """All names that stand where a table could: a superset, for text that sqlglot cannot parse."""
    tokens = tuple(scan(Document("query", query)))
    for index, token in enumerate(tokens[:-1]):
        if any(map(token.is_, _BEFORE_A_TABLE)) and tokens[index + 1].is_name:
            yield Cursor(tokens[index + 1 :]).name("a table")


def reads(node: Flow | View) -> tuple[TableName, ...]:
    """What a flow or view reads. Of a Python function, the names and queries that stand in its code as strings."""
    if node.query is not None:
        found = references(node.query.text)
        return tuple(_mentioned(node.query.text)) if found is None else found
    return tuple(chain.from_iterable(_named_by(text) for text in _strings(node.function, set())))


def _named_by(text: str) -> Iterable[TableName]:
    """The tables that a string in Python code names: it may be a name, a query, or neither."""
    try:
        return (parse_table_name(text),)
    except DefinitionError:
        return (references(text) or ()) if len(text.split()) > 1 else ()


def _strings(function: object, seen: set[int]) -> Iterator[str]:
    """The strings in a function's code, in that of the functions it calls, and in the globals it uses."""
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        yield from (constant for constant in code.co_consts if isinstance(constant, str))
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, str):
                yield value
            else:
                yield from _strings(value, seen)


def order(pipeline: Pipeline) -> tuple[Flow, ...]:
    """The flows, each behind those whose targets it reads, directly or through views; else as declared.

    :raises DefinitionError: SQL flows or views read each other in a circle, or a flow reads its own target
    """
    nodes: dict[Key, Flow | View] = {view.name.key: view for view in pipeline.views}
    nodes |= {flow.target.key: flow for flow in pipeline.flows}
    done: dict[Key, Flow | View] = {}

    def visit(key: Key, path: tuple[Key, ...]) -> None:
        if key in done or key not in nodes:
            return
        if key in path:
            circle = [nodes[step] for step in (*path[path.index(key) :], key)]
            # A string in Python code may be anything, a column for one: what is only guessed refuses nothing.
            if all(node.query is not None and references(node.query.text) is not None for node in circle):
                raise _circle(circle)
            return
        for name in reads(nodes[key]):
            visit(name.key, (*path, key))
        done[key] = nodes[key]

    for key in nodes:
        visit(key, ())
    return tuple(node for node in done.values() if isinstance(node, Flow))


def node_name(node: Flow | View) -> TableName:
    """The name under which others read it."""
    return node.target if isinstance(node, Flow) else node.name


def _circle(path: list[Flow | View]) -> DefinitionError:
    names = [str(node_name(node)) for node in path]
    span = path[0].query or path[0].span
    if len(path) == 2:
        what = (
            f"The flow of {names[0]} reads its own target"
            if isinstance(path[0], Flow)
            else f"The view {names[0]} reads itself"
        )
        return DefinitionError(f"{what}.", hint="Read the tables from which its rows come.", span=span)
    return DefinitionError(
        f"These read each other in a circle: {' reads '.join(names)}.",
        hint="Take one of them out of the circle; a flow must be computable from its sources alone.",
        span=span,
    )
