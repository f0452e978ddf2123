"""Fingerprints, and the spelling of places."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.planning.directory import place
from airflow_provider_replacewhere.planning.fingerprint import PARTS, changed, fingerprint

SECRET = "s3cr3t-value"


def test_a_fingerprint_changes_with_every_part_and_shows_none_of_it() -> None:
    parts = {name: {"a": [1, SECRET], "b": None} for name in PARTS}
    before = fingerprint(parts)
    assert SECRET not in before
    assert fingerprint({name: {"b": None, "a": [1, SECRET]} for name in PARTS}) == before, "the order does not count"
    assert changed(before, before) is None
    for name, words in PARTS.items():
        assert changed(before, fingerprint({**parts, name: {"a": [1, "other"], "b": None}})) == words


def test_a_fingerprint_of_another_form_differs() -> None:
    now = fingerprint(dict.fromkeys(PARTS))
    assert changed("abc", now) is not None
    assert changed(f"{now} more:parts", now) is not None


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("/lake/rides", "file:/lake/rides"),
        ("/lake//rides/", "file:/lake/rides"),
        ("file:/lake/rides", "file:/lake/rides"),
        ("file:///lake/rides/", "file:/lake/rides"),
        ("file:///", "file:/"),
        ("/", "file:/"),
        ("s3a://bucket/lake//rides/", "s3a://bucket/lake/rides"),
        ("s3a://bucket", "s3a://bucket/"),
        ("hdfs://name:8020/lake", "hdfs://name:8020/lake"),
        ("dbfs:/lake", "dbfs:/lake"),
        ("lake/rides", "file:lake/rides"),
    ],
)
def test_a_place_is_spelled_as_hadoop_does(path: str, spelled: str) -> None:
    assert place(path) == spelled
    assert place(spelled) == spelled
