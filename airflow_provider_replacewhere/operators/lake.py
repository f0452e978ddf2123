"""Delta tables as a worker sees them: folders on its own disks and in object stores, looked at without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.planning.directory import folder_parts, place
from airflow_provider_replacewhere.planning.table_log import InDoubtError, LogFolder, TableLog

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_replacewhere.flows.model import TableName

# Stores whose names mean the same to Hadoop and to Airflow. In those of Azure the account is a part of the name for the
# one and of the connection for the other; that of HDFS would start a JVM.
STORES = ("s3", "s3a", "s3n", "gs")


class WorkerLake:
    """The tables that this worker reaches: those below the root of the directory catalog, and those named by path.

    :param root: of the directory catalog; None: all names belong to Spark's catalog
    :param is_remote: whether the driver sees other disks than this worker
    :param exchange: the operator's place of exchange: where it names an Airflow connection, that is used for the same
        store
    """

    def __init__(self, root: str | None, *, is_remote: bool, exchange: str | None = None) -> None:
        self._root = root
        self._is_remote = is_remote
        self._exchange = exchange
        self._logs: dict[str, TableLog] = {}

    def folder(self, name: TableName) -> str:
        """See :class:`~..planning.quick_look.Lake`."""
        if name.is_path:
            return self._reachable(name.parts[1])
        try:
            parts = folder_parts(name) if self._root is not None else None
        except ReplaceWhereError as error:
            raise InDoubtError(error.message) from error
        if parts is None or self._root is None:
            raise InDoubtError(f"{name} is a table of Spark's catalog, which cannot be watched from here")
        folder = self._reachable(self._root)
        for part in parts:
            folder = f"{folder.rstrip('/')}/{self._spelled(folder, part)}"
        return folder

    def log(self, folder: str, name: str) -> TableLog:
        """See :class:`~..planning.quick_look.Lake`."""
        if folder not in self._logs:
            self._logs[folder] = TableLog(name, self._files(f"{folder}/_delta_log"))
        return self._logs[folder]

    def _reachable(self, path: str) -> str:
        folder = place(path)
        scheme, _, rest = folder.partition(":")
        if scheme == "file" and self._is_remote:
            raise InDoubtError(f"{path} lies on the disks of the driver")
        if not rest.startswith("/") or (scheme != "file" and scheme not in STORES):
            raise InDoubtError(f"{path} cannot be looked at from here")
        return folder

    def _spelled(self, folder: str, name: str) -> str:
        """The folder's own spelling of a name: letter case does not matter where only one folder can be meant."""
        names = set(self._files(folder).names())
        if name in names:
            return name
        alike = [found for found in names if found.lower() == name.lower()]
        if len(alike) > 1:
            raise InDoubtError(f"{' and '.join(sorted(alike))} in {folder} differ in letter case only")
        return alike[0] if alike else name

    def _files(self, folder: str) -> LogFolder:
        if folder.startswith("file:"):
            return LocalFolder(Path(folder.removeprefix("file:")))
        return StoredFolder(_in_store(folder, self._exchange))


class LocalFolder:
    """A folder on this worker's disks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, folder: str = "") -> Iterable[str]:
        """See :class:`~..planning.table_log.LogFolder`."""
        try:
            with os.scandir(self._path / folder) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InDoubtError(f"{self._path} cannot be listed: {error.strerror}") from error

    def text(self, name: str) -> str:
        """See :class:`~..planning.table_log.LogFolder`."""
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InDoubtError(f"{self._path / name} cannot be read: {error}") from error

    def id_by_reader(self) -> str | None:
        """See :class:`~..planning.table_log.LogFolder`."""
        try:
            # Optional, and slow to import: only where no smaller file tells.
            from deltalake import DeltaTable
        except ImportError:
            return None
        try:
            return str(DeltaTable(str(self._path.parent)).metadata().id)
        except Exception:  # whatever it does not understand
            return None


class StoredFolder:
    """A folder in an object store."""

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path

    def names(self, folder: str = "") -> Iterable[str]:
        """See :class:`~..planning.table_log.LogFolder`."""
        try:
            # Clients keep listings for as long as their process lives, and tables change meanwhile.
            self._path.fs.invalidate_cache()
            here = (self._path / folder if folder else self._path).path
            listed = (str(entry).rstrip("/") for entry in self._path.fs.ls(here, detail=False))
            # Some stores list a folder's own mark too.
            return [entry.rpartition("/")[2] for entry in listed if entry.strip("/") != here.strip("/")]
        except FileNotFoundError:
            return []
        except Exception as error:  # whatever a store's client raises
            raise InDoubtError(f"{self._path} cannot be listed: {error}") from error

    def text(self, name: str) -> str:
        """See :class:`~..planning.table_log.LogFolder`."""
        try:
            # By the file system itself: not every version of the path's own reading uses the connection.
            return bytes(self._path.fs.cat_file((self._path / name).path)).decode("utf-8")
        except Exception as error:  # whatever a store's client raises
            raise InDoubtError(f"{self._path / name} cannot be read: {error}") from error

    def id_by_reader(self) -> str | None:
        """See :class:`~..planning.table_log.LogFolder`; here is no reader that has the connection's credentials."""
        return None


def _in_store(folder: str, exchange: str | None) -> ObjectStoragePath:
    # Brings fsspec along: only where a place is remote.
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    here, there = urlsplit(folder), urlsplit(exchange or "")
    conn_id, separator, _ = there.netloc.rpartition("@")
    own = {"conn_id": conn_id} if separator and here.scheme == there.scheme else {}
    try:
        return ObjectStoragePath(folder, **own)
    except Exception as error:  # no provider for that store, for one
        raise InDoubtError(f"{folder} cannot be looked at from here: {error}") from error
