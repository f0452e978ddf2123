"""The directory catalog: plain table names for those who run no catalog service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.spark.jvm import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DirectoryCatalog:
    """Maps ``name`` and ``schema.name`` to Delta folders below one root.

    :param root: a folder, as a local path or as any URI that Hadoop's file systems know
    """

    root: str

    def path(self, session: SparkSession, name: TableName) -> str | None:
        """The folder that a name stands for, whether it exists or not; None where the name has more than two parts.

        Names ignore letter case as Spark's do: a folder that is there in another case is the one meant.

        :raises DefinitionError: a part of the name would lead out of the root
        """
        if len(name.parts) > 2:
            return None
        folder = self.root.rstrip("/")
        for part in name.parts:
            if part in ("", ".", "..") or "/" in part or "\\" in part or part.startswith(("_", ".")):
                raise DefinitionError(
                    f"{part!r} in the table name {name} cannot be a folder's name in the directory catalog.",
                    hint="Name tables with letters, digits and underscores, not starting with an underscore; to read a "
                    "folder elsewhere write delta.`/path`.",
                )
            folder = f"{folder}/{_spelled(session, folder, part)}"
        return folder

    def find(self, session: SparkSession, name: TableName) -> str | None:
        """The folder of a table that exists, or None."""
        folder = self.path(session, name)
        return folder if folder is not None and is_delta_table(session, folder) else None


def is_delta_table(session: SparkSession, path: str) -> bool:
    """Whether a folder holds a Delta table with at least one commit."""
    fs, log = file_system(session, f"{path}/_delta_log")
    return bool(fs.exists(log)) and len(fs.listStatus(log)) > 0


def _spelled(session: SparkSession, folder: str, name: str) -> str:
    fs, exact = file_system(session, f"{folder}/{name}")
    if fs.exists(exact):
        return name
    _, parent = file_system(session, folder)
    entries = [str(s.getPath().getName()) for s in fs.listStatus(parent)] if fs.exists(parent) else []
    return next((entry for entry in entries if entry.lower() == name.lower()), name)
