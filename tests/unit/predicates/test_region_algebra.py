"""The algebra of regions against plain sets of rows, over few values so that every row can be listed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.random_predicates import COLUMNS, EXACT_ATOMS, PREDICATES, ROWS_WITH_EVERY_VALUE

SMALL = {"i": "int", "s": "string", "b": "boolean"}
VALUES = {"i": [None, *range(6)], "s": [None, "", "a", "a\0", "ab", "b"], "b": [None, False, True]}
UNIVERSE = [dict(zip(SMALL, row, strict=True)) for row in product(*VALUES.values())]

_atoms = st.one_of(
    st.builds("i {} {}".format, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), st.integers(-1, 6)),
    st.builds(
        "s {} '{}'".format, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), st.sampled_from(["", "a", "ab", "b"])
    ),
    st.sampled_from(
        ["b", "NOT b", "b IS NULL", "i IS NULL", "s IS NOT NULL", "i IN (1, 3, 5)", "s LIKE 'a%'", "b <=> NULL"]
    ),
)
SMALL_PREDICATES = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=8,
)
regions = st.builds(lambda sql: parse_predicate(sql, SMALL), SMALL_PREDICATES)


def members(region: Region) -> set[int]:
    return {number for number, row in enumerate(UNIVERSE) if region.contains_row(row)}


@given(regions, regions)
def test_operations_are_those_of_sets(a: Region, b: Region) -> None:
    assert members(a.union(b)) == members(a) | members(b)
    assert members(a.intersect(b)) == members(a) & members(b)
    assert members(a.subtract(b)) == members(a) - members(b)
    assert members(Region.everything().subtract(a)) == {*range(len(UNIVERSE))} - members(a)


@given(regions, regions)
def test_questions_are_those_of_sets(a: Region, b: Region) -> None:
    # Between the listed integers and strings lie others, so a region may be larger than its rows here show.
    if a.contains(b):
        assert members(b) <= members(a)
    if a.is_empty:
        assert not members(a)
    assert a.overlaps(b) or not members(a) & members(b)
    assert a.union(b).contains(a)
    assert a.contains(a.intersect(b))
    assert not a.subtract(b).overlaps(b)


@given(regions, regions, regions)
def test_equal_sets_are_equal_values_however_they_were_made(a: Region, b: Region, c: Region) -> None:
    everything = Region.everything()
    assert a.union(b) == b.union(a)
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.intersect(b.union(c)) == a.intersect(b).union(a.intersect(c))
    assert a.subtract(b).subtract(c) == a.subtract(b.union(c))
    assert everything.subtract(everything.subtract(a)) == a
    assert a.subtract(b).union(a.intersect(b)) == a
    assert everything.subtract(a.union(b)) == everything.subtract(a).intersect(everything.subtract(b))


@given(regions)
def test_boxes_never_overlap(a: Region) -> None:
    for row in UNIVERSE:
        covering = [box for box in a.boxes if all(row_value(row, path, values) in values for path, values in box.sides)]
        assert len(covering) <= 1


def row_value(row: dict[str, Any], path: tuple[str, ...], values: Any) -> Any:
    value = row[path[0]]
    return None if value is None else values.domain.key(value)


@given(regions, st.integers(1, 4))
def test_a_hull_holds_the_region_and_a_subset_lies_inside(a: Region, size: int) -> None:
    hull, subset = a.hull(size), a.subset(size)
    assert hull.is_exact
    assert subset.is_exact
    assert hull.contains(a)
    assert a.contains(subset)
    # A hull needs a range for each column that all boxes bound, and may need one more for its NULL.
    assert hull.size <= max(size + len(hull.columns), 2 * len(hull.columns), 1)
    assert subset.size <= size or subset.is_empty


@settings(max_examples=300)
@given(PREDICATES, st.sampled_from(["UTC", "America/New_York"]))
def test_what_is_rendered_is_read_back_as_the_same_region(sql: str, zone: str) -> None:
    region = parse_predicate(sql, COLUMNS, zone)
    assert parse_predicate(region.to_sql(), COLUMNS, zone) == region
    assert Region.from_json(region.to_json()) == region


@settings(max_examples=200)
@given(st.lists(EXACT_ATOMS, min_size=2, max_size=2))
def test_rows_of_all_types_follow_the_operations(predicates: list[str]) -> None:
    a, b = (parse_predicate(sql, COLUMNS) for sql in predicates)
    if not (a.is_exact and b.is_exact):
        return
    for row in ROWS_WITH_EVERY_VALUE:
        in_a, in_b = a.contains_row(row), b.contains_row(row)
        assert a.union(b).contains_row(row) == (in_a or in_b)
        assert a.intersect(b).contains_row(row) == (in_a and in_b)
        assert a.subtract(b).contains_row(row) == (in_a and not in_b)


def test_three_valued_logic_keeps_null_out_of_a_negated_range() -> None:
    region = parse_predicate("NOT (i < 3)", SMALL)
    assert not region.contains_row({"i": None})
    assert region.contains_row({"i": 3})
    assert parse_predicate("i < 3", SMALL).union(region) == parse_predicate("i IS NOT NULL", SMALL)


class TestOpaque:
    """A condition that is no box can be carried along, and proves nothing by itself."""

    columns: ClassVar = {"d": "date", "i": "int", "n": "int"}

    def region(self, sql: str, zone: str = "UTC") -> Region:
        return parse_predicate(sql, self.columns, zone)

    def test_its_boxable_conjuncts_bound_it(self) -> None:
        region = self.region("d >= DATE '2026-01-01' AND i = n AND d < DATE '2026-02-01'")
        assert not region.is_exact
        assert region.to_sql() == "(((`d` >= DATE '2026-01-01') AND (`d` < DATE '2026-02-01')) AND (`i` = `n`))"
        assert region.hull(10) == self.region("d >= DATE '2026-01-01' AND d < DATE '2026-02-01'")
        assert region.subset(10).is_empty

    def test_only_spark_knows_its_rows_inside_the_bound(self) -> None:
        region = self.region("i > 5 AND i = n")
        assert not region.contains_row({"i": 5, "n": 5})
        with pytest.raises(PredicateError, match="only Spark can tell"):
            region.contains_row({"i": 6, "n": 6})

    def test_it_is_contained_in_its_bound_and_in_itself_only(self) -> None:
        region = self.region("i > 5 AND i = n")
        assert self.region("i > 5").contains(region)
        assert self.region("i > 4 AND n = i OR i > 3").contains(region)
        assert region.contains(region)
        assert self.region("i = n").contains(region)
        assert not region.contains(self.region("i > 5"))
        assert not region.contains(self.region("i > 4 AND i = n"))
        assert not self.region("n = i").contains(region)

    def test_the_same_text_in_another_time_zone_is_another_condition(self) -> None:
        there = self.region("hour(CAST(d AS TIMESTAMP)) = 1", "Asia/Tokyo")
        assert not there.contains(self.region("hour(CAST(d AS TIMESTAMP)) = 1"))

    def test_subtracting_it_leaves_too_much_rather_than_too_little(self) -> None:
        whole = self.region("i > 0")
        assert whole.subtract(self.region("i > 5 AND i = n")) == whole
        assert self.region("i > 0 AND i = n").subtract(self.region("i > 5 AND i = n")) == self.region(
            "i > 0 AND i <= 5 AND i = n"
        )

    def test_what_an_exact_part_holds_already_is_not_kept_twice(self) -> None:
        assert self.region("i > 0 OR i > 5 AND i = n") == self.region("i > 0")

    def test_a_disjoint_one_is_known_to_be_disjoint(self) -> None:
        assert not self.region("i > 5 AND i = n").overlaps(self.region("i < 3"))


def test_a_condition_with_too_many_boxes_stays_opaque_and_right() -> None:
    columns = {f"c{n}": "int" for n in range(8)}
    wide = " AND ".join(
        "(" + " OR ".join(f"(c{n} = {k} AND c{n + 4} > {k})" for k in range(0, 40, 2)) + ")" for n in range(4)
    )
    region = parse_predicate(wide, columns)
    assert region.size < 10_000
    assert not region.is_exact


def test_a_region_of_another_version_is_refused() -> None:
    with pytest.raises(PredicateError, match="version 99"):
        Region.from_json({"version": 99})
    with pytest.raises(PredicateError, match="cannot be read"):
        Region.from_json({"version": 1, "parts": [{}]})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"d": "2026-01-01"}, "no value of type DATE"),
        ({"x": 1}, "The row has no d"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(row: dict[str, Any], says: str) -> None:
    with pytest.raises(PredicateError, match=says):
        parse_predicate("d > DATE '2026-01-01'", {"d": "date"}).contains_row(row)


def test_a_naive_datetime_is_no_instant() -> None:
    naive = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(PredicateError, match="aware datetime"):
        parse_predicate("t > TIMESTAMP '2026-01-01'", {"t": "timestamp"}).contains_row({"t": naive})


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("d > current_date()", "Give as_of"),
        ("d > DATE 'today'", "Give as_of"),
        ("i > unix_timestamp()", "Give as_of"),
        ("i > rand()", "Freeze the predicate first"),
        ("rand(i) > 0.5", "another value for each row"),
        ("x > 1", "no column of the target"),
        ("d", "this is a DATE"),
    ],
)
def test_what_has_no_region_is_refused(sql: str, says: str) -> None:
    with pytest.raises(PredicateError, match=says):
        parse_predicate(sql, {"d": "date", "i": "int"})


# -- numbers of more digits than Python's decimals keep


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("text", ["{}", "{}BD", "CAST('{}' AS DECIMAL(38,6))"])
def test_all_38_digits_of_a_decimal_count(sign: str, text: str) -> None:
    number = f"{sign}12345678901234567890123456789012.345678"
    region = parse_predicate(f"c = {text.format(number)}", {"c": "decimal(38,6)"})
    assert region.contains_row({"c": Decimal(number)})
    assert not region.contains_row({"c": Decimal(number[:-1] + "9")})
    assert number in region.to_sql()
    assert parse_predicate(region.to_sql(), {"c": "decimal(38,6)"}) == region
