"""Where a query's text names its sources: told by Spark's own parser, so that nothing else of the text is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.spark.jvm import class_name, option, parse_plan, seq, subexpressions, walk
from airflow_provider_replacewhere.text import Document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The bare words, which Spark takes for literals: no function is called that could be held still.
BARE_TIME_WORDS = frozenset({"current_date", "current_timestamp", "localtimestamp"})


@dataclass(frozen=True)
class Relation:
    """A table's name in a query's text.

    :param start: offset of the name's first character
    :param end: offset behind its last
    :param aliased: whether the query gives it a name of its own (``FROM rides AS r``)
    :param pinned: whether the query itself says which version (``VERSION AS OF``, ``TIMESTAMP AS OF``)
    :param alias_at: offset at which an alias may be put in: behind the name, and behind the version where one is given
    :param streaming: whether it is read as a stream
    """

    name: TableName
    start: int
    end: int
    aliased: bool
    pinned: bool
    alias_at: int
    streaming: bool


@dataclass(frozen=True)
class Edit:
    """Other characters for a stretch of the text."""

    start: int
    end: int
    replacement: str


def apply(text: str, edits: list[Edit]) -> str:
    """The text with all edits made; an edit named twice is made once."""
    for edit in sorted(set(edits), key=lambda e: e.start, reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def relations(session: SparkSession, query: str) -> list[Relation]:
    """Every table and view that the query names, once for each place, without the names of its own CTEs."""
    return list(dict.fromkeys(_relations(parse_plan(session, query), frozenset(), aliased=False)))


def _relations(
    plan: Any, ctes: frozenset[str], *, aliased: bool, version_until: int | None = None
) -> Iterator[Relation]:
    kind = class_name(plan)
    if kind == "UnresolvedRelation":
        parts = tuple(seq(plan.multipartIdentifier()))
        if not (len(parts) == 1 and parts[0].lower() in ctes):
            start, end = _place(plan)
            pinned, streaming = version_until is not None, bool(plan.isStreaming())
            yield Relation(TableName(parts), start, end, aliased, pinned, version_until or end, streaming)
        return
    if kind == "RelationTimeTravel":
        # A leaf in Spark's tree, with the relation inside it.
        yield from _relations(plan.relation(), ctes, aliased=aliased, version_until=_place(plan)[1])
        return
    if kind == "UnresolvedWith":
        # A CTE sees those before it, and the query below sees them all. A name that is also a table's still means the
        # table inside its own definition, unless the WITH is recursive.
        visible = ctes
        recursive = bool(plan.allowRecursion())
        for cte in seq(plan.cteRelations()):
            name = str(cte._1()).lower()
            yield from _relations(cte._2(), visible | {name} if recursive else visible, aliased=False)
            visible |= {name}
        yield from _relations(plan.child(), visible, aliased=False)
        return
    under_alias = kind == "SubqueryAlias"
    keeps_alias = aliased and kind in ("Sample", "UnresolvedHint", "RelationTimeTravel")
    for child in seq(plan.children()):
        yield from _relations(child, ctes, aliased=under_alias or keeps_alias)
    for child in seq(plan.subqueries()):
        yield from _relations(child, ctes, aliased=False)


def qualified_columns(session: SparkSession, query: str, table: TableName) -> list[Edit]:
    """Edits that take the schema off columns written as ``schema.table.column`` and ``schema.table.*``."""
    edits = []
    size = len(table.parts)
    for expression in _expressions(parse_plan(session, query)):
        parts = _qualified(expression)
        if len(parts) > size > 1 and tuple(p.lower() for p in parts[:size]) == table.key:
            start, end = _place(expression)
            tokens = tuple(scan(Document("query", query), start, end))
            edits.append(Edit(start, tokens[2 * (size - 1)].span.start, ""))
    return edits


def _qualified(expression: Any) -> tuple[str, ...]:
    """The parts of a column's name, a star being the last; of any other expression none."""
    kind = class_name(expression)
    if kind == "UnresolvedAttribute":
        return tuple(seq(expression.nameParts()))
    if kind in ("UnresolvedStar", "UnresolvedStarExceptOrReplace"):
        target = option(expression.target())
        return (*seq(target), "*") if target is not None else ()
    return ()


def bare_time_words(session: SparkSession, query: str) -> list[Edit]:
    """Edits that turn the bare words ``current_date`` and the like into calls, which the stopped clock answers."""
    edits = []
    for expression in _expressions(parse_plan(session, query)):
        if class_name(expression) in ("UnresolvedAttribute", "CurrentDate", "CurrentTimestamp", "LocalTimestamp"):
            start, end = _place(expression)
            word = query[start:end].lower()
            if word in BARE_TIME_WORDS:
                edits.append(Edit(start, end, f"{word}()"))
    return edits


def _expressions(plan: Any) -> Iterator[Any]:
    for node in _nodes(plan):
        for expression in seq(node.expressions()):
            yield from subexpressions(expression)


def _nodes(plan: Any) -> Iterator[Any]:
    """All nodes of an unresolved plan; unlike in an analysed one, CTEs are kept aside."""
    for node in walk(plan):
        yield node
        if class_name(node) == "UnresolvedWith":
            for cte in seq(node.cteRelations()):
                yield from _nodes(cte._2())


def _place(node: Any) -> tuple[int, int]:
    origin = node.origin()
    return int(option(origin.startIndex())), int(option(origin.stopIndex())) + 1
