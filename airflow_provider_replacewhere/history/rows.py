"""Events as rows of the ledger's table, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.history.records import Event, target_key, unreadable_row
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from sqlalchemy.engine import RowMapping


def row_of(event: Event, sequence: int, recorded_at: datetime) -> dict[str, Any]:
    """A row to insert; ``sequence`` and ``recorded_at`` (UTC) take the place of the event's own."""
    identity = event.identity
    return {
        "sequence": sequence,
        "recorded_at": recorded_at.isoformat(timespec="microseconds"),
        "run_key": digest(event.run_id),
        "kind": str(event.kind),
        "run_id": event.run_id,
        "flow": event.flow,
        "target": event.target,
        "target_key": target_digest(event.target),
        "dag_id": identity.dag_id,
        "dag_run_id": identity.dag_run_id,
        "task_id": identity.task_id,
        "map_index": identity.map_index,
        "try_number": identity.try_number,
        "mode": event.mode and str(event.mode),
        "window_sql": event.window,
        "replaced_sql": event.replaced,
        "predicate": event.predicate,
        "is_override": event.override,
        "as_of": event.as_of,
        "definition_hash": event.definition_hash,
        "token": event.token,
        "target_version": event.target_version,
        "error": to_text(event.error),
        "report": to_text(event.report),
    }


def event_of(row: RowMapping) -> Event:
    """The event that was recorded. Of one whose error or report cannot be read, the rest.

    :raises HistoryRowError: nothing tells when it was recorded
    """
    try:
        recorded_at = datetime.fromisoformat(row["recorded_at"])
    except (TypeError, ValueError) as error:
        raise unreadable_row(row["sequence"], row["run_id"], f"recorded_at is {row['recorded_at']!r}") from error
    error_json, no_error = read_document(row["error"])
    report_json, no_report = read_document(row["report"])
    return Event(
        run_id=row["run_id"],
        kind=row["kind"],
        flow=row["flow"],
        target=row["target"],
        sequence=row["sequence"],
        recorded_at=recorded_at,
        identity=Identity(
            dag_id=row["dag_id"],
            dag_run_id=row["dag_run_id"],
            task_id=row["task_id"],
            map_index=row["map_index"],
            try_number=row["try_number"],
        ),
        mode=row["mode"],
        window=row["window_sql"],
        replaced=row["replaced_sql"],
        predicate=row["predicate"],
        override=row["is_override"],
        as_of=row["as_of"],
        definition_hash=row["definition_hash"],
        token=row["token"],
        target_version=row["target_version"],
        error=error_json,
        report=report_json,
        unreadable=no_report or no_error,
    )


def read_document(text: str | None) -> tuple[dict[str, Any] | None, str | None]:
    """A JSON object that the ledger holds, or why the text is none: somebody may have changed it by hand."""
    if not text:
        return None, None
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        return None, f"is no JSON ({error})"
    return (value, None) if isinstance(value, dict) else (None, f"is {shown(value)}, which is no JSON object")


def to_text(value: Mapping[str, Any] | None) -> str | None:
    """A JSON document as text: equal documents give equal texts."""
    return None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def digest(name: str) -> str:
    """What a name is searched for by."""
    return hashlib.sha256(name.encode()).hexdigest()


def target_digest(target: str) -> str:
    """What a target is searched for by, however it is spelled."""
    return digest(target_key(target))
