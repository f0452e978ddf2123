"""What a flow takes from table properties and from ``SET``.

==========================  ===========================================  ==========
key                         meaning                                      default
==========================  ===========================================  ==========
``replacewhere.timeZone``   IANA name: what "today" means for the flow   ``UTC``
``replacewhere.nullKeys``   ``fail``, ``drop`` or ``include``            ``fail``
==========================  ===========================================  ==========

A property of the table goes before ``SET``, which goes before the caller's default. ``SET spark.sql.session.timeZone``
counts as the time zone too, below ``SET replacewhere.timeZone``: the flow and the session share one. Keys ignore
letter case; ``SET`` holds for the whole file, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast, get_args
from zoneinfo import ZoneInfo

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Table
from airflow_provider_replacewhere.text import Span

PREFIX = "replacewhere."
TIME_ZONE = "replacewhere.timeZone"
NULL_KEYS = "replacewhere.nullKeys"
SESSION_TIME_ZONE = "spark.sql.session.timeZone"


def check_setting(key: str, value: str, span: Span) -> None:
    """Refuse an unknown key of ours, or a value that it cannot have.

    :param span: where the setting stands
    :raises DefinitionError: the key starts with ``replacewhere.`` and is unknown, or its value is
    """
    if not key.lower().startswith(PREFIX):
        return
    if _same(key, TIME_ZONE):
        check_time_zone(value, span)
    elif _same(key, NULL_KEYS):
        if value.lower() not in get_args(NullKeys):
            raise DefinitionError(
                f"{NULL_KEYS} is {value!r}.", hint=f"Valid are {', '.join(get_args(NullKeys))}.", span=span
            )
    else:
        raise DefinitionError(
            f"There is no setting {key}.", hint=f"Settings of a flow are {TIME_ZONE} and {NULL_KEYS}.", span=span
        )


def check_time_zone(value: str, span: Span) -> None:
    """:raises DefinitionError: ``value`` is no time zone of the IANA database"""
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):  # not found is a KeyError, a folder of the database an OSError
        raise DefinitionError(
            f"{value!r} is no time zone.", hint="Write an IANA name, such as 'Europe/Zurich' or 'UTC'.", span=span
        ) from None


def configured(flow: Flow, settings: Mapping[str, str] | None = None) -> Flow:
    """The flow with the time zone and NULL policy of its table's properties, else of ``settings``, else its own."""
    given = [flow.table.properties, settings or {}]
    time_zone = _first(given, TIME_ZONE) or _first(given[1:], SESSION_TIME_ZONE) or flow.time_zone
    null_keys = _first(given, NULL_KEYS)
    return replace(
        flow,
        time_zone=time_zone,
        null_keys=cast(NullKeys, null_keys.lower()) if null_keys else flow.null_keys,
    )


def attach(flow: Flow, tables: Iterable[Table]) -> Flow:
    """The flow with its target as declared, where it is: ``CREATE FLOW`` only names it."""
    declared = next((table for table in tables if table.name.key == flow.target.key), None)
    return flow if declared is None else replace(flow, table=declared)


def _first(sources: Iterable[Mapping[str, str]], wanted: str) -> str | None:
    return next((value for source in sources for key, value in source.items() if _same(key, wanted)), None)


def _same(key: str, wanted: str) -> bool:
    return key.lower() == wanted.lower()
