"""A map of a table as text: a line for each month, or for each row, with a character for each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from airflow_provider_replacewhere.planning.states import State

MARKS: Mapping[str, str] = {
    State.FRESH: "#",
    State.UNCHECKED: "+",
    State.STALE: "~",
    State.MISSING: ".",
    State.RUNNING: ">",
    State.FOREIGN: "!",
    State.FAILED: "x",
}
WIDTH = 100


def drawn(found: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """The cells of :func:`~.document.map_as_json`.

    Days of one row are drawn as a calendar, a month in a line. All else goes from left to right, over as many lines as
    it takes, each of which says where it begins.
    """
    lines: list[str] = []
    several = len(found["rows"]) > 1
    for row in found["rows"]:
        indent = "  " if several else ""
        lines += [f"{found['rows_by']} {row['label']}"] if several else []
        pieces = _months(row["cells"]) if found["unit"] == "day" else _lines(row["cells"], width)
        lines += [f"{indent}{label:<10}  {marks}" for label, marks in pieces]
    used = {cell["state"] for row in found["rows"] for cell in row["cells"]}
    legend = [f"{mark} {state}" for state, mark in MARKS.items() if state in used]
    return [*lines, "", "  ".join(legend)] if lines else []


def _months(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for month, of_month in groupby(cells, key=lambda cell: str(cell["label"])[:7]):
        days = list(of_month)
        first = int(str(days[0]["label"])[8:10]) - 1
        found.append((month, " " * first + "".join(MARKS[cell["state"]] for cell in days)))
    return found


def _lines(cells: Sequence[Mapping[str, Any]], width: int) -> list[tuple[str, str]]:
    room = max(10, width - 14)
    found = []
    for start in range(0, len(cells), room):
        some = cells[start : start + room]
        begins = str(some[0]["start"] if some[0]["start"] is not None else "")[:10]
        found.append((begins, "".join(MARKS[cell["state"]] for cell in some)))
    return found
