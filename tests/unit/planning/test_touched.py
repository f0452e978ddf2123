"""A file's partition values and statistics never leave one of its rows out."""

from __future__ import annotations

import json
import math
import re
import string
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_provider_replacewhere.planning.changes import File, LogCommit, parse_commit
from airflow_provider_replacewhere.planning.touched import MOST_RANGES, Layout, rows_of, touched
from airflow_provider_replacewhere.predicates import Region, parse_predicate

TYPES = {
    "d": "date",
    "ts": "timestamp",
    "nz": "timestamp_ntz",
    "n": "int",
    "b": "bigint",
    "m": "decimal(10,2)",
    "f": "float",
    "x": "double",
    "s": "string",
    "v": "varchar(8)",
    "t": "boolean",
    "y": "binary",
    "a": "array<int>",
}

instants = st.datetimes(datetime(1600, 1, 1), datetime(9999, 12, 30))  # noqa: DTZ001 - wall times
values: dict[str, st.SearchStrategy[Any]] = {
    "d": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "ts": instants.map(lambda value: value.replace(tzinfo=UTC)),
    "nz": instants,
    "n": st.integers(-(2**31), 2**31 - 1),
    "b": st.integers(-(2**63), 2**63 - 1),
    "m": st.integers(1 - 10**10, 10**10 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
    "f": st.floats(width=32),
    "x": st.floats(),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.text(st.sampled_from("a\x7f\U0001f600\U0010ffff"), min_size=28, max_size=40),
    "v": st.text(string.ascii_letters, max_size=8),
    "t": st.booleans(),
    "y": st.binary(max_size=4),
    "a": st.lists(st.integers(0, 3), max_size=2),
}
rows_of_file = st.lists(
    st.fixed_dictionaries({name: st.none() | value for name, value in values.items()}), min_size=1, max_size=4
)


# -- statistics as Delta writes them: StatisticsCollection.scala, and the protocol's section on per-file statistics --


def statistics(rows: Sequence[dict[str, Any]], zone: timezone = UTC) -> str:
    """The stats of a file that holds these rows, as JSON text."""
    low, high, nulls = {}, {}, {}
    for name in TYPES:
        cells = [row[name] for row in rows if row[name] is not None]
        nulls[name] = len(rows) - len(cells)
        if cells and name not in ("t", "y", "a"):
            low[name], high[name] = _bounds(name, cells, zone)
    whole = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    return re.sub('"NUMBER:([^"]+)"', r"\1", json.dumps(whole, default="NUMBER:{}".format))


def _bounds(name: str, cells: list[Any], zone: timezone) -> tuple[Any, Any]:
    match name:
        case "d":
            return min(cells).isoformat(), max(cells).isoformat()
        case "ts":
            return _instant(min(cells).astimezone(zone)), _instant(max(cells).astimezone(zone))
        case "nz":
            return _instant(min(cells)), _instant(max(cells))
        case "f":
            low, high = _ordered(cells)
            return _shortest_float(low), _shortest_float(high)
        case "x":
            low, high = _ordered(cells)
            return _special(low), _special(high)
        case "s" | "v":
            return min(cells)[:32], _cut_max(max(cells))
    return min(cells), max(cells)


def _instant(value: datetime) -> str:
    """Down to milliseconds, with the offset of the writer's zone."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ordered(cells: list[float]) -> tuple[float, float]:
    """Least and greatest as Spark sorts: NaN above all."""
    return (
        min(cells, key=lambda v: (math.isnan(v), 0 if math.isnan(v) else v)),
        max(cells, key=lambda v: (math.isnan(v), 0 if math.isnan(v) else v)),
    )


def _special(value: float) -> Any:
    return value if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]


def _shortest_float(value: float) -> Any:
    """As Java prints a float: the shortest decimal that reads back as the same float."""
    if not math.isfinite(value):
        return _special(value)
    for digits in range(1, 12):
        text = f"{value:.{digits}g}"
        try:
            back = struct.unpack("f", struct.pack("f", float(text)))[0]
        except OverflowError:
            continue
        if back == value:
            return Decimal(text)
    raise AssertionError(value)


def _cut_max(value: str) -> str:
    """Cut behind 32 characters, with a character on top that sorts above what was cut off."""
    if len(value) <= 32:
        return value
    for end in range(32, len(value)):
        top = "\x7f" if value[end] < "\x7f" else "\U0010ffff"
        if value[end] < top:
            return value[:end] + top
    return value


def is_in(row: dict[str, Any], region: Region) -> bool:
    return region.contains_row(row)


@given(rows=rows_of_file, hours=st.integers(-12, 14))
def test_statistics_hold_every_row(rows: list[dict[str, Any]], hours: int) -> None:
    stats = json.loads(statistics(rows, timezone(timedelta(hours=hours))), parse_float=Decimal)
    region = rows_of(File("f", {}, stats), Layout(TYPES))
    for row in rows:
        assert is_in(row, region), (stats, region.to_sql())


@given(rows=rows_of_file, keep=st.sets(st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount"])))
def test_statistics_of_which_a_part_is_missing_hold_every_row(rows: list[dict[str, Any]], keep: set[str]) -> None:
    stats = {k: v for k, v in json.loads(statistics(rows), parse_float=Decimal).items() if k in keep}
    region = rows_of(File("f", {}, stats), Layout(TYPES))
    assert all(is_in(row, region) for row in rows)


@given(
    rows=rows_of_file, kept=st.sets(st.sampled_from(sorted(TYPES))), where=st.sampled_from(["minValues", "nullCount"])
)
def test_columns_without_statistics_are_not_bounded(rows: list[dict[str, Any]], kept: set[str], where: str) -> None:
    stats = json.loads(statistics(rows), parse_float=Decimal)
    stats[where] = {name: value for name, value in stats[where].items() if name in kept}
    region = rows_of(File("f", {}, stats), Layout(TYPES))
    assert all(is_in(row, region) for row in rows)


@given(rows=rows_of_file)
def test_wide_bounds_of_a_file_with_a_deletion_vector_hold_every_row(rows: list[dict[str, Any]]) -> None:
    # nullCount is not exact any more, unless it is nothing or all.
    stats = json.loads(statistics(rows), parse_float=Decimal) | {"tightBounds": False}
    region = rows_of(File("f", {}, stats, "u1@1"), Layout(TYPES))
    assert all(is_in(row, region) for row in rows[1:])


def test_statistics_do_bound() -> None:
    rows = [{**dict.fromkeys(TYPES), "d": date(2026, 3, day), "n": day, "s": f"k{day}"} for day in (2, 4)]
    region = rows_of(File("f", {}, json.loads(statistics(rows))), Layout({"d": "date", "n": "int", "s": "string"}))
    assert region == parse_predicate(
        "d between DATE'2026-03-02' and DATE'2026-03-04' and n between 2 and 4 and s >= 'k2' and s <= 'k4'",
        {"d": "date", "n": "int", "s": "string"},
    )


# -- single values --


def bound(type_: str, low: Any, high: Any, nulls: int | None = 0) -> Region:
    stats = {"numRecords": 5, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}
    return rows_of(File("f", {}, stats), Layout({"c": type_}))


def sql(predicate: str, type_: str) -> Region:
    return parse_predicate(predicate, {"c": type_})


def test_a_timestamp_may_lie_a_millisecond_above_its_bound() -> None:
    found = bound("timestamp", "2026-03-01T01:00:00.123+01:00", "2026-03-01T00:00:00.123Z")
    assert found == sql(
        "c >= TIMESTAMP'2026-03-01T00:00:00.123Z' and c < TIMESTAMP'2026-03-01T00:00:00.124Z'", "timestamp"
    )


@pytest.mark.parametrize("text", ["2026-03-01T00:00:00.000", "2026-03-01", "yesterday", "+12026-01-01T00:00:00Z"])
def test_a_timestamp_without_zone_says_nothing(text: str) -> None:
    assert bound("timestamp", text, text).is_everything


def test_a_string_cut_at_32_characters_may_be_anything_that_begins_so() -> None:
    prefix = "a" * 32
    assert bound("string", prefix, prefix).contains_row({"c": prefix + "\U0010ffff" * 3})
    assert not bound("string", prefix, prefix).contains_row({"c": "a" * 31 + "b"})
    assert bound("string", "a", "\U0010ffff" * 32).contains_row({"c": "\U0010ffff" * 40})
    assert bound("string", "a", "z" * 31 + "\ud7ff").contains_row({"c": "z" * 31 + "\ud7ff-"})


def test_a_string_cut_inside_a_character_says_nothing() -> None:
    cut = json.loads('"' + "a" * 31 + '\\ud83d"')
    assert bound("string", "a", cut).contains_row({"c": "a" * 31 + "\U0001f600"})


def test_a_string_of_bytes_that_are_no_text_says_nothing() -> None:
    assert bound("string", "a", "b\ufffd").is_everything
    assert bound("string", "\ufffd", "\ufffd").is_everything


def test_null_is_left_out_only_where_it_is_known_to_be_absent() -> None:
    assert not bound("int", 1, 2, 0).contains_row({"c": None})
    assert bound("int", 1, 2, 3).contains_row({"c": None})
    assert bound("int", 1, 2, None).contains_row({"c": None})
    only = rows_of(File("f", {}, {"numRecords": 3, "nullCount": {"c": 3}}), Layout({"c": "int"}))
    assert only == sql("c is null", "int")


def test_a_float_is_read_as_the_float_that_it_was() -> None:
    row = struct.unpack("f", struct.pack("f", 0.7))[0]
    assert row < 0.7
    assert bound("float", Decimal("0.7"), Decimal("0.9")).contains_row({"c": row})


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("int", 1, 2**40),  # the table's column is wider than what the layout says
        ("int", -(2**40), 1),
        ("tinyint", 1000, 2000),
        ("decimal(10,2)", Decimal("1.005"), Decimal("1.007")),
        ("decimal(4,2)", Decimal(1), Decimal(1000)),
        ("int", Decimal("1.5"), Decimal("2.5")),
        ("int", "a", "b"),
        ("boolean", 3, 4),
        ("date", "2026-03-01T00:00:00Z", "2026-03-02"),
        ("date", 5, 6),
        ("string", 5, 6),
        ("date", "+12026-03-01", "+12026-03-01"),
    ],
)
def test_a_bound_that_is_no_value_of_the_type_says_nothing(type_: str, low: Any, high: Any) -> None:
    assert bound(type_, low, high).is_everything


def test_a_column_goes_by_its_physical_name_in_the_log() -> None:
    layout = Layout({"d": "date"}, physical={"d": "col-1"})
    stats = {"minValues": {"col-1": "2026-01-01", "d": "2026-02-02"}, "maxValues": {"col-1": "2026-01-01"}}
    assert rows_of(File("f", {}, stats), layout).contains_row({"d": date(2026, 1, 1)})
    assert not rows_of(File("f", {}, stats), layout).contains_row({"d": date(2026, 1, 2)})
    partitioned = Layout({"d": "date"}, frozenset({"d"}), {"d": "col-1"})
    assert rows_of(File("f", {"col-1": "2026-01-01"}), partitioned).contains_row({"d": date(2026, 1, 1)})
    assert rows_of(File("f", {"d": "2026-01-01"}), partitioned).is_everything


# -- partitions --


def in_partition(type_: str, text: str | None) -> Region:
    return rows_of(File("f", {"c": text}), Layout({"c": type_}, frozenset({"c"})))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("date", "2026-03-01", date(2026, 3, 1)),
        ("int", "-7", -7),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("string", "a b/c=d%20é'", "a b/c=d%20é'"),
        ("string", "null", "null"),
        ("boolean", "true", True),
        ("decimal(10,2)", "1.50", Decimal("1.50")),
        ("double", "0.1", 0.1),
        ("double", "NaN", math.nan),
        ("double", "-0.0", 0.0),
        ("timestamp", "2026-03-01T01:00:00.000001Z", datetime(2026, 3, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("timestamp_ntz", "2026-03-01 01:00:00.5", datetime(2026, 3, 1, 1, 0, 0, 500_000)),  # noqa: DTZ001
    ],
)
def test_a_partition_holds_one_value(type_: str, text: str, value: Any) -> None:
    region = in_partition(type_, text)
    assert region.contains_row({"c": value})
    assert not region.contains_row({"c": None})
    assert not region.is_everything
    assert region.size == 1


@pytest.mark.parametrize("type_", ["date", "int", "timestamp", "boolean", "decimal(10,2)", "double"])
@pytest.mark.parametrize("text", [None, ""])
def test_a_partition_without_value_holds_null(type_: str, text: str | None) -> None:
    assert in_partition(type_, text) == sql("c is null", type_)


@pytest.mark.parametrize("text", [None, ""])
def test_an_empty_string_may_be_null_and_the_other_way_round(text: str | None) -> None:
    assert in_partition("string", text) == sql("c is null or c = ''", "string")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("timestamp", "2026-03-01 01:00:00"),  # in the zone of whoever wrote it
        ("int", "1_000"),
        ("int", "4294967296"),
        ("decimal(10,2)", "1.005"),
        ("date", "today"),
        ("boolean", "maybe"),
        ("binary", "ab"),
        ("binary", ""),
        ("array<int>", "[1]"),
        ("string", "__HIVE_DEFAULT_PARTITION__\ud83d"),
        ("string", "\ufffd"),
    ],
)
def test_a_partition_value_in_doubt_says_nothing(type_: str, text: str) -> None:
    assert in_partition(type_, text).is_everything


def test_a_float_partition_is_read_as_the_float_that_it_was() -> None:
    assert in_partition("float", "0.7").contains_row({"c": struct.unpack("f", struct.pack("f", 0.7))[0]})


def test_a_partition_column_that_the_file_does_not_name_is_not_bounded() -> None:
    assert rows_of(File("f", {}), Layout({"c": "int"}, frozenset({"c"}))).is_everything


# -- commits --


def days(*numbers: int, operation: str = "WRITE", **changes: Any) -> LogCommit:
    files = tuple(File(f"f{n}", {"d": f"2026-03-{n:02d}"}) for n in numbers)
    return LogCommit(1, operation, added=files, **changes)


DAILY = Layout({"d": "date"}, frozenset({"d"}))


def test_commits_touch_what_their_files_hold() -> None:
    removed = LogCommit(2, "DELETE", removed=(File("f", {"d": "2026-03-05"}),))
    assert touched([days(1, 2), removed], DAILY) == parse_predicate(
        "d in (DATE'2026-03-01', DATE'2026-03-02', DATE'2026-03-05')", {"d": "date"}
    )


def test_commits_without_rows_touch_nothing() -> None:
    assert touched([], DAILY) == Region.empty()
    assert touched([LogCommit(1, "OPTIMIZE")], DAILY) == Region.empty()


@pytest.mark.parametrize("operation", ["RESTORE", "CREATE OR REPLACE TABLE AS SELECT", "CLONE"])
def test_a_replaced_table_is_touched_whole(operation: str) -> None:
    assert touched([days(1), days(2, operation=operation)], DAILY) is None


def test_a_changed_description_touches_the_whole() -> None:
    assert touched([days(1, changes_metadata=True)], DAILY) is None


def test_a_file_of_which_nothing_is_known_touches_the_whole() -> None:
    assert touched([LogCommit(1, "DELETE", removed=(File("f", {}),))], DAILY) is None


def test_a_file_removed_without_statistics_is_bounded_by_its_partition() -> None:
    layout = Layout({"d": "date", "n": "int"}, frozenset({"d"}))
    commit = LogCommit(1, "DELETE", removed=(File("f", {"d": "2026-03-05"}),))
    assert touched([commit], layout) == parse_predicate("d = DATE'2026-03-05'", {"d": "date"})


@given(st.lists(st.tuples(st.none() | st.integers(1, 28), st.none() | st.integers(0, 5)), min_size=1, max_size=20))
def test_files_bounded_by_their_day_alone_or_by_a_number_too_are_told_exactly(
    found: list[tuple[int | None, int | None]],
) -> None:
    def file(place: int, day: int | None, number: int | None) -> File:
        bounds = {"minValues": {"n": number}, "maxValues": {"n": number}, "nullCount": {"n": 0}}
        return File(f"f{place}", {"d": None if day is None else f"2026-03-{day:02d}"}, bounds if number else None)

    layout = Layout({"d": "date", "n": "int"}, frozenset({"d"}))
    files = tuple(file(place, day, number) for place, (day, number) in enumerate(found))
    region = touched([LogCommit(1, "WRITE", added=files)], layout)
    assert region is not None
    for day in (None, *range(1, 29)):
        for number in (None, *range(6)):
            held = any(at == day and (not bound or bound == number) for at, bound in found)
            row = {"d": None if day is None else date(2026, 3, day), "n": number}
            assert region.contains_row(row) is held, row


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=250, max_size=400))
def test_thousands_of_files_become_a_hull_that_holds_them_all(places: list[tuple[int, int]]) -> None:
    files = tuple(
        File(f"f{a}", {}, {"minValues": {"a": a, "b": b}, "maxValues": {"a": a, "b": b}, "nullCount": {"a": 0, "b": 0}})
        for a, b in places
    )
    region = touched([LogCommit(1, "WRITE", added=files)], Layout({"a": "int", "b": "int"}))
    assert region is not None
    assert region.size <= MOST_RANGES + 2
    assert all(region.contains_row({"a": a, "b": b}) for a, b in places)


@given(rows=rows_of_file)
def test_the_way_from_the_commits_text_loses_no_row(rows: list[dict[str, Any]]) -> None:
    assume(len(rows) > 1)
    half = len(rows) // 2
    lines = [
        {"commitInfo": {"operation": "MERGE"}},
        {"add": {"path": "a", "partitionValues": {}, "dataChange": True, "stats": statistics(rows[:half])}},
        {"remove": {"path": "b", "partitionValues": {}, "dataChange": True, "stats": statistics(rows[half:])}},
    ]
    region = touched([parse_commit(1, "\n".join(map(json.dumps, lines)))], Layout(TYPES))
    assert region is None or all(is_in(row, region) for row in rows)
