"""The window of a run: its predicate with the clock put in, as SQL and as a region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_replacewhere.flows.model import NullKeys
from airflow_provider_replacewhere.predicates.clock import Clock, Frozen
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.render import with_null_keys


@dataclass(frozen=True)
class Window:
    """The rows of the target that a run replaces.

    :param sql: the condition, constants only; TRUE for the rows that are replaced
    :param unknown: the condition for rows of which the predicate cannot tell, because a key is NULL
    :param region: the same rows as a region; with an opaque rest where they are no union of boxes
    :param columns: the columns that the predicate is about, as the query spells them
    :param types: by column, its Spark type
    :param evaluated: non-deterministic parts, with the value that this run uses
    """

    sql: str
    unknown: str
    region: Region
    types: Mapping[str, str]
    evaluated: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.types)


def window_of(frozen: Frozen, columns: Mapping[str, str], clock: Clock, null_keys: NullKeys) -> Window:
    """The window that a frozen predicate selects.

    :param columns: by name as the query spells it, the Spark type; at least those that the predicate names
    :raises PredicateError: a column is not among them, or is compared with what its type does not have
    """
    sql = with_null_keys(frozen.sql, frozen.columns) if null_keys == "include" else frozen.sql
    region = parse_predicate(sql, columns, clock.time_zone)
    return Window(
        # An empty region (the first day of a month-to-date window) has no condition of its own but FALSE.
        sql=region.to_sql() if region.is_exact and not region.is_empty else sql,
        unknown=f"({frozen.sql}) IS NULL",
        region=region,
        types={name: type_ for name, type_ in columns.items() if name.lower() in set(map(str.lower, frozen.columns))},
        evaluated=dict(frozen.evaluated),
    )
