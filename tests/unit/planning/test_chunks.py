"""A window is cut into chunks that hold each of its rows once, at the boundaries of its own calendar."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.chunking import Chunking
from airflow_provider_replacewhere.planning.chunks import MOST_CHUNKS, chunks
from airflow_provider_replacewhere.predicates import Region, parse_predicate

TYPES = {
    "d": "date",
    "ts": "timestamp",
    "wall": "timestamp_ntz",
    "n": "int",
    "price": "decimal(10,2)",
    "city": "string",
}
ZONE = "Europe/Berlin"


def window(text: str) -> Region:
    return parse_predicate(text, TYPES, time_zone=ZONE)


def cut(text: str, by: str, zone: str = ZONE, **how: object) -> list[str]:
    return [part.to_sql() for part in chunks(window(text), Chunking(by, **how), zone)]  # type: ignore[arg-type]


def test_days_are_cut_one_by_one() -> None:
    assert cut("d >= DATE'2026-03-01' AND d < DATE'2026-03-04'", "day") == [
        "(`d` = DATE '2026-03-01')",
        "(`d` = DATE '2026-03-02')",
        "(`d` = DATE '2026-03-03')",
    ]


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    text = "d >= DATE'2026-03-05' AND d <= DATE'2026-04-02'"
    weeks = cut(text, "week", size=2)
    assert weeks == [
        "((`d` >= DATE '2026-03-05') AND (`d` < DATE '2026-03-16'))",
        "((`d` >= DATE '2026-03-16') AND (`d` < DATE '2026-03-30'))",
        "((`d` >= DATE '2026-03-30') AND (`d` < DATE '2026-04-03'))",
    ]
    assert [window(week).to_sql() for week in weeks] == weeks
    assert cut(text, "month") == [
        "((`d` >= DATE '2026-03-05') AND (`d` < DATE '2026-04-01'))",
        "((`d` >= DATE '2026-04-01') AND (`d` < DATE '2026-04-03'))",
    ]


def test_the_newest_comes_first_where_that_is_asked_for() -> None:
    text = "d >= DATE'2026-03-01' AND d < DATE'2026-03-04'"
    assert cut(text, "day", order="newest") == cut(text, "day")[::-1]


def test_days_of_timestamps_are_those_of_the_flows_zone() -> None:
    # On that Sunday the clocks of Berlin skip an hour.
    text = "ts >= TIMESTAMP'2026-03-28 00:00:00' AND ts < TIMESTAMP'2026-03-31 00:00:00'"
    bounds = ["2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"]
    found = cut(text, "day")
    assert len(found) == 3
    for part, low, high in zip(found, bounds, bounds[1:], strict=False):
        assert low in part
        assert high in part


def test_timestamps_without_a_zone_have_days_of_their_own() -> None:
    text = "wall >= TIMESTAMP_NTZ'2026-03-28 12:00:00' AND wall < TIMESTAMP_NTZ'2026-03-30 12:00:00'"
    assert len(cut(text, "day", "America/New_York")) == 3


def test_numbers_are_cut_by_so_many_values() -> None:
    assert cut("n >= 1 AND n < 11", "values", size=4) == [
        "((`n` >= 1) AND (`n` < 5))",
        "((`n` >= 5) AND (`n` < 9))",
        "((`n` >= 9) AND (`n` < 11))",
    ]
    assert len(cut("price >= 0 AND price < 1.5", "values")) == 2


def test_rows_without_a_value_are_in_the_oldest_chunk() -> None:
    first, second = cut("n BETWEEN 1 AND 2 OR n IS NULL", "values")
    assert "IS NULL" in first
    assert "IS NULL" not in second


def test_gaps_are_no_chunks_and_other_columns_stay() -> None:
    text = "d IN (DATE'2026-03-01', DATE'2026-03-09') AND city = 'Bern' AND n = 1"
    found = cut(text, "day")
    assert len(found) == 2
    assert all("`city` = 'Bern'" in part and "`n` = 1" in part for part in found)


def test_an_opaque_condition_stays_in_each_chunk() -> None:
    found = cut("d BETWEEN DATE'2026-03-01' AND DATE'2026-03-02' AND length(city) = n", "day")
    assert len(found) == 2
    assert all("length" in part.lower() for part in found)


@pytest.mark.parametrize(
    ("text", "by", "how", "message"),
    [
        ("d >= DATE'2026-03-01'", "day", {}, "takes a first and a last value"),
        ("city = 'Bern'", "day", {}, "a column of dates or timestamps"),
        ("city >= 'A' AND city < 'C'", "values", {}, "whole numbers, DECIMALs or dates"),
        ("d = DATE'2026-03-01' AND ts = TIMESTAMP'2026-03-01 01:00:00'", "day", {}, "can be cut along d or ts"),
        ("d = DATE'2026-03-01'", "day", {"column": "ts"}, "cannot be cut along ts by day"),
        ("d BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'", "day", {}, f"more than {MOST_CHUNKS} chunks of 1 day"),
        ("d = DATE'2026-03-01' OR n = 1", "day", {}, "cannot be cut by day"),
    ],
)
def test_what_cannot_be_cut_is_refused(text: str, by: str, how: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        cut(text, by, **how)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hour",), "chunk is 'hour'"),
        (("day", 0), "chunk_size is 0"),
        (("day", True), "chunk_size is True"),
        (("day", 1, None, "largest"), "chunk_order is 'largest'"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Chunking(*arguments)  # type: ignore[arg-type]


def test_the_end_of_the_calendar_is_no_problem() -> None:
    assert len(cut("d BETWEEN DATE'9999-12-30' AND DATE'9999-12-31'", "month", size=5)) == 1
    assert len(cut("d BETWEEN DATE'9999-12-30' AND DATE'9999-12-31'", "day")) == 2


dates = st.dates().map(lambda day: f"DATE'{day.isoformat()}'")
ranges = st.tuples(dates, dates).map(lambda ends: f"d >= {min(ends)} AND d <= {max(ends)}")
times = st.tuples(
    st.datetimes(), st.datetimes(), st.sampled_from([("ts", "TIMESTAMP"), ("wall", "TIMESTAMP_NTZ")])
).map(lambda drawn: "{0} >= {1}'{2}' AND {0} < {1}'{3}'".format(*drawn[2], min(drawn[:2]), max(drawn[:2])))
windows = st.lists(ranges, min_size=1, max_size=3).map(" OR ".join) | times


@given(
    windows,
    st.sampled_from(["day", "week", "month", "year"]),
    st.integers(1, 40),
    st.sampled_from(["UTC", ZONE, "America/Sao_Paulo", "Pacific/Apia"]),
)
def test_each_row_of_the_window_is_in_one_chunk(text: str, by: str, size: int, zone: str) -> None:
    whole = window(text)
    if whole.is_empty:
        return
    found = _chunks(whole, Chunking(by, size), zone)
    if found is None:
        return
    assert reduce(Region.union, found) == whole
    rest = whole
    for chunk in found:
        assert rest.contains(chunk)
        rest = rest.subtract(chunk)
    assert rest.is_empty


def _chunks(whole: Region, how: Chunking, zone: str) -> tuple[Region, ...] | None:
    """None where they would be too many."""
    try:
        return chunks(whole, how, zone)
    except RequestError as refused:
        if "more than" in str(refused):
            return None
        raise
