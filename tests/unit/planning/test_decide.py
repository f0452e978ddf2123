"""What a run recomputes, and the reasons with the data behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import PlanRefusedError
from airflow_provider_replacewhere.planning import decide as module
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin, fold
from airflow_provider_replacewhere.planning.decide import (
    Decision,
    Facts,
    ForeignChange,
    Reason,
    decide,
    planning_information,
)
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.predicates import Region, parse_predicate

TYPES = {"d": "int", "region": "string"}
NOW = {"rides": Pin(7, "rides-id")}


def where(sql: str) -> Region:
    return parse_predicate(sql, TYPES)


def days(first: int, end: int) -> Region:
    return where(f"d >= {first} AND d < {end}")


def ran(region: Region | None, version: int = 1, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "region": region,
        "bound": region,
        "proves": True,
        "definition_hash": "one",
        "sources": NOW,
        "run_id": f"run {version}",
        "target_version": version,
        "target_id": "target",
        "since": 0,
        **changes,
    }
    return Entry(**values)


def known(*entries: Entry) -> Coverage:
    return fold(enumerate(entries, start=1))


def facts(region: Region, *entries: Entry, **changes: Any) -> Facts:
    values: dict[str, Any] = {
        "window": region.to_sql(),
        "region": region,
        "definition_hash": "one",
        "pins": NOW,
        "target_id": "target",
        "target_version": 1,
        "coverage": known(*entries),
        "previous": {"evaluated": {}} if entries else None,
        **changes,
    }
    return Facts(**values)


def names(decision: Decision) -> list[str]:
    return [reason["reason"] for reason in decision.reasons]


def only(decision: Decision) -> dict[str, Any]:
    (reason,) = decision.reasons
    return dict(reason)


# -- the four modes --


def test_a_window_that_is_proven_fresh_needs_nothing() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9))))
    assert (decision.mode, decision.reasons) == (Mode.NO_OP, ())
    assert (decision.fresh, decision.stale) == (days(0, 9), Region.empty())


def test_the_first_run_recomputes_its_window() -> None:
    decision = decide(facts(days(0, 9)))
    assert (decision.mode, names(decision), decision.stale) == (Mode.FULL_RECOMPUTE, ["FIRST_REFRESH"], None)
    gone = decide(facts(days(0, 9), ran(days(0, 9)), target_exists=False, target_id=None))
    assert (gone.mode, names(gone)) == (Mode.FULL_RECOMPUTE, ["FIRST_REFRESH"])


def test_a_full_refresh_is_not_argued_with() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9)), full_refresh=True), "incremental_strict")
    assert (decision.mode, only(decision)) == (Mode.FULL_REFRESH, {"reason": "FULL_REFRESH_REQUESTED"})
    assert decision.fresh.is_empty


# -- windows that move --


@pytest.mark.parametrize(
    ("first", "end", "exposed", "mode"),
    [
        (3, 7, None, Mode.NO_OP),  # as before
        (4, 6, None, Mode.NO_OP),  # smaller
        (3, 8, days(7, 8), Mode.INCREMENTAL),  # the upper bound moved
        (4, 8, days(7, 8), Mode.INCREMENTAL),  # both moved
        (1, 7, days(1, 3), Mode.INCREMENTAL),  # the lower bound moved back
        (2, 9, days(2, 3).union(days(7, 9)), Mode.INCREMENTAL),  # wider both ways
        (7, 9, days(7, 9), Mode.FULL_RECOMPUTE),  # the next one
        (20, 22, days(20, 22), Mode.FULL_RECOMPUTE),  # a jump
    ],
)
def test_only_what_a_window_newly_exposes_is_recomputed(
    first: int, end: int, exposed: Region | None, mode: Mode
) -> None:
    decision = decide(facts(days(first, end), ran(days(3, 7))))
    assert decision.mode is mode
    if exposed is None:
        assert decision.reasons == ()
        return
    assert only(decision) == {"reason": "WINDOW_WIDENED", "newly_exposed": exposed.to_sql()}
    assert decision.fresh == days(first, end).subtract(exposed)
    assert decision.stale == (exposed if mode is Mode.INCREMENTAL else None)


def test_windows_that_took_turns_are_all_proven() -> None:
    runs = [ran(days(n, n + 3), n + 1) for n in (0, 10, 20)]
    assert decide(facts(days(10, 13), *runs)).mode is Mode.NO_OP
    decision = decide(facts(days(0, 23), *runs))
    assert decision.mode is Mode.INCREMENTAL
    assert decision.stale == days(3, 10).union(days(13, 20))


def test_a_window_of_two_columns_is_subtracted_too() -> None:
    before = where("d >= 0 AND d < 9 AND region = 'a'")
    decision = decide(facts(days(0, 9), ran(before)))
    assert decision.mode is Mode.INCREMENTAL
    assert decision.stale == days(0, 9).subtract(before)
    assert decision.stale.contains_row({"d": 3, "region": None})
    assert decide(facts(where("d = 4 AND region = 'a'"), ran(before))).mode is Mode.NO_OP


# -- what makes a fragment stale --


def test_another_query_is_another_answer() -> None:
    decision = decide(facts(days(0, 9), ran(days(2, 5)), definition_hash="two"))
    assert decision.mode is Mode.FULL_RECOMPUTE
    assert dict(decision.reasons[0]) == {
        "reason": "QUERY_FINGERPRINT_CHANGED",
        "previous": "one",
        "region": days(2, 5).to_sql(),
    }
    assert names(decision)[1:] == ["WINDOW_WIDENED"]


def test_a_query_that_changed_back_finds_what_it_left() -> None:
    runs = [ran(days(0, 9)), ran(days(4, 6), 2, definition_hash="two")]
    decision = decide(facts(days(0, 9), *runs))
    assert (decision.mode, decision.stale) == (Mode.INCREMENTAL, days(4, 6))
    assert only(decision)["previous"] == "two"


def test_a_source_that_changed_makes_stale_what_was_read_before() -> None:
    old = ran(days(0, 5), sources={"rides": Pin(5, "rides-id")})
    decision = decide(facts(days(0, 9), old, ran(days(5, 9), 2)))
    assert (decision.mode, decision.stale) == (Mode.INCREMENTAL, days(0, 5))
    assert only(decision) == {
        "reason": "SOURCE_CHANGED",
        "table": "rides",
        "from_version": 5,
        "to_version": 7,
        "region": days(0, 5).to_sql(),
    }


def test_versions_between_which_no_row_changed_are_one() -> None:
    asked: list[tuple[str, Mapping[str, Pin]]] = []

    def unchanged(name: str, before: Mapping[str, Pin]) -> None:
        asked.append((name, before))

    old = ran(days(0, 9), sources={"rides": Pin(5, "rides-id")})
    assert decide(facts(days(0, 9), old, changes=unchanged)).mode is Mode.NO_OP
    assert asked == [("rides", {"rides": Pin(5, "rides-id")})]


def test_a_source_of_the_same_name_that_is_another_table() -> None:
    old = ran(days(0, 9), sources={"rides": Pin(7, "another-id")})
    decision = decide(facts(days(0, 9), old, changes=lambda *_: None))
    assert decision.mode is Mode.FULL_RECOMPUTE
    assert only(decision) == {
        "reason": "SOURCE_REPLACED", "table": "rides", "to_version": 7, "region": days(0, 9).to_sql(),
    }  # fmt: skip


def test_a_source_without_versions() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9)), pins={**NOW, "files": None}))
    assert decision.mode is Mode.FULL_RECOMPUTE
    assert dict(decision.reasons[0]) == {"reason": "SOURCE_NOT_VERSIONED", "table": "files"}


@pytest.mark.parametrize("sources", [{}, {**NOW, "zones": Pin(1, "zones-id")}, {"trips": Pin(7, "rides-id")}])
def test_other_sources_than_before(sources: dict[str, Pin]) -> None:
    assert decide(facts(days(0, 9), ran(days(0, 9), sources=sources))).mode is Mode.FULL_RECOMPUTE


def test_reasons_of_one_kind_are_told_once_with_all_that_they_touch() -> None:
    runs = [ran(days(n, n + 1), n + 1, sources={"rides": Pin(5, "rides-id")}) for n in (0, 3, 6)]
    decision = decide(facts(days(0, 9), *runs, ran(days(7, 8), 9)))
    assert names(decision) == ["SOURCE_CHANGED", "WINDOW_WIDENED"]
    assert decision.reasons[0]["region"] == where("d IN (0, 3, 6)").to_sql()


# -- others at the target --


def test_a_foreign_change_inside_is_recomputed_alone() -> None:
    change = ForeignChange(4, "MERGE", days(5, 7))
    decision = decide(facts(days(0, 6), ran(days(0, 9)), foreign=(change,)))
    assert (decision.mode, decision.stale) == (Mode.INCREMENTAL, days(5, 6))
    assert only(decision) == {
        "reason": "EXTERNAL_CHANGE_IN_REPLACE_WINDOW",
        "version": 4,
        "operation": "MERGE",
        "region": days(5, 6).to_sql(),
    }


def test_a_foreign_change_outside_does_not_disturb() -> None:
    change = ForeignChange(4, "DELETE", days(10, 11))
    assert decide(facts(days(0, 9), ran(days(0, 9)), foreign=(change,))).mode is Mode.NO_OP


def test_a_foreign_change_of_unknown_place_may_be_anywhere() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9)), foreign=(ForeignChange(4, "RESTORE", None),)))
    assert decision.mode is Mode.FULL_RECOMPUTE
    assert only(decision)["region"] == days(0, 9).to_sql()


@pytest.mark.parametrize("changes", [{"foreign": None}, {"target_id": "made anew"}])
def test_a_target_of_which_the_log_does_not_tell(changes: dict[str, Any]) -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9)), **changes))
    assert decision.mode is Mode.FULL_RECOMPUTE
    assert decision.fresh.is_empty
    assert only(decision)["reason"] == "EXTERNAL_CHANGE_IN_REPLACE_WINDOW"
    assert only(decision)["region"] == days(0, 9).to_sql()
    assert "log" in only(decision)["cause"]


# -- doubts --


def test_an_override_recomputes_its_window_unless_only_what_is_stale_is_asked_for() -> None:
    about = {"override": "d < 6", "coverage": known(ran(days(0, 4)))}
    whole = decide(facts(days(0, 6), ran(days(0, 4)), **about))
    assert (whole.mode, whole.stale) == (Mode.FULL_RECOMPUTE, None)
    assert dict(whole.reasons[0]) == {"reason": "PREDICATE_OVERRIDE", "predicate": "d < 6"}
    stale = decide(facts(days(0, 6), ran(days(0, 4)), only_stale=True, **about))
    assert (stale.mode, stale.stale) == (Mode.INCREMENTAL, days(4, 6))
    assert decide(facts(days(0, 4), ran(days(0, 4)), override="d < 4", only_stale=True)).mode is Mode.NO_OP
    assert decide(facts(days(0, 4), ran(days(0, 4)), override="d < 4")).mode is Mode.FULL_RECOMPUTE


DOUBTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"evaluated": {"rand()": "0.5D"}}, {"reason": "REPLACE_WHERE_NOT_DETERMINISTIC", "evaluated": {"rand()": "0.5D"}}),
    (
        {"previous": {"evaluated": {"rand()": "0.1D"}}},
        {"reason": "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC", "evaluated": {"rand()": "0.1D"}},
    ),
    ({"query_is_deterministic": False}, {"reason": "QUERY_NOT_DETERMINISTIC"}),
    ({"pins": {"rides": None}}, {"reason": "SOURCE_NOT_VERSIONED", "table": "rides"}),
]


@pytest.mark.parametrize(("changes", "reason"), DOUBTS, ids=lambda value: value.get("reason"))
@pytest.mark.parametrize("policy", ["auto", "incremental"])
def test_a_doubt_recomputes_the_window(changes: dict[str, Any], reason: dict[str, Any], policy: str) -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9)), **changes), policy)
    assert (decision.mode, decision.stale) == (Mode.FULL_RECOMPUTE, None)
    assert dict(decision.reasons[0]) == reason


@pytest.mark.parametrize(("changes", "reason"), DOUBTS, ids=lambda value: value.get("reason"))
def test_strictly_incremental_refuses_what_is_in_doubt(changes: dict[str, Any], reason: dict[str, Any]) -> None:
    with pytest.raises(PlanRefusedError, match=reason["reason"]) as caught:
        decide(facts(days(0, 9), ran(days(0, 9)), **changes), "incremental_strict")
    assert "refresh_policy='auto'" in str(caught.value)
    assert days(0, 9).to_sql() in str(caught.value)


def test_a_window_that_is_no_region_is_recomputed_as_it_stands() -> None:
    window = where("d >= 3 AND length(region) = 1")
    decision = decide(facts(window, ran(days(0, 9))))
    assert (decision.mode, decision.stale, decision.fresh) == (Mode.FULL_RECOMPUTE, None, Region.empty())
    assert dict(decision.reasons[0]) == {
        "reason": "UNSUPPORTED_REPLACE_WHERE_PREDICATE",
        "predicate": window.to_sql(),
    }
    with pytest.raises(PlanRefusedError, match="UNSUPPORTED_REPLACE_WHERE_PREDICATE"):
        decide(facts(window, ran(days(0, 9))), "incremental_strict")


# -- policies --


def test_full_recomputes_what_is_fresh_too() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 9))), "full")
    assert (decision.mode, only(decision)) == (Mode.FULL_RECOMPUTE, {"reason": "FULL_RECOMPUTE_REQUESTED"})


@pytest.mark.parametrize("policy", ["auto", "incremental", "incremental_strict"])
def test_what_is_proven_is_proven_by_every_policy(policy: str) -> None:
    assert decide(facts(days(0, 9), ran(days(0, 9))), policy).mode is Mode.NO_OP
    decision = decide(facts(days(0, 9), ran(days(0, 5))), policy)
    assert (decision.mode, decision.stale) == (Mode.INCREMENTAL, days(5, 9))


@pytest.mark.parametrize("changes", [{}, {"definition_hash": "two"}, {"pins": {"rides": Pin(9, "rides-id")}}])
def test_strictly_incremental_allows_what_must_be(changes: dict[str, Any]) -> None:
    first = decide(facts(days(0, 9)), "incremental_strict")
    assert (first.mode, names(first)) == (Mode.FULL_RECOMPUTE, ["FIRST_REFRESH"])
    assert decide(facts(days(5, 14), ran(days(0, 9)), **changes), "incremental_strict").mode is not Mode.NO_OP
    asked = decide(facts(days(0, 9), ran(days(0, 9)), override="d < 9"), "incremental_strict")
    assert asked.mode is Mode.FULL_RECOMPUTE


def test_strictly_incremental_refuses_where_the_log_is_gone() -> None:
    with pytest.raises(PlanRefusedError, match="log"):
        decide(facts(days(0, 9), ran(days(0, 9)), foreign=None), "incremental_strict")


def test_too_many_ranges_are_worth_the_whole_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES", 2)
    fresh = where("d IN (1, 3, 5)")
    decision = decide(facts(days(0, 7), ran(fresh)))
    assert (decision.mode, decision.stale, decision.fresh) == (Mode.FULL_RECOMPUTE, None, fresh)
    assert dict(decision.reasons[-1]) == {"reason": "TOO_MANY_CHANGES", "ranges": 4, "most": 2}
    for policy in ("incremental", "incremental_strict"):
        assert decide(facts(days(0, 7), ran(fresh)), policy).mode is Mode.INCREMENTAL


# -- what was taken from the coverage before is not newly exposed --


def test_a_window_that_was_never_covered_says_so_whatever_else_there_is() -> None:
    decision = decide(facts(days(5, 12), ran(days(0, 9)), foreign=(ForeignChange(4, "WRITE", days(6, 7)),)))
    assert names(decision) == ["EXTERNAL_CHANGE_IN_REPLACE_WINDOW", "WINDOW_WIDENED"]
    assert decision.reasons[1]["newly_exposed"] == days(9, 12).to_sql()


# -- the event --


def test_the_event_has_the_shape_that_users_of_the_original_know() -> None:
    decision = decide(facts(days(0, 9), ran(days(0, 5))))
    source = {"table_name": "rides", "version": 7}
    event = planning_information(decision, [source], {"table_name": "daily", "version": 3})
    assert json.loads(json.dumps(event)) == {
        "technique_information": [
            {
                "maintenance_type": "INCREMENTAL",
                "is_chosen": True,
                "is_applicable": True,
                "incrementalization_issues": [
                    {"issue_type": "WINDOW_WIDENED", "newly_exposed": days(5, 9).to_sql()},
                ],
            }
        ],
        "source_table_information": [source],
        "target_table_information": {"table_name": "daily", "version": 3},
    }


def test_every_reason_is_plain_json() -> None:
    everything = facts(
        where("d >= 3 AND length(region) = 1"),
        ran(days(0, 9), definition_hash="old"),
        override="d >= 3",
        evaluated={"rand()": "0.5D"},
        previous={"evaluated": {"rand()": "0.1D"}},
        query_is_deterministic=False,
        pins={"files": None},
        foreign=(ForeignChange(4, "WRITE", None),),
        target_exists=False,
    )
    reasons = decide(everything).reasons
    assert len(reasons) >= 8
    assert json.loads(json.dumps(list(reasons))) == [dict(reason) for reason in reasons]
    assert {reason["reason"] for reason in reasons} <= {str(reason) for reason in Reason}
