"""What people type into a Dag's params, at its worst: refused in a few words, in little time, and never run."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, PredicateError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.operators.asked import MOST_CHARACTERS, Asked, check_asked
from airflow_provider_replacewhere.operators.backfill_request import FIELDS, read_backfill
from airflow_provider_replacewhere.operators.definition import define
from airflow_provider_replacewhere.planning.bounds import Bounds
from airflow_provider_replacewhere.planning.directory import folder_parts
from airflow_provider_replacewhere.predicates import columns_of, parse, parse_predicate

PIPELINE = "CREATE STREAMING TABLE daily FLOW REPLACE WHERE d >= current_date() BY NAME SELECT d, n FROM rides;"
MEGABYTE = 1_000_000


def asked(**values: Any) -> Asked:
    definition = define(PIPELINE, {}, folders=["."], time_zone="UTC", null_keys=None)
    found = read_backfill(dict.fromkeys(FIELDS) | values, definition)
    check_asked(found, definition)
    return found


def override(predicate: str) -> dict[str, Any]:
    return {"overrides": [{"flow_name": "daily", "predicate_override": predicate}]}


@pytest.mark.parametrize(
    "predicate",
    [
        "n = 1 -- and nothing else\n; DROP TABLE daily",
        "n = 1 /* */; DELETE FROM daily",
        "n = 1 --\r OR TRUE; SELECT 1",
        "`n = 1; DROP TABLE daily",
        "n = 1` OR `1` = `1",
        'n = "1',
        "n = 'it\\'",
        "n = 1\0",
        "n = 1 \x1b[2J",
        "\ufeffn = 1",
        "n\u200b = 1",
        "n = 1 \u202e",
        "n = '\ud800'",
        "n = '\\ud800'",
        "n = '\\UFFFFFFFF'",
        "n IN (TABLE daily)",
        "n = (FROM daily SELECT 1)",
        "n = 1 UNION ALL VALUES (1)",
        "n > 1e99999999BD",
        "n > " + "9" * 5_000,
    ],
)
def test_a_predicate_with_more_in_it_than_a_condition_is_refused(predicate: str) -> None:
    with pytest.raises(PredicateError, match=r"override of '?daily") as refused:
        asked(**override(predicate))
    said = str(refused.value)
    assert len(said) < 2_000
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize("text", ["n", ";", "(", "'", "`", "/*", "n = 1 OR ", "1", "\0", " ", "é"])
def test_a_predicate_of_a_megabyte_is_refused_unread(text: str) -> None:
    for values in (override(text * (MEGABYTE // len(text))), {"statement": text * (MEGABYTE // len(text))}):
        with pytest.raises(PredicateError, match=rf"\d+ characters; at most {MOST_CHARACTERS}") as refused:
            asked(**values)
        assert len(str(refused.value)) < 1_000


def test_values_of_a_megabyte_are_refused_and_not_repeated() -> None:
    long = "x" * MEGABYTE
    cases: list[dict[str, Any]] = [
        {"equals": {"n": long}},
        {"equals": {long: 1}},
        {"flow_name": "daily", "column": long, "start": 1},
        {"overrides": long},
        {"overrides": [{long: long}]},
        {"refresh_selection": [{"a": long}]},
        {"dry_run": long},
        {"column": "n", "start": long, "column_type": "date"},
        {"column": "n", "start": 1, "column_type": long},
    ]
    for values in cases:
        with pytest.raises(ReplaceWhereError) as refused:
            asked(**values)
        assert len(str(refused.value)) < 2_000, str(values)[:60]


def test_the_longest_predicate_that_is_read_takes_seconds_not_minutes() -> None:
    predicate = " OR ".join(f"n={2 * number}" for number in range(5_000))
    assert len(predicate) < MOST_CHARACTERS
    asked(**override(predicate))
    region = parse_predicate(predicate, {"n": "int"})
    assert region.contains_row({"n": 9_998})
    assert not region.contains_row({"n": 9_999})


@pytest.mark.parametrize("value", ["1e999999999", "1e-999999999", "9" * 5_000, "0." + "9" * 5_000, "NaN", "Infinity"])
def test_a_number_that_no_column_can_hold_is_refused_before_it_is_written_out(value: str) -> None:
    with pytest.raises(RequestError, match=r"start is .*which is no number"):
        Bounds(column="n", start=value, column_type="number").predicate()


@pytest.mark.parametrize("text", ["1" * 38, "0." + "1" * 37, "-1e20", "12.50"])
def test_numbers_that_a_column_can_hold_pass(text: str) -> None:
    assert parse(Bounds(column="n", start=text, column_type="number").predicate())


def test_halves_of_a_character_that_belong_together_are_one() -> None:
    assert parse("s = '\\ud83d\\ude00'").node == parse("s = '😀'").node


@pytest.mark.parametrize("name", ["`a`; DROP TABLE x", "a\0b", "a\nb", "d) OR (1=1", "d -- ", "d` = 1 OR `d"])
def test_a_column_is_one_name_whatever_it_holds(name: str) -> None:
    predicate = Bounds(column=name, start=1).predicate()
    assert columns_of(parse(predicate)) == (name.strip(),)


@pytest.mark.parametrize(
    "table",
    [
        "../daily",
        "/etc/passwd",
        "delta.`/lake/daily`",
        "`../daily`",
        "daily; DROP TABLE x",
        "daily\0",
        "`d",
    ],
)
def test_a_table_that_is_none_of_the_pipeline_is_refused_however_it_is_spelled(table: str) -> None:
    for values in ({"refresh_selection": [table]}, {"full_refresh": [table]}):
        with pytest.raises((RequestError, DefinitionError)):
            asked(**values)
    with pytest.raises((RequestError, DefinitionError)):
        asked(statement=f"REFRESH STREAMING TABLE {table}")
    with pytest.raises(RequestError, match="no flow of this pipeline"):
        asked(overrides=[{"flow_name": table, "predicate_override": "n = 1"}])


@pytest.mark.parametrize(
    "parts",
    [
        ("..",),
        (".",),
        ("",),
        ("..", "x"),
        ("shop", ".."),
        ("a/b", "c"),
        ("/etc",),
        ("..\\x",),
        ("a\0b",),
        ("a\nb",),
        ("a\x7f",),
        ("_delta_log",),
        (".hidden",),
        ("x" * 256,),
        ("é" * 128,),
    ],
)
def test_no_name_leads_out_of_the_directory_catalog(parts: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError, match="cannot be a folder's name") as refused:
        folder_parts(TableName(parts))
    assert str(refused.value).replace("\n", "").isprintable()


def test_names_that_are_folders_pass() -> None:
    assert folder_parts(TableName(("shop", "été 2026"))) == ("shop", "été 2026")
    assert folder_parts(TableName(("x" * 255,))) == ("x" * 255,)
