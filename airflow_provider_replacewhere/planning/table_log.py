"""A Delta table's transaction log, read without Spark: from a listing and as few of its files as will do.

Whoever reads a log here wants to prove that nothing changed. So whatever is unknown, missing or odd ends the attempt.
The format is that of the Delta transaction log protocol (PROTOCOL.md of delta-io/delta).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit

# Where more commits than these were made since the last look, reading them takes longer than a worker should wait.
MOST_COMMITS = 1_000

STAGED_COMMITS = "_staged_commits"
_KNOWN_NAMES = re.compile(
    r"\d{20}\.(crc|checkpoint(\.[\w-]+)*\.(parquet|json))"
    r"|\d{20}\.\d{20}\.compacted\.json"
    r"|_last_checkpoint|_last_vacuum_info|_sidecars|_staged_commits"
    r"|_commit_[\w-]+\.json\.tmp"  # how delta-rs writes a commit
)
# Marks of tables whose newest commits a catalog keeps. As plain text: found where it means something else, it only
# costs a start of Spark.
_MANAGED = ("catalogManaged", "catalogOwned", "coordinatedCommits")


class InDoubtError(Exception):
    """Only Spark can tell. The text says why, as in "starting Spark: …"."""


class LogFolder(Protocol):
    """A table's folder ``_delta_log``, wherever it lies."""

    def names(self, folder: str = "") -> Iterable[str]:
        """The names of all files and folders in it, or in one of its folders; none where that does not exist.

        :raises InDoubtError: it cannot be listed
        """

    def text(self, name: str) -> str:
        """The content of one file.

        :raises InDoubtError: it cannot be read
        """

    def id_by_reader(self) -> str | None:
        """The table's id as a reader of checkpoints tells it; None where there is no such reader."""


class TableLog:
    """The log of one table, as it was when this was made.

    :param name: what to call the table in words
    :raises InDoubtError: this is no log, or no complete one
    """

    def __init__(self, name: str, folder: LogFolder) -> None:
        self.name = name
        self._folder = folder
        self._names = frozenset(folder.names())
        self._versions, last_mentioned = self._listed()
        if not self._versions:
            raise InDoubtError(f"there is no Delta log of {name}")
        self.newest = max(self._versions)
        if last_mentioned > self.newest:
            raise InDoubtError(f"the log of {name} mentions version {last_mentioned}, but ends at {self.newest}")
        if any(folder.names(STAGED_COMMITS)):
            raise InDoubtError(f"the newest commits of {name} are kept by a catalog")
        self._commits: dict[int, LogCommit] = {}

    def require_identity(self, table_id: str | None) -> None:
        """Make sure that this is still the table of that id.

        :raises InDoubtError: it is another one, or nothing tells
        """
        found = self._id_by_checksum() or self._id_by_first_commit(table_id) or self._folder.id_by_reader()
        if table_id is None or found is None:
            raise InDoubtError(f"nothing tells whether {self.name} is still the same table")
        if found != table_id:
            raise InDoubtError(f"{self.name} has been replaced by another table")

    def first_change(self, since: int) -> LogCommit | None:
        """The first commit after a version that changed rows, columns or the table itself; None where none did.

        :raises InDoubtError: the log does not tell
        """
        if since > self.newest:
            raise InDoubtError(f"the log of {self.name} ends at version {self.newest}, before version {since}")
        if self.newest - since > MOST_COMMITS:
            raise InDoubtError(f"{self.name} has had more than {MOST_COMMITS} commits since version {since}")
        for version in range(since + 1, self.newest + 1):
            if version not in self._versions:
                raise InDoubtError(f"the log of {self.name} does not reach back to version {since}: {version} is gone")
        return next(filter(_may_matter, map(self._commit, range(since + 1, self.newest + 1))), None)

    def commits(self, after: int | None = None) -> Iterator[LogCommit]:
        """The commits after a version, or those before which none is missing, in their order.

        :raises InDoubtError: one of them is gone, or cannot be read
        """
        first = self.newest + 1
        while first - 1 in self._versions and first - 1 != after:
            first -= 1
        if after is not None and first != after + 1:
            raise InDoubtError(f"the log of {self.name} does not reach back to version {after}: {first - 1} is gone")
        return map(self._commit, range(first, self.newest + 1))

    def description(self) -> Mapping[str, Any]:
        """The table's own description as it is now: its id, schema, partition columns.

        :raises InDoubtError: the log does not tell
        """
        found = self._by_checksum()
        version = self.newest
        while found is None and version in self._versions:
            found = next((action["metaData"] for action in _actions(self._text(version), "metaData")), None)
            version -= 1
        if found is None or not {"id", "schemaString"} <= found.keys():
            raise InDoubtError(f"the log of {self.name} does not tell the table's columns")
        return found

    def _listed(self) -> tuple[set[int], int]:
        """The versions whose commits are there, and the highest that any other file is about."""
        versions, mentioned = set(), -1
        for name in self._names:
            if len(name) == 25 and name.endswith(".json") and name[:20].isdigit():
                versions.add(int(name[:20]))
            elif name.startswith("."):
                continue  # checksums of a file system, and files that are still being written
            elif not _KNOWN_NAMES.fullmatch(name):
                raise InDoubtError(f"the log of {self.name} holds {name}, which is not known here")
            elif name[:20].isdigit():
                mentioned = max(mentioned, *map(int, re.findall(r"\b\d{20}\b", name)))
        return versions, mentioned

    def _commit(self, version: int) -> LogCommit:
        if version not in self._commits:
            text = self._text(version)
            try:
                self._commits[version] = parse_commit(version, text)
            except (ValueError, RecursionError) as error:
                raise InDoubtError(f"version {version} of {self.name} cannot be read: {error}") from error
        return self._commits[version]

    def _text(self, version: int) -> str:
        text = self._folder.text(f"{version:020d}.json")
        self._refuse_managed(text)
        return text

    def _refuse_managed(self, text: str) -> None:
        if any(mark in text for mark in _MANAGED):
            raise InDoubtError(f"commits of {self.name} may be kept by a catalog")

    def _id_by_checksum(self) -> str | None:
        found = self._by_checksum()
        return None if found is None or "id" not in found else str(found["id"])

    def _by_checksum(self) -> Mapping[str, Any] | None:
        """The description in the file that Spark writes beside each commit."""
        name = f"{self.newest:020d}.crc"
        if name not in self._names:
            return None
        text = self._folder.text(name)
        self._refuse_managed(text)
        try:
            checksum = json.loads(text)
            info = next(a["commitInfo"] for a in _actions(self._text(self.newest), "commitInfo"))
            # Else it is of another commit that had this number.
            return dict(checksum["metadata"]) if checksum["txnId"] == info["txnId"] else None
        except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
            return None

    def _id_by_first_commit(self, wanted: str | None) -> str | None:
        """The id with which the table was made, if it is the wanted one.

        A table that was dropped and made again begins with an id of its own. One that was replaced later on does not,
        but then the wanted id, which it had after that, is not the first.
        """
        if 0 not in self._versions:
            return None
        try:
            made = next((a["metaData"]["id"] for a in _actions(self._text(0), "metaData")), None)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return wanted if made == wanted else None


def _may_matter(commit: LogCommit) -> bool:
    # New columns change no row, but they change what a * stands for, and whether the query still fits its target.
    return commit.touches_table or commit.operation.upper().startswith("ADD COLUMN")


def _actions(text: str, kind: str) -> Iterable[Mapping[str, Any]]:
    """The actions of one kind in a commit, the others left unparsed."""
    return (json.loads(line) for line in text.split("\n") if line.lstrip()[:40].startswith(f'{{"{kind}"'))
