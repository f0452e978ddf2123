"""From the files that commits added and removed to the region of the table that they may have touched.

A file's partition values and statistics bound its rows. Where they say nothing of a column, the column is unbounded;
where they say nothing at all, the whole table is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.changes import File, LogCommit
from airflow_provider_replacewhere.predicates.boxes import Box, Path
from airflow_provider_replacewhere.predicates.domains import Domain, Key
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.types import spark_type
from airflow_provider_replacewhere.predicates.values import Values

# More boxes than this are joined into a hull: it only has to hold all that was touched.
MOST_RANGES = 200
MOST_BOXES = 50
# Delta cuts strings in statistics to 32 characters, and timestamps to milliseconds (PROTOCOL.md, per-file statistics).
_STRING_PREFIX = 32
_MILLISECOND = timedelta(milliseconds=1)
_INTEGER = re.compile(r"[+-]?[0-9]+")
NO_CHARACTER = "\ufffd"
"""What stands in the log, and in Python, for bytes that are no UTF-8: which they are is not known any more."""
# Half of a character beyond U+FFFF: whoever cut the string off counted in UTF-16.
_CUT_CHARACTER = re.compile("[\ud800-\udfff]")


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
    boxes: set[Box] = set()
    for commit in commits:
        if commit.replaces_table or commit.changes_metadata:
            return None
        boxes.update(_box_of(file, layout) for file in (*commit.added, *commit.removed))
    if Box() in boxes:
        return None
    region = _union(boxes) if len(boxes) <= MOST_BOXES else _hull(boxes)
    return None if region.is_everything else region.hull(MOST_RANGES)


def rows_of(file: File, layout: Layout) -> Region:
    """A region that holds every row of a file."""
    return _region(_box_of(file, layout))


def has_no_null(file: File, column: str, layout: Layout) -> bool:
    """Whether it is certain that a column of a file holds no NULL."""
    name = layout.name_in_log(column)
    if column in layout.partition_columns:
        return bool(file.partition_values.get(name))  # other writers than Spark write '' for NULL
    # Of deleted rows too, where there is a deletion vector.
    return bool(file.stats is not None and file.stats.get("nullCount", {}).get(name) == 0)


def _box_of(file: File, layout: Layout) -> Box:
    sides = []
    for column, type_ in sorted(layout.types.items()):
        name = layout.name_in_log(column)
        if column in layout.partition_columns:
            values = _of_partition(file.partition_values, name, type_)
        else:
            values = _of_statistics(file.stats, name, type_)
        if values is not None and not values.is_everything:
            sides.append(((column,), values))
    return Box(tuple(sides))


def _region(box: Box) -> Region:
    region = Region.everything()
    for path, values in box.sides:
        region = region.intersect(Region.of(path, values))
    return region


def _union(boxes: Iterable[Box]) -> Region:
    region, lone = Region.empty(), dict[Path, list[Values]]()
    for box in boxes:
        if len(box.sides) == 1:
            (path, values) = box.sides[0]
            lone.setdefault(path, []).append(values)
        else:
            region = region.union(_region(box))
    for path, sets in lone.items():
        region = region.union(Region.of(path, _joined(sets)))
    return region


def _hull(boxes: Iterable[Box]) -> Region:
    """One box around them all. The union of thousands would take minutes, and be cut down to a hull all the same."""
    sides: dict[Path, list[Values]] = {}
    number = 0
    for number, box in enumerate(boxes, start=1):  # noqa: B007 - counted
        for path, values in box.sides:
            sides.setdefault(path, []).append(values)
    common = {path: values for path, values in sides.items() if len(values) == number}
    return _region(Box(tuple((path, _joined(values)) for path, values in common.items())))


def _joined(sets: Sequence[Values]) -> Values:
    intervals = [interval for values in sets for interval in values.intervals]
    return Values.of(sets[0].domain, intervals, any(values.null for values in sets))


def _of_partition(values: Mapping[str, str | None], name: str, type_: str) -> Values | None:
    domain = Domain.of(type_)
    if name not in values or not domain.is_ordered or domain.name == "binary":
        return None
    text = values[name]
    # Spark writes NULL for an empty string, other writers write ''.
    if text is None or text == "":
        null = Values.nothing(domain, null=True)
        return null.union(Values.of(domain, [("", "\0")])) if domain.name == "string" else null
    key = _key(text, type_)
    return None if key is None else Values.of(domain, [(key, domain.next(key))])


def _of_statistics(stats: Mapping[str, Any] | None, name: str, type_: str) -> Values | None:
    domain = Domain.of(type_)
    if stats is None or not domain.is_ordered:
        return None
    rows, nulls = stats.get("numRecords"), stats.get("nullCount", {}).get(name)
    has_null = nulls != 0  # unknown counts as yes
    if rows is not None and rows == nulls:
        return Values.nothing(domain, null=True)
    low, high = stats.get("minValues", {}).get(name), stats.get("maxValues", {}).get(name)
    if low is None or high is None:
        return None
    first, last = _key(low, type_), _key(high, type_)
    if first is None or last is None or last < first:  # type: ignore[operator]  # keys of one domain
        return None
    end: Key | None = domain.next(last)
    if domain.name == "string":
        end = _behind_prefix(last) if len(last) >= _STRING_PREFIX else end  # type: ignore[arg-type]
    if domain.name in ("timestamp", "timestamp_ntz"):
        end = int(last) + _MILLISECOND // timedelta(microseconds=1)
    if domain.name == "double":
        end = None  # NaN sorts above the largest number, and statistics may leave it out
    return Values.of(domain, [(first, end)], has_null)


def _key(value: Any, type_: str) -> Key | None:
    """A value of the log as a key, or None where it cannot be read without doubt."""
    domain = Domain.of(type_)
    try:
        python = _python(value, spark_type(type_).name)
        key = None if python is None else domain.key(python)
    except (ValueError, ArithmeticError, TypeError, AttributeError, PredicateError):
        return None
    # A value that the type does not have: the table's column is another than what the layout says.
    return None if key is None or Values.of(domain, [(key, domain.next(key))]).is_empty else key


def _python(value: Any, type_: str) -> Any:
    match type_:
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
            return Decimal(str(value))
        case "boolean":
            return value if isinstance(value, bool) else {"true": True, "false": False}.get(value.lower())
        case "double":
            return float(value)
        case "float":
            # The shortest text that is read back as the same float: as a double it would be another number.
            return struct.unpack("f", struct.pack("f", float(value)))[0]
        case "string" | "varchar":
            return None if _CUT_CHARACTER.search(value) or NO_CHARACTER in value else value
        case "binary":
            return None
    return int(value) if _INTEGER.fullmatch(str(value)) else None


def _behind_prefix(prefix: Any) -> Key | None:
    """The first string behind all that start with a prefix; None where there is none."""
    for end in range(len(prefix), 0, -1):
        last = ord(prefix[end - 1])
        if last < 0x10FFFF:
            following = last + 1 if last + 1 != 0xD800 else 0xE000  # no character is a lone surrogate
            return str(prefix[: end - 1]) + chr(following)
    return None
