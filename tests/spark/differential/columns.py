"""Kinds of columns, and their values: a small domain, numbered, so that windows and rows meet."""

from __future__ import annotations

import random
from dataclasses import dataclass

DAYS = 11
"""Days that rows lie on: from 2026-03-01 on."""

TODAY = 9
"""The number of the day on which the first run's clock stands."""

DAY_KINDS = ("date", "timestamp", "timestamp_ntz")
NUMBERS = ("int", "dec")

# Statistics know of instants their milliseconds, and of texts their first 32 characters.
TIMES = ("00:00:00", "00:00:00", "04:30:00", "12:00:00", "23:59:59.999600")
STRINGS = ("a", "b", "c", "d" * 40 + "1", "d" * 40 + "2")

TYPES = {
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP",),
    "timestamp_ntz": ("TIMESTAMP_NTZ",),
    "int": ("INT", "BIGINT", "SMALLINT"),
    "dec": ("DECIMAL(8,2)",),
    "double": ("DOUBLE",),
    "string": ("STRING",),
    "daystring": ("STRING",),
    "bool": ("BOOLEAN",),
}


@dataclass(frozen=True)
class Column:
    """A column of a source or of a query's result.

    :param kind: one of :data:`TYPES`, or ``epochday`` for days since 1970 as a number
    :param type: SQL type where it is known
    """

    name: str
    kind: str
    type: str = ""

    def literal(self, number: int, rng: random.Random | None = None) -> str:
        """The value of that number, as SQL."""
        return literal(self.kind, number, rng)

    @property
    def size(self) -> int:
        """How many values there are, in their order."""
        return len(STRINGS) if self.kind == "string" else DAYS

    def random(self, rng: random.Random, nulls: float = 0.1) -> str:
        """Any value."""
        if rng.random() < nulls:
            return f"CAST(NULL AS {self.type})" if self.type else "NULL"
        value = literal(self.kind, rng.randrange(DAYS), rng)
        # A bare 4 among DECIMAL(6,0) in one VALUES would make the column wider.
        return f"CAST({value} AS {self.type})" if self.type else value


def literal(kind: str, number: int, rng: random.Random | None = None) -> str:
    """The value of a kind with that number, as SQL; days count from 2026-03-01 = 0.

    :param rng: where given, instants fall on any hour of the day
    """
    day = f"2026-03-{1 + number:02d}" if number >= 0 else f"2026-02-{29 + number:02d}"
    time = rng.choice(TIMES) if rng else TIMES[0]
    match kind:
        case "date":
            return f"DATE'{day}'"
        case "timestamp":
            return f"TIMESTAMP'{day} {time}'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ'{day} {time}'"
        case "int":
            return str(number)
        case "dec":
            return f"{number}.{rng.choice((0, 5)) if rng else 0}0BD"
        case "double":
            # Two zeros that Spark calls equal, and a NaN that equals itself.
            special = {0: rng.choice(("0.0D", "-0.0D")) if rng else "0.0D", 3: "CAST('NaN' AS DOUBLE)"}
            return special.get(number, f"{number}.5D")
        case "string":
            return f"'{STRINGS[number % len(STRINGS)]}'"
        case "daystring":
            return f"'{day}'"
        case "epochday":
            return str(20513 + number)
        case "bool":
            return "true" if number % 2 else "false"
    raise ValueError(kind)
