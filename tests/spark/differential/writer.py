"""What shapes of queries are written with: expressions, keys, conditions over the sources' columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.spark.differential.columns import DAYS, Column, literal
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
"""Each shape is one way in which a filter may or may not reach a scan."""


def shape(function: Shape) -> Shape:
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
