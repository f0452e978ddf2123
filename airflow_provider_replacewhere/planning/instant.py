"""Instants and time zones that a person or a Dag's author wrote."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_replacewhere.errors import RequestError


def instant_given(value: datetime | str, time_zone: str) -> datetime:
    """The instant that a Dag author or a template gave.

    :param value: a datetime or ISO 8601 text; one without a zone is a wall clock in ``time_zone``
    :param time_zone: IANA name
    :raises RequestError: it is no instant, or the zone is not known
    """
    try:
        instant = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    except (ValueError, AttributeError) as error:
        raise RequestError(
            f"as_of is {value!r}, which is no instant.",
            hint="Give ISO 8601 text, such as 2026-03-10 or 2026-03-10T00:00:00+00:00.",
        ) from error
    zone = zone_named(time_zone)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=zone)


def zone_named(time_zone: str) -> ZoneInfo:
    """:raises RequestError: there is no such zone"""
    try:
        return ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise RequestError(
            f"time_zone is {time_zone!r}, which is no time zone.",
            hint="Give an IANA name, such as UTC or Europe/Berlin.",
        ) from error
