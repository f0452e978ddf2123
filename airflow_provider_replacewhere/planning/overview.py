"""What the ledger knows of a target, laid out along its columns: fresh, stale, missing, running, changed, failed.

The ledger is all that is looked at here. *Fresh* means: the last run that looked proved that these rows equal what the
query gives. What the sources or other writers did since then, only the next run can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from airflow_provider_replacewhere.errors import PredicateError
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
from airflow_provider_replacewhere.planning.coverage import MOST_FRAGMENTS, Coverage, Entry, Fragment, Pin
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.words import reason, why
from airflow_provider_replacewhere.predicates.domains import Key
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Values

# Beyond so many ranges, what older runs did is not taken apart any more: it is called stale at most.
MOST_RANGES = 1_000


class State(StrEnum):
    """What is known of some rows, the most urgent first."""

    RUNNING = "running"
    FAILED = "failed"
    FOREIGN = "foreign change"
    STALE = "stale"
    MISSING = "missing"
    UNCHECKED = "unchecked"
    FRESH = "fresh"


MEANINGS: Mapping[State, str] = {
    State.FRESH: "the last run that looked proved it equal to the query",
    State.UNCHECKED: "was proven over older versions of the sources; no run has looked since newer ones were seen",
    State.STALE: "not proven: computed by another definition, undone, or by a run that proves nothing",
    State.MISSING: "no run that the ledger knows of has covered it",
    State.RUNNING: "a run holds it and is writing",
    State.FOREIGN: "somebody else changed it, and no run has repaired it",
    State.FAILED: "the last try failed, and the table is as it was",
}


@dataclass(frozen=True)
class Ended:
    """A run that has ended, as far as a map needs it.

    :param number: its number in the ledger, where its page is found
    :param order: the sequence number of its end
    :param at: when it ended, ISO 8601 in UTC
    :param report: None where it failed or was lost
    :param window: of one that failed or was lost, what it was to replace; None: not known
    :param error: of such a one, why, in a line
    """

    run_id: str
    number: int
    order: int
    at: str
    report: RunReport | None = None
    window: Region | None = None
    error: str | None = None

    @cached_property
    def entry(self) -> Entry | None:
        """What it proves; None where its report does not say, or cannot be read."""
        if self.report is None or self.report.coverage is None:
            return None
        try:
            return Entry.from_json(self.report.coverage)
        except (AttributeError, LookupError, PredicateError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Writing:
    """A run that holds a lease and is not known to have ended.

    :param since: when it was granted, ISO 8601 in UTC
    :param words: the run in words
    """

    run_id: str
    region: Region
    since: str
    words: str


@dataclass(frozen=True)
class Fact:
    """One thing that is known of some rows.

    :param why: in words, without the state
    :param run_id: the run that it is known from
    :param number: that run's number in the ledger; None where the page has not read so far back
    :param at: when, ISO 8601 in UTC
    :param sources: by name, the versions over which the rows were computed
    """

    state: State
    why: str
    run_id: str | None = None
    number: int | None = None
    at: str | None = None
    sources: Mapping[str, int] = field(default_factory=dict)


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
    layers, unplaced, notes = _layers(coverage, runs, writing, looked)
    if len(coverage.fragments) >= MOST_FRAGMENTS:
        notes.append(
            f"The ledger keeps what {MOST_FRAGMENTS} ranges prove, the newest; it has forgotten older ones, and would "
            "recompute them. One backfill over them makes them one range."
        )
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
        definition_hash=_definition(looked),
        sources={name: pin.version for name, pin in _newest_pins(coverage, runs, looked).items()},
        unplaced=tuple(unplaced),
        notes=tuple(notes),
    )


# -- what is known, the most urgent first


@dataclass(frozen=True)
class _Layer:
    """A fact and where it holds: wherever no layer before it has said something.

    :param proves: whether it says more of rows than that they are not proven, and so has to hold for all of them
    """

    fact: Fact
    region: Region
    proves: bool = False


def _layers(
    coverage: Coverage, runs: Sequence[Ended], writing: Sequence[Writing], looked: Ended | None
) -> tuple[list[_Layer], list[Fact], list[str]]:
    notes: list[str] = []
    unplaced: list[Fact] = []
    layers = [_Layer(Fact(State.RUNNING, w.words, w.run_id, at=w.since), w.region) for w in writing]
    since = Region.empty()  # what runs that ended well have written later than the one that is looked at
    last_told = max((n for n, run in enumerate(runs) if _tells(run)), default=-1)
    for run in runs[: last_told + 1]:
        if run.report is None:
            fact = _fact(State.FAILED, run, run.error or "it failed")
            if run.window is None:
                unplaced += [fact] if not since.is_everything else []
            elif run.window.has_types_of(since):
                layers.append(_Layer(fact, run.window.subtract(since)))
            continue
        written = _written(run)
        told = list(_told(run, written))
        if not all(of_one_kind([since, written, *(region for _, region in told)])):
            notes.append(f"What happened before run {run.number} speaks of columns that had other types then.")
            break
        layers += [_Layer(fact, region.subtract(since)) for fact, region in told]
        since = since.union(Region.everything() if run.entry is None or run.entry.whole else written)
        if since.is_everything:
            break
        if since.size > MOST_RANGES:
            notes.append(f"What happened before run {run.number} is not taken apart: it is in too many pieces.")
            break
    layers = [layer for layer in layers if not layer.region.is_empty]
    return [*layers, *_proven(coverage, runs, looked)], unplaced, notes


def _tells(run: Ended) -> bool:
    """Whether a run says more than the coverage does."""
    if run.report is None or run.entry is None:
        return True
    return bool(run.entry.foreign or run.entry.whole or not run.entry.proves or _is_skipped(run.report))


def _told(run: Ended, written: Region) -> Iterator[tuple[Fact, Region]]:
    """What one run that ended well says besides what it proves."""
    report, entry = run.report, run.entry
    assert report is not None
    if entry is None:
        yield _fact(State.STALE, run, "its report does not say what it proves"), Region.everything()
        return
    for change in entry.foreign:
        region = Region.everything() if change is None else change
        rest = region.subtract(written) if region.has_types_of(written) else region
        yield _fact(State.FOREIGN, run, f"{_others(report)}, by somebody else"), rest
    if report.mode is Mode.UNDO:
        yield _fact(State.STALE, run, "; ".join(why(report))), written
    elif not entry.proves:
        yield _fact(State.STALE, run, f"recomputed, but nothing proves it: {'; '.join(why(report))}"), written
    elif _is_skipped(report):
        yield _fact(State.STALE, run, f"left alone by run {run.number}: {'; '.join(why(report))}"), _skipped(run, entry)
    if entry.whole:
        emptied = Region.everything().subtract(written)
        yield _fact(State.MISSING, run, f"emptied by the full refresh of run {run.number}"), emptied


def _written(run: Ended) -> Region:
    """What a run left equal to its query or may have touched."""
    entry = run.entry
    if entry is None:
        return Region.everything()
    found = entry.bound if entry.region is None else entry.region
    return Region.everything() if found is None else found


def _is_skipped(report: RunReport) -> bool:
    return report.mode is Mode.NO_OP and any(str(r["reason"]).endswith("_SKIPPED") for r in report.reasons)


def _skipped(run: Ended, entry: Entry) -> Region:
    """What a run knew to be stale and left alone."""
    report = run.report
    assert report is not None
    try:
        window = parse_predicate(report.window, dict(report.window_types), report.time_zone)
    except PredicateError:
        return Region.empty()
    if entry.region is None or not window.has_types_of(entry.region):
        return window
    return window.subtract(entry.region)


def _others(report: RunReport) -> str:
    named = [reason(r) for r in report.reasons if r["reason"] == "EXTERNAL_CHANGE_IN_REPLACE_WINDOW"]
    commits = (report.planning_information.get("target_table_information") or {}).get("commits_of_others") or ()
    named += [f"{commit['operation']} at version {commit['version']}" for commit in commits if not named]
    return ", ".join(named) or "a commit"


# -- what is proven


def _proven(coverage: Coverage, runs: Sequence[Ended], looked: Ended | None) -> Iterator[_Layer]:
    """The coverage's fragments as layers: whatever is not proven for the newest state that is known comes first."""
    newest = _newest_pins(coverage, runs, looked)
    definition = _definition(looked)
    by_run = {run.run_id: run for run in runs}
    unchecked: list[_Layer] = []
    fresh: list[_Layer] = []
    # The newest first: what came last is said first where a projection lets two fragments meet.
    for fragment in reversed(coverage.fragments):
        run = by_run.get(fragment.run_id)
        if definition is None or fragment.definition_hash != definition:
            text = "computed by another definition than that of the last run that looked"
            yield _Layer(_of_fragment(State.STALE, fragment, run, text), fragment.region)
        elif dict(fragment.sources) != newest:
            text = f"since then seen: {_seen_since(fragment, newest)}"
            unchecked.append(_Layer(_of_fragment(State.UNCHECKED, fragment, run, text), fragment.region, True))
        else:
            text = "equal to the query over these versions of its sources"
            fresh.append(_Layer(_of_fragment(State.FRESH, fragment, run, text), fragment.region, True))
    yield from unchecked
    yield from fresh


def _newest_pins(coverage: Coverage, runs: Sequence[Ended], looked: Ended | None) -> dict[str, Pin]:
    """By source of the last run that looked, the newest version that anybody has seen.

    A run that was recorded late, or looked at another part, may have seen more than the last one: then nothing that
    was computed from less is called fresh.
    """
    entry = looked.entry if looked else None
    if entry is None:
        return {}
    newest = dict(entry.sources)
    seen = [fragment.sources for fragment in coverage.fragments]
    seen += [run.entry.sources for run in runs if run.entry is not None]
    for sources in seen:
        for name, pin in sources.items():
            known = newest.get(name)
            if known is not None and known.table_id == pin.table_id and pin.version > known.version:
                newest[name] = pin
    return newest


def _definition(looked: Ended | None) -> str | None:
    """The newest definition that is known, as the coverage names it."""
    if looked is None or looked.report is None:
        return None
    return looked.report.definition_hash if looked.entry is None else looked.entry.definition_hash


def _seen_since(fragment: Fragment, newest: Mapping[str, Pin]) -> str:
    parts = []
    for name in sorted({*fragment.sources, *newest}):
        before, now = fragment.sources.get(name), newest.get(name)
        if before == now:
            continue
        if now is None:
            parts.append(f"{name} is not read any more")
        elif before is None:
            parts.append(f"{name} is read too")
        elif before.table_id != now.table_id:
            parts.append(f"{name} is another table")
        else:
            parts.append(f"{name} at version {now.version}")
    return ", ".join(parts)


def _fact(state: State, run: Ended, text: str) -> Fact:
    sources = {} if run.entry is None else {name: pin.version for name, pin in run.entry.sources.items()}
    return Fact(state, text, run.run_id, run.number, run.at, sources)


def _of_fragment(state: State, fragment: Fragment, run: Ended | None, text: str) -> Fact:
    sources = {name: pin.version for name, pin in fragment.sources.items()}
    return Fact(state, text, fragment.run_id, run.number if run else None, run.at if run else None, sources)


# -- along the columns


def _maps(
    layers: Sequence[_Layer],
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
        written = _written(run)
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
