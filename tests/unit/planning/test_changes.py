"""What a commit's JSON says, line by line, as Delta writes it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_replacewhere.planning.changes import LogCommit, foreign, parse_commit

ADD = {
    "path": "d=2026-03-01/part-00000-5e1c%20x.c000.snappy.parquet",
    "partitionValues": {"d": "2026-03-01"},
    "size": 683,
    "modificationTime": 1772323200000,
    "dataChange": True,
    "stats": '{"numRecords":2,"minValues":{"n":1.10},"maxValues":{"n":2.5},"nullCount":{"n":0}}',
}
REMOVE = {
    "path": "d=2026-03-01/part-00000-old.c000.snappy.parquet",
    "deletionTimestamp": 1772323200000,
    "dataChange": True,
    "extendedFileMetadata": True,
    "partitionValues": {"d": None},
    "size": 683,
}
METADATA = {"id": "7f0e", "format": {"provider": "parquet"}, "schemaString": "{}", "partitionColumns": ["d"]}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def commit(operation: str, *actions: dict[str, Any], **info: Any) -> LogCommit:
    first = {"commitInfo": {"timestamp": 1, "operation": operation, "operationParameters": {}, **info}}
    return parse_commit(7, "\n".join(json.dumps(action) for action in (first, *actions)) + "\n")


def add(**changes: Any) -> dict[str, Any]:
    return {"add": ADD | changes}


def remove(**changes: Any) -> dict[str, Any]:
    return {"remove": REMOVE | changes}


def test_a_write_has_the_files_that_it_added_and_removed() -> None:
    found = commit("WRITE", add(), remove(), {"txn": {"appId": "x", "version": 1}}, userMetadata="{}")
    assert (found.version, found.operation) == (7, "WRITE")
    assert [file.path for file in found.added] == [ADD["path"]]
    assert found.added[0].partition_values == {"d": "2026-03-01"}
    assert found.removed[0].partition_values == {"d": None}
    assert found.removed[0].stats is None
    assert found.changes_rows
    assert not found.changes_metadata
    assert not found.replaces_table


def test_a_bound_is_not_rounded_on_its_way() -> None:
    stats = '{"numRecords":1,"minValues":{"n":12345678901234567890.123456789}}'
    found = commit("WRITE", add(stats=stats)).added[0].stats
    assert found is not None
    assert found["minValues"]["n"] == Decimal("12345678901234567890.123456789")


@pytest.mark.parametrize("operation", ["OPTIMIZE", "REORG", "ROW TRACKING BACKFILL", "COMPUTE STATS"])
def test_files_that_were_only_moved_are_no_change(operation: str) -> None:
    found = commit(operation, add(dataChange=False), remove(dataChange=False))
    assert not found.changes_rows
    assert not found.replaces_table
    assert foreign([found], frozenset()) == ()


@pytest.mark.parametrize("operation", ["VACUUM START", "VACUUM END"])
def test_vacuum_is_no_change(operation: str) -> None:
    found = commit(operation)
    assert not found.changes_rows
    assert not found.changes_metadata
    assert foreign([found], frozenset()) == ()


@pytest.mark.parametrize(
    "operation",
    ["RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT",
     "REPLACE TABLE AS SELECT", "TRUNCATE", "CONVERT", "restore"],
)  # fmt: skip
def test_operations_that_put_another_table_in_its_place(operation: str) -> None:
    found = commit(operation, {"metaData": METADATA})
    assert found.replaces_table
    assert foreign([found], frozenset()) == (found,)


@pytest.mark.parametrize(
    "operation", ["SET TBLPROPERTIES", "ADD COLUMNS", "ADD CONSTRAINT", "UPGRADE PROTOCOL", "CLUSTER BY"]
)
def test_a_new_description_that_changes_no_row(operation: str) -> None:
    found = commit(operation, {"metaData": METADATA}, PROTOCOL)
    assert not found.changes_metadata
    assert not found.changes_rows


@pytest.mark.parametrize(
    "operation", ["RENAME COLUMN", "DROP COLUMNS", "CHANGE COLUMN", "REPLACE COLUMNS", "WRITE", ""]
)
def test_a_new_description_that_may_matter(operation: str) -> None:
    assert commit(operation, {"metaData": METADATA}).changes_metadata


def test_an_action_that_does_not_say_whether_it_changes_rows_does() -> None:
    changes = {k: v for k, v in ADD.items() if k != "dataChange"}
    assert commit("WRITE", {"add": changes}).changes_rows
    removed = {k: v for k, v in REMOVE.items() if k != "dataChange"}
    assert commit("WRITE", {"remove": removed}).changes_rows


def test_files_of_the_change_feed_are_not_rows() -> None:
    assert not commit("WRITE", {"cdc": {"path": "_change_data/x", "dataChange": False}}).changes_rows


def test_deletion_vectors_tell_two_states_of_one_file_apart() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    found = commit("DELETE", remove(), add(path=REMOVE["path"], deletionVector=vector))
    assert found.removed[0].path == found.added[0].path
    assert found.removed[0].deletion_vector is None
    assert found.added[0].deletion_vector == "uab^-aqEH.-t@S}K{vb[*k^@4"
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    assert commit("DELETE", add(deletionVector=inline)).added[0].deletion_vector


def test_rows_of_a_file_are_those_that_are_not_deleted_in_it() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    for action, rows in (
        (add(), 2),
        (add(deletionVector={**vector, "cardinality": 1}), 1),
        (add(deletionVector=vector), None),
        (add(stats=None), None),
        (add(stats='{"minValues":{"n":1}}'), None),
    ):
        (file,) = commit("WRITE", action).added
        assert file.rows == rows


@pytest.mark.parametrize("length", range(1, 200, 13))
def test_a_file_that_was_cut_off_is_refused(length: int) -> None:
    text = json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n" + json.dumps(add())
    assert parse_commit(1, text).changes_rows
    with pytest.raises(ValueError, match=r"."):
        parse_commit(1, text[:-length])


@pytest.mark.parametrize("text", ["", "\n\n", "[]", "7", '{"add": null}', '{"add": {"dataChange": true}}', "\0\0\0"])
def test_what_is_no_commit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_commit(1, text)


def test_stats_that_cannot_be_read_are_no_stats() -> None:
    assert commit("WRITE", add(stats='{"numRecords":2,"minVal')).added[0].stats is None
    assert commit("WRITE", add(stats="")).added[0].stats is None
    assert commit("WRITE", add(stats="[1]")).added[0].stats is None


def test_a_commit_of_ours_is_known_by_its_token() -> None:
    mine = commit("WRITE", add(), userMetadata=json.dumps({"replacewhere": {"version": 1, "token": "abc"}}))
    assert mine.token == "abc"
    assert foreign([mine], frozenset({"abc"})) == ()
    assert foreign([mine], frozenset({"other"})) == (mine,)


@pytest.mark.parametrize(
    "metadata", [None, "", "nightly", "7", "null", "[1]", "{}", '{"replacewhere": 3}', '{"replacewhere": {}}']
)
def test_other_metadata_is_no_token(metadata: str | None) -> None:
    theirs = commit("WRITE", add(), userMetadata=metadata)
    assert theirs.token is None
    assert foreign([theirs], frozenset({"None", "", "abc"})) == (theirs,)


def test_foreign_changes_to_the_description_count() -> None:
    renamed = commit("RENAME COLUMN", {"metaData": METADATA})
    assert foreign([renamed], frozenset()) == (renamed,)
