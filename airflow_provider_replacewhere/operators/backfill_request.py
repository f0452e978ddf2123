"""From what an author wrote and a person typed to what a backfill is asked to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.operators.asked import Asked, check_text, full_refresh, names, truth
from airflow_provider_replacewhere.operators.definition import Definition
from airflow_provider_replacewhere.planning.bounds import Bounds
from airflow_provider_replacewhere.planning.chunking import Chunk, Chunking
from airflow_provider_replacewhere.planning.request import Override
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow_provider_replacewhere.flows.model import Flow, Refresh

# By name of an argument or param: the operator's attribute.
FIELDS = {
    **{
        name: name
        for name in (
            "refresh_selection",
            "full_refresh",
            "overrides",
            "statement",
            "flow_name",
            "column",
            "start",
            "end",
            "equals",
            "column_type",
            "only_stale",
            "chunk",
            "chunk_size",
            "chunk_column",
            "chunk_order",
            "on_chunk_failure",
        )
    },
    "dry_run": "plan_only",
}
# The column alone is no range: a form may well name it beforehand.
RANGE_FIELDS = ("start", "end", "equals")


def read_backfill(values: Mapping[str, Any], definition: Definition) -> Asked:
    """Read the values of :data:`FIELDS`.

    :raises RequestError: they contradict each other, or one has not the form that it must have
    :raises DefinitionError: the statement is no ``REFRESH``
    """
    bounded = [name for name in RANGE_FIELDS if values[name] not in (None, "", {})]
    ways = [name for name in ("overrides", "statement") if values[name]] + bounded[:1]
    if len(ways) > 1:
        raise RequestError(
            f"The range is given in more than one way: {', '.join(ways)}.",
            hint="Give overrides, or a statement, or bounds (column, start, end, equals).",
        )
    asked = Asked(
        select=names("refresh_selection", values["refresh_selection"]),
        dry_run=truth("dry_run", values["dry_run"]),
        only_stale=truth("only_stale", values["only_stale"]),
        chunking=_chunking(values),
    )
    if values["overrides"]:
        asked = replace(asked, overrides=_overrides(values["overrides"]))
    elif values["statement"]:
        asked = _of_statement(str(values["statement"]), asked, definition)
    elif bounded:
        asked = _of_bounds(values, asked, definition)
    elif values["flow_name"] and not asked.select:
        asked = replace(asked, select=(_flow(values["flow_name"], asked, definition)[1],))
    more = full_refresh(values["full_refresh"], asked.select, definition)
    return replace(asked, full_refresh=(*asked.full_refresh, *more))


def only_part(asked: Asked, part: Any, backfill: str) -> Asked:
    """One chunk of a backfill that is cut into tasks.

    :param part: the chunk as the plan tells it: ``flow``, ``predicate``, ``number`` and ``of``
    :param backfill: the same for all its chunks
    :raises RequestError: it is none, or of a flow for which nothing is asked
    """
    forms = {"flow": str, "predicate": str, "number": int, "of": int}
    if not isinstance(part, Mapping) or not all(isinstance(part.get(name), form) for name, form in forms.items()):
        raise RequestError(f"part is {shown(part)}.", hint="Give one element of what the plan pushed as `chunks`.")
    own = [override for override in asked.overrides if override.flow_name.lower() == part["flow"].lower()]
    if len(own) != 1 or len(asked.overrides) != 1:
        raise RequestError(
            f"part is a chunk of the flow {part['flow']}, and a range is asked for of "
            f"{', '.join(override.flow_name for override in asked.overrides) or 'none'}.",
            hint="Plan and backfill take the same arguments and params, and a range of one flow.",
        )
    # Never more than what is asked for, whatever the plan says.
    narrowed = Override(own[0].flow_name, f"({own[0].predicate_override}) AND ({part['predicate']})")
    chunk = Chunk(part["number"], part["of"], backfill)
    return replace(asked, overrides=(narrowed,), chunking=None, chunk=chunk)


def _chunking(values: Mapping[str, Any]) -> Chunking | None:
    given = {name: value for name in _CHUNKING if (value := values[name]) not in (None, "")}
    if "chunk" not in given:
        return None  # a form may well have an order and a size beforehand
    try:
        size = int(str(given.pop("chunk_size", 1)).strip())
    except ValueError as error:
        raise RequestError(
            f"chunk_size is {shown(values['chunk_size'])}.", hint="Give a whole number above 0."
        ) from error
    return Chunking(size=size, **{_CHUNKING[name]: str(value).strip() for name, value in given.items()})


_CHUNKING = {
    "chunk": "by",
    "chunk_size": "size",
    "chunk_column": "column",
    "chunk_order": "order",
    "on_chunk_failure": "on_failure",
}


def _overrides(value: Any) -> tuple[Override, ...]:
    entries = _from_json("overrides", value) if isinstance(value, str) else value
    if isinstance(entries, Mapping):
        entries = [entries]
    if not isinstance(entries, list | tuple):
        raise RequestError(f"overrides is {shown(value)}.", hint=_OVERRIDES_FORM)
    return tuple(_override(entry) for entry in entries)


_OVERRIDES_FORM = (
    'Give a list such as [{"flow_name": "daily_rides", "predicate_override": "ride_date >= \'2026-01-01\'"}].'
)


def _override(entry: Any) -> Override:
    parts = ("flow_name", "predicate_override")
    if not isinstance(entry, Mapping) or set(entry) != set(parts) or not all(isinstance(entry[p], str) for p in parts):
        raise RequestError(f"One of the overrides is {shown(entry)}.", hint=_OVERRIDES_FORM)
    return Override(entry["flow_name"].strip(), entry["predicate_override"])


def _of_bounds(values: Mapping[str, Any], asked: Asked, definition: Definition) -> Asked:
    equals = values["equals"] or {}
    equals = _from_json("equals", equals) if isinstance(equals, str) else equals
    if not isinstance(equals, Mapping):
        raise RequestError(f"equals is {shown(equals)}.", hint='Give values by column, such as {"city": "Basel"}.')
    start, end = _given(values["start"]), _given(values["end"])
    predicate = Bounds(
        column=values["column"] or None if start is not None or end is not None else None,
        start=start,
        end=end,
        equals=equals,
        column_type=values["column_type"] or None,
    ).predicate()
    name, target = _flow(values["flow_name"], asked, definition)
    return replace(asked, overrides=(Override(name, predicate),), select=asked.select or (target,))


def _flow(name: Any, asked: Asked, definition: Definition) -> tuple[str, str]:
    """The flow that a form means, and its table."""
    if name:
        flow = definition.flow_named(str(name))
        if flow is None and definition.is_complete:
            known = ", ".join(flow.name for flow in definition.flows)
            raise RequestError(f"{name} is no flow of this pipeline.", hint=f"Its flows are {known}.")
        # A flow of a Python file carries its table's name.
        return (flow.name, str(flow.target)) if flow else (str(name), str(name))
    if len(asked.select) == 1:
        flow = definition.flow_of(asked.select[0], "refresh_selection")
        return (flow.name if flow else asked.select[0]), asked.select[0]
    if definition.is_complete and len(definition.flows) == 1:
        return definition.flows[0].name, str(definition.flows[0].target)
    known = ", ".join(flow.name for flow in definition.flows) or "those of the Python file"
    raise RequestError("Bounds are given, but not for which flow.", hint=f"Give flow_name; the flows are {known}.")


def _of_statement(statement: str, asked: Asked, definition: Definition) -> Asked:
    from airflow_provider_replacewhere.flows.sql import parse_sql

    if asked.select:
        raise RequestError(
            "Both a statement and refresh_selection are given.", hint="The statement names its tables itself."
        )
    check_text("The statement", statement)
    pipeline = parse_sql(statement, "statement")
    if pipeline.flows or pipeline.views or pipeline.tables or pipeline.settings or not pipeline.refreshes:
        raise RequestError(
            "The statement holds something else than REFRESH STREAMING TABLE.",
            hint="Write REFRESH STREAMING TABLE name [WHERE predicate | FULL]; definitions belong into the pipeline.",
        )
    for refresh in pipeline.refreshes:
        asked = _with_refresh(asked, refresh, definition)
    return asked


def _with_refresh(asked: Asked, refresh: Refresh, definition: Definition) -> Asked:
    table = str(refresh.target)
    flow = definition.flow_of(table)
    if flow is None and definition.is_complete:
        raise RequestError(
            f"No flow of this pipeline feeds {table}.",
            hint=f"Its tables are {', '.join(definition.targets)}.",
            span=refresh.span,
        )
    if table in asked.select:
        raise RequestError(
            f"{table} is refreshed twice in one run.", hint="Refresh each table once.", span=refresh.span
        )
    overrides = asked.overrides
    if refresh.predicate is not None:
        overrides += (Override(_name(flow, table), refresh.predicate.text),)
    return replace(
        asked,
        select=(*asked.select, table),
        overrides=overrides,
        full_refresh=(*asked.full_refresh, table) if refresh.full else asked.full_refresh,
    )


def _name(flow: Flow | None, table: str) -> str:
    return flow.name if flow is not None else table


def _given(value: Any) -> Any:
    return None if value == "" else value


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RequestError(f"{name} is {shown(text)}, which is no JSON.", hint=f"{error}.") from error
