"""What of a run is worth an alert."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.events import EventKind, events
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.history import report

WIDENED = {"reason": "WINDOW_WIDENED", "newly_exposed": "(`d` < DATE '2026-03-01')"}
FOREIGN = {
    "reason": "EXTERNAL_CHANGE_IN_REPLACE_WINDOW",
    "version": 7,
    "operation": "DELETE",
    "region": "(`d` = DATE '2026-03-01')",
}
UNTOLD = {"reason": "EXTERNAL_CHANGE_IN_REPLACE_WINDOW", "region": "TRUE", "cause": "its log does not reach back"}
HELD = {"reason": "REGION_HELD_SKIPPED", "holders": "Dag other"}
CHANGED = {"reason": "SOURCE_CHANGED", "table": "rides", "from_version": 1, "to_version": 2}
UNKNOWN = {**CHANGED, "cause": "its log does not tell which rows"}


def kinds(*reports: RunReport) -> list[EventKind]:
    return [event.kind for event in events(reports)]


def of(mode: Mode, *reasons: dict[str, Any], **changes: Any) -> RunReport:
    replaced = None if mode is Mode.NO_OP else "(`d` >= DATE '2026-03-01')"
    return report(target="daily", mode=mode, reasons=reasons, replaced=replaced, **changes)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (of(Mode.NO_OP), []),
        (of(Mode.INCREMENTAL, CHANGED), []),
        (of(Mode.INCREMENTAL, WIDENED), [EventKind.WINDOW_WIDENED]),
        (of(Mode.INCREMENTAL, FOREIGN, CHANGED), [EventKind.FOREIGN_CHANGE]),
        (of(Mode.NO_OP, HELD), [EventKind.SKIPPED_REGION_HELD]),
        (of(Mode.NO_OP, {"reason": "EMPTY_RESULT_SKIPPED"}), [EventKind.SKIPPED_EMPTY_RESULT]),
        (of(Mode.INCREMENTAL, CHANGED, adopted="app-0/daily"), [EventKind.RUN_ADOPTED]),
        (of(Mode.FULL_RECOMPUTE, WIDENED, UNTOLD), [*list(EventKind)[:3]]),
    ],
)
def test_what_happened_is_told(told: RunReport, found: list[EventKind]) -> None:
    assert kinds(told) == found


@pytest.mark.parametrize(
    "reason",
    [
        UNKNOWN,
        {"reason": "SOURCE_HISTORY_UNAVAILABLE", "table": "rides", "cause": "cleaned up"},
        {"reason": "SOURCE_NOT_VERSIONED", "table": "rides"},
        {"reason": "QUERY_NOT_DETERMINISTIC"},
        {"reason": "TOO_MANY_CHANGES", "ranges": 300, "most": 200},
        {"reason": "UNSUPPORTED_REPLACE_WHERE_PREDICATE", "predicate": "f(d)"},
    ],
    ids=lambda reason: reason["reason"],
)
def test_a_whole_window_that_may_be_fresh_in_part_is_a_fallback(reason: dict[str, Any]) -> None:
    assert kinds(of(Mode.FULL_RECOMPUTE, reason)) == [EventKind.FELL_BACK_TO_FULL]


@pytest.mark.parametrize(
    "reasons",
    [
        [{"reason": "FIRST_REFRESH"}],
        [{"reason": "FIRST_REFRESH"}, {"reason": "SOURCE_NOT_VERSIONED", "table": "rides"}],
        [{"reason": "PREDICATE_OVERRIDE", "predicate": "d = 1"}, UNKNOWN],
        [{"reason": "FULL_RECOMPUTE_REQUESTED"}, UNKNOWN],
        [{"reason": "QUERY_FINGERPRINT_CHANGED", "previous": "5f2c"}],
        [CHANGED],
        [{**UNKNOWN, "found_by": "statistics"}],
    ],
    ids=str,
)
def test_a_whole_window_that_was_asked_for_or_is_stale_is_none(reasons: list[dict[str, Any]]) -> None:
    assert kinds(of(Mode.FULL_RECOMPUTE, *reasons)) == []


def test_a_plan_is_nothing_that_happened() -> None:
    assert kinds(of(Mode.FULL_RECOMPUTE, UNTOLD, WIDENED, dry_run=True)) == []


def test_the_chunks_of_a_flow_are_one_event_of_each_kind() -> None:
    chunks = [
        of(Mode.INCREMENTAL, FOREIGN, run_id=f"app-1/{number}/daily", chunk=Chunk(number, 3, "app-1"))
        for number in (1, 2, 3)
    ]
    other = of(Mode.INCREMENTAL, {**FOREIGN, "version": 8}, flow="weekly", run_id="app-1/weekly")

    daily, weekly = events([*chunks, other])

    assert (daily.flow, daily.run_id, daily.runs, daily.reasons) == ("daily", "app-1/1/daily", 3, (FOREIGN,))
    assert (weekly.flow, weekly.runs) == ("weekly", 1)


def test_an_event_is_plain_json_with_words_in_it() -> None:
    (event,) = events([of(Mode.INCREMENTAL, FOREIGN)])
    assert event.to_json() == {
        "event": "foreign_change",
        "flow": "daily",
        "target": "daily",
        "run_id": "app-1/daily",
        "mode": "INCREMENTAL",
        "window": "(`d` >= DATE '2026-03-01')",
        "replaced": "(`d` >= DATE '2026-03-01')",
        "runs": 1,
        "reasons": [FOREIGN],
        "message": "Somebody else has changed daily inside the window: "
        "EXTERNAL_CHANGE_IN_REPLACE_WINDOW (DELETE at version 7: d = DATE '2026-03-01')",
    }
