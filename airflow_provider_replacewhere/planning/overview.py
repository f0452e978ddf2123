"""What the ledger knows of a target, laid out along its columns: fresh, stale, missing, running, changed, failed.

The ledger is all that is looked at here. *Fresh* means: the last run that looked proved that these rows equal what the
query gives. What the sources or other writers did since then, only the next run can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_replacewhere.planning.axes import (
    Axis,
    Row,
    axes_of,
    filled,
    of_one_kind,
    rows_of,
    together,
    touched,
)
from airflow_provider_replacewhere.planning.coverage import Coverage
from airflow_provider_replacewhere.planning.layers import Layer, definition_of, layers_of, newest_pins, written_by
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.states import Ended, Fact, State, Writing
from airflow_provider_replacewhere.predicates.domains import Key
from airflow_provider_replacewhere.predicates.values import Values


@dataclass(frozen=True)
class Piece:
    """A range of the map's column, ``low <= key < high``, of which one fact is known; None: no bound."""

    low: Key | None
    high: Key | None
    fact: int


@dataclass(frozen=True)
class RowMap:
    """One row of the map: every value of the column is in one piece, and NULL apart."""

    row: Row
    pieces: tuple[Piece, ...]
    null: int


@dataclass(frozen=True)
class Overview:
    """All that is known of one target.

    :param column: what the map runs along; None where no region names a column with an order
    :param rows_by: whose values are the rows; None where there is one row
    :param facts: what pieces refer to
    :param looked: the last run that looked at the target and ended well
    :param definition_hash: of that run
    :param sources: by name, the newest version that any run has seen
    :param unplaced: failures whose window is not known
    :param notes: what limits the picture, in words
    """

    column: Axis | None
    rows_by: Axis | None
    rows: tuple[RowMap, ...]
    facts: tuple[Fact, ...]
    looked: Ended | None
    definition_hash: str | None
    sources: Mapping[str, int]
    unplaced: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def time_zone(self) -> str:
        """Whose days are meant: IANA name."""
        return self.looked.report.time_zone if self.looked and self.looked.report else "UTC"


def overview(
    coverage: Coverage, ended: Sequence[Ended], writing: Sequence[Writing] = (), column: str | None = None
) -> Overview:
    """Lay out what is known.

    :param coverage: the fold of all reports
    :param ended: the newest runs that have ended; older ones may be left out, which costs reasons, not truth
    :param writing: runs that hold a lease now
    :param column: what to lay it out along; None: as it fits
    """
    runs = sorted(ended, key=lambda run: -run.order)
    looked = next((run for run in runs if run.report is not None and run.report.mode is not Mode.UNDO), None)
    layers, unplaced, notes = layers_of(coverage, runs, writing, looked)
    fits = of_one_kind(layer.region for layer in layers)
    if not all(fits):
        notes.append("Some of what is known speaks of columns that had other types then; it is left out.")
        layers = [layer for layer, fit in zip(layers, fits, strict=True) if fit]
    regions = [layer.region for layer in layers]
    column_axis, rows_by = axes_of(regions, column)
    rows = rows_of(regions, rows_by)
    facts = [*dict.fromkeys(id(layer.fact) for layer in layers)]
    by_id = {id(layer.fact): layer.fact for layer in layers}
    known = [by_id[key] for key in facts]
    maps = () if column_axis is None else _maps(layers, runs, column_axis, rows_by, rows, known)
    return Overview(
        column=column_axis,
        rows_by=rows_by if len(rows) > 1 else None,
        rows=maps,
        facts=tuple(known),
        looked=looked,
        definition_hash=definition_of(looked),
        sources={name: pin.version for name, pin in newest_pins(coverage, runs, looked).items()},
        unplaced=tuple(unplaced),
        notes=tuple(notes),
    )


# -- along the columns


def _maps(
    layers: Sequence[Layer],
    runs: Sequence[Ended],
    column: Axis,
    rows_by: Axis | None,
    rows: Sequence[Row],
    facts: list[Fact],
) -> tuple[RowMap, ...]:
    """Every row of the map; ``facts`` gets those that only show here."""
    proven = together([layer.region for layer in layers if layer.proves])
    fresh = together([layer.region for layer in layers if layer.fact.state is State.FRESH])
    numbers = {id(fact): number for number, fact in enumerate(facts)}
    partly, never, somehow = len(facts), len(facts) + 1, len(facts) + 2
    facts += [
        Fact(State.STALE, "only some of its rows are proven"),
        Fact(State.MISSING, "no run that the ledger knows of has covered it"),
        Fact(State.STALE, "a run has covered it, and nothing proves it any more"),
    ]
    found = []
    for row in rows:
        by = rows_by if row.values is not None else None
        slab = row.slab(by)
        whole = {State.UNCHECKED: filled(proven, slab, column), State.FRESH: filled(fresh, slab, column)}
        left, painted = Values.everything(column.domain), []
        for layer in layers:
            if left.is_empty:
                break
            values = touched(layer.region, column, by, row).intersect(left)
            values = values.intersect(whole[layer.fact.state]) if layer.proves else values
            if not values.is_empty:
                painted.append((values, numbers[id(layer.fact)]))
                left = left.subtract(values)
        some = touched(proven, column, by, row).intersect(left)
        left = left.subtract(some)
        once = _ever(runs, column, by, row, left)
        painted += [(some, partly), (once, somehow), (left.subtract(once), never)]
        found.append(_row_map(row, painted))
    return tuple(found)


def _ever(runs: Sequence[Ended], column: Axis, rows_by: Axis | None, row: Row, left: Values) -> Values:
    """What of some values any run that ended well has touched."""
    found = Values.nothing(column.domain)
    for run in runs:
        if found.contains(left):
            break
        if run.report is None:
            continue
        written = written_by(run)
        axes = {axis.path: axis.domain for axis in (column, rows_by) if axis is not None}
        sides = {(path, values.domain) for box in written.boxes for path, values in box.sides}
        if all(axes.get(path, domain) == domain for path, domain in sides):
            found = found.union(touched(written, column, rows_by, row).intersect(left))
    return found


def _row_map(row: Row, painted: Sequence[tuple[Values, int]]) -> RowMap:
    pieces = [Piece(low, high, fact) for values, fact in painted for low, high in values.intervals]
    pieces.sort(key=lambda piece: (piece.low is not None, piece.low))
    null = next(fact for values, fact in painted if values.null)
    return RowMap(row, tuple(pieces), null)
