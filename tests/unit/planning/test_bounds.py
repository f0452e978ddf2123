"""Typed bounds become literals of their type, whatever they hold."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.bounds import Bounds, literal, quoted
from airflow_provider_replacewhere.predicates import columns_of, parse
from airflow_provider_replacewhere.predicates.nodes import Literal


@pytest.mark.parametrize(
    ("bounds", "sql"),
    [
        (Bounds("d", "2026-01-01", "2026-02-01"), "`d` >= DATE '2026-01-01' AND `d` < DATE '2026-02-01'"),
        (Bounds("d", start=date(2026, 1, 1)), "`d` >= DATE '2026-01-01'"),
        (Bounds("d", end="2026-02-01"), "`d` < DATE '2026-02-01'"),
        (Bounds("t", start="2026-01-01T06:00:00+01:00"), "`t` >= TIMESTAMP '2026-01-01 06:00:00+01:00'"),
        (Bounds("t", start="2026-01-01 06:00:00"), "`t` >= TIMESTAMP '2026-01-01 06:00:00'"),
        (Bounds("t", start="2026-01-01", column_type="timestamp"), "`t` >= TIMESTAMP '2026-01-01 00:00:00'"),
        (
            Bounds("t", start="2026-01-01T06:00:00+01:00", column_type="timestamp_ntz"),
            "`t` >= TIMESTAMP_NTZ '2026-01-01 06:00:00'",
        ),
        (Bounds("d", start="2026-01-01T06:00:00", column_type="date"), None),
        (Bounds("n", 1, 5), "`n` >= 1 AND `n` < 5"),
        (Bounds("n", start=0), "`n` >= 0"),
        (Bounds("n", start="12.50", column_type="number"), "`n` >= 12.50"),
        (Bounds("n", start="7", column_type="number"), "`n` >= 7"),
        (Bounds("n", start=0.1), "`n` >= 0.1"),
        (Bounds("n", start=1e300), "`n` >= 1e+300D"),
        (Bounds("n", start=Decimal("1E+3")), "`n` >= 1000"),
        (Bounds("s", start="2026-01-01", column_type="string"), "`s` >= '2026-01-01'"),
        (Bounds("s", start="20260101"), "`s` >= '20260101'"),
        (Bounds(equals={"city": "Basel", "ok": True}), "`city` = 'Basel' AND `ok` = TRUE"),
        (Bounds(equals={"city": ["Basel", None]}), "(`city` = 'Basel' OR `city` IS NULL)"),
        (Bounds(equals={"city": ["Basel"]}), "`city` = 'Basel'"),
        (Bounds(), None),
        (Bounds(equals={"city": []}), None),
        (Bounds(equals={"": 1}), None),
        (Bounds(equals={"n": float("nan")}), None),
        (Bounds(equals={"n": {"a": 1}}), None),
        (Bounds("n", start="inf", column_type="number"), None),
        (Bounds("n", 5, 1), None),
        (Bounds("t", "2026-01-01T00:00:00", "2026-01-02T00:00:00+00:00"), None),
    ],
)
def test_bounds_are_written_by_type_or_refused(bounds: Bounds, sql: str | None) -> None:
    if sql is None:
        with pytest.raises(RequestError):
            bounds.predicate()
    else:
        assert bounds.predicate() == sql


@given(st.text(), st.text().filter(str.strip))
def test_no_text_leaves_its_literal_and_no_name_its_quotes(value: str, column: str) -> None:
    predicate = parse(f"{quoted(column)} = {literal(value)}")

    assert columns_of(predicate) == (column.strip(),)
    (found,) = (node for node in predicate.node.walk() if isinstance(node, Literal))
    assert found.value == value


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-(10**37), 10**37),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20),
    st.dates(min_value=date(1000, 1, 1)),
    st.datetimes(
        min_value=datetime(1000, 1, 1),  # noqa: DTZ001  (Hypothesis wants it so)
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5.5))]),
    ),
)


@given(VALUES)
def test_every_literal_is_read_by_our_own_grammar(value: Any) -> None:
    assert columns_of(parse(f"c >= {literal(value)}")) == ("c",)
