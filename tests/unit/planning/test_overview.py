"""What is said of each cell of a table: compared, cell by cell, with a reading of the same ledger by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.planning.calendar import Cell, cells_of
from airflow_provider_replacewhere.planning.coverage import MOST_FRAGMENTS, Coverage, Entry, Fragment, Pin, fold
from airflow_provider_replacewhere.planning.document import map_as_json
from airflow_provider_replacewhere.planning.overview import Overview, overview
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.states import Ended, State, Writing
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.history import report

TYPES = {"d": "date", "city": "string"}
FIRST = date(2026, 3, 1)
DAYS = range(6)
CITIES = ("a", "b", "c")
EVERYTHING = Region.everything()


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def where(sql: str) -> Region:
    return parse_predicate(sql, TYPES)


def box(first: int, end: int, cities: Iterable[str] = ()) -> Region:
    """Some days of some cities, or of all."""
    sql = f"d >= DATE'{day(first)}' AND d < DATE'{day(end)}'"
    named = ", ".join(f"'{city}'" for city in sorted(cities))
    return where(f"{sql} AND city IN ({named})" if named else sql)


def holds(region: Region | None, number: int, city: str) -> bool:
    return region is None or region.contains_row({"d": day(number), "city": city})


def entry(region: Region | None, version: int = 1, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "region": region,
        "bound": region,
        "proves": True,
        "definition_hash": "one",
        "sources": {"s": Pin(version, "source")},
        "run_id": "",
        "target_version": 1,
        "target_id": "target",
        "since": 0,
        **changes,
    }
    return Entry(**values)


def well(order: int, found: Entry, **changes: Any) -> Ended:
    """A run that ended well."""
    run_id = f"app/{order}"
    found = replace(found, run_id=run_id, target_version=order)
    values = {
        "definition_hash": found.definition_hash,
        "coverage": found.to_json(),
        "as_of": f"{day(3)}T00:00:00+00:00",
        "window": "d >= DATE'2026-03-01' AND d < DATE'2026-03-07'",
        "window_types": TYPES,
        **changes,
    }
    return Ended(run_id, order, order, f"2026-03-10T00:{order:02d}:00+00:00", report(run_id, **values))


def failed(order: int, window: Region | None) -> Ended:
    return Ended(f"app/{order}", order, order, "2026-03-10T00:00:00+00:00", window=window, error="it broke")


def coverage_of(runs: Sequence[Ended]) -> Coverage:
    return fold((run.order, run.entry) for run in sorted(runs, key=lambda r: r.order) if run.entry is not None)


def state_of(known: Overview, number: int, city: str) -> State:
    """What the map says of one cell of one row of it."""
    assert known.column is not None
    for row in known.rows:
        if row.row.values is None or city in row.row.values:
            key = (day(number) - date(1970, 1, 1)).days
            for piece in row.pieces:
                if (piece.low is None or piece.low <= key) and (piece.high is None or key < piece.high):  # type: ignore[operator]
                    return known.facts[piece.fact].state
    raise AssertionError("every value of the column is in one piece")


def by_hand(runs: Sequence[Ended], writing: Sequence[Writing], number: int, city: str) -> State:
    """The same for one row of the table, from the newest run to the oldest."""
    if any(holds(each.region, number, city) for each in writing):
        return State.RUNNING
    newest_first = sorted(runs, key=lambda run: -run.order)
    looked = next((run for run in newest_first if run.report and run.report.mode is not Mode.UNDO), None)
    for run in newest_first:
        if run.report is None:
            if run.window is not None and holds(run.window, number, city):
                return State.FAILED
            continue
        found = run.entry
        assert found is not None
        is_inside = holds(found.bound if found.region is None else found.region, number, city)
        if not is_inside:
            if any(holds(change, number, city) for change in found.foreign):
                return State.FOREIGN
            if found.whole:
                return State.MISSING
            continue
        if run.report.mode is Mode.UNDO or not found.proves:
            return State.STALE
        assert looked is not None
        assert looked.report is not None
        if found.definition_hash != looked.report.definition_hash:
            return State.STALE
        newest = max(each.entry.sources["s"].version for each in runs if each.entry and each.entry.sources)
        return State.FRESH if found.sources["s"].version == newest else State.UNCHECKED
    return State.MISSING


boxes = st.builds(
    lambda first, length, cities: box(first, min(first + length, DAYS.stop), cities),
    st.integers(DAYS.start, DAYS.stop - 1),
    st.integers(1, 4),
    st.sets(st.sampled_from(CITIES), max_size=2),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Ended]:
    runs = []
    version = 1
    for order in range(1, draw(st.integers(1, 7)) + 1):
        kind = draw(st.sampled_from(["well"] * 5 + ["failed", "undo", "unproven", "whole"]))
        region = draw(boxes)
        version += draw(st.sampled_from([0, 0, 1]))
        foreign = tuple(draw(st.lists(boxes, max_size=1))) if draw(st.integers(0, 3)) == 0 else ()
        definition = draw(st.sampled_from(["one", "one", "two"]))
        found = entry(region, version, definition_hash=definition, foreign=foreign)
        if kind == "failed":
            runs.append(failed(order, region))
        elif kind == "undo":
            undone = replace(found, region=None, proves=False, sources={})
            runs.append(well(order, undone, mode=Mode.UNDO, reasons=({"reason": "FIRST_REFRESH"},)))
        else:
            runs.append(well(order, replace(found, proves=kind != "unproven", whole=kind == "whole")))
    return runs


@given(histories(), st.lists(boxes, max_size=1))
def test_every_cell_is_what_reading_the_ledger_by_hand_gives(runs: list[Ended], leased: list[Region]) -> None:
    writing = [Writing("app/0", region, "2026-03-10T00:00:00+00:00", "somebody") for region in leased]
    known = overview(coverage_of(runs), runs, writing)
    if known.column is None:
        return
    # Where the map runs along the cities, days are its rows.
    column = None if known.column.name == "d" else "d"
    known = overview(coverage_of(runs), runs, writing, column)
    for number, city in itertools.product(DAYS, CITIES):
        assert state_of(known, number, city) is by_hand(runs, writing, number, city), (number, city)


@given(histories(), st.lists(boxes, max_size=1), st.sampled_from(["day", "week", "month"]))
def test_a_cell_is_as_urgent_as_its_most_urgent_part(runs: list[Ended], leased: list[Region], unit: str) -> None:
    writing = [Writing("app/0", region, "2026-03-10T00:00:00+00:00", "somebody") for region in leased]
    known = overview(coverage_of(runs), runs, writing, "d")
    if known.column is None or known.column.name != "d":
        return
    urgency = list(State)
    for row in cells_of(known, unit).rows:
        for cell in row.cells:
            assert isinstance(cell.low, int)
            assert isinstance(cell.high, int)
            inside = [n for n in DAYS if cell.low <= (day(n) - date(1970, 1, 1)).days < cell.high]
            cities = [city for city in CITIES if row.row.values is None or city in row.row.values]
            parts = [by_hand(runs, writing, n, city) for n in inside for city in cities]
            if parts:
                worst = min(parts, key=urgency.index)
                assert urgency.index(cell.state) <= urgency.index(worst), cell
            assert abs(sum(cell.shares.values()) - 1) < 1e-9
            assert cell.state in cell.shares
            # Nothing is said of a cell that some fact of it does not say.
            assert {known.facts[n].state for n in cell.facts} == set(cell.shares)


@given(histories())
def test_leaving_out_old_runs_never_makes_anything_fresh(runs: list[Ended]) -> None:
    newest = [run for run in runs if run.order > len(runs) // 2]
    whole, part = overview(coverage_of(runs), runs), overview(coverage_of(runs), newest)
    if part.column is None or part.column.name != "d" or whole.column is None or whole.column.name != "d":
        return
    if not any(run.report is not None and run.report.mode is not Mode.UNDO for run in newest):
        return
    for number, city in itertools.product(DAYS, CITIES):
        if state_of(part, number, city) is State.FRESH:
            assert state_of(whole, number, city) in (State.FRESH, State.FAILED)


# -- by example --


def one_row(runs: Sequence[Ended], *writing: Writing, unit: str | None = None) -> list[Cell]:
    (row,) = cells_of(overview(coverage_of(runs), runs, writing), unit).rows
    return list(row.cells)


def states(cells: Iterable[Cell]) -> str:
    marks = {"fresh": "#", "unchecked": "+", "stale": "~", "missing": ".", "running": ">", "foreign change": "!"}
    return "".join(marks.get(cell.state, "x") for cell in cells)


def test_a_table_without_runs_has_no_map() -> None:
    known = overview(Coverage(), ())
    assert known.column is None
    assert cells_of(known).rows == ()
    assert map_as_json("t", known)["rows"] == []


def test_yesterdays_days_are_unchecked_when_a_source_has_moved_on() -> None:
    runs = [well(1, entry(box(0, 3), 1)), well(2, entry(box(2, 5), 2))]
    assert states(one_row(runs)) == "++###"
    (first, *_) = one_row(runs)
    known = overview(coverage_of(runs), runs)
    assert "s at version 2" in known.facts[first.facts[0]].why


def test_a_run_that_was_recorded_late_makes_nothing_fresh_that_another_has_seen_change() -> None:
    # The last run to be recorded read an older version than the one before it.
    runs = [well(1, entry(box(0, 3), 5)), well(2, entry(box(3, 5), 4))]
    assert states(one_row(runs)) == "###++"


def test_a_source_that_is_another_table_now_proves_nothing() -> None:
    old = entry(box(0, 3), 9)
    runs = [well(1, old), well(2, entry(box(3, 5), sources={"s": Pin(1, "another")}))]
    assert states(one_row(runs)) == "+++##"


def test_another_definition_is_stale_and_says_so() -> None:
    runs = [well(1, entry(box(0, 4))), well(2, entry(box(2, 4), definition_hash="two"))]
    cells = one_row(runs)
    assert states(cells) == "~~##"
    known = overview(coverage_of(runs), runs)
    assert "another definition" in known.facts[cells[0].facts[0]].why


def test_a_failed_try_shows_until_a_later_run_covers_it() -> None:
    first, second = well(1, entry(box(0, 4))), failed(2, box(2, 4))
    assert states(one_row([first, second])) == "##xx"
    assert states(one_row([first, second, well(3, entry(box(0, 3)))])) == "###x"


def test_a_failure_whose_window_nobody_knows_is_listed_until_the_table_is_written_anew() -> None:
    runs = [well(1, entry(box(0, 2))), failed(2, None)]
    assert [fact.run_id for fact in overview(coverage_of(runs), runs).unplaced] == ["app/2"]
    runs.append(well(3, entry(box(0, 2), whole=True)))
    assert overview(coverage_of(runs), runs).unplaced == ()


def test_what_a_full_refresh_emptied_is_missing() -> None:
    runs = [well(1, entry(box(0, 6))), well(2, entry(box(2, 4), whole=True))]
    assert states(one_row(runs)) == "##"
    known = overview(coverage_of(runs), runs)
    assert state_of(known, 0, "a") is State.MISSING


def test_a_change_by_others_shows_where_no_run_repaired_it() -> None:
    runs = [well(1, entry(box(0, 6))), well(2, entry(box(0, 2), foreign=(box(1, 4),)))]
    assert states(one_row(runs)) == "##!!##"


def test_a_change_by_others_that_nobody_can_place_may_be_anywhere() -> None:
    runs = [well(1, entry(box(0, 6))), well(2, entry(box(0, 2), foreign=(None,)))]
    known = overview(coverage_of(runs), runs)
    assert [state_of(known, n, "a") for n in DAYS] == [State.FRESH] * 2 + [State.FOREIGN] * 4


def test_a_run_that_left_its_stale_part_alone_leaves_it_stale() -> None:
    skipped = {"mode": Mode.NO_OP, "reasons": ({"reason": "SOURCE_CHANGED"}, {"reason": "REGION_HELD_SKIPPED"})}
    window = "d >= DATE'2026-03-01' AND d < DATE'2026-03-05'"
    runs = [well(1, entry(box(0, 4), 1)), well(2, entry(box(0, 2), 2), window=window, **skipped)]
    assert states(one_row(runs)) == "##~~"


def test_a_part_of_the_cities_of_a_day_does_not_make_the_day_fresh() -> None:
    # Three columns: the third is no axis of the map.
    types = {"d": "date", "city": "string", "hour": "int"}
    half = parse_predicate("d = DATE'2026-03-01' AND city = 'a' AND hour < 12", types)
    rest = parse_predicate("d = DATE'2026-03-01' AND city = 'a' AND (hour >= 12 OR hour IS NULL)", types)
    runs = [well(1, entry(half))]
    known = overview(coverage_of(runs), runs, column="d")
    assert state_of(known, 0, "a") is State.STALE
    runs.append(well(2, entry(rest)))
    known = overview(coverage_of(runs), runs, column="d")
    assert state_of(known, 0, "a") is State.FRESH


def test_a_report_that_does_not_say_what_it_proves_proves_nothing() -> None:
    runs = [well(1, entry(box(0, 4)))]
    silent = replace(runs[0], run_id="app/2", order=2, report=report("app/2", coverage=None))
    known = overview(Coverage(sequence=2), [*runs, silent], [Writing("w", box(0, 1), "", "")], "d")
    assert [state_of(known, n, "a") for n in range(3)] == [State.RUNNING, State.STALE, State.STALE]


def test_columns_of_another_type_are_left_out_and_said_so() -> None:
    as_number = parse_predicate("d >= 1 AND d < 9", {"d": "int"})
    runs = [well(1, entry(box(0, 4)))]
    known = overview(coverage_of(runs), runs, [Writing("w", as_number, "", "")])
    assert known.notes
    assert all(known.facts[piece.fact].state is not State.FRESH for row in known.rows for piece in row.pieces)


def test_rows_are_few_however_many_values_are_alike() -> None:
    runs = [well(1, entry(box(0, 4))), well(2, entry(box(1, 2, ["a", "b"]), 2))]
    known = overview(coverage_of(runs), runs)
    assert known.rows_by is not None
    assert [row.row.label for row in known.rows] == ["a, b", "all others"]
    assert known.rows[0].row.equals() == ["a", "b"]
    assert known.rows[1].row.equals() is None


def test_null_keys_have_a_cell_of_their_own() -> None:
    with_null = where("d >= DATE'2026-03-01' AND d < DATE'2026-03-03' OR d IS NULL")
    for region, expected in ((with_null, State.FRESH), (box(0, 2), State.MISSING)):
        runs = [well(1, entry(region))]
        (row,) = cells_of(overview(coverage_of(runs), runs)).rows
        assert row.null.state is expected


def test_an_open_window_goes_on_behind_the_day_of_the_last_look() -> None:
    runs = [well(1, entry(where("d >= DATE'2026-03-01'")))]
    found = cells_of(overview(coverage_of(runs), runs))
    assert [cell.label for cell in found.rows[0].cells] == [str(day(n)) for n in range(4)]
    assert (found.after[0].state, found.after[0].label) == (State.FRESH, "from 2026-03-05 on")
    assert found.before[0].state is State.MISSING


def test_years_of_days_are_cut_no_finer_than_people_can_look_at() -> None:
    five_years = where("d >= DATE'2021-01-01' AND d < DATE'2026-01-01'")
    runs = [well(1, entry(five_years))]
    assert len(cells_of(overview(coverage_of(runs), runs)).rows[0].cells) == 1826
    forty = where("d >= DATE'1981-01-01' AND d < DATE'2026-01-01'")
    runs = [well(1, entry(forty))]
    found = cells_of(overview(coverage_of(runs), runs))
    assert found.unit == "month"
    assert len(found.rows[0].cells) == 540


def test_a_far_bound_stands_for_none() -> None:
    runs = [well(1, entry(where("d >= DATE'2026-03-01' AND d < DATE'9999-12-31'")))]
    found = cells_of(overview(coverage_of(runs), runs))
    assert found.unit == "day"
    assert [cell.label for cell in found.rows[0].cells] == [str(day(n)) for n in range(4)]


def test_what_the_ledger_has_forgotten_is_said() -> None:
    one = entry(where("d >= DATE'2021-01-01' AND d < DATE'2021-01-02'"))
    fragments = tuple(
        Fragment(where(f"d = DATE'{FIRST + timedelta(days=2 * n)}'"), "one", one.sources, f"app/{n}")
        for n in range(MOST_FRAGMENTS)
    )
    known = overview(Coverage(fragments, "target", 1, 1), [well(1, one)])
    assert any("forgotten" in note for note in known.notes)


def test_days_begin_where_the_flow_is() -> None:
    region = parse_predicate("ts >= '2026-03-28' AND ts < '2026-03-31'", {"ts": "timestamp"}, time_zone="Europe/Berlin")
    runs = [well(1, entry(region), time_zone="Europe/Berlin")]
    cells = one_row(runs)
    assert [cell.label for cell in cells] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert states(cells) == "###"
    # The day on which clocks are set forward has 23 hours.
    lengths = [(cell.high - cell.low) // 3_600_000_000 for cell in cells]  # type: ignore[operator]
    assert lengths == [24, 23, 24]


def test_half_a_day_is_not_a_fresh_day() -> None:
    region = parse_predicate("ts >= '2026-03-28 12:00:00' AND ts < '2026-03-30'", {"ts": "timestamp"})
    cells = one_row([well(1, entry(region))])
    assert states(cells) == ".#"
    assert cells[0].shares == {State.FRESH: 0.5, State.MISSING: 0.5}


def test_numbers_are_cut_where_something_changes() -> None:
    runs = [
        well(1, entry(parse_predicate("n >= 0 AND n < 100", {"n": "int"}))),
        well(2, entry(parse_predicate("n >= 50 AND n < 60", {"n": "int"}), 2)),
    ]
    found = map_as_json("t", overview(coverage_of(runs), runs))
    assert found["unit"] == "range"
    assert [(c["start"], c["end"], c["state"]) for c in found["rows"][0]["cells"]] == [
        (0, 50, "unchecked"),
        (50, 60, "fresh"),
        (60, 100, "unchecked"),
    ]
    assert found["column_type"] == "number"


def test_gaps_are_what_is_not_fresh_in_as_few_ranges_as_they_make() -> None:
    runs = [well(1, entry(box(0, 2))), well(2, entry(box(4, 6)))]
    found = map_as_json("t", overview(coverage_of(runs), runs))
    (gap,) = found["gaps"]
    assert (gap["start"], gap["end"], gap["state"], gap["cells"]) == ("2026-03-03", "2026-03-05", "missing", 2)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(("unit", "first"), [("hour", None), (None, "yesterday")])
def test_what_cannot_be_shown_is_said(unit: str | None, first: str | None) -> None:
    from airflow_provider_replacewhere.errors import RequestError

    runs = [well(1, entry(box(0, 2)))]
    with pytest.raises(RequestError):
        cells_of(overview(coverage_of(runs), runs), unit, first)


def test_a_part_can_be_looked_at() -> None:
    runs = [well(1, entry(box(0, 6)))]
    found = cells_of(overview(coverage_of(runs), runs), None, "2026-03-02", "2026-03-04")
    assert [cell.label for cell in found.rows[0].cells] == ["2026-03-02", "2026-03-03"]


def test_a_bound_alone_of_a_column_without_a_calendar_has_a_cell_too() -> None:
    region = parse_predicate("n >= 5", {"n": "int"})
    found = map_as_json("t", overview(coverage_of(runs := [well(1, entry(region))]), runs))
    (row,) = found["rows"]
    assert [cell["state"] for cell in (row["before"], *row["cells"], row["after"])] == ["missing", "fresh", "fresh"]
