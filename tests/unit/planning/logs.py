"""Transaction logs in memory, in Delta's own form, for what reads a log without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_replacewhere.planning.table_log import InDoubtError


def add(path: str = "part-0.parquet", *, data_change: bool = True) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": data_change}}


def remove(path: str = "part-0.parquet", *, data_change: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": data_change}}


def metadata(table_id: str) -> dict[str, Any]:
    return {"metaData": {"id": table_id, "schemaString": "{}", "partitionColumns": [], "configuration": {}}}


@dataclass
class MemoryLog:
    """The folder ``_delta_log`` of a table.

    :param checksums: whether a checksum is written beside each commit, as Spark does and others do not
    :param reader: what a reader of checkpoints would tell of the table's id
    """

    table_id: str
    checksums: bool = True
    reader: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    @classmethod
    def made(cls, table_id: str, **how: Any) -> MemoryLog:
        log = cls(table_id, **how)
        log.commit("CREATE TABLE", metadata(table_id))
        return log

    @property
    def newest(self) -> int:
        return max((int(name[:20]) for name in self.files if name.endswith(".json")), default=-1)

    def commit(self, operation: str, *actions: dict[str, Any]) -> int:
        """Append one commit; returns its version."""
        version = self.newest + 1
        ids = [action["metaData"]["id"] for action in actions if "metaData" in action]
        self.table_id = ids[0] if ids else self.table_id
        info = {"commitInfo": {"operation": operation, "txnId": f"txn of {self.table_id}/{version}"}}
        self.files[f"{version:020d}.json"] = "\n".join(json.dumps(a, separators=(",", ":")) for a in (info, *actions))
        if self.checksums:
            checksum = {"txnId": info["commitInfo"]["txnId"], "metadata": {"id": self.table_id}, "protocol": {}}
            self.files[f"{version:020d}.crc"] = json.dumps(checksum)
        return version

    def append(self) -> int:
        return self.commit("WRITE", add())

    def optimize(self) -> int:
        return self.commit("OPTIMIZE", remove(data_change=False), add(data_change=False))

    def forget(self, *versions: int) -> None:
        """Remove commits, as Delta does behind a checkpoint."""
        for version in versions:
            self.files.pop(f"{version:020d}.json")
            self.files.pop(f"{version:020d}.crc", None)

    # -- as a LogFolder ------------------------------------------------------------------------------------------------

    def names(self, folder: str = "") -> Iterable[str]:
        return list(self.staged if folder else self.files)

    def text(self, name: str) -> str:
        self.read.append(name)
        if name not in self.files:
            raise InDoubtError(f"{name} cannot be read")
        return self.files[name]

    def id_by_reader(self) -> str | None:
        return self.reader
