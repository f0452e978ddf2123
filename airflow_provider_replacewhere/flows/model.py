"""What a user declares: flows, tables, views and refreshes, as plain values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from airflow_provider_replacewhere.text import Document, Span

NullKeys = Literal["fail", "drop", "include"]


class OnViolation(StrEnum):
    """What becomes of a row that breaks an expectation."""

    WARN = "WARN"
    DROP_ROW = "DROP ROW"
    FAIL_UPDATE = "FAIL UPDATE"


_NAME_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True)
class TableName:
    """A table's name, taken apart: ``a.b`` is ``("a", "b")``, ``delta.`/p` `` is ``("delta", "/p")``."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name that a person wrote: parts between dots, with backticks where they need some."""
        found = _NAME_PART.findall(text)
        return cls(tuple(quoted.replace("``", "`") if quoted else plain.strip() for quoted, plain in found))

    @property
    def is_path(self) -> bool:
        """Whether this names a Delta folder rather than a table of a catalog."""
        return len(self.parts) == 2 and self.parts[0].lower() == "delta" and ("/" in self.parts[1])

    @property
    def key(self) -> tuple[str, ...]:
        """What two spellings of one table have in common: names ignore letter case, paths do not."""
        return ("delta", self.parts[1].rstrip("/")) if self.is_path else tuple(p.lower() for p in self.parts)

    def to_sql(self) -> str:
        """The name as SQL, every part in backticks."""
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.parts)

    def __str__(self) -> str:
        """The name as a person writes it: backticks only where they are needed."""
        plain = all(part.replace("_", "a").isalnum() and not part[:1].isdigit() for part in self.parts)
        return ".".join(self.parts) if plain else ".".join(_quoted(part) for part in self.parts)


def _quoted(part: str) -> str:
    plain = part.replace("_", "a").isalnum() and not part[:1].isdigit()
    return part if plain else "`" + part.replace("`", "``") + "`"


@dataclass(frozen=True)
class Schedule:
    """``SCHEDULE EVERY n unit`` or ``SCHEDULE CRON '…' AT TIME ZONE '…'``; exactly one of the two."""

    every: int | None = None
    unit: Literal["HOURS", "DAYS", "WEEKS"] | None = None
    cron: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class Column:
    """A declared column. ``type`` is Spark SQL text such as ``DECIMAL(10,2)``, or None where only a name was given."""

    name: str
    type: str | None = None
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class Expectation:
    """``CONSTRAINT name EXPECT (condition) [ON VIOLATION …]``: a row meets it when the condition is TRUE."""

    name: str
    condition: str
    on_violation: OnViolation = OnViolation.WARN


@dataclass(frozen=True)
class Table:
    """A target as declared: how to create it, and what to expect of its rows."""

    name: TableName
    columns: tuple[Column, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    schedule: Schedule | None = None
    span: Span | None = None


@dataclass(frozen=True)
class View:
    """A view that lives for one run of the pipeline; its query is SQL text or a function that gives a DataFrame."""

    name: TableName
    query: Span | None = None
    function: Callable[[], Any] | None = field(default=None, compare=False)
    comment: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True)
class Flow:
    """One REPLACE WHERE flow: a target, a predicate over its columns, and a source query.

    :param name: the flow's name; the target's name unless ``CREATE FLOW`` gave another
    :param table: the target as declared
    :param replace_where: the predicate's text, time functions still in it
    :param query: the source query's text, untouched; None for a Python flow
    :param function: the Python function that gives the source DataFrame; None for an SQL flow
    :param time_zone: IANA name: what "today" means in the predicate and in the query
    :param null_keys: what to do with rows for which the predicate is NULL
    :param spark_conf: Spark settings for this flow's query alone, from the decorator
    """

    name: str
    table: Table
    replace_where: Span
    query: Span | None = None
    function: Callable[[], Any] | None = field(default=None, compare=False)
    comment: str | None = None
    time_zone: str = "UTC"
    null_keys: NullKeys = "fail"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = None

    @property
    def target(self) -> TableName:
        return self.table.name


@dataclass(frozen=True)
class Refresh:
    """``REFRESH STREAMING TABLE target [FULL | WHERE predicate] [SYNC | ASYNC]``."""

    target: TableName
    full: bool = False
    predicate: Span | None = None
    wait: bool = True
    span: Span | None = None


@dataclass(frozen=True)
class Pipeline:
    """Flows and what belongs to them, from one or several files.

    ``python`` holds files that are still to be run: a Python file declares its flows only when it is executed, which
    needs a Spark session and so happens in the driver.
    """

    flows: tuple[Flow, ...] = ()
    views: tuple[View, ...] = ()
    tables: tuple[Table, ...] = ()
    refreshes: tuple[Refresh, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    python: tuple[Document, ...] = ()
