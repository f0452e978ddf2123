"""A map of a table as plain JSON: what the page, its interface for programs and the console command show alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.planning.axes import Row
from airflow_provider_replacewhere.planning.calendar import (
    Cell,
    CellRow,
    CoverageMap,
    bounds_as_json,
    cells_of,
    column_type,
)
from airflow_provider_replacewhere.planning.overview import Overview
from airflow_provider_replacewhere.planning.states import MEANINGS, Ended, Fact, State
from airflow_provider_replacewhere.planning.words import plain, why

# What a person may want to have recomputed.
OPEN = (State.FAILED, State.FOREIGN, State.STALE, State.MISSING)


@dataclass(frozen=True)
class Stretch:
    """Cells of one row that follow each other and of which the same is known."""

    row: Row
    cells: tuple[Cell, ...]

    @property
    def state(self) -> State:
        return self.cells[0].state

    @property
    def label(self) -> str:
        """From the first to the last, for the eye."""
        first, last = self.cells[0].label, self.cells[-1].label
        return first if first == last else f"{first} to {last}"


def stretches(cells: CoverageMap) -> tuple[Stretch, ...]:
    """All cells of a map, row by row, in as few stretches as they make."""
    return tuple(Stretch(row.row, run) for row in cells.rows for run in _runs(row.cells))


def _runs(cells: Sequence[Cell]) -> Iterator[tuple[Cell, ...]]:
    run: list[Cell] = []
    for cell in cells:
        if run and (run[-1].state, run[-1].facts) != (cell.state, cell.facts):
            yield tuple(run)
            run = []
        run.append(cell)
    if run:
        yield tuple(run)


def map_as_json(
    target: str, known: Overview, unit: str | None = None, first: str | None = None, end: str | None = None
) -> dict[str, Any]:
    """All that is known of one table, cut into cells.

    :param unit: see :func:`~.calendar.cells_of`, as for ``first`` and ``end``
    :raises RequestError: the unit is none, or one of the days is no date
    """
    cells = cells_of(known, unit, first, end)
    axis = known.column
    return {
        "target": target,
        "flow": known.looked.report.flow if known.looked and known.looked.report else None,
        "looked": None if known.looked is None else look_as_json(known.looked),
        "definition_hash": known.definition_hash,
        "time_zone": known.time_zone,
        "sources": dict(known.sources),
        "column": None if axis is None else axis.name,
        "column_type": None if axis is None else column_type(axis.domain),
        "rows_by": None if known.rows_by is None else known.rows_by.name,
        "unit": cells.unit,
        "states": {str(state): meaning for state, meaning in MEANINGS.items()},
        "counts": {str(state): number for state, number in cells.count().items()},
        "facts": [fact_as_json(fact) for fact in known.facts],
        "rows": [
            _row_as_json(known, row, before, after)
            for row, before, after in zip(cells.rows, cells.before, cells.after, strict=True)
        ],
        "gaps": [_stretch_as_json(known, found) for found in stretches(cells) if found.state in OPEN],
        "failures": [fact_as_json(fact) for fact in known.unplaced],
        "notes": list(known.notes),
    }


def look_as_json(run: Ended) -> dict[str, Any]:
    """The last run that looked at a table."""
    report = run.report
    assert report is not None
    return {
        "run_id": run.run_id,
        "run": run.number,
        "at": run.at,
        "as_of": report.as_of,
        "mode": str(report.mode),
        "why": why(report),
        "window": plain(report.window),
        "predicate": report.predicate,
        "override": report.override,
        "target_version": report.target_version,
    }


def fact_as_json(fact: Fact) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "state": str(fact.state),
        "why": fact.why,
        "run_id": fact.run_id,
        "run": fact.number,
        "at": fact.at,
        "sources": dict(fact.sources),
    }


def _row_as_json(known: Overview, row: CellRow, before: Cell, after: Cell) -> dict[str, Any]:
    return {
        "label": row.row.label,
        "equals": row.row.equals(),
        "cells": [_cell_as_json(known, cell) for cell in row.cells],
        "before": _cell_as_json(known, before),
        "after": _cell_as_json(known, after),
        "null": {"state": str(row.null.state), "facts": list(row.null.facts)},
    }


def _cell_as_json(known: Overview, cell: Cell) -> dict[str, Any]:
    assert known.column is not None
    start, end = bounds_as_json(cell, known.column.domain)
    return {
        "label": cell.label,
        "start": start,
        "end": end,
        "state": str(cell.state),
        "facts": list(cell.facts),
        "shares": {str(state): round(share, 4) for state, share in cell.shares.items()},
    }


def _stretch_as_json(known: Overview, found: Stretch) -> dict[str, Any]:
    assert known.column is not None
    domain = known.column.domain
    return {
        "row": found.row.label,
        "equals": found.row.equals(),
        "label": found.label,
        "cells": len(found.cells),
        "start": bounds_as_json(found.cells[0], domain)[0],
        "end": bounds_as_json(found.cells[-1], domain)[1],
        "state": str(found.state),
        "facts": list(found.cells[0].facts),
    }
