"""What the page says besides its map: what was saved, how far backfills are, what changed between definitions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.definitions import definitions
from airflow_provider_replacewhere.planning.drawing import drawn
from airflow_provider_replacewhere.planning.progress import backfills
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.saved import saved
from airflow_provider_replacewhere.planning.states import Ended
from tests.history import report


def ended(number: int, **changes: Any) -> Ended:
    found = report(f"app-{number}/daily", **changes)
    return Ended(found.run_id, number, number, "2026-03-10T00:00:09+00:00", found)


def failed(number: int, run_id: str) -> Ended:
    return Ended(run_id, number, number, "2026-03-10T00:00:09+00:00", error="it broke")


def lasting(seconds: int) -> dict[str, str]:
    ended_at = f"2026-03-10T00:{seconds // 60:02d}:{seconds % 60:02d}+00:00"
    return {"started_at": "2026-03-10T00:00:00+00:00", "finished_at": ended_at}


# -- saved --


def test_saved_is_what_the_last_full_recomputation_took_more() -> None:
    runs = [
        ended(1, rows_written=1000, **lasting(100)),
        ended(2, mode=Mode.INCREMENTAL, rows_written=100, **lasting(20)),
        ended(3, mode=Mode.NO_OP, rows_written=None, **lasting(1)),
    ]
    found = saved(runs)
    assert found is not None
    assert (found.runs, found.seconds, found.rows, found.against) == (2, 179.0, 1900, 1)


def test_nothing_is_compared_with_another_definition_another_window_or_nothing() -> None:
    less = ended(2, mode=Mode.INCREMENTAL, **lasting(20))
    assert saved([less]) is None
    assert saved([ended(1, definition_hash="old", **lasting(100)), less]) is None
    assert saved([ended(1, override=True, **lasting(100)), less]) is None
    assert saved([ended(1, **lasting(100))]) is None
    assert saved([]) is None


def test_rows_are_left_out_where_a_count_is_missing() -> None:
    found = saved([ended(1, **lasting(100)), ended(2, mode=Mode.INCREMENTAL, rows_written=None, **lasting(20))])
    assert found is not None
    assert found.rows is None


def test_instants_that_nobody_can_read_save_nothing() -> None:
    assert saved([ended(1, started_at="once"), ended(2, mode=Mode.NO_OP)]) is None


# -- backfills --


def chunk(number: int, which: int, of: int = 4, **changes: Any) -> Ended:
    return ended(number, chunk=Chunk(which, of, "app"), override=True, **{**lasting(60), **changes})


def test_a_backfill_tells_how_far_it_is_and_how_long_it_still_takes() -> None:
    fresh = chunk(2, 2, mode=Mode.NO_OP, rows_written=None, **lasting(1))
    (found,) = backfills([chunk(1, 1), fresh, failed(3, "app/3/daily"), failed(4, "other/daily")])
    assert (found.done, found.of, found.skipped, found.failed) == (2, 4, 1, 1)
    assert found.left == timedelta(seconds=120)
    assert found.rows == 12
    assert not found.is_done


def test_a_later_try_counts_each_chunk_once() -> None:
    (found,) = backfills([chunk(n, which) for n, which in enumerate((1, 2, 2, 3, 4), start=1)])
    assert (found.done, found.left, found.is_done) == (4, None, True)


def test_the_newest_backfill_comes_first() -> None:
    other = ended(9, chunk=Chunk(1, 2, "other"))
    assert [each.id for each in backfills([chunk(1, 1), other, chunk(3, 2)])] == ["other", "app"]
    assert backfills([ended(1)]) == ()


# -- definitions --


def test_definitions_are_told_apart_by_their_hash_and_compared_by_what_is_recorded() -> None:
    new = {"definition_hash": "new", "predicate": "d >= 0", "source_versions": {"rides": 8}}
    found = definitions([ended(1), ended(2), ended(3, **new), ended(4, mode=Mode.UNDO, definition_hash="x")])
    assert [(each.definition_hash, each.runs) for each in found] == [("new", 1), ("5f2c", 2)]
    newest, oldest = found
    assert oldest.differences is None
    assert newest.differences is not None
    assert {d.what: (d.before, d.after) for d in newest.differences} == {
        "predicate": ("d >= date_sub(current_date(), 9)", "d >= 0"),
        "source zones": ("read", None),
    }


def test_a_predicate_of_one_run_is_no_change_of_the_definition() -> None:
    found = definitions([ended(1), ended(2, definition_hash="new", override=True, predicate="d = 1")])
    assert found[0].hidden


def test_going_back_to_an_older_definition_is_a_change_too() -> None:
    found = definitions([ended(n, definition_hash=name) for n, name in enumerate("aba", start=1)])
    assert [each.definition_hash for each in found] == ["a", "b", "a"]


def test_expectations_columns_and_types_are_compared() -> None:
    changes: dict[str, Any] = {
        "definition_hash": "new",
        "expectations": {"valid": {"action": "fail", "violations": 0}},
        "window_types": {"d": "timestamp"},
        "columns_added": ("tip",),
        "unwatched": ("a jar",),
        "time_zone": "Europe/Berlin",
    }
    before = replace(report("app-1/daily"), window_types={"d": "date"})
    found = definitions([ended(2, **changes), replace(ended(1), report=before)])
    assert {d.what for d in found[0].differences or ()} == {
        "expectation valid",
        "type of column d",
        "column tip",
        "depends on",
        "time zone",
    }


# -- as text --


def test_days_are_drawn_as_months_and_all_else_from_left_to_right() -> None:
    def cell(label: str, state: str) -> dict[str, Any]:
        return {"label": label, "start": label, "state": state}

    days = [cell("2026-02-27", "fresh"), cell("2026-02-28", "stale"), cell("2026-03-01", "failed")]
    found = {"unit": "day", "rows_by": None, "rows": [{"label": "all", "cells": days}]}
    assert drawn(found) == ["2026-02     " + " " * 26 + "#~", "2026-03     x", "", "# fresh  ~ stale  x failed"]
    weeks = {"unit": "week", "rows_by": "city", "rows": [{"label": n, "cells": days * 40} for n in ("a", "b")]}
    lines = drawn(weeks, width=60)
    assert lines[0] == "city a"
    assert lines[1].startswith("  2026-02-27  #~x")
    assert max(map(len, lines)) <= 60
    assert drawn({"unit": "day", "rows_by": None, "rows": []}) == []
