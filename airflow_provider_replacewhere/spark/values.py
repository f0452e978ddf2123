"""Values on their way from Spark to the keys of the region algebra, whatever the time zone of this machine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_replacewhere.planning.touched import NO_CHARACTER
from airflow_provider_replacewhere.predicates.domains import Domain, Key


def to_key(sql: str, domain: Domain) -> str:
    """SQL that gives a value in a form that :func:`key_of` reads."""
    match domain.name:
        case "date":
            return f"unix_date({sql})"
        case "timestamp":
            return f"unix_micros({sql})"
        case "timestamp_ntz":
            return f"CAST({sql} AS STRING)"
    return f"({sql})"


def key_of(value: Any, domain: Domain) -> Key:
    """The key of a value that came to Python.

    :raises ValueError: it is a wall time that Python's datetimes do not reach, or a string of other bytes than UTF-8's
    """
    if isinstance(value, str) and NO_CHARACTER in value:
        raise ValueError(f"{value!r} may stand for bytes that are no UTF-8, and so for several values")
    match domain.name:
        case "date" | "timestamp":
            return int(value)
        case "timestamp_ntz":
            return domain.key(datetime.fromisoformat(value))
    return domain.key(value)
