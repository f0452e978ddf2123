"""Statements that people write in pipeline files and that are not ours, each with what to write instead."""

from __future__ import annotations

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.scan import Kind
from airflow_provider_replacewhere.text import Span

KNOWN = "CREATE STREAMING TABLE, CREATE FLOW, CREATE VIEW, REFRESH STREAMING TABLE and SET"
_FLOW = "CREATE FLOW name AS INSERT INTO target BY NAME REPLACE WHERE predicate query"
_TABLE = "CREATE STREAMING TABLE name FLOW REPLACE WHERE predicate BY NAME query"

_KEPT = f"Write CREATE VIEW for something computed anew in each run, or {_TABLE} for a table that is kept."
_OUTSIDE = "Run it outside the pipeline; a pipeline file only declares flows."
_ROWS = f"To replace rows, write {_FLOW}."
_CDC = f"Changes by key are another kind of flow. To replace rows by a predicate, write {_FLOW}."

_HINTS: dict[tuple[str, ...], str] = {
    ("CREATE", "MATERIALIZED", "VIEW"): _KEPT,
    ("CREATE", "LIVE", "TABLE"): _KEPT,
    ("CREATE", "LIVE", "VIEW"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "STREAMING", "LIVE", "TABLE"): f"Write {_TABLE}.",
    ("CREATE", "STREAMING", "VIEW"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "TEMPORARY", "LIVE", "VIEW"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "TEMPORARY", "STREAMING", "TABLE"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "TEMPORARY", "TABLE"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "GLOBAL", "TEMPORARY", "VIEW"): "Write CREATE TEMPORARY VIEW name AS query.",
    ("CREATE", "PRIVATE"): "Leave out PRIVATE: all tables of a pipeline are tables of the catalog.",
    ("CREATE", "EXTERNAL", "TABLE"): _KEPT,
    ("CREATE", "TABLE"): _KEPT,
    ("CREATE", "SINK"): f"A flow writes to a Delta table: write {_TABLE}.",
    ("CREATE",): _OUTSIDE,
    ("APPLY", "CHANGES"): _CDC,
    ("AUTO", "CDC"): _CDC,
    ("MERGE",): _ROWS,
    ("UPDATE",): _ROWS,
    ("DELETE",): _ROWS,
    ("INSERT",): _ROWS,
    ("REPLACE",): _ROWS,
    ("SELECT",): f"Write {_TABLE}, or CREATE VIEW name AS query.",
    ("WITH",): f"Write {_TABLE}, or CREATE VIEW name AS query.",
    ("FROM",): f"Write {_TABLE}, or CREATE VIEW name AS query.",
    ("REFRESH", "MATERIALIZED", "VIEW"): "Write REFRESH STREAMING TABLE name for a table that a flow feeds.",
    ("REFRESH", "VIEW"): "Views are computed anew in each run and need no refresh.",
    ("BEGIN",): "Write the statements one after another, without BEGIN and END.",
    ("USE",): "Write the schema into the names: schema.table.",
    ("RESET",): "SET holds for one run of the pipeline; there is nothing to reset.",
}  # fmt: skip
_COMMANDS = (
    "ALTER", "ANALYZE", "CACHE", "CALL", "COMMENT", "COPY", "DECLARE", "DESCRIBE", "DESC", "DROP", "EXECUTE", "EXPLAIN",
    "GRANT", "LOAD", "MSCK", "OPTIMIZE", "RESTORE", "REVOKE", "SHOW", "TRUNCATE", "UNCACHE", "UNDROP", "VACUUM",
)  # fmt: skip


def refuse(cursor: Cursor, start: Span, name: tuple[str, ...] = ()) -> DefinitionError:
    """The error for a statement that is not ours.

    :param start: its first word
    :param name: words that were read already, without those that make no difference (``OR REPLACE``)
    """
    for token in cursor.upcoming[: 4 - len(name)]:
        if token.kind is not Kind.WORD:
            break
        name = (*name, token.text.upper())
    for length in range(len(name), 0, -1):
        if hint := _HINTS.get(name[:length]):
            shown = " ".join(name[: max(length, 2 if name[0] == "CREATE" else 1)])
            return DefinitionError(f"{shown} is not a statement of a pipeline.", hint=hint, span=start)
    if name and name[0] in _COMMANDS:
        return DefinitionError(f"{name[0]} is not a statement of a pipeline.", hint=_OUTSIDE, span=start)
    return DefinitionError(f"There is no statement {start.text}.", hint=f"A pipeline file holds {KNOWN}.", span=start)
