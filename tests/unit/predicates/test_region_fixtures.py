"""Pairs of a predicate and the canonical SQL of its region, in ``tests/fixtures/regions.txt``."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.predicates import Region, parse_predicate

COLUMNS = {
    "d": "date",
    "ts": "timestamp",
    "w": "timestamp_ntz",
    "i": "int",
    "n": "bigint",
    "t": "tinyint",
    "p": "decimal(10,2)",
    "x": "double",
    "f": "float",
    "s": "string",
    "b": "boolean",
    "bin": "binary",
    "arr": "array<int>",
    "st": "struct<a:int,b:struct<c:date>>",
    "two words": "int",
    "dotted.name": "int",
    "tick`s": "int",
    "Select": "int",
    "MixedCase": "int",
}


def _pairs() -> list[tuple[str, str, str]]:
    zone, found = "UTC", []
    lines = (Path(__file__).parents[2] / "fixtures" / "regions.txt").read_text(encoding="utf-8").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("-- zone "):
            zone = line.removeprefix("-- zone ")
        if following.startswith("=> "):
            found.append((zone, line, following.removeprefix("=> ")))
    return found


@pytest.mark.parametrize(("zone", "predicate", "expected"), _pairs())
def test_a_predicate_becomes_this_region(zone: str, predicate: str, expected: str) -> None:
    region = parse_predicate(predicate, COLUMNS, zone)
    assert region.to_sql() == expected
    assert parse_predicate(expected, COLUMNS, zone) == region
    assert Region.from_json(region.to_json()) == region
