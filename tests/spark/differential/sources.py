"""Random source tables: types, layouts and first rows."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.spark.differential.columns import DAYS, TYPES, Column


@dataclass(frozen=True)
class Table:
    """A source.

    :param mapped: whether its columns can be renamed
    """

    name: str
    columns: tuple[Column, ...]
    mapped: bool
    statement: str

    def kind(self, column: str) -> str:
        return self[column].kind

    def __getitem__(self, column: str) -> Column:
        return next(c for c in self.columns if c.name == column)


def sources(rng: random.Random) -> dict[str, Table]:
    """``facts`` and ``events``, alike, and ``dims``, which may have no day in common with them."""
    day = rng.choices(("date", "timestamp", "timestamp_ntz", "daystring", "int"), (7, 1, 1, 1, 1))[0]
    other = day if rng.random() < 0.8 or day in ("daystring", "int") else "date"
    key = rng.choice(("int", "int", "string", "dec", "double"))
    key_types = TYPES[key] if key != "dec" else ("DECIMAL(6,0)",)

    def columns(day: str) -> tuple[Column, ...]:
        instant = rng.choice(("timestamp", "timestamp_ntz"))
        number = rng.choice(("int", "int", "dec"))
        return (
            Column("d", day, TYPES[day][0]),
            Column("ts", instant, TYPES[instant][0]),
            Column("k", "int" if key == "dec" else key, rng.choice(key_types)),
            Column("s", "string", "STRING"),
            Column("n", number, rng.choice(TYPES[number])),
            Column("b", "bool", "BOOLEAN"),
        )

    facts = _table(rng, "facts", columns(day), rng.randint(24, 48))
    events = _table(rng, "events", columns(other), rng.randint(12, 30))
    of_dims = {c.name: c for c in columns("date")}
    dims = _table(rng, "dims", tuple(of_dims[name] for name in ("k", "s", "d", "n")), rng.randint(2, 8))
    return {table.name: table for table in (facts, events, dims)}


def row(rng: random.Random, columns: tuple[Column, ...], nulls: float = 0.06) -> str:
    """A random row as SQL; ``ts`` lies on the day of ``d`` or on the next one."""
    day = rng.randrange(DAYS)
    values = []
    for column in columns:
        number = {"d": day, "ts": min(day + rng.choice((0, 0, 0, 1)), DAYS - 1)}.get(column.name)
        if column.name in ("k", "s", "n"):
            number = rng.randrange(4 if column.name == "k" else 5)
        if number is None or rng.random() < nulls:
            values.append(column.random(rng, nulls))
        else:
            values.append(f"CAST({column.literal(number, rng)} AS {column.type})")
    return f"({', '.join(values)})"


def _table(rng: random.Random, name: str, columns: tuple[Column, ...], rows: int) -> Table:
    mapped = rng.random() < 0.3
    properties = {}
    if rng.random() < 0.4:
        properties["delta.enableDeletionVectors"] = "true"
    if mapped:
        properties["delta.columnMapping.mode"] = "name"
    elif rng.random() < 0.3:  # Delta keeps a table from being renamed and followed at once
        properties["delta.enableChangeDataFeed"] = "true"
    if rng.random() < 0.1:
        properties["delta.dataSkippingNumIndexedCols"] = rng.choice(("0", "1"))
    if rng.random() < 0.15:
        properties["delta.checkpointInterval"] = "3"
    layout = ""
    partition = rng.choice((None, None, "d", "s", "k", "d, s"))
    if partition is not None:
        layout = f"PARTITIONED BY ({partition})"
    elif rng.random() < 0.2:
        layout = "CLUSTER BY (d)"
        properties.pop("delta.dataSkippingNumIndexedCols", None)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    values = ", ".join(row(rng, columns) for _ in range(rows))
    files = rng.choice((1, 1, 3))
    hint = f"/*+ REPARTITION({files}) */ " if files > 1 else ""
    names = ", ".join(column.name for column in columns)
    statement = (
        f"CREATE OR REPLACE TABLE {{{name}}} USING delta {layout} "
        f"{f'TBLPROPERTIES ({listed}) ' if listed else ''}AS SELECT {hint}* FROM VALUES {values} AS t({names})"
    )
    return Table(name, columns, mapped, statement)
