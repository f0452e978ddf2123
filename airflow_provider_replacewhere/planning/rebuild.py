"""What a table's log alone tells of the runs that wrote it: from it a ledger that was lost is made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Coverage
from airflow_provider_replacewhere.planning.landed import Landed, Touched, replay
from airflow_provider_replacewhere.planning.table_log import InDoubtError, TableLog
from airflow_provider_replacewhere.planning.touched import Layout, touched
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.types import spark_type

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Rebuilt:
    """What was found in one table's log.

    :param table: the table's name
    :param runs: those that the ledger does not know, in the order of their commits, each with what it proves
    :param others: commits of other writers that touched the table after the last of our runs
    """

    table: str
    runs: tuple[Landed, ...]
    others: tuple[LogCommit, ...]


def rebuilt(log: TableLog, known: Coverage) -> Rebuilt:
    """The runs that a log tells of and the ledger does not know.

    Of commits whose files Delta has removed behind a checkpoint nothing is known any more: what they proved is
    recomputed.

    :param known: what the ledger knows of the table
    :raises InDoubtError: the log cannot be read
    """
    description = log.description()
    table_id = str(description["id"])
    after = known.target_version if known.target_id == table_id else None
    try:
        changed = _touched_in(description)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InDoubtError(f"the log of {log.name} does not tell the table's columns") from error
    found = replay(known, table_id, log.commits(after), changed)
    return Rebuilt(log.name, found.runs, found.rest)


def _touched_in(description: Mapping[str, Any]) -> Touched:
    """The rows that a commit may have changed, by the description of the table that is in its log."""
    fields = json.loads(description["schemaString"])["fields"]
    partitions = {name.lower() for name in description.get("partitionColumns") or ()}
    types = {field["name"].lower(): field["type"] for field in fields}
    physical = {
        field["name"]: field["metadata"][_PHYSICAL_NAME]
        for field in fields
        if _PHYSICAL_NAME in (field.get("metadata") or {})
    }

    def rows(commit: LogCommit, wanted: Mapping[str, str]) -> Region | None:
        # A column of another type than the run saw is written in the log in another form.
        same = {name: text for name, text in wanted.items() if _is_of(types.get(name.lower()), text)}
        return touched([commit], Layout(same, frozenset(n for n in same if n.lower() in partitions), physical))

    return rows


def _is_of(in_log: Any, text: str) -> bool:
    return isinstance(in_log, str) and spark_type(in_log) == spark_type(text)
