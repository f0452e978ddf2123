"""What the decorators of one Python file registered, and how it becomes a pipeline."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.clauses import columns_of
from airflow_provider_replacewhere.flows.model import (
    Column,
    Expectation,
    Flow,
    NullKeys,
    OnViolation,
    Pipeline,
    Table,
    TableName,
    View,
)
from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.flows.settings import check_setting, configured
from airflow_provider_replacewhere.text import Document, Span

QueryFunction = Callable[[], Any]


@dataclass(frozen=True)
class Place:
    """A line of a Python file. Lines count from 1."""

    file: str
    line: int

    def span(self, document: Document | None = None) -> Span | None:
        """The line as a span of ``document``, else of the file itself; None where neither has it."""
        if document is None or document.name != self.file:
            document = Document(self.file, "".join(linecache.getlines(self.file)))
        lines = document.text.splitlines(keepends=True)
        if not 0 < self.line <= len(lines):
            return None
        start = sum(map(len, lines[: self.line - 1]))
        return Span(document, start, start + len(lines[self.line - 1])).strip()


@dataclass(frozen=True)
class TableDeclaration:
    """``@table(replace_where=…)`` over a function. ``replace_where`` is a string or a Column, as it was given."""

    name: str
    function: QueryFunction
    replace_where: object
    place: Place
    comment: str | None = None
    partition_cols: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_properties: Mapping[str, str] = field(default_factory=dict)
    schema: object = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewDeclaration:
    """``@temporary_view`` over a function."""

    name: str
    function: QueryFunction
    place: Place
    comment: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Declarations:
    """All that was registered while one file ran, in the order of the file."""

    document: Document | None = None
    tables: list[TableDeclaration] = field(default_factory=list)
    views: list[ViewDeclaration] = field(default_factory=list)
    expectations: dict[QueryFunction, list[tuple[str, object, OnViolation]]] = field(default_factory=dict)


def to_pipeline(
    declarations: Declarations,
    document: Document,
    column_to_sql: Callable[[object], str],
    *,
    time_zone: str = "UTC",
    null_keys: NullKeys = "fail",
) -> Pipeline:
    """The pipeline that a Python file declared.

    :param document: the file, so that errors can show it
    :param column_to_sql: turns a Spark Column into SQL text; called for everything that is no string
    :param time_zone: IANA name for flows whose table properties name none
    :param null_keys: policy for flows whose table properties name none
    :raises DefinitionError: a name, a schema, a predicate or a property is none
    """
    as_text = _Texts(document, column_to_sql)
    expectations = {
        function: tuple(Expectation(name, as_text.plain(condition), action) for name, condition, action in found)
        for function, found in declarations.expectations.items()
    }
    declared = {one.function for one in declarations.tables}
    for function in expectations:
        if function not in declared:
            name = getattr(function, "__name__", str(function))
            raise DefinitionError(
                f"The function {name} has expectations but is no table.",
                hint="Put @expect on a function that has @table(replace_where=…) too; views have no expectations.",
                span=next((v.place.span(document) for v in declarations.views if v.function is function), None),
            )
    flows = tuple(
        configured(_flow(one, expectations.get(one.function, ()), as_text, time_zone, null_keys))
        for one in declarations.tables
    )
    return Pipeline(
        flows=flows,
        views=tuple(_view(one, document) for one in declarations.views),
        tables=tuple(flow.table for flow in flows),
        documents=(document,),
    )


class _Texts:
    """Turns predicates, which are strings or Columns, into text."""

    def __init__(self, document: Document, column_to_sql: Callable[[object], str]) -> None:
        self.document = document
        self._column_to_sql = column_to_sql

    def plain(self, condition: object) -> str:
        return condition if isinstance(condition, str) else self._column_to_sql(condition)

    def span(self, condition: object, near: Span | None, name: str) -> Span:
        """The text as a span: in the file itself where it stands there as it is, so that errors can underline it."""
        text = self.plain(condition).strip()
        if isinstance(condition, str) and text and near is not None and near.document is self.document:
            found = self.document.text.find(text, near.start)
            if found >= 0:
                return Span(self.document, found, found + len(text))
        return Span.of(text, name)


def _flow(
    one: TableDeclaration,
    expectations: tuple[Expectation, ...],
    as_text: _Texts,
    time_zone: str,
    null_keys: NullKeys,
) -> Flow:
    span = one.place.span(as_text.document)
    name = _name(one.name, span)
    table = Table(
        name,
        columns=_columns(one),
        expectations=expectations,
        partitioned_by=one.partition_cols,
        clustered_by=one.cluster_by,
        properties=_properties(one, span),
        comment=one.comment,
        span=span,
    )
    return Flow(
        str(name),
        table,
        as_text.span(one.replace_where, span, f"replace_where of {name}"),
        function=one.function,
        comment=one.comment,
        time_zone=time_zone,
        null_keys=null_keys,
        spark_conf=dict(one.spark_conf),
        span=span,
    )


def _view(one: ViewDeclaration, document: Document) -> View:
    span = one.place.span(document)
    name = _name(one.name, span)
    if len(name.parts) > 1:
        raise DefinitionError(
            f"The view {name} is named with a schema; a pipeline's views live for one run, in none.",
            hint=f"Name it {TableName(name.parts[-1:])}.",
            span=span,
        )
    return View(name, function=one.function, comment=one.comment, spark_conf=dict(one.spark_conf), span=span)


def _name(text: str, span: Span | None) -> TableName:
    try:
        return parse_table_name(text)
    except DefinitionError as error:
        raise DefinitionError(f"The name {text!r} is not a table's name.", hint=error.hint, span=span) from None


def _properties(one: TableDeclaration, span: Span | None) -> dict[str, str]:
    for key, value in one.table_properties.items():
        check_setting(key, value, span or Span.of(f"{key} = {value}", f"table_properties of {one.name}"))
    return dict(one.table_properties)


def _columns(one: TableDeclaration) -> tuple[Column, ...]:
    """The declared columns: of a DDL string, or of a StructType, which is only looked at, so that needs no Spark."""
    if one.schema is None:
        return ()
    if isinstance(one.schema, str):
        return columns_of(one.schema, f"schema of {one.name}")
    fields: Any = getattr(one.schema, "fields", None)
    if fields is None:
        raise DefinitionError(
            f"The schema of {one.name} is a {type(one.schema).__name__}.",
            hint="Give a string such as 'id INT, day DATE', or a StructType.",
            span=one.place.span(),
        )
    return tuple(
        Column(f.name, f.dataType.simpleString(), f.nullable, (f.metadata or {}).get("comment")) for f in fields
    )
