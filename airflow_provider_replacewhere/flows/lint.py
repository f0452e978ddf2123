"""Warnings about flows that run, but whose work cannot be kept small.

A run recomputes the window. How much of the sources that reads is up to Spark, which can push the window into them only
where the predicate's columns come straight from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from airflow_provider_replacewhere.flows.alias import dotted_names
from airflow_provider_replacewhere.flows.model import Flow, Pipeline
from airflow_provider_replacewhere.text import Span

_CLOCK = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTimestampLTZ, exp.Localtimestamp)
_CLOCK_NAMES = ("NOW", "CURDATE", "UNIX_TIMESTAMP")


@dataclass(frozen=True)
class LintWarning:
    """What makes the work large, where, and what would keep it small."""

    message: str
    span: Span
    fix: str

    def __str__(self) -> str:
        return f"{self.span.where}: {self.message}\n{self.span.excerpt()}\n{self.fix}"


def lint(pipeline: Pipeline) -> tuple[LintWarning, ...]:
    """The warnings of all SQL flows of a pipeline; what sqlglot cannot parse gets none."""
    return tuple(warning for flow in pipeline.flows for warning in _lint_flow(flow))


def _lint_flow(flow: Flow) -> Iterator[LintWarning]:
    predicate = _parsed(flow.replace_where.text)
    if predicate is None:
        return
    yield from _moving_upper_bound(predicate, flow.replace_where)
    query = _parsed(flow.query.text) if flow.query else None
    if query is None:
        return
    # The places come from the tokens, which do not tell a column from a keyword; the parser does.
    columns = {column.name.lower() for column in predicate.find_all(exp.Column)}
    for path, span in dotted_names(flow.replace_where):
        if path[-1].lower() in columns:
            columns.remove(path[-1].lower())
            yield from _far_from_the_sources(path[-1], span, query)


def _parsed(text: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(text, dialect="databricks").unnest()
    except SqlglotError:
        return None


def _moving_upper_bound(predicate: exp.Expr, span: Span) -> Iterator[LintWarning]:
    """Rows at or after the bound are replaced in no run of today, and may be there: from a run with an override."""
    above: tuple[tuple[type[exp.Binary], Callable[[exp.Expr], exp.Expr]], ...] = (
        (exp.LT, lambda bound: bound.expression),
        (exp.LTE, lambda bound: bound.expression),
        (exp.GT, lambda bound: bound.this),
        (exp.GTE, lambda bound: bound.this),
    )
    for comparison, upper in above:
        if any(_reads_the_clock(upper(found)) for found in predicate.find_all(comparison)):
            yield LintWarning(
                "The window's upper bound moves with the time of the run, so it is another one in each run.",
                span,
                "Leave the upper bound out, unless the query gives rows of the future that must not be kept.",
            )
            return


def _reads_the_clock(expression: exp.Expr) -> bool:
    return any(
        isinstance(node, _CLOCK) or (isinstance(node, exp.Anonymous) and node.name.upper() in _CLOCK_NAMES)
        for node in expression.walk()
    )


def _far_from_the_sources(column: str, span: Span, query: exp.Expr) -> Iterator[LintWarning]:
    if isinstance(query, exp.Select):
        given = next((out for out in query.expressions if out.alias_or_name.lower() == column.lower()), None)
        what = _derived(given.unalias()) if given is not None else None
        if what is not None:
            yield LintWarning(
                f"{column} is {what}: each run has to compute it for all rows before it can tell which are replaced.",
                span,
                "Write the condition over a column that comes from a source as it is, such as a date or a region.",
            )
            return
    for select in query.find_all(exp.Select):
        group = select.args.get("group")
        if group is not None and not group.args.get("all") and not _is_grouped_by(column, group, select):
            yield LintWarning(
                f"{column} is not among the columns of GROUP BY: each run has to read all rows of all groups.",
                span,
                f"Add {column} to GROUP BY, or write the condition over a column that is there.",
            )
            return


def _derived(expression: exp.Expr) -> str | None:
    if expression.find(exp.Window):
        return "a value of a window function"
    if expression.find(exp.AggFunc):
        return "an aggregate"
    return "made of several columns" if len(set(expression.find_all(exp.Column))) > 1 else None


def _is_grouped_by(column: str, group: exp.Group, select: exp.Select) -> bool:
    """Whether the column, or the expression of that name, or its position, is grouped by."""
    places = {str(place): out for place, out in enumerate(select.expressions, start=1)}
    keys = [key for arg in group.args.values() if isinstance(arg, list) for key in arg]
    for key in keys:
        out = places.get(key.name, key) if isinstance(key, exp.Literal) else key
        if any(
            name.lower() == column.lower() for name in (out.alias_or_name, *(c.name for c in key.find_all(exp.Column)))
        ):
            return True
        if any(o.alias.lower() == column.lower() and o.unalias() == key for o in select.expressions):
            return True
    # GROUP BY GROUPING SETS, CUBE and ROLLUP hold their keys one floor deeper: no guess about those.
    return any(isinstance(key, (exp.Cube, exp.Rollup, exp.GroupingSets)) for key in keys)
