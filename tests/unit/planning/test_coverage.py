"""What the runs of a target prove of it, folded one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning import coverage as module
from airflow_provider_replacewhere.planning.coverage import (
    MOST_FRAGMENTS,
    MOST_RANGES,
    Coverage,
    Entry,
    Fragment,
    Pin,
    fold,
)
from airflow_provider_replacewhere.predicates import Region, parse_predicate

TYPES = {"d": "date", "region": "string"}
START = date(2026, 1, 1)
EVERY_OTHER_DAY = "d IN (" + ", ".join(f"DATE'2026-01-{d:02d}'" for d in range(1, 29, 2)) + ")"


@cache
def where(sql: str, **types: str) -> Region:
    return parse_predicate(sql, types or TYPES)


def days(first: int, end: int, more: str = "") -> Region:
    bounds = [START + timedelta(days=n) for n in (first, end)]
    return where(f"d >= DATE'{bounds[0]}' AND d < DATE'{bounds[1]}'{more}")


def entry(region: Region | None, version: int = 1, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "region": region,
        "bound": region,
        "proves": True,
        "definition_hash": "one",
        "sources": {"s": Pin(version, "source")},
        "run_id": f"run {version}",
        "target_version": version,
        "target_id": "target",
        "since": 0,
        **changes,
    }
    return Entry(**values)


def proven(coverage: Coverage) -> Region:
    """All that is covered, by whatever run."""
    region = Region.empty()
    for fragment in coverage.fragments:
        region = region.union(fragment.region)
    return region


def answers(coverage: Coverage) -> dict[tuple[str, str], Region]:
    """By definition and sources, what is covered: all that a decision asks."""
    found: dict[tuple[str, str], Region] = {}
    for fragment in coverage.fragments:
        key = fragment.definition_hash, json.dumps({n: p.to_json() for n, p in fragment.sources.items()})
        found[key] = found.get(key, Region.empty()).union(fragment.region)
    return found


# -- one run after the other --


def test_nothing_is_known_at_first() -> None:
    assert Coverage().gaps(days(0, 5)) == days(0, 5)
    assert fold([]) == Coverage()


def test_a_run_covers_its_region() -> None:
    known = fold([(7, entry(days(0, 3)))])
    assert known.fragments == (Fragment(days(0, 3), "one", {"s": Pin(1, "source")}, "run 1"),)
    assert (known.target_id, known.target_version, known.sequence) == ("target", 1, 7)
    assert known.gaps(days(0, 5)) == days(3, 5)


def test_a_later_run_takes_the_place_of_what_it_replaced() -> None:
    known = fold([(1, entry(days(0, 5))), (2, entry(days(2, 3), 2, definition_hash="two"))])
    assert [(f.region, f.definition_hash) for f in known.fragments] == [
        (days(0, 2).union(days(3, 5)), "one"),
        (days(2, 3), "two"),
    ]


def test_a_run_that_proves_nothing_uncovers_what_it_touched() -> None:
    first = (1, entry(days(0, 5)))
    assert proven(fold([first, (2, entry(days(2, 3), 2, proves=False))])) == days(0, 2).union(days(3, 5))
    assert proven(fold([first, (2, entry(None, 2, bound=days(4, 9), proves=False))])) == days(0, 4)
    assert proven(fold([first, (2, entry(None, 2, proves=False))])) == Region.empty()


def test_a_full_refresh_leaves_only_its_own_region() -> None:
    known = fold([(1, entry(days(0, 5))), (2, entry(days(7, 8), 2, whole=True))])
    assert proven(known) == days(7, 8)
    assert proven(fold([(1, entry(days(0, 5))), (2, entry(None, 2, whole=True))])) == Region.empty()


def test_an_empty_window_covers_nothing_and_disturbs_nothing() -> None:
    assert proven(fold([(1, entry(days(0, 5))), (2, entry(Region.empty(), 2))])) == days(0, 5)


def test_foreign_changes_uncover_what_they_touch_and_nothing_else() -> None:
    first = (1, entry(days(0, 9)))
    assert proven(fold([first, (2, entry(days(0, 1), 4, foreign=(days(3, 4), days(6, 7))))])) == days(0, 3).union(
        days(4, 6)
    ).union(days(7, 9))
    assert proven(fold([first, (2, entry(days(0, 1), 4, foreign=(None,)))])) == days(0, 1)


def test_what_a_run_wrote_outlives_the_foreign_changes_before_it() -> None:
    assert proven(fold([(1, entry(days(0, 3), 4, foreign=(days(0, 9),)))])) == days(0, 3)


def test_another_table_of_the_same_name_starts_from_nothing() -> None:
    known = fold([(1, entry(days(0, 9), 40)), (2, entry(days(2, 3), 1, target_id="new"))])
    assert proven(known) == days(2, 3)
    assert (known.target_id, known.target_version) == ("new", 1)


# -- recorded late --


def test_a_report_that_comes_late_proves_nothing() -> None:
    newer, late = (1, entry(days(0, 5), 8)), (2, entry(days(3, 9), 7, definition_hash="two"))
    known = fold([newer, late])
    assert proven(known) == days(0, 3)
    assert (known.target_version, known.sequence) == (8, 2)


def test_a_late_report_of_a_window_that_is_no_region_uncovers_its_bound() -> None:
    newer = (1, entry(days(0, 5), 8))
    assert proven(fold([newer, (2, entry(None, 7, bound=days(4, 9)))])) == days(0, 4)
    assert proven(fold([newer, (2, entry(None, 7))])) == Region.empty()


def test_a_late_full_refresh_uncovers_all_that_it_may_have_emptied() -> None:
    known = fold([(1, entry(days(0, 5), 8)), (2, entry(days(2, 3), 7, whole=True))])
    assert proven(known) == Region.empty()


def test_two_runs_side_by_side_end_alike_in_either_order_or_with_less() -> None:
    one, other = entry(days(0, 3), 5), entry(days(3, 6), 6, foreign=(days(0, 3),))
    for order in ((one, other), (other, one)):
        assert days(0, 6).contains(proven(fold(enumerate(order))))
        assert fold(enumerate(order)).target_version == 6
    assert proven(fold(enumerate((other, one)))) == days(3, 6)


def test_a_run_that_began_before_anything_was_known_saw_nothing_of_what_came_before_it() -> None:
    # It was asked for with an empty ledger, and looked at the log from version 5 on: what of 3, 4 and 5?
    first = (1, entry(days(0, 5), 2))
    assert proven(fold([first, (2, entry(days(7, 8), 6, since=5))])) == days(7, 8)
    assert proven(fold([first, (2, entry(days(7, 8), 6, since=None))])) == days(7, 8)
    assert proven(fold([first, (2, entry(days(7, 8), 6, since=2))])) == days(0, 5).union(days(7, 8))


# -- columns of other types --


def test_a_column_of_another_type_forgets_what_was_known_by_the_old_one() -> None:
    old, new = where("n > 5", n="int"), where("n > 5", n="bigint")
    known = fold([(1, entry(old)), (2, entry(new, 2))])
    assert proven(known) == new
    assert Coverage((Fragment(old, "one", {}, "r"),)).comparable(new) == ()
    assert Coverage((Fragment(old, "one", {}, "r"),)).gaps(new) == new


def test_a_column_that_both_name_is_enough_to_tell_two_regions_apart() -> None:
    old, new = where("d < DATE'2026-01-01' and n > 5", d="date", n="int"), where("d > DATE'2026-06-01'", d="date")
    assert len(fold([(1, entry(old)), (2, entry(new, 2))]).fragments) == 2


# -- how much is kept --


def test_only_the_oldest_are_forgotten() -> None:
    known = fold((n, entry(days(n, n + 1), n)) for n in range(MOST_FRAGMENTS + 10))
    assert len(known.fragments) == MOST_FRAGMENTS
    assert known.fragments[0].region == days(10, 11)
    assert proven(known) == days(10, MOST_FRAGMENTS + 10)


def test_regions_of_many_ranges_are_forgotten_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES", 50)
    combs = [where(f"region = '{n}' AND {EVERY_OTHER_DAY}") for n in range(6)]
    known = fold((n, entry(comb, n)) for n, comb in enumerate(combs))
    assert [f.region for f in known.fragments] == combs[-len(known.fragments) :]
    assert 1 <= len(known.fragments) < 6
    assert sum(f.region.size for f in known.fragments) <= 50 < MOST_RANGES


def test_a_single_region_of_too_many_ranges_is_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES_OF_ONE", 5)
    comb = where(EVERY_OTHER_DAY)
    (fragment,) = fold([(1, entry(comb))]).fragments
    assert comb.contains(fragment.region)
    assert 1 <= fragment.region.size <= 5


def test_chunks_of_one_backfill_are_one_fragment() -> None:
    same = {"s": Pin(3, "source")}
    known = fold((n, entry(days(n, n + 1), n, sources=same)) for n in range(300))
    assert len(known.fragments) == 1
    assert known.fragments[0].region == days(0, 300)
    assert known.fragments[0].run_id == "run 299"


# -- any history --

regions = st.builds(
    lambda first, length, more: days(first, first + length, more),
    st.integers(0, 20),
    st.integers(1, 8),
    st.sampled_from(["", "", " AND region = 'a'", " AND region IS NULL", " AND region > 'a'"]),
)
entries = st.builds(
    lambda region, opaque, version, source, proves, whole, definition, target, foreign: entry(
        None if opaque else region,
        version,
        bound=region,
        proves=proves,
        whole=whole,
        sources={"s": Pin(source, "source")},
        definition_hash=definition,
        target_id=target,
        foreign=tuple(foreign),
    ),
    regions,
    st.sampled_from([False] * 5 + [True]),
    st.integers(0, 30),
    st.integers(1, 3),
    st.sampled_from([True] * 4 + [False]),
    st.sampled_from([False] * 9 + [True]),
    st.sampled_from(["one", "two"]),
    st.sampled_from(["target"] * 9 + ["new"]),
    st.lists(st.sampled_from([None]) | regions, max_size=1) | st.just([]),
)


@given(st.lists(entries, max_size=8))
def test_documents_come_back_as_they_were(history: Sequence[Entry]) -> None:
    for one in history:
        assert Entry.from_json(json.loads(json.dumps(one.to_json()))) == one
    known = fold(enumerate(history, start=1))
    assert Coverage.from_json(json.loads(json.dumps(known.to_json()))) == known


@given(st.lists(entries, max_size=10), st.integers(0, 10))
def test_folding_in_pieces_is_folding_at_once(history: Sequence[Entry], cut: int) -> None:
    numbered = list(enumerate(history, start=1))
    kept = json.dumps(fold(numbered[:cut]).to_json())
    assert fold(numbered[cut:], Coverage.from_json(json.loads(kept))) == fold(numbered)


@given(st.lists(entries, max_size=10))
def test_fragments_never_overlap(history: Sequence[Entry]) -> None:
    fragments = fold(enumerate(history)).fragments
    for number, one in enumerate(fragments):
        assert not one.region.is_empty
        assert not any(one.region.overlaps(other.region) for other in fragments[:number])


@settings(max_examples=50)
@given(st.lists(entries, max_size=12))
def test_joining_fragments_keeps_the_answer(history: Sequence[Entry]) -> None:
    joined = answers(fold(enumerate(history)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_joined", lambda fragments, new: (*fragments, new))
        assert answers(fold(enumerate(history))) == joined


@settings(max_examples=50)
@given(st.lists(entries, max_size=12), st.integers(1, 4), st.integers(1, 12))
@example([entry(days(0, 1, " AND region = 'a'"), 0), entry(days(0, 1), 0, definition_hash="two")], 2, 1)
def test_what_is_kept_of_little_room_is_part_of_the_whole(
    history: Sequence[Entry], fragments: int, ranges: int
) -> None:
    whole = answers(fold(enumerate(history)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_FRAGMENTS", fragments)
        patch.setattr(module, "MOST_RANGES", ranges)
        patch.setattr(module, "MOST_RANGES_OF_ONE", ranges)
        for key, region in answers(fold(enumerate(history))).items():
            assert whole[key].contains(region)


@given(st.lists(entries, max_size=10), regions)
def test_gaps_are_what_no_fragment_holds(history: Sequence[Entry], window: Region) -> None:
    known = fold(enumerate(history))
    assert known.gaps(window) == window.subtract(proven(known))


# -- documents that are none --


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: v.pop("fragments"),
        lambda v: v["fragments"][0].pop("sources"),
        lambda v: v["fragments"][0]["sources"]["s"].pop("version"),
        lambda v: v["fragments"][0]["region"].update(version=99),
        lambda v: v.update(more=1),
        lambda v: v["fragments"].append(7),
        lambda v: v["fragments"][0].update(region=7),
        lambda v: v["fragments"][0]["region"].update(parts=[{"boxes": 1}]),
    ],
)
def test_a_damaged_document_is_told(damage: Any) -> None:
    value = json.loads(json.dumps(fold([(1, entry(days(0, 3)))]).to_json()))
    damage(value)
    with pytest.raises((PredicateError, KeyError, TypeError, ValueError)):
        Coverage.from_json(value)


def test_an_entry_with_less_than_all_parts_is_told() -> None:
    value = entry(days(0, 3)).to_json()
    for name in value.keys() - {"whole", "since"}:
        with pytest.raises((KeyError, TypeError)):
            Entry.from_json({k: v for k, v in value.items() if k != name})
    assert replace(Entry.from_json(value)) == entry(days(0, 3))
