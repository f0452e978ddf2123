"""Random predicates over one table of many types, and rows that lie where their constants are."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

COLUMNS = {
    "d": "date",
    "Ts": "timestamp",
    "w": "timestamp_ntz",
    "i": "int",
    "n": "bigint",
    "t": "tinyint",
    "p": "decimal(6,2)",
    "x": "double",
    "f": "float",
    "s": "string",
    "b": "boolean",
    "a.b `c": "int",
    "st": "struct<a:int,B:struct<c:date>>",
}
NAMES = {name: f"`{name.replace('`', '``')}`" for name in COLUMNS} | {"st.a": "st.a", "st.B.c": "st.`b`.c"}

DATES = [date(2026, 1, d) for d in (1, 2, 15, 31)]
DATES += [
    date(2024, 2, 28),
    date(2024, 2, 29),
    date(2025, 12, 31),
    date(2026, 3, 8),
    date(2026, 11, 1),
    date(2026, 10, 25),
]
DATES += [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]
# Around both changes of the clocks in New York and Berlin.
INSTANTS = [
    datetime(2026, 3, 8, 6, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
    datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2025, 12, 31, 23, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
WALLS = [value.replace(tzinfo=None) for value in INSTANTS] + [datetime(2026, 3, 8, 2, 30), datetime(2026, 1, 15)]  # noqa: DTZ001
INTS = [0, 1, 2, 3, 7, -1, -128, 127, 20, 2147483647, -2147483648]
BIGINTS = [*INTS, 2147483648, 9223372036854775807, -9223372036854775808]
TINY = [n for n in INTS if -128 <= n <= 127]
DECIMALS = [Decimal(text) for text in ("0", "1.00", "1.50", "-0.01", "2", "9999.99", "-9999.99", "7.77", "7.78")]
DOUBLES = [0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 2.0, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 5e-324]
FLOATS = [0.0, -0.0, 1.0, 1.5, 0.10000000149011612, -2.0, float("inf"), float("nan")]
STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "abc\0",
    "a_c",
    "a%c",
    "ABC",
    "it's",
    'say "x"',
    "back\\slash",
    "é",
    "日本",
    "😀",
    "\uffff",
    "b\n",
]

POOLS: Mapping[str, list[Any]] = {
    "d": DATES,
    "Ts": INSTANTS,
    "w": WALLS,
    "i": INTS,
    "n": BIGINTS,
    "t": TINY,
    "p": DECIMALS,
    "x": DOUBLES,
    "f": FLOATS,
    "s": STRINGS,
    "b": [True, False],
    "a.b `c": INTS,
    "st.a": INTS,
    "st.B.c": DATES,
}


def rows(count: int, seed: int = 4) -> list[dict[str, Any]]:
    """Rows with every pooled value and NULL, the same on every call."""
    choose = random.Random(seed)
    found = []
    for number in range(count):
        row = {}
        for name in COLUMNS:
            pool = POOLS.get(name)
            if pool is not None:
                row[name] = pool[number % len(pool)] if number < len(pool) else choose.choice([None, None, *pool])
        inner = choose.choice([None, {"c": choose.choice([None, *DATES])}])
        row["st"] = choose.choice([None, {"a": choose.choice([None, *INTS]), "B": inner}, {"a": 1, "B": inner}])
        found.append(row)
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0").replace("\n", "\\n") + "'"


def _timestamps(value: datetime) -> list[str]:
    wall = value.replace(tzinfo=None).isoformat(sep=" ")
    return [f"TIMESTAMP '{value.isoformat()}'", f"TIMESTAMP '{wall}'", f"'{wall}'", f"'{value.isoformat()}'"]


def constants(name: str) -> st.SearchStrategy[str]:
    """Constants that may be compared with a column, as SQL."""
    match name:
        case "d" | "st.B.c":
            plain = [sql for value in DATES for sql in (f"DATE '{value}'", f"'{value}'")]
            moved = [f"DATE '{value}' {sign} INTERVAL {n} {unit}" for value in DATES[:6] for sign, n, unit in _MOVES]
            return st.sampled_from(plain + moved + [sql for value in INSTANTS[:8] for sql in _timestamps(value)[:2]])
        case "Ts":
            near = [value + timedelta(microseconds=delta) for value in INSTANTS for delta in (0, 1)]
            return st.sampled_from([sql for v in near for sql in _timestamps(v)] + [f"DATE '{d}'" for d in DATES[:9]])
        case "w":
            walls = [f"TIMESTAMP_NTZ '{value}'" for value in WALLS] + [f"'{value}'" for value in WALLS]
            return st.sampled_from(walls + [f"DATE '{value}'" for value in DATES[:9]])
        case "i" | "a.b `c" | "st.a" | "t":
            exact = [str(n) for n in INTS] + [
                "1L",
                "7S",
                "3Y",
                "3000000000",
                "1.5",
                "-0.5BD",
                "2.0",
                "1.5D",
                "0D",
                "7e0",
            ]
            return st.sampled_from(exact)
        case "n":
            return st.sampled_from([f"{n}L" for n in BIGINTS[:-1]] + ["1", "1.5", "9223372036854775808", "-2.50BD"])
        case "p":
            return st.sampled_from([f"{n}BD" for n in DECIMALS] + ["1", "7L", "1.005", "7.775", "99999.999", "-3"])
        case "x" | "f":
            named = ["CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"]
            return st.sampled_from(
                ["0.0D", "-0.0D", "1.5", "1", "2", "0.1", "0.1F", "0.1D", "1e300", "5e-324D", "1.5BD", *named]
            )
        case "s":
            return st.sampled_from([_quoted(text) for text in STRINGS])
        case "b":
            return st.sampled_from(["TRUE", "FALSE"])
    raise AssertionError(name)


_MOVES = [("+", 1, "DAY"), ("-", 7, "DAYS"), ("+", 1, "MONTH"), ("-", 1, "YEAR"), ("+", 25, "HOURS")]
_OPERATORS = ["=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "=="]


@st.composite
def _comparison(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(list(POOLS)))
    operator = draw(st.sampled_from(_OPERATORS))
    constant = draw(st.one_of(constants(name), constants(name), constants(name), st.just("NULL")))
    sides = [NAMES[name], constant]
    return f" {operator} ".join(sides if draw(st.booleans()) else sides[::-1])


@st.composite
def _listed(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([name for name in POOLS if name not in ("x", "f")]))
    if name in ("i", "a.b `c", "st.a", "t", "n"):
        values = st.sampled_from([f"{n}L" for n in BIGINTS[:-1]])
    elif name in ("d", "st.B.c"):
        values = st.sampled_from([f"DATE '{value}'" for value in DATES])
    elif name == "Ts":
        values = st.sampled_from([f"TIMESTAMP '{value.isoformat()}'" for value in INSTANTS])
    elif name == "w":
        values = st.sampled_from([f"TIMESTAMP_NTZ '{value}'" for value in WALLS])
    elif name == "p":
        values = st.sampled_from([f"{value:.2f}BD" for value in DECIMALS])
    else:
        values = constants(name)
    items = draw(st.lists(st.one_of(values, values, values, st.just("NULL")), min_size=1, max_size=5))
    return f"{NAMES[name]} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(items)})"


@st.composite
def _between(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([name for name in POOLS if name != "b"]))
    low, high = draw(constants(name)), draw(constants(name))
    return f"{NAMES[name]} {draw(st.sampled_from(['BETWEEN', 'NOT BETWEEN']))} {low} AND {high}"


@st.composite
def _tested(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*POOLS, "st"]))
    return f"{NAMES[name]} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"


@st.composite
def _followed(draw: st.DrawFn) -> str:
    """Functions of one column that keep its order, and some that do not."""
    operator = draw(st.sampled_from(_OPERATORS))
    day = draw(st.sampled_from([f"DATE '{value}'" for value in DATES[:10]]))
    instant = draw(st.sampled_from([sql for value in INSTANTS for sql in _timestamps(value)[:2]]))
    level = draw(st.sampled_from(["YEAR", "QUARTER", "MONTH", "WEEK"]))
    return draw(
        st.sampled_from(
            [
                f"year(d) {operator} {draw(st.sampled_from([2024, 2025, 2026, 1, 9999]))}",
                f"year(Ts) {operator} 2026",
                f"extract(YEAR FROM w) {operator} 2025",
                f"trunc(d, '{level}') {operator} {day}",
                f"trunc(Ts, '{level}') {operator} {day}",
                f"date_trunc('{level}', Ts) {operator} {instant}",
                f"date_trunc('DAY', Ts) {operator} {instant}",
                f"date_trunc('HOUR', Ts) {operator} {instant}",
                f"date_trunc('{level}', d) {operator} {instant}",
                f"CAST(Ts AS DATE) {operator} {day}",
                f"w::date {operator} {day}",
                f"CAST(d AS TIMESTAMP) {operator} {instant}",
                f"to_date(Ts) IN ({day}, DATE '2026-03-08')",
                f"coalesce(d, {day}) {operator} {day}",
                f"dayofmonth(d) {operator} 1",
                f"trunc(d, '{level}') IS NULL",
                f"i {operator} n",
                f"hour(Ts) {operator} 1",
                f"i % 2 {operator} 1",
                f"length(s) {operator} 2",
            ]
        )
    )


@st.composite
def _shifted(draw: st.DrawFn) -> str:
    """Dates moved by days and months; only where the rows' dates stay inside the years that Spark can show."""
    operator = draw(st.sampled_from(_OPERATORS))
    day = draw(st.sampled_from([f"DATE '{value}'" for value in DATES[:10]]))
    amount = draw(st.sampled_from([1, 7, 30, -1, -45]))
    months = draw(st.sampled_from([1, 12, -1, -13]))
    return draw(
        st.sampled_from(
            [
                f"d + {amount} {operator} {day}",
                f"d - {amount} {operator} {day}",
                f"date_add(d, {amount}) {operator} {day}",
                f"date_sub(Ts, {amount}) {operator} {day}",
                f"d + INTERVAL '{amount}' DAY {operator} {day}",
                f"add_months(d, {months}) {operator} {day}",
                f"d - INTERVAL '{months}' MONTH {operator} {day}",
            ]
        )
    )


@st.composite
def _matched(draw: st.DrawFn) -> str:
    pattern = draw(
        st.sampled_from(["a%", "abc", "%", "", "a_c", "ab%c", "a\\\\_c%", "\\\\%", "é%", "😀%", "%c", "日%本"])
    )
    return draw(
        st.sampled_from(
            [
                f"s LIKE '{pattern}'",
                f"s NOT LIKE '{pattern}'",
                "startswith(s, 'ab')",
                "s RLIKE '^a'",
                "upper(s) = 'ABC'",
            ]
        )
    )


ATOMS = st.one_of(
    _comparison(),
    _comparison(),
    _comparison(),
    _listed(),
    _between(),
    _tested(),
    _followed(),
    _shifted(),
    _matched(),
    st.sampled_from(["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "b IS UNKNOWN"]),
)


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({}) IS NULL".format, inner),
        st.builds("({}) IS NOT TRUE".format, inner),
        st.builds("({}) IS FALSE".format, inner),
    )


PREDICATES = st.recursive(ATOMS, _joined, max_leaves=6)
EXACT_ATOMS = st.one_of(_comparison(), _listed(), _between(), _tested())
ROWS_WITH_EVERY_VALUE = rows(40)
