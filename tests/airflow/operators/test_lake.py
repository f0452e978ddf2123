"""Tables that a worker reaches without Spark: names, places, and the two kinds of storage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.operators.lake import WorkerLake
from airflow_provider_replacewhere.planning.table_log import InDoubtError

pytestmark = pytest.mark.matrix

COMMIT = '{"commitInfo": {"operation": "CREATE TABLE", "txnId": "a"}}\n{"metaData": {"id": "id-1"}}\n'
WRITE = '{"commitInfo": {"operation": "WRITE"}}\n{"add": {"path": "p", "dataChange": true}}\n'


def doubt(text: str) -> pytest.RaisesExc[InDoubtError]:
    return pytest.raises(InDoubtError, match=re.escape(text))


def folder(lake: WorkerLake, name: str) -> str:
    return lake.folder(parse_table_name(name))


def local(root: Path) -> WorkerLake:
    return WorkerLake(str(root), is_remote=False)


def make(root: Path, name: str) -> None:
    (root / name / "_delta_log").mkdir(parents=True)
    (root / name / "_delta_log" / f"{0:020d}.json").write_text(COMMIT)


def test_names_are_folders_below_the_root_in_whatever_letter_case(tmp_path: Path) -> None:
    make(tmp_path, "Rides")
    make(tmp_path, "shop/zones")
    lake = local(tmp_path)
    assert folder(lake, "rides") == f"file:{tmp_path}/Rides"
    assert folder(lake, "SHOP.Zones") == f"file:{tmp_path}/shop/zones"
    assert folder(lake, "nowhere") == f"file:{tmp_path}/nowhere"
    assert folder(lake, f"delta.`{tmp_path}//Rides/`") == f"file:{tmp_path}/Rides"
    assert lake.log(folder(lake, "rides"), "rides").newest == 0
    with doubt("there is no Delta log of nowhere"):
        lake.log(folder(lake, "nowhere"), "nowhere")

    make(tmp_path, "rides")
    assert folder(lake, "rides") == f"file:{tmp_path}/rides", "the exact name goes first"
    with doubt("Rides and rides"):
        folder(lake, "RIDES")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.b.c", "a.b.c is a table of Spark's catalog, which cannot be watched from here"),
        ("parquet.`/lake/rides`", "is a table of Spark's catalog"),
        ("`..`", "cannot be a folder's name in the directory catalog"),
        ("delta.`lake/rides`", "lake/rides cannot be looked at from here"),
        ("delta.`hdfs://name/lake/rides`", "hdfs://name/lake/rides cannot be looked at from here"),
        ("delta.`abfss://c@account/rides`", "abfss://c@account/rides cannot be looked at from here"),
        ("delta.`dbfs:/rides`", "dbfs:/rides cannot be looked at from here"),
    ],
)
def test_other_names_are_left_to_spark(tmp_path: Path, name: str, why: str) -> None:
    with doubt(why):
        folder(local(tmp_path), name)


def test_without_a_root_only_paths_are_looked_at(tmp_path: Path) -> None:
    lake = WorkerLake(None, is_remote=False)
    assert folder(lake, f"delta.`{tmp_path}/rides`") == f"file:{tmp_path}/rides"
    with doubt("rides is a table of Spark's catalog"):
        folder(lake, "rides")


def test_local_tables_of_a_driver_elsewhere_are_other_tables(tmp_path: Path) -> None:
    lake = WorkerLake(str(tmp_path), is_remote=True)
    with doubt("lies on the disks of the driver"):
        folder(lake, "rides")
    assert folder(lake, "delta.`s3a://bucket/rides`") == "s3a://bucket/rides"


def test_a_log_that_cannot_be_read_leaves_a_doubt(tmp_path: Path) -> None:
    make(tmp_path, "rides")
    (tmp_path / "rides" / "_delta_log" / f"{1:020d}.json").write_bytes(b"\xff\xfe")
    with doubt("cannot be read"):
        local(tmp_path).log(f"file:{tmp_path}/rides", "rides").first_change(0)
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "_delta_log").write_text("")
    with doubt("cannot be listed"):
        local(tmp_path).log(f"file:{tmp_path}/file", "file")


def test_a_store_without_its_provider_leaves_a_doubt(airflow_home: Path) -> None:
    lake = WorkerLake("gs://bucket/lake", is_remote=False)
    with doubt("gs://bucket/lake cannot be "):
        folder(lake, "rides")


def require_paths_of_stores() -> None:
    """The releases of universal-pathlib that some Airflow lines resolve to refuse the paths of stores."""
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    if not hasattr(ObjectStoragePath, "conn_id"):
        pytest.skip("Airflow 2 keeps the connection of a path elsewhere")
    try:
        ObjectStoragePath("s3a://bucket/lake")
    except TypeError as error:
        pytest.skip(str(error))


@pytest.fixture
def bucket(airflow_home: Path) -> Iterator[Callable[[str, str], None]]:
    """A stand-in for S3: keeps what is put into it, and listings for as long as nobody has them forgotten."""
    from airflow.providers.common.compat.sdk import ObjectStoragePath
    from fsspec.implementations.memory import MemoryFileSystem

    require_paths_of_stores()

    class Bucket(MemoryFileSystem):
        protocol = "s3a"
        store: dict[str, Any] = {}  # noqa: RUF012  (as fsspec has it)
        pseudo_dirs = [""]  # noqa: RUF012
        listings: dict[str, Any] = {}  # noqa: RUF012

        def ls(self, path: str, detail: bool = True, **more: Any) -> Any:
            key = f"{path} {detail}"
            if key not in self.listings:
                self.listings[key] = super().ls(path, detail=detail, **more)
            return self.listings[key]

        def invalidate_cache(self, path: str | None = None) -> None:
            self.listings.clear()

    store = Bucket()
    patch = pytest.MonkeyPatch()
    patch.setattr(ObjectStoragePath, "fs", property(lambda _: store))

    def put(path: str, text: str) -> None:
        store.pipe(f"/bucket/{path}", text.encode())

    yield put
    patch.undo()


def test_tables_in_a_store_are_read_as_they_are_now(bucket: Callable[[str, str], None]) -> None:
    root, log = "s3a://bucket/lake", "lake/Rides/_delta_log"
    bucket(f"{log}/{0:020d}.json", COMMIT)
    bucket(f"{log}/{0:020d}.crc", json.dumps({"txnId": "a", "metadata": {"id": "id-1"}}))

    def look() -> Any:
        lake = WorkerLake(root, is_remote=True)
        assert folder(lake, "rides") == f"{root}/Rides"
        return lake.log(f"{root}/Rides", "rides")

    table = look()
    table.require_identity("id-1")
    assert (table.newest, table.first_change(0)) == (0, None)

    bucket(f"{log}/{1:020d}.json", WRITE)
    change = look().first_change(0)
    assert change is not None
    assert (change.version, change.operation) == (1, "WRITE")

    bucket(f"{log}/_staged_commits/{2:020d}.uuid.json", WRITE)
    with doubt("the newest commits of rides are kept by a catalog"):
        look()


def test_the_connection_of_the_exchange_serves_its_own_store() -> None:
    from airflow_provider_replacewhere.operators.lake import _in_store

    require_paths_of_stores()
    assert _in_store("s3a://bucket/x", "s3a://lake@other/exchange").conn_id == "lake"
    assert _in_store("s3a://bucket/x", "gs://lake@other/exchange").conn_id is None
    assert _in_store("s3a://bucket/x", "/tmp/exchange").conn_id is None
    assert _in_store("s3a://bucket/x", None).conn_id is None
