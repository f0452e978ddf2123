"""Cuts of about the same weight, from what files say of themselves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.chunking import Chunking
from airflow_provider_replacewhere.planning.chunks import chunks
from airflow_provider_replacewhere.planning.weights import Cumulated, Weight, even_cuts, weights_of
from airflow_provider_replacewhere.predicates import parse_predicate
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.values import Values

WEEK = parse_predicate("day >= DATE'2026-03-01' AND day < DATE'2026-03-08'", {"day": "date"})
MARCH = 20_513
"""2026-03-01 as Spark counts days."""

weights = st.lists(
    st.builds(
        lambda low, length, amount: Weight(low, low + length, amount),
        st.integers(-20, 60),
        st.integers(1, 30),
        st.floats(1, 1e6),
    ),
    min_size=1,
    max_size=20,
)


def singly(key: int) -> tuple[int, int]:
    return key, key + 1


def by_sevens(key: int) -> tuple[int, int]:
    return key // 7 * 7, key // 7 * 7 + 7


def counted(found: list[Weight], low: int, high: int) -> float:
    """The amount in a range, key by key."""
    return sum(w.amount / (w.high - w.low) for key in range(low, high) for w in found if w.low <= key < w.high)


@given(weights, st.integers(0, 40), st.integers(0, 40))
def test_what_lies_before_a_key_is_what_counting_gives(found: list[Weight], low: int, key: int) -> None:
    low, key = sorted((low, key))
    assert Cumulated(found, low, 50).before(key) == pytest.approx(counted(found, low, key))


@given(weights, st.floats(1, 1e6), st.sampled_from([singly, by_sevens]))
def test_no_piece_of_several_units_weighs_more_than_asked(found: list[Weight], size: float, unit: object) -> None:
    cuts = even_cuts(found, 0, 50, size, unit, 1_000)  # type: ignore[arg-type]
    assert cuts is not None
    assert cuts[0] == 0
    assert cuts == sorted(set(cuts))
    for low, high in pairwise([*cuts, 50]):
        _, behind = unit(low)  # type: ignore[operator]
        if high > behind:
            assert counted(found, low, high) <= size * 1.001
        assert low == 0 or unit(low)[0] == low  # type: ignore[operator]


@given(weights, st.floats(1, 1e6))
def test_two_pieces_that_would_fit_into_one_are_one(found: list[Weight], size: float) -> None:
    cuts = even_cuts(found, 0, 50, size, singly, 1_000)
    assert cuts is not None
    for low, _, high in zip(cuts, cuts[1:], [*cuts[2:], 50], strict=False):
        assert counted(found, low, high) > size * 0.999 or high == 50


def test_files_of_which_nothing_is_known_weigh_like_the_others() -> None:
    days = Domain.of("date")
    assert weights_of([(Values.of(days, [(1, 3)]), 10.0), (None, 5.0)]) == (Weight(1, 3, 15.0),)
    assert weights_of([(None, 5.0)]) == ()
    assert weights_of([]) == ()


def test_a_week_in_chunks_of_rows() -> None:
    """A quiet start and a busy end: days of 10 rows, then of 100."""
    found = [Weight(MARCH, MARCH + 4, 40.0), Weight(MARCH + 4, MARCH + 7, 300.0)]
    cut = chunks(WEEK, Chunking("rows", 100), "UTC", lambda _: found)
    assert [region.to_sql() for region in cut] == [
        "((`day` >= DATE '2026-03-01') AND (`day` < DATE '2026-03-05'))",
        "(`day` = DATE '2026-03-05')",
        "(`day` = DATE '2026-03-06')",
        "(`day` = DATE '2026-03-07')",
    ]


def test_days_of_a_time_zone_are_not_cut_in_two() -> None:
    columns = {"at": "timestamp"}
    window = parse_predicate("at >= '2026-03-28' AND at < '2026-03-31'", columns, "Europe/Zurich")
    (extent,) = window.extents.values()
    assert isinstance(extent.low, int)
    assert isinstance(extent.high, int)
    found = [Weight(extent.low, extent.high, 300.0)]
    cut = chunks(window, Chunking("rows", 60), "Europe/Zurich", lambda _: found)
    # The 29th has 23 hours there.
    begins = [region.extents[("at",)].low for region in cut]
    assert [(b - extent.low) // 3_600_000_000 for b in begins] == [0, 24, 47]  # type: ignore[operator]


def test_where_no_statistics_tell_it_is_refused() -> None:
    with pytest.raises(RequestError, match="No statistics tell how many bytes there are along day"):
        chunks(WEEK, Chunking("bytes", 10), "UTC")
