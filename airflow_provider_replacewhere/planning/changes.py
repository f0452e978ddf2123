"""What the commits of a Delta table say that they changed: read from the transaction log, without a look at the rows.

The format is that of the Delta transaction log protocol (PROTOCOL.md of delta-io/delta).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

# Operations after which nothing that was known of the table's rows holds any more, whatever their files say.
REPLACING_OPERATIONS = ("RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "TRUNCATE", "CONVERT")


# Operations that write a new description of the table which changes no row and no column's place.
HARMLESS_OPERATIONS = (
    "ADD COLUMNS",
    "ADD CONSTRAINT",
    "CLUSTER BY",
    "DROP CONSTRAINT",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "UPGRADE PROTOCOL",
)


@dataclass(frozen=True)
class File:
    """A data file that a commit added or removed.

    :param path: as the log has it, URL-encoded
    :param partition_values: by physical column name, as strings; None is NULL
    :param stats: the file's statistics, or None where the log has none
    :param deletion_vector: identifies the rows that are deleted in the file, or None
    :param size: in bytes; 0 where the log does not tell
    :param action: the log's own action, as JSON values
    """

    path: str
    partition_values: Mapping[str, str | None]
    stats: Mapping[str, Any] | None = None
    deletion_vector: str | None = None
    size: int = 0
    action: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells one set of rows from another: a file, and which of its rows are deleted."""
        return self.path, self.deletion_vector

    @property
    def rows(self) -> int | None:
        """How many rows it holds, those left out that are deleted in it; None where the log does not tell."""
        vector = self.action.get("deletionVector")
        rows, deleted = (self.stats or {}).get("numRecords"), vector.get("cardinality") if vector else 0
        return None if rows is None or deleted is None else int(rows) - int(deleted)


@dataclass(frozen=True)
class LogCommit:
    """One commit of a Delta table, as far as it matters here.

    :param added: files with new or rewritten rows; those that OPTIMIZE only moved are left out
    :param removed: likewise
    :param changes_metadata: whether the table's description changed in a way that may matter
    :param has_change_data: whether it kept the rows that it changed, beside the files that it rewrote
    """

    version: int
    operation: str = ""
    user_metadata: str | None = None
    added: tuple[File, ...] = ()
    removed: tuple[File, ...] = ()
    changes_metadata: bool = False
    has_change_data: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes_rows(self) -> bool:
        """False for OPTIMIZE, VACUUM, changed properties and the like."""
        return bool(self.added or self.removed)

    @property
    def replaces_table(self) -> bool:
        """Whether the commit put another table in the place of the one before."""
        return any(self.operation.upper().startswith(name) for name in REPLACING_OPERATIONS)

    @property
    def touches_table(self) -> bool:
        """Whether anything that was known of the table's rows may not hold any more."""
        return self.changes_rows or self.replaces_table or self.changes_metadata

    @property
    def replaced(self) -> str | None:
        """The condition of the rows that a ``replaceWhere`` commit deleted and wrote; Delta lets it touch no other.

        Delta takes what holds for every row, or is no condition of columns, for an overwrite of the whole table.
        """
        parameters = self.info.get("operationParameters") or {}
        if self.operation != "WRITE" or parameters.get("mode") != "Overwrite" or "readVersion" not in self.info:
            return None
        predicate = parameters.get("predicate")
        return str(predicate) if predicate else None

    @property
    def token(self) -> str | None:
        """The token of the run that wrote the commit, where it was one of ours."""
        return self._said_by_us("token")

    @property
    def replaced_by_us(self) -> str | None:
        """The same of a commit of one of our runs: in canonical form, whose instants name their zone."""
        return self.replaced if self.replaced == self._said_by_us("replaced") else None

    def _said_by_us(self, what: str) -> str | None:
        try:
            return str(json.loads(self.user_metadata or "")["replacewhere"][what])
        except (ValueError, KeyError, TypeError):
            return None


def parse_commit(version: int, text: str) -> LogCommit:
    """The commit of one JSON file of the log.

    :raises ValueError: it is none, or was cut off
    """
    try:
        actions = [json.loads(line) for line in text.split("\n") if line.strip()]
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        added = [_file(action["add"]) for action in actions if _changes_rows(action, "add")]
        removed = [_file(action["remove"]) for action in actions if _changes_rows(action, "remove")]
        changes_metadata = any("metaData" in action for action in actions)
        has_change_data = any("cdc" in action for action in actions)
        operation = str(info.get("operation", ""))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"commit {version} is not in the form of a Delta log: {error}") from error
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError(f"commit {version} holds no actions")
    return LogCommit(
        version=version,
        operation=operation,
        user_metadata=info.get("userMetadata"),
        added=tuple(added),
        removed=tuple(removed),
        changes_metadata=changes_metadata and operation.upper() not in HARMLESS_OPERATIONS,
        has_change_data=has_change_data,
        info=info,
    )


def foreign(commits: Iterable[LogCommit], own: frozenset[str]) -> tuple[LogCommit, ...]:
    """The commits that changed rows or the table itself and were written by none of the runs with these tokens."""
    return tuple(c for c in commits if c.touches_table and c.token not in own)


def net_files(commits: Iterable[LogCommit]) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """The files that some successive commits removed and added, those left out that came and went in between.

    The table after them is the table before, without the rows of the first and with those of the second.
    """
    gone: dict[tuple[str, str | None], File] = {}
    new: dict[tuple[str, str | None], File] = {}
    for commit in commits:
        for file in commit.removed:
            if new.pop(file.key, None) is None:
                gone[file.key] = file
        for file in commit.added:
            if gone.pop(file.key, None) is None:
                new[file.key] = file
    return tuple(gone.values()), tuple(new.values())


def _changes_rows(action: Mapping[str, Any], kind: str) -> bool:
    # Only who says so has merely moved rows.
    return kind in action and action[kind].get("dataChange") is not False


def _file(action: Mapping[str, Any]) -> File:
    vector = action.get("deletionVector")
    return File(
        path=action["path"],
        partition_values=action.get("partitionValues") or {},
        stats=_stats(action.get("stats")),
        deletion_vector=f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else None,
        size=int(action.get("size") or 0),
        action=action,
    )


def _stats(text: str | None) -> Mapping[str, Any] | None:
    try:
        # A DECIMAL's bound must not be rounded on its way through a float.
        found = json.loads(text or "null", parse_float=Decimal)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
