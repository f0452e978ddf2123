"""What one run is asked to do with a definition, and whether that makes sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.errors import PredicateError, RequestError
from airflow_provider_replacewhere.operators.definition import Definition
from airflow_provider_replacewhere.planning.chunking import Chunk, Chunking
from airflow_provider_replacewhere.planning.request import Override, Undo
from airflow_provider_replacewhere.text import Span, shown

# Of a predicate that a person types; what is longer keeps worker and driver busy for minutes.
MOST_CHARACTERS = 50_000

# "none" is what a template makes of a param without a value.
_TRUTH = {"true": True, "false": False, "none": False, "": False}


@dataclass(frozen=True)
class Asked:
    """A selection of the definition's flows, and what is different for this run.

    :param select: targets to run; empty: all
    :param overrides: predicates for this run only
    :param full_refresh: targets whose whole table is to be replaced
    :param dry_run: plan only
    :param only_stale: whether an override leaves alone what the ledger proves fresh
    :param undo: the run that is to be undone, in place of flows to run
    :param chunking: how overrides are cut into chunks; None: each is one run
    :param chunk: which chunk of a backfill this run is, where each is a task of its own
    """

    select: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    full_refresh: tuple[str, ...] = ()
    dry_run: bool = False
    only_stale: bool = False
    undo: Undo | None = None
    chunking: Chunking | None = None
    chunk: Chunk | None = None


def check_asked(asked: Asked, definition: Definition) -> None:
    """Refuse what can be seen to be wrong before Spark is started. The driver checks it all again.

    :raises RequestError: a table or flow is not of this pipeline, or an override would not run
    :raises PredicateError: an override is no predicate, or one that must not be run
    """
    # Imported here because no Dag file needs it.
    from airflow_provider_replacewhere.predicates import columns_of, parse

    seen: set[str] = set()
    for override in asked.overrides:
        if override.flow_name.lower() in seen:
            raise RequestError(
                f"The flow {override.flow_name} has two overrides.",
                hint="Give one; several ranges are joined with OR.",
            )
        seen.add(override.flow_name.lower())
        check_text(f"The override of {shown(override.flow_name)}", override.predicate_override)
        predicate = parse(Span.of(override.predicate_override, f"override of {override.flow_name}"))
        if not columns_of(predicate):
            raise PredicateError(
                f"The override of {override.flow_name} names no column, so it bounds nothing.",
                hint="Write a condition over columns of the target.",
                span=predicate.span,
            )
    if not definition.is_complete:
        return  # only the driver knows the flows of Python files
    for kind, tables in (("refresh_selection", asked.select), ("full_refresh", asked.full_refresh)):
        for table in tables:
            if definition.flow_of(table, kind) is None:
                raise RequestError(
                    f"{kind} names {table}, which no flow of this pipeline feeds.",
                    hint=f"Its tables are {', '.join(definition.targets)}.",
                )
    renewed = [definition.flow_of(table) for table in asked.full_refresh]
    for override in asked.overrides:
        flow = definition.flow_named(override.flow_name)
        if flow is None:
            raise RequestError(
                f"There is an override for {override.flow_name}, which is no flow of this pipeline.",
                hint=f"Its flows are {', '.join(flow.name for flow in definition.flows)}.",
            )
        selected = [definition.flow_of(table) for table in asked.select]
        if selected and flow not in selected:
            raise RequestError(
                f"There is an override for {flow.name}, but refresh_selection leaves its table {flow.target} out.",
                hint=f"Add {flow.target} to refresh_selection, or take the override away.",
            )
        if flow in renewed:
            raise RequestError(
                f"For {flow.name} both an override and a full refresh are asked.",
                hint="A full refresh replaces the whole table by the flow's own window: ask for one of the two.",
            )


def check_text(what: str, text: str) -> None:
    """Refuse a text that is no predicate of a person's, before it is taken apart.

    :param what: the text in words, as an error begins
    :raises PredicateError: it is too long, or is no text that can be written to a file or database
    """
    if len(text) > MOST_CHARACTERS:
        raise PredicateError(
            f"{what} has {len(text)} characters; at most {MOST_CHARACTERS} are read.",
            hint="Write ranges in place of single values, or backfill in several runs.",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PredicateError(
            f"{what} holds half of a character at place {error.start + 1}: {shown(text)}.",
            hint="Give the text as Unicode without lone surrogates.",
        ) from error


def full_refresh(value: Any, select: tuple[str, ...], definition: Definition) -> tuple[str, ...]:
    """The targets of a full refresh.

    :param value: yes (all that run) or no, as :func:`truth` reads it, or names of tables
    :param select: the targets that run; empty: all
    :raises RequestError: it is neither, or "all" of a pipeline whose tables are not known before it runs
    """
    if not isinstance(value, bool | str | None) or (isinstance(value, str) and value.strip().lower() not in _TRUTH):
        return names("full_refresh", value)
    if not truth("full_refresh", value):
        return ()
    if select or definition.is_complete:
        return select or definition.targets
    raise RequestError(
        "full_refresh is True, but the tables of Python files are not known before they run.",
        hint="Name the tables: full_refresh=[…] or refresh_selection=[…].",
    )


def names(what: str, value: Any) -> tuple[str, ...]:
    """Names of tables as a Dag author or a form gives them: a list, or one text with commas.

    :raises RequestError: it is neither
    """
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, Iterable) or isinstance(value, dict) or not all(isinstance(n, str) for n in value):
        raise RequestError(f"{what} is {shown(value)}.", hint="Give a list of table names.")
    return tuple(name.strip() for name in value if name.strip())


def truth(what: str, value: Any) -> bool:
    """A yes or no as a Dag author, a template or a form gives it.

    :raises RequestError: it is neither
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    text = str(value).strip().lower()
    if text in _TRUTH:
        return _TRUTH[text]
    raise RequestError(f"{what} is {shown(value)}.", hint="Valid are true and false.")


def _split(text: str) -> list[str]:
    """At commas outside backticks: a quoted name may hold one."""
    parts, inside = [""], False
    for character in text:
        inside ^= character == "`"
        if character == "," and not inside:
            parts.append("")
        else:
            parts[-1] += character
    return parts
