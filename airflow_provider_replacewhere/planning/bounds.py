"""A predicate from typed bounds: a column, a half-open range, further equalities.

Values come from forms that people fill in. Each becomes one literal of its type, never a piece of SQL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.text import shown

Value = str | int | float | Decimal | bool | date | datetime | None
_MOST_DIGITS = 40
COLUMN_TYPES = ("date", "timestamp", "timestamp_ntz", "number", "string")


@dataclass(frozen=True)
class Bounds:
    """``start <= column < end``, and every column of ``equals`` has its value.

    :param column: a column of the target
    :param start: the first value that belongs to the range; None: no lower bound
    :param end: the first value behind the range; None: no upper bound
    :param equals: by column: a value, several values (any of them), or None (the column is NULL)
    :param column_type: ``date``, ``timestamp``, ``timestamp_ntz``, ``number`` or ``string``; None: as the values look.
        ``2026-01-31`` is a date, with a time of day a timestamp; a JSON number is a number, other text is a string.
    """

    column: str | None = None
    start: Value = None
    end: Value = None
    equals: Mapping[str, Any] = field(default_factory=dict)
    column_type: str | None = None

    def predicate(self) -> str:
        """SQL over the target's columns.

        :raises RequestError: nothing is bounded, a value has no such type, or the range is empty
        """
        conditions = [*self._range(), *(_equality(column, value) for column, value in self.equals.items())]
        if not conditions:
            raise RequestError(
                "The bounds name no range and no equality, so they bound nothing.",
                hint="Give column with start or end (the range is start <= column < end), or equals.",
            )
        return " AND ".join(conditions)

    def _range(self) -> list[str]:
        if self.column is None:
            if self.start is not None or self.end is not None:
                raise RequestError("start or end is given, but no column.", hint="Give column, a column of the target.")
            return []
        start, end = self._typed("start", self.start), self._typed("end", self.end)
        if start is None and end is None:
            raise RequestError(
                f"The column {self.column} is given, but neither start nor end.",
                hint="Give at least one of them; the range is start <= column < end.",
            )
        if start is not None and end is not None:
            _check_order(self.column, start, end)
        name = quoted(self.column)
        return [
            *([f"{name} >= {self._literal(start)}"] if start is not None else []),
            *([f"{name} < {self._literal(end)}"] if end is not None else []),
        ]

    def _typed(self, bound: str, value: Value) -> Value:
        if value is None:
            return None
        kind = self.column_type
        if kind is not None and kind not in COLUMN_TYPES:
            raise RequestError(f"column_type is {shown(kind)}.", hint=f"Valid are {', '.join(COLUMN_TYPES)}.")
        try:
            return _as(kind, value) if kind else _as_it_looks(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise RequestError(
                f"{bound} is {shown(value)}, which is no {kind or 'value for a range'}.",
                hint="Dates are written 2026-01-31, timestamps 2026-01-31T06:00:00+00:00, numbers 12.5.",
            ) from error

    def _literal(self, value: Value) -> str:
        text = literal(value)
        return text.replace("TIMESTAMP", "TIMESTAMP_NTZ", 1) if self.column_type == "timestamp_ntz" else text


def literal(value: Value) -> str:
    """One value as a Spark SQL literal of its type.

    A timestamp without an offset is a wall clock of the flow's time zone.

    :raises RequestError: the value is none that SQL can write
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError(f"{shown(value)} is no number that a bound can have.", hint="Give a finite number.")
    if isinstance(value, float):
        # As a decimal where that can hold it: against a DECIMAL column a double is compared with rounding.
        return f"{Decimal(repr(value)):f}" if 1e-18 <= abs(value) < 1e18 else f"{value!r}D"
    if isinstance(value, int | Decimal):
        return str(value) if isinstance(value, int) else f"{value:f}"
    if isinstance(value, str):
        # Not a doubled quote: before Spark 4 that is the end of one string and the start of the next.
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    raise RequestError(
        f"{shown(value)} ({type(value).__name__}) cannot be a bound.", hint="Give text, a number or a date."
    )


def quoted(column: str) -> str:
    """A column's name in backticks: whatever it holds, it stays one name."""
    if not str(column).strip():
        raise RequestError(f"{shown(column)} is no name of a column.", hint="Give the name of a column of the target.")
    return "`" + str(column).strip().replace("`", "``") + "`"


def _equality(column: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        if not value:
            raise RequestError(f"equals names no value for {column}.", hint="Give at least one, or leave it out.")
        alternatives = [_equality(column, one) for one in value]
        return alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"
    return f"{quoted(column)} IS NULL" if value is None else f"{quoted(column)} = {literal(value)}"


def _as_it_looks(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    for read in (date.fromisoformat, datetime.fromisoformat):
        # Only the forms with dashes: 20260131 could as well be a number.
        if "-" in value:
            try:
                return read(value.strip())
            except ValueError:
                continue
    return value


def _as(kind: str, value: Value) -> Value:
    if kind == "string":
        return str(value)
    if kind == "number":
        return value if isinstance(value, int | float | Decimal) else _number(str(value))
    if kind == "date":
        return value.date() if isinstance(value, datetime) else value if isinstance(value, date) else _date(value)
    instant = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return instant.replace(tzinfo=None) if kind == "timestamp_ntz" else instant


def _date(value: Value) -> date:
    return date.fromisoformat(str(value).strip())


def _number(text: str) -> int | Decimal:
    number = Decimal(text.strip())
    # Longer ones are no DECIMAL of Spark's, and 1e999999999 would be written out.
    if not number.is_finite() or len(text) > _MOST_DIGITS or abs(number.adjusted()) > _MOST_DIGITS:
        raise ValueError(text)
    return int(number) if number == number.to_integral_value() and "." not in text else number


def _check_order(column: str, start: Value, end: Value) -> None:
    try:
        is_empty = not start < end  # type: ignore[operator]
    except TypeError as error:
        raise RequestError(
            f"start ({shown(start)}) and end ({shown(end)}) are of different kinds.",
            hint="Give both as dates, both as timestamps with an offset, or both as numbers.",
        ) from error
    if is_empty:
        raise RequestError(
            f"The range of {column} is empty: start {start} is not before end {end}.",
            hint="The end does not belong to the range: for one day give that day as start and the next one as end.",
        )
