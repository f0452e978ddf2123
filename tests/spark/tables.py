"""Tiny tables for the tests of what a run does to a table, and a place to keep them in."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.planning.changes import parse_commit
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.spark.jvm import class_name, walk
from airflow_provider_replacewhere.spark.log import commit_text
from airflow_provider_replacewhere.spark.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]

# The instant of a run unless a test says otherwise: no midnight, so that a day cut in the wrong zone shows.
NOON = datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC)


WEEK = "day >= date_sub(current_date(), 7)"  # from 2026-03-03 on, at NOON


def flow(query: str, *, where: str = WEEK, target: str = "daily", clauses: str = "") -> str:
    """The text of a pipeline with one flow."""
    return f"CREATE STREAMING TABLE {target} {clauses} FLOW REPLACE WHERE {where} BY NAME {query}"


def instant(text: str) -> datetime.datetime:
    """An instant from ISO text; UTC where it names no offset."""
    value = datetime.datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Lake:
    """Delta folders below one root, and a session that runs flows over them."""

    spark: SparkSession
    root: Path

    @cached_property
    def session(self) -> LocalSession:
        return LocalSession(self.spark, root=self.root)

    def path(self, table: str) -> Path:
        return self.root.joinpath(*table.split("."))

    def sql_name(self, table: str) -> str:
        return f"delta.`{self.path(table)}`"

    # -- tables --------------------------------------------------------------------------------------------------------

    def make(self, table: str, columns: str, rows: Iterable[Sequence[Any]] = ()) -> None:
        """Write a table anew in one commit: ``columns`` as in CREATE TABLE, dates and instants of ``rows`` as text."""
        frame = self.frame(columns, rows)
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(self.path(table)))

    def add(self, table: str, *rows: Sequence[Any]) -> None:
        """Append rows as anybody might, with no help of ours."""
        schema = self.read(table).schema
        columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema)
        self.frame(columns, rows).write.format("delta").mode("append").save(str(self.path(table)))

    def frame(self, columns: str, rows: Iterable[Sequence[Any]]) -> DataFrame:
        """A DataFrame of rows written down as plain values."""
        schema = self.spark.sql(f"SELECT from_json(NULL, '{columns}') AS row").schema["row"].dataType
        fields = schema.fields  # type: ignore[attr-defined]
        types = [(field.name, field.dataType.simpleString()) for field in fields]
        listed = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        if not listed:
            return self.spark.sql(f"SELECT {', '.join(f'CAST(NULL AS {t}) AS `{n}`' for n, t in types)} WHERE false")
        casts = (f"CAST(col{i} AS {type_}) AS `{name}`" for i, (name, type_) in enumerate(types, start=1))
        return self.spark.sql(f"SELECT {', '.join(casts)} FROM VALUES {listed}")

    def sql(self, statement: str) -> None:
        """Run a statement; ``{name}`` stands for the table of that name."""
        self.spark.sql(re.sub(r"\{([\w.]+)\}", lambda match: self.sql_name(match[1]), statement))

    def read(self, table: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.path(table)))

    # -- what a table holds --------------------------------------------------------------------------------------------

    def rows(self, table: str) -> list[Row]:
        """The whole table, sorted; see :func:`rows_of`."""
        return rows_of(self.read(table))

    def columns(self, table: str) -> list[str]:
        """``name type`` of every column, in the table's order."""
        return [f"{f.name} {f.dataType.simpleString()}" for f in self.read(table).schema]

    def version(self, table: str) -> int:
        logs = (self.path(table) / "_delta_log").glob("*.json")
        return max((int(log.stem) for log in logs), default=-1)

    def commit(self, table: str, version: int | None = None) -> dict[str, Any]:
        """The ``commitInfo`` of a commit; of the newest unless a version is named."""
        number = self.version(table) if version is None else version
        text = commit_text(self.spark, str(self.path(table)), number)
        assert text is not None
        return dict(parse_commit(number, text).info)

    def detail(self, table: str) -> dict[str, Any]:
        """``DESCRIBE DETAIL`` of a table."""
        return self.spark.sql(f"DESCRIBE DETAIL {self.sql_name(table)}").collect()[0].asDict()

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, pipeline: Any, **arguments: Any) -> RunReport:
        """Run a pipeline and return the last flow's report; at NOON unless ``as_of`` says otherwise."""
        return self.run_all(pipeline, **arguments)[-1]

    def run_all(self, pipeline: Any, **arguments: Any) -> list[RunReport]:
        return self.session.run(pipeline, **{"as_of": NOON, **arguments})


@contextmanager
def untouched(
    lake: Lake, *tables: str, by: type[ReplaceWhereError], match: str
) -> Iterator[pytest.ExceptionInfo[ReplaceWhereError]]:
    """The block is refused with the error ``by``, and the tables are at the version at which they were."""
    before = {table: lake.version(table) for table in tables}
    with pytest.raises(by, match=match) as found:
        yield found
    assert {table: lake.version(table) for table in tables} == before


def rows_of(frame: DataFrame) -> list[Row]:
    """All rows as tuples, sorted, NULL first; dates and instants as the text that the session's time zone gives."""
    as_text = ("date", "timestamp", "timestamp_ntz")
    shown = [
        f"CAST(`{f.name}` AS STRING) AS `{f.name}`" if f.dataType.typeName() in as_text else f"`{f.name}`"
        for f in frame.schema
    ]
    return sorted((tuple(row) for row in frame.selectExpr(*shown).collect()), key=_order)


def _order(row: Row) -> list[tuple[bool, str]]:
    return [(value is not None, str(value)) for value in row]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def sources_of(frame: DataFrame) -> list[Source]:
    """The Delta folders that a query reads, each at its first version and by the folder's name."""
    found = []
    for node in walk(frame._jdf.queryExecution().analyzed()):
        if class_name(node) == "LogicalRelation":
            path = str(node.relation().location().path().toString())
            found.append(Source(Path(path).name, 0, path, "id"))
    return found
