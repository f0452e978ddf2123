"""Random predicates over a query's result, and how they move from run to run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.spark.differential.columns import DAY_KINDS, DAYS, TODAY, Column, literal


@dataclass(frozen=True)
class Window:
    """A predicate: one range or list over the first column, and maybe a condition on a second one.

    :param low: first day's number that is inside
    :param high: first one that is not
    :param also: the second condition, with its AND or OR
    """

    column: Column
    style: str
    low: int
    high: int
    also: str = ""
    keys: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        name, kind = self.column.name, self.column.kind
        low, high = literal(kind, self.low), literal(kind, self.high)
        middle, last = literal(kind, (self.low + self.high) // 2), literal(kind, self.high - 1)
        ago = TODAY - self.low
        since = f"date_sub({{today}}, {ago})" if kind == "date" else f"{{today}} - INTERVAL {ago} DAYS"
        text = {
            "range": f"{name} >= {low} AND {name} < {high}",
            "mirrored": f"NOT ({low} > {name} OR {name} >= {high})",
            "between": f"{name} BETWEEN {low} AND {last}",
            "from": f"{name} >= {low}",
            "upto": f"{name} < {high}",
            "list": f"{name} IN ({', '.join(literal(kind, n) for n in range(self.low, self.high))})",
            "gap": f"{name} >= {low} AND {name} < {high} AND {name} <> {middle}",
            "one": f"{name} = {low}",
            "day": f"to_date({name}) = {literal('date', self.low)}",
            "or null": f"({name} >= {low} AND {name} < {high}) OR {name} IS NULL",
            "moving": f"{name} >= {since}",
            "moving both": f"{name} >= {since} AND {name} < {{today}}",
            "moving now": f"{name} > {{now}} - INTERVAL {ago} DAYS",
            "true": name if self.low % 2 else f"NOT {name}",
        }[self.style]
        return f"({text}) {self.also}" if self.also else text

    def moved(self, rng: random.Random) -> Window:
        """The same kind of window elsewhere: wider, narrower, shifted, or far away."""
        low, high, size = self.low, self.high, self.column.size
        match rng.choice(("wider", "narrower", "shifted", "elsewhere")):
            case "wider":
                low, high = low - rng.randint(0, 2), high + rng.randint(0, 2)
            case "narrower":
                low, high = low + rng.randint(0, 1), high - rng.randint(0, 1)
            case "shifted":
                by = rng.choice((-2, -1, 1, 2))
                low, high = low + by, high + by
            case _:
                low = rng.randrange(size - 1)
                high = low + rng.randint(1, 5)
        low = max(0, min(low, size - 2))
        return replace(self, low=low, high=max(low + 1, min(high, size - 1)))


_PLAIN = ("k", "s", "b", "ts", "g", "name", "other")
"""Columns that are no aggregates."""


def window(rng: random.Random, columns: Sequence[Column], near: tuple[int, ...]) -> Window:
    """A random predicate over the columns of a query's result."""
    day, *others = columns
    if others and rng.random() < 0.25:
        plain = [column for column in others if column.name in _PLAIN]
        day = rng.choice(plain if plain and rng.random() < 0.8 else others)
    low = near[0] if rng.random() < 0.7 else rng.randrange(DAYS - 4)
    high = near[1] if rng.random() < 0.7 and near[1] > low else min(low + rng.randint(3, 7), DAYS)
    if day.kind in ("int", "dec", "double", "string") and day.name not in ("day", "d"):
        low, high = rng.choice(((0, 2), (1, 3), (1, 4), (2, 4), (0, 4)))
    styles = ["range"] * 4 + ["between", "from", "upto", "list", "gap", "or null", "mirrored"]
    styles += ["one"] if rng.random() < 0.4 else []
    if day.kind == "date":
        styles += ["moving", "moving", "moving both", "moving both", "moving both"]
    if day.kind in ("timestamp", "timestamp_ntz"):
        styles += ["moving", "moving now", "moving now", "day"]
    if day.kind == "bool":
        styles = ["true"]
    if day.kind == "timestamp_ntz":
        styles = [style for style in styles if not style.startswith("moving")]
    chosen = Window(day, rng.choice(styles), low, high, keys=(day.name,))
    rest = [column for column in columns if column.name != day.name and column.kind != "bool"]
    if rest and rng.random() < 0.25:
        second = rng.choice(rest)
        return replace(chosen, also=_second(rng, second), keys=(day.name, second.name))
    return chosen


def _second(rng: random.Random, column: Column) -> str:
    name = column.name
    one, two = column.literal(1 + rng.randrange(2)), column.literal(3 + rng.randrange(2))
    options = [f"AND {name} = {one}", f"AND {name} IN ({one}, {two})", f"AND {name} >= {one}", f"OR {name} = {one}"]
    options += [f"AND {name} <> {one}", f"AND NOT ({name} > {one})", f"AND {name} IS NOT NULL", f"AND {name} < {two}"]
    if column.kind in DAY_KINDS:
        options.append(f"AND {name} < {two}")
    return rng.choice(options)
