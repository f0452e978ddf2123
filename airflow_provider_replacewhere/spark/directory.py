"""The directory catalog: plain table names for those who run no catalog service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.planning.directory import folder_parts
from airflow_provider_replacewhere.spark.jvm import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DirectoryCatalog:
    """Maps ``name`` and ``schema.name`` to Delta folders below one root.

    :param root: a folder, as an absolute local path or as any URI that Hadoop's file systems know
    :raises RequestError: it is a relative path
    """

    root: str

    def __post_init__(self) -> None:
        if not self.root.startswith("/") and not re.match(r"\w[\w+.-]*:", self.root):
            # Spark takes a relative folder for a table's name in one place, for a folder below its own in another.
            raise RequestError(
                f"The root of the directory catalog is {self.root!r}, a relative path.",
                hint="Give an absolute path, or a URI such as s3a://bucket/tables.",
            )

    def path(self, session: SparkSession, name: TableName) -> str | None:
        """The folder that a name stands for, whether it exists or not; None where it cannot stand for one.

        Names ignore letter case as Spark's do: a folder that is there in another case is the one meant.

        :raises DefinitionError: a part of the name would lead out of the root
        """
        parts = folder_parts(name)
        if parts is None:
            return None
        folder = self.root.rstrip("/")
        for part in parts:
            folder = f"{folder}/{_spelled(session, folder, part)}"
        return folder

    def tables(self, session: SparkSession) -> list[str]:
        """The names of all tables that there are, sorted."""
        found = []
        for name in _folders(session, self.root):
            inner = [f"{name}/{each}" for each in _folders(session, f"{self.root.rstrip('/')}/{name}")]
            found += [each for each in (name, *inner) if is_delta_table(session, f"{self.root.rstrip('/')}/{each}")]
        return [str(TableName(tuple(each.split("/")))) for each in sorted(found)]

    def find(self, session: SparkSession, name: TableName) -> str | None:
        """The folder of a table that exists, or None."""
        folder = self.path(session, name)
        return folder if folder is not None and is_delta_table(session, folder) else None


def is_delta_table(session: SparkSession, path: str) -> bool:
    """Whether a folder holds a Delta table with at least one commit."""
    fs, log = file_system(session, f"{path}/_delta_log")
    return bool(fs.exists(log)) and len(fs.listStatus(log)) > 0


def _folders(session: SparkSession, path: str) -> list[str]:
    fs, place = file_system(session, path)
    entries = fs.listStatus(place) if fs.exists(place) else []
    names = [str(status.getPath().getName()) for status in entries if status.isDirectory()]
    return [name for name in names if not name.startswith(("_", "."))]


def _spelled(session: SparkSession, folder: str, name: str) -> str:
    fs, exact = file_system(session, f"{folder}/{name}")
    if fs.exists(exact):
        return name
    _, parent = file_system(session, folder)
    entries = [str(s.getPath().getName()) for s in fs.listStatus(parent)] if fs.exists(parent) else []
    return next((entry for entry in entries if entry.lower() == name.lower()), name)
