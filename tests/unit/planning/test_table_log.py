"""A table's log read without Spark: what proves that nothing changed, and all that leaves a doubt."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from airflow_provider_replacewhere.planning.table_log import MOST_COMMITS, InDoubtError, TableLog
from tests.unit.planning.logs import MemoryLog, add, metadata, remove


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog.made("id-1")
    made.append()
    return made


def doubt(text: str) -> pytest.RaisesExc[InDoubtError]:
    return pytest.raises(InDoubtError, match=re.escape(text))


def test_a_log_without_a_new_commit_is_unchanged_after_three_small_files(log: MemoryLog) -> None:
    for _ in range(200):
        log.append()

    table = TableLog("rides", log)
    table.require_identity("id-1")

    assert table.newest == 201
    assert table.first_change(201) is None
    assert log.read == ["00000000000000000201.crc", "00000000000000000201.json"]


@pytest.mark.parametrize(
    "commit",
    [
        lambda log: log.optimize(),
        lambda log: log.commit("VACUUM START"),
        lambda log: log.commit("VACUUM END"),
        lambda log: log.commit("SET TBLPROPERTIES", metadata("id-1")),
        lambda log: log.commit("CLUSTER BY", metadata("id-1")),
        lambda log: log.commit("ADD CONSTRAINT", metadata("id-1")),
        lambda log: log.commit("STREAMING UPDATE", {"txn": {"appId": "a", "version": 1}}),
        lambda log: log.commit("COMPUTE STATS", add(data_change=False)),
    ],
)
def test_commits_that_change_no_row_are_no_change(log: MemoryLog, commit: object) -> None:
    commit(log)  # type: ignore[operator]
    table = TableLog("rides", log)
    table.require_identity("id-1")
    assert table.newest == 2
    assert table.first_change(1) is None


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("WRITE", add()),
        ("DELETE", remove()),
        ("RESTORE", add()),
        ("RESTORE", {"txn": {"appId": "a", "version": 1}}),
        ("REPLACE TABLE", metadata("id-1")),
        ("CLONE", metadata("id-1")),
        ("RENAME COLUMN", metadata("id-1")),
        ("CHANGE COLUMN", metadata("id-1")),
        ("ADD COLUMNS", metadata("id-1")),
        ("ADD COLUMN", metadata("id-1")),
        ("", metadata("id-1")),
    ],
)
def test_the_first_commit_that_may_matter_is_found(log: MemoryLog, operation: str, action: dict[str, object]) -> None:
    log.optimize()
    log.commit(operation, action)
    log.append()
    change = TableLog("rides", log).first_change(1)
    assert change is not None
    assert (change.version, change.operation) == (3, operation)


def test_a_table_made_anew_in_the_same_folder_is_another_one() -> None:
    for checksums in (True, False):
        anew = MemoryLog.made("id-2", checksums=checksums)
        anew.append()
        anew.optimize()
        table = TableLog("rides", anew)
        with pytest.raises(InDoubtError):
            table.require_identity("id-1")


def test_without_checksums_the_first_commit_tells_and_where_it_is_gone_a_reader_of_checkpoints() -> None:
    log = MemoryLog.made("id-1", checksums=False)
    log.append()
    log.append()
    TableLog("rides", log).require_identity("id-1")

    log.forget(0)
    with doubt("nothing tells whether rides is still the same table"):
        TableLog("rides", log).require_identity("id-1")
    log.reader = "id-2"
    with doubt("rides has been replaced by another table"):
        TableLog("rides", log).require_identity("id-1")
    log.reader = "id-1"
    TableLog("rides", log).require_identity("id-1")


def test_a_table_that_was_replaced_before_it_was_read_is_known_by_its_later_id() -> None:
    log = MemoryLog.made("id-1", checksums=False)
    log.commit("CREATE OR REPLACE TABLE", metadata("id-2"))
    with doubt("nothing tells"):
        TableLog("rides", log).require_identity("id-2")
    log.reader = "id-2"
    TableLog("rides", log).require_identity("id-2")


def test_a_checksum_of_another_commit_of_that_number_tells_nothing(log: MemoryLog) -> None:
    kept = log.files["00000000000000000001.crc"]
    anew = MemoryLog.made("id-2", checksums=False)
    anew.append()
    anew.files["00000000000000000001.crc"] = kept
    with doubt("nothing tells"):
        TableLog("rides", anew).require_identity("id-1")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"txnId": null}', '{"txnId": "txn of id-1/1", "metadata": 3}', "{}"]
)
def test_a_broken_checksum_tells_nothing(log: MemoryLog, text: str) -> None:
    log.files["00000000000000000001.crc"] = text
    log.forget(0)
    with doubt("nothing tells"):
        TableLog("rides", log).require_identity("id-1")


def test_a_table_whose_id_was_never_known_is_in_doubt(log: MemoryLog) -> None:
    with doubt("nothing tells"):
        TableLog("rides", log).require_identity(None)


def test_a_log_that_was_cleaned_behind_the_last_look_is_in_doubt(log: MemoryLog) -> None:
    log.optimize()
    log.optimize()
    log.forget(2)
    with doubt("the log of rides does not reach back to version 1: 2 is gone"):
        TableLog("rides", log).first_change(1)
    assert TableLog("rides", log).first_change(2) is None, "what came before the last look does not matter"


def test_a_log_that_ends_before_the_last_look_is_in_doubt(log: MemoryLog) -> None:
    with doubt("the log of rides ends at version 1, before version 7"):
        TableLog("rides", log).first_change(7)


def test_too_many_commits_are_left_to_spark(log: MemoryLog) -> None:
    for _ in range(MOST_COMMITS):
        log.optimize()
    assert TableLog("rides", log).first_change(1) is None
    log.optimize()
    with doubt(f"rides has had more than {MOST_COMMITS} commits since version 1"):
        TableLog("rides", log).first_change(1)


@pytest.mark.parametrize("text", ["", '{"add"', "[1]", '{"add": {}}', "nonsense"])
def test_a_commit_that_cannot_be_read_is_in_doubt(log: MemoryLog, text: str) -> None:
    log.append()
    log.files["00000000000000000002.json"] = text
    with doubt("version 2 of rides cannot be read"):
        TableLog("rides", log).first_change(1)


def test_a_folder_without_commits_is_no_table() -> None:
    log = MemoryLog("id-1")
    with doubt("there is no Delta log of rides"):
        TableLog("rides", log)
    log.files["_last_checkpoint"] = "{}"
    with doubt("there is no Delta log of rides"):
        TableLog("rides", log)


@pytest.mark.parametrize("ending", ["9.checkpoint.parquet", "9.crc", "0.00000000000000000009.compacted.json"])
def test_files_about_a_version_that_has_no_commit_leave_a_doubt(log: MemoryLog, ending: str) -> None:
    log.files["0" * 19 + ending] = ""
    with doubt("the log of rides mentions version 9, but ends at 1"):
        TableLog("rides", log)


@pytest.mark.parametrize("name", ["_commits", "00000000000000000001.manifest", "1.json", "notes.txt", "_delta_log"])
def test_what_is_not_known_in_a_log_leaves_a_doubt(log: MemoryLog, name: str) -> None:
    log.files[name] = ""
    with doubt(f"the log of rides holds {name}, which is not known here"):
        TableLog("rides", log)


def test_all_that_delta_keeps_beside_its_commits_is_known(log: MemoryLog) -> None:
    for name in (
        ".00000000000000000000.json.crc",
        "00000000000000000000.checkpoint.parquet",
        "00000000000000000000.checkpoint.0000000001.0000000010.parquet",
        f"00000000000000000001.checkpoint.{uuid.UUID(int=7)}.json",
        f"00000000000000000001.checkpoint.{uuid.UUID(int=7)}.parquet",
        "00000000000000000000.00000000000000000001.compacted.json",
        "_last_checkpoint",
        "_last_vacuum_info",
        "_sidecars",
        "_staged_commits",
        f"_commit_{uuid.UUID(int=7)}.json.tmp",
    ):
        log.files[name] = ""
    assert TableLog("rides", log).first_change(1) is None


def test_a_table_whose_commits_a_catalog_keeps_is_in_doubt(log: MemoryLog) -> None:
    log.staged.append("00000000000000000002.uuid.json")
    with doubt("the newest commits of rides are kept by a catalog"):
        TableLog("rides", log)
    log.staged.clear()

    feature = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}
    checksum = json.loads(log.files["00000000000000000001.crc"])
    log.files["00000000000000000001.crc"] = json.dumps({**checksum, **feature})
    with doubt("commits of rides may be kept by a catalog"):
        TableLog("rides", log).require_identity("id-1")

    log.commit("UPGRADE PROTOCOL", feature)
    with doubt("commits of rides may be kept by a catalog"):
        TableLog("rides", log).first_change(1)


def test_what_is_read_once_is_not_read_again(log: MemoryLog) -> None:
    log.optimize()
    table = TableLog("rides", log)
    assert table.first_change(1) is None
    assert table.first_change(1) is None
    assert log.read == ["00000000000000000002.json"]


@pytest.mark.parametrize("form", ["empty", "cut", "blank", "no objects", "nested", "zeros", "wrong parts", "no file"])
def test_a_commit_that_is_damaged_is_in_doubt_and_never_unchanged(log: MemoryLog, form: str) -> None:
    version = log.optimize()
    name = f"{version:020d}.json"
    good = log.files[name]
    damaged = {
        "empty": "",
        "cut": good[: len(good) // 2],
        "blank": "\n \n",
        "no objects": "[]\n5\nnull",
        "nested": '{"add": ' + "[" * 200_000,
        "zeros": "\0" * 4096,
        "wrong parts": '{"commitInfo": 7}\n{"add": []}',
        "no file": good,
    }
    log.files[name] = damaged[form]
    if form == "no file":
        log.forget(version)
        log.files[f"{version:020d}.crc"] = "{}"
    with pytest.raises(InDoubtError):
        TableLog("rides", log).first_change(1)
