"""Facts as HTML. Whatever comes from the ledger is text: Jinja escapes it, and no template calls anything safe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.predicates.instants import MAX_DAY, date_of, days_of
from airflow_provider_replacewhere.text import printable

TEMPLATES = Path(__file__).with_name("templates")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
UNKNOWN = "\N{EN DASH}"
FEW_CELLS = 182
"""So many cells are drawn large, with the day of the month in them."""
YEAR = 371
"""So many days are drawn in one piece, across the turn of a year; more are drawn year by year."""


def render(template: str, root: str, values: Mapping[str, Any]) -> str:
    """A page.

    :param root: the path under which the application is served, without a slash at its end
    """

    def to(page: str = "", **query: Any) -> str:
        """An address of this application; parameters that are None or empty are left out."""
        kept = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{root}/{page}" + (f"?{urlencode(kept)}" if kept else "")

    airflow = root.rpartition("/")[0]
    shared = {"to": to, "airflow": airflow, "task_link": lambda run: task_link(airflow, run), "version": __version__}
    return _environment().get_template(template).render({**shared, **values})


def task_link(airflow: str, run: Mapping[str, Any]) -> str | None:
    """Where Airflow shows the task of a run; None where none ran it."""
    if not run["dag_id"] or not run["dag_run_id"]:
        return None
    parts = ["dags", run["dag_id"], "runs", run["dag_run_id"]]
    if run["task_id"]:
        parts += ["tasks", run["task_id"]]
        mapped = run["map_index"]
        parts += ["mapped", str(mapped)] if mapped is not None and mapped >= 0 else []
    return f"{airflow}/" + "/".join(quote(str(part), safe="") for part in parts)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "ago": ago,
        "count": count,
        "instant": instant,
        "lasting": lasting,
        "line": line,
        "pretty": lambda value: json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True),
        "slug": lambda state: str(state).replace(" ", "-"),
        "years": years,
        "months": months,
        "by_year": by_year,
        "size": size,
    }
    found.globals |= {"few": FEW_CELLS, "month_names": MONTHS, "map_data": map_data, "equals": equals}
    return found


# -- words


def line(text: Any) -> str:
    """A text in one line: what people typed may hold line ends and control characters."""
    return printable(" ".join(str(text).split()))


def count(number: int | None) -> str:
    """A number for the eye; a dash where it is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def size(number: int | None) -> str:
    """Bytes."""
    if number is None:
        return UNKNOWN
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def instant(text: str | None) -> str:
    """An instant of ISO 8601, in UTC to the second."""
    found = _instant(text)
    return printable(str(text or UNKNOWN)) if found is None else found.strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(text: str | None) -> str:
    """How long an instant is past."""
    found = _instant(text)
    if found is None:
        return ""
    passed = (datetime.now(UTC) - found).total_seconds()
    return f"in {lasting(-passed)}" if passed < 0 else f"{lasting(passed)} ago"


def lasting(seconds: float | None) -> str:
    """A span of time in its two largest units."""
    if seconds is None:
        return UNKNOWN
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    if seconds < 60:
        return f"{sign}{seconds:.1f} s" if seconds < 10 else f"{sign}{seconds:.0f} s"
    span = timedelta(seconds=round(seconds))
    days, rest = span.days, span.seconds
    hours, minutes, left = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{sign}{days:,} d {hours} h" if hours and days < 10 else f"{sign}{days:,} d"
    if hours:
        return f"{sign}{hours} h {minutes} min" if minutes else f"{sign}{hours} h"
    return f"{sign}{minutes} min {left} s" if left else f"{sign}{minutes} min"


def _instant(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else None


# -- what the script works with


def map_data(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a map without the names of each cell's parts, for there may be thousands."""
    return [
        {
            "label": row["label"],
            "equals": row["equals"],
            "cells": [
                [cell["label"], cell["start"], cell["end"], cell["state"], cell["facts"], cell["shares"]]
                if len(cell["shares"]) > 1
                else [cell["label"], cell["start"], cell["end"], cell["state"], cell["facts"]]
                for cell in row["cells"]
            ],
        }
        for row in rows
    ]


def equals(column: str | None, values: Sequence[Any] | None) -> str | None:
    """The values of a row, as a backfill's form takes them."""
    if column is None or values is None:
        return None
    return json.dumps({column: values[0] if len(values) == 1 else list(values)}, ensure_ascii=False)


# -- a calendar


def years(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Cells that are days, as calendars of weeks from left to right: years, or all of them where they are few.

    Each has ``months``, names with the number of weeks that they are above, and ``days``, a row for each day of the
    week: ``None``, or the cell's number and the day of the month.
    """
    found = []
    numbered = [(number, _date(cell)) for number, cell in enumerate(cells)]
    at_once = len(cells) <= YEAR
    for year, days in groupby(numbered, key=lambda each: 0 if at_once else each[1].year):
        of_year = list(days)
        first = days_of(of_year[0][1])
        monday = first - date_of(first).weekday()
        weeks = (days_of(of_year[-1][1]) - monday) // 7 + 1
        grid: list[list[tuple[int, int] | None]] = [[None] * weeks for _ in WEEKDAYS]
        for number, day in of_year:
            place = days_of(day) - monday
            grid[place % 7][place // 7] = (number, day.day)
        found.append(
            {
                "label": str(year) if year else f"{of_year[0][1]:%Y-%m-%d} to {of_year[-1][1]:%Y-%m-%d}",
                "months": _month_heads(monday, weeks, at_once),
                "days": list(zip(WEEKDAYS, grid, strict=True)),
            }
        )
    return found


def by_year(cells: Sequence[Mapping[str, Any]], unit: str) -> list[tuple[str, list[int | None]]]:
    """Cells that are weeks or months, a year in a row: each year's cells by number, in their places."""
    found = []
    places = [_place(cell, unit) for cell in cells]
    for year, numbers in groupby(range(len(cells)), key=lambda number: places[number][0]):
        row: list[int | None] = [None] * (53 if unit == "week" else 12)
        for number in numbers:
            row[places[number][1]] = number
        found.append((str(year), row))
    return found


def _place(cell: Mapping[str, Any], unit: str) -> tuple[int, int]:
    day = _date(cell)
    year, week, _ = day.isocalendar()
    return (year, week - 1) if unit == "week" else (day.year, day.month - 1)


def months(cells: Sequence[Mapping[str, Any]], unit: str) -> list[tuple[str, int]]:
    """What stands above cells in a row, with the number of cells that it stands above."""
    if unit == "range":
        return []

    def head(cell: Mapping[str, Any]) -> tuple[int, int]:
        day = _date(cell)
        return (day.year, day.month) if unit == "day" else (day.year, 0)

    return [
        (f"{MONTHS[month - 1]} {year}" if month else str(year), len(list(group)))
        for (year, month), group in groupby(cells, key=head)
    ]


def _month_heads(monday: int, weeks: int, with_year: bool) -> list[tuple[str, int]]:
    """By month, the weeks that begin in it."""
    of_week = [date_of(min(monday + 7 * week + 3, MAX_DAY)) for week in range(weeks)]
    first = of_week[0]
    return [
        (MONTHS[month - 1] + (f" {year}" if with_year and month in (1, first.month) else ""), len(list(group)))
        for (year, month), group in groupby(of_week, key=lambda day: (day.year, day.month))
    ]


def _date(cell: Mapping[str, Any]) -> Any:
    """The day on which a cell begins: its label ends with it or is its beginning."""
    text = str(cell["label"])
    day = text[-10:] if len(text) >= 10 else f"{text}-01-01"[:10]
    return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).date()
