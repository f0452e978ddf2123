"""From the files that commits added and removed to the region of the table that they may have touched.

A file's partition values and statistics bound its rows. Where they say nothing of a column, the column is unbounded;
where they say nothing at all, the whole table is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.changes import File, LogCommit
from airflow_provider_replacewhere.predicates.boxes import Path
from airflow_provider_replacewhere.predicates.domains import Domain, Key
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Values

# More boxes than this are joined into a hull: it only has to hold all that was touched.
MOST_RANGES = 200
# Delta cuts strings in statistics to 32 characters, and timestamps to milliseconds (PROTOCOL.md, per-file statistics).
_STRING_PREFIX = 32
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Layout:
    """How a table's log speaks of the columns that matter.

    :param types: by logical column name, the Spark type
    :param physical: by logical name, the name in the log, where column mapping gives another
    :param partition_columns: logical names
    """

    types: Mapping[str, str]
    partition_columns: frozenset[str] = frozenset()
    physical: Mapping[str, str] | None = None

    def name_in_log(self, column: str) -> str:
        return (self.physical or {}).get(column, column)


def touched(commits: Iterable[LogCommit], layout: Layout) -> Region | None:
    """The rows that some commits may have added, removed or changed; None: any row of the table.

    A file that was removed often has no statistics in the log any more; its partition values still bound it.
    """
    region = Region.empty()
    for commit in commits:
        if commit.replaces_table or commit.changes_metadata:
            return None
        for file in (*commit.added, *commit.removed):
            region = region.union(rows_of(file, layout))
        if region.size > MOST_RANGES:
            region = region.hull(MOST_RANGES)
    return None if region.is_everything else region


def rows_of(file: File, layout: Layout) -> Region:
    """A region that holds every row of a file."""
    region = Region.everything()
    for column, type_ in layout.types.items():
        domain = Domain.of(type_)
        if not domain.is_ordered:
            continue
        name = layout.name_in_log(column)
        path: Path = (column,)
        if column in layout.partition_columns:
            values = _of_partition(file.partition_values, name, domain)
        else:
            values = _of_statistics(file.stats, name, domain)
        if values is not None:
            region = region.intersect(Region.of(path, values))
    return region


def _of_partition(values: Mapping[str, str | None], name: str, domain: Domain) -> Values | None:
    if name not in values:
        return None
    text = values[name]
    # Spark writes NULL for an empty string, other writers write ''.
    if text is None or text == "":
        null = Values.nothing(domain, null=True)
        return null.union(Values.of(domain, [("", "\0")])) if domain.name == "string" else null
    key = _key(text, domain)
    return None if key is None else Values.of(domain, [(key, domain.next(key))])


def _of_statistics(stats: Mapping[str, Any] | None, name: str, domain: Domain) -> Values | None:
    if stats is None:
        return None
    rows, nulls = stats.get("numRecords"), stats.get("nullCount", {}).get(name)
    has_null = nulls != 0  # unknown counts as yes
    if rows is not None and rows == nulls:
        return Values.nothing(domain, null=True)
    low, high = stats.get("minValues", {}).get(name), stats.get("maxValues", {}).get(name)
    if low is None or high is None:
        return None
    first, last = _key(low, domain), _key(high, domain)
    if first is None or last is None:
        return None
    end: Key | None = domain.next(last)
    if domain.name in ("string", "binary"):
        end = _behind_prefix(last) if len(last) >= _STRING_PREFIX else end  # type: ignore[arg-type]
    if domain.name in ("timestamp", "timestamp_ntz"):
        end = int(last) + _MILLISECOND // timedelta(microseconds=1)
    if domain.name == "double":
        end = None  # NaN sorts above the largest number, and statistics may leave it out
    return Values.of(domain, [(first, end)], has_null)


def _key(value: Any, domain: Domain) -> Key | None:
    """A value of the log as a key, or None where it cannot be read without doubt."""
    try:
        python = _python(value, domain)
        return None if python is None else domain.key(python)
    except (ValueError, ArithmeticError, TypeError, PredicateError):
        return None


def _python(value: Any, domain: Domain) -> Any:
    match domain.name:
        case "date":
            return date.fromisoformat(value)
        case "timestamp":
            # Without an offset it is a wall time in the writer's zone, which nobody knows any more.
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo is not None else None
        case "timestamp_ntz":
            found = datetime.fromisoformat(value)
            return found if found.tzinfo is None else None
        case "decimal":
            return round(Decimal(str(value)), domain.scale)
        case "boolean":
            return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
        case "double":
            return float(value)
        case "string":
            return value if isinstance(value, str) else None
        case "binary":
            return None
    return int(value)


def _behind_prefix(prefix: Any) -> Key | None:
    """The first string behind all that start with a prefix; None where there is none."""
    for end in range(len(prefix), 0, -1):
        last = ord(prefix[end - 1])
        if last < 0x10FFFF:
            following = last + 1 if last + 1 != 0xD800 else 0xE000  # no character is a lone surrogate
            return str(prefix[: end - 1]) + chr(following)
    return None
