"""A Delta table's transaction log, read through Hadoop's file systems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.table_log import InDoubtError
from airflow_provider_replacewhere.planning.touched import Layout
from airflow_provider_replacewhere.spark.jvm import class_name, file_system, seq, walk
from airflow_provider_replacewhere.spark.schema import schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Reading back further than this costs more than it can save.
MOST_COMMITS = 5_000

_COMMIT = re.compile(r"\d{20}\.json")
PHYSICAL_NAME = "delta.columnMapping.physicalName"


def read_commits(session: SparkSession, path: str, after: int, upto: int) -> tuple[LogCommit, ...] | None:
    """The commits of versions ``after + 1`` to ``upto``, or None where the log does not tell them all.

    Delta removes old log files behind a checkpoint, and catalog-managed tables keep theirs elsewhere.
    """
    if upto - after > MOST_COMMITS:
        return None
    commits = []
    for version in range(after + 1, upto + 1):
        text = commit_text(session, path, version)
        if text is None:
            return None
        try:
            commits.append(parse_commit(version, text))
        except ValueError:
            return None
    return tuple(commits)


def first_version(session: SparkSession, path: str) -> int | None:
    """The oldest version whose commit is still in the log."""
    fs, folder = file_system(session, f"{path}/_delta_log")
    names = (str(status.getPath().getName()) for status in fs.listStatus(folder))
    return min((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=None)


@dataclass(frozen=True)
class HadoopFolder:
    """A table's folder ``_delta_log`` as a :class:`~..planning.table_log.LogFolder`."""

    session: SparkSession
    path: str

    def names(self, folder: str = "") -> list[str]:
        fs, place = file_system(self.session, f"{self.path}/{folder}")
        return [str(status.getPath().getName()) for status in fs.listStatus(place)] if fs.exists(place) else []

    def text(self, name: str) -> str:
        text = _text(self.session, f"{self.path}/{name}")
        if text is None:
            raise InDoubtError(f"{self.path}/{name} is not there")
        return text

    def id_by_reader(self) -> str | None:
        return None


def layout_of(types: Mapping[str, str], schema: StructType, partition_columns: Iterable[str]) -> Layout:
    """How a table's log speaks of some of its columns.

    :param types: by column, its Spark type
    :param schema: the table's, in Delta's own form
    """
    partitions = {name.lower() for name in partition_columns}
    return Layout(
        types=types,
        partition_columns=frozenset(name for name in types if name.lower() in partitions),
        physical={field.name: field.metadata[PHYSICAL_NAME] for field in schema if PHYSICAL_NAME in field.metadata},
    )


def layout_of_frame(frame: DataFrame, types: Mapping[str, str]) -> Layout:
    """The same of the one Delta table that a frame reads."""
    (leaf,) = (n for n in walk(frame._jdf.queryExecution().analyzed()) if class_name(n) == "LogicalRelation")
    metadata = leaf.relation().location().metadata()
    return layout_of(types, schema_of(metadata), seq(metadata.partitionColumns()))


def commit_text(session: SparkSession, path: str, version: int) -> str | None:
    """The JSON file of one commit, or None where there is none (any more)."""
    return _text(session, f"{path}/_delta_log/{version:020d}.json")


def _text(session: SparkSession, path: str) -> str | None:
    fs, file = file_system(session, path)
    if not fs.exists(file):
        return None
    jvm = session._jvm
    assert jvm is not None
    stream = fs.open(file)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
