"""The SQL dialect: pipeline files as text become a :class:`Pipeline`.

Statements end at a semicolon outside strings, quoted names and comments. Predicates and queries are not parsed here:
they are kept as they stand, as spans of the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from airflow_provider_replacewhere.flows.clauses import column_list, comment, properties, property_key, table_clauses
from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Pipeline, Refresh, Table, TableName, View
from airflow_provider_replacewhere.flows.parts import (
    LONG_FORM,
    SHORT_FORM,
    long_form,
    predicate_until,
    query_after,
    short_form,
)
from airflow_provider_replacewhere.flows.refused import refuse
from airflow_provider_replacewhere.flows.scan import Kind, Token, scan
from airflow_provider_replacewhere.flows.settings import attach, check_setting, configured
from airflow_provider_replacewhere.text import Document, Span

_CREATE_FLOW = f"CREATE FLOW name AS {LONG_FORM}"


def parse_sql(
    text: str | Document, name: str = "<text>", *, time_zone: str = "UTC", null_keys: NullKeys = "fail"
) -> Pipeline:
    """The pipeline that a text declares.

    :param text: statements, as a pipeline file holds them
    :param name: what the text is called in errors, where it is not a document
    :param time_zone: IANA name for flows that name none by property or ``SET``; see :mod:`.settings`
    :param null_keys: policy for flows that name none
    :raises DefinitionError: the text is no pipeline; the error shows the place
    """
    document = text if isinstance(text, Document) else Document(name, text)
    found = _Found()
    for tokens in _statements(document):
        _read(Cursor(tokens), found)
    return Pipeline(
        flows=tuple(
            configured(replace(attach(flow, found.tables), time_zone=time_zone, null_keys=null_keys), found.settings)
            for flow in found.flows
        ),
        views=tuple(found.views),
        tables=tuple(found.tables),
        refreshes=tuple(found.refreshes),
        settings=found.settings,
        documents=(document,),
    )


@dataclass
class _Found:
    flows: list[Flow] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    refreshes: list[Refresh] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)


def _statements(document: Document) -> Iterator[list[Token]]:
    tokens: list[Token] = []
    for token in scan(document):
        if not token.is_(";"):
            tokens.append(token)
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _read(cursor: Cursor, found: _Found) -> None:
    start = cursor.here
    if cursor.accept("CREATE"):
        _create(cursor, found, start)
    elif cursor.accept("REFRESH", "STREAMING", "TABLE") or cursor.accept("REFRESH", "TABLE"):
        found.refreshes.append(_refresh(cursor))
    elif cursor.accept("SET"):
        _set(cursor, found)
    else:
        raise refuse(cursor, start)
    if not cursor.done:
        raise cursor.expected("; or the end", hint="Statements are separated by semicolons.")


def _create(cursor: Cursor, found: _Found, start: Span) -> None:
    replacing, refreshing = cursor.accept("OR", "REPLACE"), cursor.accept("OR", "REFRESH")
    if cursor.accept("STREAMING", "TABLE"):
        if replacing:
            raise cursor.error(
                "A table with history is not replaced by its declaration.",
                hint="Write CREATE OR REFRESH STREAMING TABLE.",
                span=cursor.since(start),
            )
        _table(cursor, found)
    elif cursor.accept("FLOW"):
        if replacing or refreshing:
            raise cursor.error("A flow is only created.", hint="Write CREATE FLOW.", span=cursor.since(start))
        found.flows.append(_flow(cursor))
    elif cursor.accept("VIEW") or cursor.accept("TEMPORARY", "VIEW") or cursor.accept("TEMP", "VIEW"):
        found.views.append(_view(cursor))
    else:
        raise refuse(cursor, start, ("CREATE",))


def _table(cursor: Cursor, found: _Found) -> None:
    cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the table's name")
    columns, expectations = column_list(cursor) if cursor.at("(") else ((), ())
    clauses = table_clauses(cursor)
    table = Table(name, columns=columns, expectations=expectations, span=cursor.span, **clauses)
    found.tables.append(table)
    if cursor.at("AS"):
        raise cursor.error(
            "CREATE STREAMING TABLE … AS appends to its target, which is another kind of flow.",
            hint="In place of AS, write FLOW REPLACE WHERE predicate BY NAME before the query.",
        )
    if cursor.at("REPLACE", "WHERE"):
        raise cursor.error(
            "FLOW is missing before REPLACE WHERE.", hint="Write FLOW REPLACE WHERE predicate BY NAME query."
        )
    if cursor.accept("FLOW"):
        _refuse_other_flow(cursor, SHORT_FORM)
        predicate, query = short_form(cursor)
        found.flows.append(Flow(str(name), table, predicate, query, comment=table.comment, span=cursor.span))
    elif not cursor.done:
        raise cursor.expected(
            "a clause or FLOW",
            hint="Clauses are SCHEDULE, COMMENT, PARTITIONED BY, CLUSTER BY and TBLPROPERTIES; "
            "columns stand in parentheses right behind the table's name.",
        )


def _flow(cursor: Cursor) -> Flow:
    name = cursor.name("the flow's name")
    note = comment(cursor) if cursor.accept("COMMENT") else None
    cursor.expect("AS", hint=f"Write {_CREATE_FLOW}.")
    _refuse_other_flow(cursor, LONG_FORM)
    cursor.expect("INSERT", "INTO", hint=f"Write {_CREATE_FLOW}.")
    if cursor.at("ONCE"):
        raise cursor.error(
            "INSERT INTO ONCE is another kind of flow.",
            hint="Write a REPLACE WHERE flow, and load older rows by a run with a predicate override.",
        )
    target = cursor.name("the target's name")
    predicate, query = long_form(cursor)
    return Flow(str(name), Table(target), predicate, query, comment=note, span=cursor.span)


def _refuse_other_flow(cursor: Cursor, form: str) -> None:
    for words in (("AUTO", "CDC"), ("APPLY", "CHANGES"), ("INSERT", "BY", "NAME"), ("INSERT", "OVERWRITE")):
        if cursor.at(*words):
            raise cursor.error(f"{' '.join(words)} is another kind of flow.", hint=f"Write {form}.")


def _view(cursor: Cursor) -> View:
    cursor.accept("IF", "NOT", "EXISTS")
    start = cursor.here
    name = cursor.name("the view's name")
    if len(name.parts) > 1:
        raise cursor.error(
            f"The view {name} is named with a schema; a pipeline's views live for one run, in none.",
            hint=f"Name it {TableName(name.parts[-1:])}.",
            span=cursor.since(start),
        )
    if cursor.at("("):
        raise cursor.error("A list of columns has no place here.", hint="Name the columns in the query, with AS.")
    note = None
    while not cursor.at("AS"):
        if cursor.accept("COMMENT"):
            note = comment(cursor)
        elif cursor.accept("TBLPROPERTIES"):
            properties(cursor)
        else:
            raise cursor.expected("AS", hint="Write CREATE VIEW name [COMMENT '…'] AS query.")
    cursor.take()
    return View(name, query_after(cursor, "AS"), comment=note, span=cursor.span)


def _refresh(cursor: Cursor) -> Refresh:
    target = cursor.name("the table's name")
    full, predicate = cursor.accept("FULL"), None
    if cursor.at("WHERE"):
        if full:
            raise cursor.error(
                "A full refresh replaces the whole table, so it has no WHERE.", hint="Remove FULL or the WHERE."
            )
        cursor.take()
        last = cursor.upcoming[-1] if not cursor.done else None
        ends = last is not None and (last.is_("SYNC") or last.is_("ASYNC"))
        predicate = predicate_until(cursor, len(cursor.upcoming) - ends)
    wait = not cursor.accept("ASYNC")
    if wait:
        cursor.accept("SYNC")
    return Refresh(target, full=full, predicate=predicate, wait=wait, span=cursor.span)


def _set(cursor: Cursor, found: _Found) -> None:
    if cursor.at("TIME", "ZONE"):
        raise cursor.error(
            "SET TIME ZONE is not known here.", hint="Write SET replacewhere.timeZone = 'Europe/Zurich', for example."
        )
    start = cursor.here
    key = property_key(cursor)
    cursor.expect("=", hint="Write SET key = value.")
    value_at = cursor.rest
    if cursor.done:
        raise cursor.expected("a value", hint="Write SET key = value.")
    quoted = len(cursor.upcoming) == 1 and cursor.upcoming[0].kind in (Kind.STRING, Kind.QUOTED)
    value = cursor.upcoming[0].value if quoted else value_at.text
    cursor.skip_to(len(cursor.upcoming))
    check_setting(key, value, value_at)
    if found.settings.get(key, value) != value:
        raise cursor.error(
            f"{key} is set twice, to different values.", hint="SET holds for the whole file: set it once.", span=start
        )
    found.settings[key] = value
