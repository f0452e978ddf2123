"""Random queries over the sources, by shape: each shape is one way in which a filter may or may not reach a scan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.spark.differential.columns import DAY_KINDS, DAYS, Column, literal
from tests.spark.differential.sources import Table


@dataclass(frozen=True)
class Query:
    """A query as a template, and the columns of its result.

    :param label: the shape, and what was put around it
    """

    sql: str
    columns: tuple[Column, ...]
    label: str

    @property
    def names(self) -> str:
        return ", ".join(column.name for column in self.columns)


Shape = Callable[["Writer"], tuple[str, Sequence[Column]]]
SHAPES: dict[str, Shape] = {}


def _shape(function: Shape) -> Shape:
    SHAPES[function.__name__.strip("_")] = function
    return function


@dataclass
class Writer:
    """Writes the parts of a query.

    :param near: the days at whose start or end the flow's window may lie; literals prefer them
    """

    rng: random.Random
    tables: Mapping[str, Table]
    near: tuple[int, ...]

    def pick(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def number(self) -> int:
        return self.rng.choice(self.near) if self.rng.random() < 0.6 else self.rng.randrange(DAYS)

    # -- expressions over one table ------------------------------------------------------------------------------------

    def column(self, name: str, table: str, as_name: str = "") -> Column:
        found = self.tables[table][name]
        return Column(as_name or name, found.kind, found.type)

    def date(self, alias: str, table: str) -> str:
        """The table's day as a DATE."""
        match self.tables[table].kind("d"):
            case "date":
                return f"{alias}.d"
            case "int":
                return f"date_add(DATE'2026-03-01', CAST({alias}.d AS INT))"
            case _:
                return f"CAST({alias}.d AS DATE)"

    def shifted(self, alias: str, table: str, days: int) -> str:
        """The table's day, moved, in a type that compares with ``d``."""
        match self.tables[table].kind("d"):
            case "int":
                return f"{alias}.d + {days}"
            case "daystring":
                return f"CAST(date_add({self.date(alias, table)}, {days}) AS STRING)"
            case "date":
                return f"date_add({alias}.d, {days})"
            case _:
                return f"{alias}.d + INTERVAL '{days}' DAY"

    def key(self, alias: str, table: str = "facts", plain: float = 0.5) -> tuple[str, Column]:
        """What a query calls its day: the column itself, or something made of it."""
        column = self.column("d", table, "day")
        if self.rng.random() < plain:
            return f"{alias}.d", column
        date, ts = self.date(alias, table), f"{alias}.ts"
        made = [
            (f"CAST({ts} AS DATE)", "date"),
            (f"to_date({ts})", "date"),
            (f"date_trunc('DAY', {ts})", "timestamp"),
            (f"date_trunc('HOUR', {ts})", "timestamp"),
            (ts, self.tables[table].kind("ts") if table != "dims" else "date"),
            (f"date_add({date}, {self.rng.choice((1, -1, 7))})", "date"),
            (f"coalesce({date}, CAST({ts} AS DATE))", "date"),
            (f"coalesce({date}, {literal('date', self.number())})", "date"),
            (f"CASE WHEN {alias}.n > 2 THEN {date} ELSE date_sub({date}, 1) END", "date"),
            (f"if({alias}.b, {date}, NULL)", "date"),
            (f"trunc({date}, 'WEEK')", "date"),
            (f"last_day({date})", "date"),
            (f"least({date}, CAST({ts} AS DATE))", "date"),
            (f"nullif({date}, {literal('date', self.number())})", "date"),
            (f"CAST({date} AS STRING)", "daystring"),
            (f"date_format({ts}, 'yyyy-MM-dd')", "daystring"),
            (f"CAST({date} AS TIMESTAMP)", "timestamp"),
            (f"CAST({ts} AS TIMESTAMP_NTZ)", "timestamp_ntz"),
            (f"unix_date({date})", "epochday"),
            (f"dayofmonth({date})", "int"),
            (f"make_date(2026, 3, dayofmonth({date}))", "date"),
            (f"to_date(concat('2026-03-', lpad(CAST(dayofmonth({date}) AS STRING), 2, '0')))", "date"),
        ]
        if table == "dims":
            made = [(sql, kind) for sql, kind in made if ts not in sql and ".b" not in sql]
        if column.kind in ("int", "daystring"):
            made.append((f"{alias}.d", column.kind))
        sql, kind = self.rng.choice(made)
        return sql, Column("day", kind)

    def condition(self, alias: str, table: str = "facts") -> str:
        """A filter of the query's own, often with a bound like the window's."""
        day, low = literal(self.tables[table].kind("d"), self.number()), self.rng.randrange(6)
        key = literal(self.tables[table].kind("k"), self.rng.randrange(4))
        options = [
            f"{alias}.d >= {day}",
            f"{alias}.d < {day}",
            f"{alias}.d <> {day}",
            f"NOT ({alias}.d < {day})",
            f"{alias}.d IS NOT NULL",
            f"({alias}.d > {day} OR {alias}.n > 3)",
            f"({alias}.d = {day} OR {alias}.d IS NULL)",
            f"{alias}.n > {self.rng.randrange(3)}",
            f"{alias}.n IS NULL",
            f"{alias}.s IN ('a', 'b', 'c')",
            f"{alias}.s NOT IN ('a', 'b')",
            f"{alias}.s LIKE 'b%'",
            f"{alias}.k = {key}",
            f"{alias}.k <> {key}",
            f"coalesce({alias}.n, 0) % 2 = 0",
            f"{self.date(alias, table)} BETWEEN {literal('date', low)} AND {literal('date', low + 4)}",
        ]
        if table != "dims":
            options += [f"{alias}.b", f"NOT {alias}.b", f"CAST({alias}.ts AS DATE) >= {literal('date', self.number())}"]
        return self.rng.choice(options)

    def where(self, alias: str, table: str = "facts", chance: float = 0.4) -> str:
        return f"WHERE {self.condition(alias, table)}" if self.rng.random() < chance else ""

    def on(self, left: str, right: str, right_table: str = "events") -> str:
        """How facts and events meet: on the day, on the key, on both, or a day apart."""
        same, key = f"{right}.d = {left}.d", f"{right}.k = {left}.k"
        apart = f"{self.date(right, right_table)} = date_add({self.date(left, 'facts')}, {self.pick('1', '-1')})"
        return self.rng.choice((same, same, f"{same} AND {key}", f"{key} AND {same}", key, f"{key} AND {apart}"))

    def facts(self, alias: str = "f") -> list[Column]:
        return [self.column(name, "facts") for name in ("k", "s", "n")]

    def aggregates(self, alias: str) -> tuple[str, list[Column]]:
        options = [
            ("count(*) AS c", Column("c", "int")),
            (f"sum({alias}.n) AS n", Column("n", self.tables["facts"].kind("n"))),
            (f"count(DISTINCT {alias}.k) AS u", Column("u", "int")),
            (f"count(DISTINCT {alias}.s, {alias}.n) AS v", Column("v", "int")),
            (f"max({alias}.n) AS m", Column("m", self.tables["facts"].kind("n"))),
            (f"min({alias}.s) AS lo", Column("lo", "string")),
            (f"count_if({alias}.b) AS cb", Column("cb", "int")),
            (f"max_by({alias}.s, struct({alias}.n, {alias}.s)) AS top", Column("top", "string")),
            (f"concat_ws(',', array_sort(collect_list({alias}.s))) AS list", Column("list", "string")),
            (f"sum({alias}.n) FILTER (WHERE {alias}.k IS NOT NULL) AS sf", Column("sf", "int")),
        ]
        chosen = self.rng.sample(options, self.rng.randint(1, 3))
        return ", ".join(sql for sql, _ in chosen), [column for _, column in chosen]


# -- one table ---------------------------------------------------------------------------------------------------------


@_shape
def _project(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.3)
    return f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f {w.where('f')}", [day, *w.facts()]


@_shape
def _star(w: Writer) -> tuple[str, Sequence[Column]]:
    return f"SELECT * FROM {{facts}} f {w.where('f')}", w.tables["facts"].columns


@_shape
def _other_keys(w: Writer) -> tuple[str, Sequence[Column]]:
    text, kind = w.rng.choice(
        (("upper(f.s)", "string"), ("concat(f.s, 'x')", "string"), ("f.n % 3", "int"), ("f.b", "bool"), ("-f.n", "int"))
    )
    key, day = w.key("f")
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n, {text} AS other FROM {{facts}} f {w.where('f')}",
        [day, *w.facts(), Column("other", kind)],
    )


@_shape
def _distinct(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    return f"SELECT DISTINCT {key} AS day, f.s FROM {{facts}} f {w.where('f')}", [day, w.column("s", "facts")]


@_shape
def _group(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    values, columns = w.aggregates("f")
    return f"SELECT {key} AS day, {values} FROM {{facts}} f {w.where('f')} GROUP BY {key}", [day, *columns]


@_shape
def _group_by_two(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    values, columns = w.aggregates("f")
    other = w.pick("s", "k")
    return (
        f"SELECT {key} AS day, f.{other} AS g, {values} FROM {{facts}} f {w.where('f')} GROUP BY {key}, f.{other}",
        [day, w.column(other, "facts", "g"), *columns],
    )


@_shape
def _having(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    condition = w.pick("count(*) > 1", "sum(f.n) > 4", "max(f.n) < 5", "min(f.s) = 'a'", "count(DISTINCT f.k) = 1")
    return (
        f"SELECT {key} AS day, count(*) AS c, sum(f.n) AS n FROM {{facts}} f GROUP BY {key} HAVING {condition}",
        [day, Column("c", "int"), w.column("n", "facts")],
    )


@_shape
def _derived_key(w: Writer) -> tuple[str, Sequence[Column]]:
    function = w.pick("max", "min")
    day = w.column("d", "facts", "day")
    return (
        f"SELECT {function}(f.d) AS day, f.k, count(*) AS c FROM {{facts}} f {w.where('f')} GROUP BY f.k",
        [day, w.column("k", "facts"), Column("c", "int")],
    )


@_shape
def _global_aggregate(w: Writer) -> tuple[str, Sequence[Column]]:
    n = w.number()
    if w.rng.random() < 0.5:
        return (
            f"SELECT {literal('date', n)} AS day, count(*) AS c, max(f.n) AS m FROM {{facts}} f {w.where('f')}",
            [Column("day", "date"), Column("c", "int"), w.column("n", "facts", "m")],
        )
    day = w.column("d", "facts", "day")
    return (
        f"SELECT max(f.d) AS day, count(*) AS c FROM {{facts}} f {w.where('f')}",
        [day, Column("c", "int")],
    )


@_shape
def _constant_key(w: Writer) -> tuple[str, Sequence[Column]]:
    first, second = literal("date", w.number()), literal("date", w.number())
    return (
        (
            f"SELECT {first} AS day, f.s, f.n FROM {{facts}} f {w.where('f')} UNION ALL "
            f"SELECT {second}, e.s, e.n FROM {{events}} e {w.where('e', 'events')}"
        ),
        [Column("day", "date"), w.column("s", "facts"), w.column("n", "facts")],
    )


@_shape
def _grouping_sets(w: Writer) -> tuple[str, Sequence[Column]]:
    sets = w.pick("GROUPING SETS ((f.d, f.s), (f.d))", "GROUPING SETS ((f.d), (f.s))", "ROLLUP (f.d, f.s)")
    sets = w.pick(sets, "CUBE (f.d, f.s)")
    return (
        f"SELECT f.d AS day, f.s, count(*) AS c, grouping_id() AS g FROM {{facts}} f {w.where('f')} GROUP BY {sets}",
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("c", "int"), Column("g", "int")],
    )


@_shape
def _explode(w: Writer) -> tuple[str, Sequence[Column]]:
    if w.rng.random() < 0.5:
        date = w.date("f", "facts")
        return (
            (
                f"SELECT explode(sequence({date}, date_add({date}, 2))) AS day, f.s, f.n FROM {{facts}} f "
                f"WHERE f.d IS NOT NULL"
            ),
            [Column("day", "date"), w.column("s", "facts"), w.column("n", "facts")],
        )
    key, day = w.key("f")
    return (
        f"SELECT {key} AS day, f.s, explode(array(1, CAST(f.n AS INT))) AS x FROM {{facts}} f",
        [day, w.column("s", "facts"), Column("x", "int")],
    )


@_shape
def _pivot(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        "SELECT * FROM (SELECT f.d AS day, f.s, f.n FROM {facts} f) PIVOT (sum(n) AS n FOR s IN ('a' AS a, 'b' AS b))",
        [w.column("d", "facts", "day"), w.column("n", "facts", "a"), w.column("n", "facts", "b")],
    )


@_shape
def _limit(w: Writer) -> tuple[str, Sequence[Column]]:
    order = w.pick("day, k, s, n", "n DESC, day, k, s", "s, k, n, day DESC")
    return (
        f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f {w.where('f')} ORDER BY {order} LIMIT {w.pick('5', '12')}",
        [w.column("d", "facts", "day"), *w.facts()],
    )


# -- windows -----------------------------------------------------------------------------------------------------------


def _windowed(w: Writer, partition: str) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.8)
    total = "f.d, f.k, f.s, f.n, f.ts, f.b"
    by_day = f"PARTITION BY {key}"
    by = {"day": by_day, "both": f"{by_day}, f.s", "key": "PARTITION BY f.k", "none": ""}[partition]
    function = w.pick(
        f"row_number() OVER ({by} ORDER BY {total})",
        f"rank() OVER ({by} ORDER BY f.n)",
        f"sum(f.n) OVER ({by} ORDER BY f.d)",
        f"max(f.n) OVER ({by})",
        f"count(*) OVER ({by} ORDER BY f.d RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        f"lag(f.n) OVER ({by} ORDER BY {total})",
        f"lead(f.n, 1, 0) OVER ({by} ORDER BY {total})",
        f"sum(f.n) OVER ({by} ORDER BY {total} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    )
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n, {function} AS w FROM {{facts}} f {w.where('f')}",
        [day, *w.facts(), Column("w", "int")],
    )


@_shape
def _window_by_day(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "day")


@_shape
def _window_by_day_and_more(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "both")


@_shape
def _window_by_key(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "key")


@_shape
def _window_over_all(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "none")


@_shape
def _newest_by_key(w: Writer) -> tuple[str, Sequence[Column]]:
    by = w.pick("f.k", "f.d", "f.d, f.k", "f.s")
    return (
        (
            f"SELECT day, k, s, n FROM (SELECT f.d AS day, f.k, f.s, f.n, "
            f"row_number() OVER (PARTITION BY {by} ORDER BY f.n DESC, f.d, f.k, f.s, f.ts, f.b) AS r FROM {{facts}} f) "
            f"WHERE r = 1"
        ),
        [w.column("d", "facts", "day"), *w.facts()],
    )


# -- joins -------------------------------------------------------------------------------------------------------------


def _joined(w: Writer, kind: str, key: str) -> tuple[str, Sequence[Column]]:
    day = w.column("d", "facts" if key != "e.d" else "events", "day")
    columns = [day, w.column("k", "facts"), w.column("s", "facts"), w.column("n", "events", "en")]
    where = f"WHERE {w.condition('f') if w.rng.random() < 0.6 else w.condition('e', 'events')}"
    where = where if w.rng.random() < 0.3 else ""
    return (
        (
            f"SELECT {key} AS day, f.k, f.s, e.n AS en FROM {{facts}} f {kind} JOIN {{events}} e ON {w.on('f', 'e')} "
            f"{where}"
        ),
        columns,
    )


@_shape
def _inner_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "INNER", w.pick("f.d", "f.d", "e.d"))


@_shape
def _inner_join_computed(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.0)
    sql, columns = _joined(w, "INNER", "f.d")
    return sql.replace("SELECT f.d AS day", f"SELECT {key} AS day", 1), [day, *columns[1:]]


@_shape
def _left_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "LEFT", "f.d")


@_shape
def _left_join_key_from_right(w: Writer) -> tuple[str, Sequence[Column]]:
    if w.rng.random() < 0.4:
        sql, columns = _joined(w, "LEFT", "f.d")
        coalesced = f"coalesce({w.date('e', 'events')}, {w.date('f', 'facts')})"
        return sql.replace("SELECT f.d AS day", f"SELECT {coalesced} AS day", 1), [Column("day", "date"), *columns[1:]]
    return _joined(w, "LEFT", "e.d")


@_shape
def _right_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "RIGHT", w.pick("f.d", "e.d"))


@_shape
def _full_join(w: Writer) -> tuple[str, Sequence[Column]]:
    sql, columns = _joined(w, "FULL", "f.d")
    key = w.pick("coalesce(f.d, e.d)", "coalesce(f.d, e.d)", "f.d", "e.d")
    return sql.replace("SELECT f.d AS day", f"SELECT {key} AS day", 1), columns


@_shape
def _join_using(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("INNER", "LEFT", "FULL", "RIGHT")
    return (
        f"SELECT d AS day, f.s, f.n, e.n AS en FROM {{facts}} f {kind} JOIN {{events}} e USING ({w.pick('d', 'd, k')})",
        [
            w.column("d", "facts", "day"),
            w.column("s", "facts"),
            w.column("n", "facts"),
            w.column("n", "events", "en"),
        ],
    )


@_shape
def _dimension(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    kind = w.pick("INNER", "LEFT", "INNER", "LEFT", "CROSS")
    if kind == "CROSS":
        on = "CROSS JOIN {dims} c"
    else:
        since = f" AND c.d <= {w.date('f', 'facts')}"
        on = f"{kind} JOIN {{dims}} c ON c.k = f.k{w.pick('', '', since)}"
    hint = w.pick("", "/*+ BROADCAST(c) */ ")
    return (
        f"SELECT {hint}{key} AS day, f.k, c.s AS name, f.n FROM {{facts}} f {on} {w.where('f')}",
        [day, w.column("k", "facts"), w.column("s", "dims", "name"), w.column("n", "facts")],
    )


@_shape
def _dimension_grouped(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    kind = w.pick("INNER", "LEFT")
    return (
        (
            f"SELECT {key} AS day, c.s AS name, count(*) AS c, sum(f.n) AS n FROM {{facts}} f {kind} JOIN {{dims}} c "
            f"ON c.k = f.k {w.where('c', 'dims', 0.2)} GROUP BY {key}, c.s"
        ),
        [day, w.column("s", "dims", "name"), Column("c", "int"), w.column("n", "facts")],
    )


@_shape
def _three_tables(w: Writer) -> tuple[str, Sequence[Column]]:
    first, second = w.pick("INNER", "LEFT"), w.pick("INNER", "LEFT")
    return (
        (
            f"SELECT f.d AS day, c.s AS name, e.n AS en, count(*) AS c FROM {{facts}} f {first} JOIN {{events}} e "
            f"ON {w.on('f', 'e')} {second} JOIN {{dims}} c ON c.k = {w.pick('f', 'e')}.k GROUP BY ALL"
        ),
        [
            w.column("d", "facts", "day"),
            w.column("s", "dims", "name"),
            w.column("n", "events", "en"),
            Column("c", "int"),
        ],
    )


@_shape
def _semi_or_anti_join(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT SEMI", "LEFT ANTI")
    key, day = w.key("f", plain=0.8)
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f {kind} JOIN {{events}} e ON {w.on('f', 'e')}",
        [day, *w.facts()],
    )


@_shape
def _semi_join_of_earlier_days(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT SEMI", "LEFT ANTI")
    return (
        f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f {kind} JOIN {{events}} e ON e.k = f.k AND e.d < f.d",
        [w.column("d", "facts", "day"), *w.facts()],
    )


@_shape
def _cross_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, count(*) AS c, max(e.n) AS m FROM {{facts}} f CROSS JOIN {{events}} e "
            f"WHERE e.d {w.pick('<=', '<', '>=', '=')} f.d GROUP BY f.d"
        ),
        [w.column("d", "facts", "day"), Column("c", "int"), w.column("n", "events", "m")],
    )


@_shape
def _self_join_shifted(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "LEFT")
    days = w.rng.choice((1, -1, 2))
    on = f"y.d = {w.shifted('x', 'facts', days)}"
    if w.tables["facts"].kind("d") in DAY_KINDS and w.rng.random() < 0.5:
        on = f"{w.date('y', 'facts')} = date_sub({w.date('x', 'facts')}, {days})"
    return (
        f"SELECT x.d AS day, x.k, x.n, y.n AS before FROM {{facts}} x {kind} JOIN {{facts}} y ON {on} AND y.k = x.k",
        [
            w.column("d", "facts", "day"),
            w.column("k", "facts"),
            w.column("n", "facts"),
            w.column("n", "facts", "before"),
        ],
    )


@_shape
def _self_join(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "LEFT SEMI", "LEFT ANTI")
    on = w.pick("y.k = x.k", "y.d = x.d", "y.d = x.d AND y.k = x.k AND y.n > x.n", "y.k = x.k AND y.d > x.d")
    return (
        f"SELECT x.d AS day, x.k, x.s, x.n FROM {{facts}} x {kind} JOIN {{facts}} y ON {on}",
        [w.column("d", "facts", "day"), *w.facts()],
    )


@_shape
def _lateral(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.k, l.total FROM {{facts}} f, LATERAL (SELECT sum(e.n) AS total FROM {{events}} e "
            f"WHERE {w.pick('e.d = f.d', 'e.k = f.k', 'e.d = f.d AND e.k = f.k')}) l"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), w.column("n", "events", "total")],
    )


@_shape
def _join_with_inline_rows(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.s, v.x FROM {{facts}} f {w.pick('LEFT', 'INNER')} JOIN "
            f"(VALUES ('a', 1), ('b', 2), ('c', 3)) AS v(s, x) ON v.s = f.s {w.where('f')}"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("x", "int")],
    )


# -- set operations ----------------------------------------------------------------------------------------------------


def _both_sides(w: Writer, operation: str) -> tuple[str, Sequence[Column]]:
    facts, events = w.tables["facts"].kind("d"), w.tables["events"].kind("d")
    second = "e.d" if facts == events else w.date("e", "events")
    first = "f.d" if facts == events else w.date("f", "facts")
    return (
        (
            f"SELECT {first} AS day, f.s, f.k FROM {{facts}} f {w.where('f')} {operation} "
            f"SELECT {second}, e.s, e.k FROM {{events}} e {w.where('e', 'events')}"
        ),
        [Column("day", facts if facts == events else "date"), w.column("s", "facts"), w.column("k", "facts")],
    )


@_shape
def _union(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("UNION ALL", "UNION ALL", "UNION"))


@_shape
def _union_of_a_table_with_itself(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.s, f.n FROM {{facts}} f {w.where('f', chance=0.8)} UNION ALL "
            f"SELECT {w.shifted('g', 'facts', 1)}, g.s, g.n FROM {{facts}} g {w.where('g', chance=0.8)}"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), w.column("n", "facts")],
    )


@_shape
def _except(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("EXCEPT", "EXCEPT ALL", "MINUS"))


@_shape
def _intersect(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("INTERSECT", "INTERSECT ALL"))


# -- subqueries --------------------------------------------------------------------------------------------------------


def _subquery(w: Writer, condition: str) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.8)
    return f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f WHERE {condition}", [day, *w.facts()]


@_shape
def _in(w: Writer) -> tuple[str, Sequence[Column]]:
    column = w.pick("k", "d", "s")
    negated = w.pick("", "", "NOT ")
    nulls = "" if not negated or w.rng.random() < 0.4 else f" WHERE e.{column} IS NOT NULL"
    return _subquery(w, f"f.{column} {negated}IN (SELECT e.{column} FROM {{events}} e{nulls})")


@_shape
def _in_of_dimension(w: Writer) -> tuple[str, Sequence[Column]]:
    return _subquery(w, f"f.k IN (SELECT c.k FROM {{dims}} c {w.where('c', 'dims', 0.6)})")


@_shape
def _exists(w: Writer) -> tuple[str, Sequence[Column]]:
    correlated = w.pick("e.d = f.d", "e.k = f.k", "e.d = f.d AND e.k = f.k", "e.n > 4", "e.d < f.d")
    return _subquery(w, f"{w.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {{events}} e WHERE {correlated})")


@_shape
def _exists_or(w: Writer) -> tuple[str, Sequence[Column]]:
    return _subquery(w, f"(f.n > 3 OR EXISTS (SELECT 1 FROM {{events}} e WHERE {w.pick('e.d = f.d', 'e.k = f.k')}))")


@_shape
def _scalar(w: Writer) -> tuple[str, Sequence[Column]]:
    aggregated = w.pick(
        "f.n >= (SELECT avg(n) FROM {facts})",
        "f.n <= (SELECT max(e.n) FROM {events} e)",
        "f.d < (SELECT max(e.d) FROM {events} e)",
        "f.d = (SELECT max(g.d) FROM {facts} g)",
        "(SELECT count(*) FROM {dims}) > 3",
    )
    return _subquery(w, aggregated)


@_shape
def _scalar_of_the_same_day(w: Writer) -> tuple[str, Sequence[Column]]:
    match = w.pick("e.d = f.d", "e.d = f.d", "e.k = f.k")
    if w.rng.random() < 0.5:
        return _subquery(w, f"coalesce((SELECT sum(e.n) FROM {{events}} e WHERE {match}), 0) > 2")
    return (
        f"SELECT f.d AS day, f.k, (SELECT count(*) FROM {{events}} e WHERE {match}) AS c FROM {{facts}} f",
        [w.column("d", "facts", "day"), w.column("k", "facts"), Column("c", "int")],
    )


# -- nested ------------------------------------------------------------------------------------------------------------


@_shape
def _nested_ctes(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"WITH a AS (SELECT f.d, f.k, f.s, sum(f.n) AS n FROM {{facts}} f {w.where('f')} GROUP BY f.d, f.k, f.s), "
            f"b AS (SELECT d, k, max(n) AS n FROM a GROUP BY d, k) "
            f"SELECT a.d AS day, a.k, a.s, b.n FROM a JOIN b ON a.d = b.d AND a.k = b.k"
        ),
        [w.column("d", "facts", "day"), *w.facts()],
    )


@_shape
def _cte_twice(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"WITH a AS (SELECT f.d, f.s, count(*) AS c FROM {{facts}} f {w.where('f')} GROUP BY f.d, f.s) "
            f"SELECT x.d AS day, x.s, x.c, y.total FROM a x LEFT JOIN (SELECT s, sum(c) AS total FROM a GROUP BY s) y "
            f"ON x.s = y.s"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("c", "int"), Column("total", "int")],
    )


@_shape
def _join_of_groups(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "FULL")
    key = "coalesce(x.d, y.d)" if kind == "FULL" else "x.d"
    return (
        (
            f"SELECT {key} AS day, x.n, y.c FROM (SELECT f.d, sum(f.n) AS n FROM {{facts}} f GROUP BY f.d) x "
            f"{kind} JOIN (SELECT e.d, count(*) AS c FROM {{events}} e {w.where('e', 'events')} GROUP BY e.d) y "
            f"ON x.d = y.d"
        ),
        [w.column("d", "facts", "day"), w.column("n", "facts"), Column("c", "int")],
    )


@_shape
def _share_of_the_total(w: Writer) -> tuple[str, Sequence[Column]]:
    total = w.pick("SELECT sum(n) AS t FROM {facts}", "SELECT count(*) AS t FROM {events}")
    return (
        f"SELECT f.d AS day, f.s, f.n, x.t FROM {{facts}} f CROSS JOIN ({total}) x",
        [w.column("d", "facts", "day"), w.column("s", "facts"), w.column("n", "facts"), Column("t", "int")],
    )


@_shape
def _clock_in_the_query(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    if w.rng.random() < 0.5:
        condition = f"{w.date('f', 'facts')} >= date_sub({{today}}, {w.pick('3', '6')})"
        return f"SELECT {key} AS day, f.s, f.n FROM {{facts}} f WHERE {condition}", [day, *w.facts()[1:]]
    return (
        f"SELECT {key} AS day, f.s, datediff({{today}}, {w.date('f', 'facts')}) AS age FROM {{facts}} f",
        [day, w.column("s", "facts"), Column("age", "int")],
    )


# -- around a shape ----------------------------------------------------------------------------------------------------


def _around(w: Writer, query: Query) -> Query:
    """A layer on top of a query."""
    day, names = query.columns[0].name, query.names
    others = [column.name for column in query.columns[1:]]
    kind = w.rng.choice(("filter", "cte", "distinct", "group", "rank", "in_days", "union", "subselect"))
    inner, columns = f"({query.sql}) q", query.columns
    match kind:
        case "filter":
            bound = literal(query.columns[0].kind, w.number())
            condition = w.pick(f"q.{day} >= {bound}", f"q.{day} < {bound}", f"q.{day} IS NOT NULL OR true")
            sql = f"SELECT {names} FROM {inner} WHERE {condition}"
        case "cte":
            sql = f"WITH q AS ({query.sql}) SELECT {names} FROM q"
        case "distinct":
            sql = f"SELECT DISTINCT {names} FROM {inner}"
        case "group":
            sql = f"SELECT {day}, count(*) AS rows FROM {inner} GROUP BY {day}"
            columns = (query.columns[0], Column("rows", "int"))
        case "rank":
            by = w.pick(f"PARTITION BY q.{day} ", f"PARTITION BY q.{others[0]} ", "")
            sql = f"SELECT {names}, dense_rank() OVER ({by}ORDER BY {names}) AS dr FROM {inner}"
            columns = (*query.columns, Column("dr", "int"))
        case "in_days":
            negated = w.pick("", "NOT ")
            kind_of_day = w.tables["events"].kind("d")
            if query.columns[0].kind != kind_of_day:
                return query
            sql = f"SELECT {names} FROM {inner} WHERE {negated}EXISTS (SELECT 1 FROM {{events}} z WHERE z.d = q.{day})"
        case "union":
            sql = f"WITH q AS ({query.sql}) SELECT {names} FROM q UNION ALL SELECT {names} FROM q WHERE {day} IS NULL"
        case _:
            sql = f"SELECT {names} FROM (SELECT * FROM {inner}) r"
    return Query(sql, tuple(columns), f"{query.label}+{kind}")


def query(rng: random.Random, tables: Mapping[str, Table], near: tuple[int, ...], shape: str | None = None) -> Query:
    """A random query.

    :param near: days that the query's own literals prefer
    :param shape: its shape; any by default
    """
    writer = Writer(rng, tables, near)
    name = shape or rng.choice(list(SHAPES))
    sql, columns = SHAPES[name](writer)
    found = Query(" ".join(sql.split()), tuple(columns), name)
    while rng.random() < 0.25 and found.label.count("+") < 2:
        found = _around(writer, found)
    return found


def over_target(rng: random.Random, target: str, upstream: Query) -> Query:
    """A query over another flow's target."""
    day, *others = upstream.columns
    if rng.random() < 0.5 or not others:
        sql = f"SELECT u.{day.name}, count(*) AS rows FROM {{{target}}} u GROUP BY u.{day.name}"
        return Query(sql, (day, Column("rows", "int")), "over_a_target")
    chosen = rng.choice(others)
    sql = (
        f"SELECT u.{day.name}, u.{chosen.name}, x.c FROM {{{target}}} u LEFT JOIN "
        f"(SELECT {chosen.name} AS v, count(*) AS c FROM {{{target}}} GROUP BY {chosen.name}) x "
        f"ON x.v = u.{chosen.name}"
    )
    return Query(sql, (day, chosen, Column("c", "int")), "over_a_target_twice")
