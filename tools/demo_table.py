"""The demo's table at two of its versions, side by side: which rows a run changed, and which it could not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from rich.table import Table
from rich.text import Text

Cells = Mapping[date, Mapping[str, int]]
SHOWN_OF_A_RUN = 8
"""Days that are alike are shown in full up to this number; of more, the first and the last."""


def query(table: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows that ``sql`` gives over a Delta table called ``t``, read without Spark; none when it does not exist."""
    if not (table / "_delta_log").is_dir():
        return []
    rows = QueryBuilder().register("t", DeltaTable(table)).execute(sql).read_all()
    columns = [[column[i].as_py() for i in range(len(column))] for column in map(rows.column, rows.column_names)]
    return list(zip(*columns, strict=True))


def rides_by_day_and_city(table: Path) -> Cells:
    """The rides of each day in each city, the days in order."""
    found: dict[date, dict[str, int]] = {}
    for day, city, rides in query(table, "SELECT ride_date, city, rides FROM t ORDER BY ride_date, city"):
        found.setdefault(day, {})[city] = rides
    return found


@dataclass(frozen=True)
class Window:
    """``first <= day < end``, read from a report's canonical SQL."""

    first: date
    end: date

    @classmethod
    def of(cls, sql: str) -> Window:
        """The range of a window over one date column."""
        bounds = {op: date.fromisoformat(day) for op, day in re.findall(r"(>=|<) DATE '([\d-]+)'", sql)}
        return cls(bounds.get(">=", date.min), bounds.get("<", date.max))

    def holds(self, day: date) -> bool:
        return self.first <= day < self.end


def comparison(before: Cells, after: Cells, window: Window) -> Table:
    """The table before and after a run, a day in a row; what changed is marked."""
    cities = sorted({city for row in (*before.values(), *after.values()) for city in row})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ride_date")
    for city in cities:
        table.add_column(city, justify="right")
    table.add_column("")
    for note, days in groupby(sorted({*before, *after}), lambda day: _note(day, before, after, window)):
        for day in _shortened(list(days)):
            if day is None:
                table.add_row("…", *("…" for _ in cities), Text("…", style=STYLES[note]))
            else:
                cells = [_cell(before.get(day, {}).get(city), after.get(day, {}).get(city)) for city in cities]
                style = "dim" if note == OUTSIDE else None
                table.add_row(day.isoformat(), *cells, Text(note, style=STYLES[note]), style=style)
    return table


NEW, CHANGED, SAME, GONE, OUTSIDE = "new", "changed", "as it was", "removed", "outside: not touched"
BREACH = "CHANGED OUTSIDE THE WINDOW"
STYLES = {NEW: "green", CHANGED: "yellow", SAME: "", GONE: "red", OUTSIDE: "dim", BREACH: "bold red"}


def _note(day: date, before: Cells, after: Cells, window: Window) -> str:
    if not window.holds(day):
        return OUTSIDE if before.get(day) == after.get(day) else BREACH
    if day not in before:
        return NEW
    if day not in after:
        return GONE
    return SAME if before[day] == after[day] else CHANGED


def _shortened(days: Sequence[date]) -> Iterator[date | None]:
    if len(days) <= SHOWN_OF_A_RUN:
        yield from days
    else:
        yield from (days[0], None, days[-1])


def _cell(before: int | None, after: int | None) -> Text:
    if before == after or before is None:
        return Text("" if after is None else str(after), style="green" if before is None else "")
    return Text(f"{before} → {'' if after is None else after}", style="bold yellow")
