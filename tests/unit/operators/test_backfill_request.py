"""What people type is data: read, checked, and refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, PredicateError, RequestError
from airflow_provider_replacewhere.operators.asked import Asked, check_asked
from airflow_provider_replacewhere.operators.backfill_request import FIELDS, only_part, read_backfill
from airflow_provider_replacewhere.operators.definition import Definition, define
from airflow_provider_replacewhere.planning.chunking import Chunk, Chunking
from airflow_provider_replacewhere.planning.request import Override
from airflow_provider_replacewhere.predicates import columns_of, parse

TWO = "".join(
    f"CREATE STREAMING TABLE {name} FLOW REPLACE WHERE d >= current_date() BY NAME SELECT d, n FROM rides;"
    for name in ("daily", "weekly")
)


def definition(text: str = TWO) -> Definition:
    return define(text, {}, folders=["."], time_zone="UTC", null_keys=None)


def asked(values: dict[str, Any], text: str = TWO) -> Asked:
    found = read_backfill(dict.fromkeys(FIELDS) | values, definition(text))
    check_asked(found, definition(text))
    return found


INJECTIONS = {
    "a second statement": "1=1; DROP TABLE rides",
    "a second statement after a column": "d = d; DROP TABLE rides",
    "no column": "1=1",
    "a subquery": "d IN (SELECT d FROM secrets)",
    "exists": "EXISTS (SELECT 1 FROM secrets)",
    "an open comment": "d = DATE '2026-01-01' /* ",
    "a comment with a statement": "d = DATE '2026-01-01' */ ; DROP TABLE rides /*",
    "an open quote": "d = '2026-01-01",
    "a quote trick": "d = '2026-01-01' OR '1'='1' UNION SELECT",
    "a function that runs code": "java_method('java.lang.Runtime', 'getRuntime') = d",
    "a function of our own": "my_udf(d)",
    "the next clause": "d = DATE '2026-01-01' BY NAME SELECT * FROM secrets",
    "an aggregate": "max(d) > DATE '2026-01-01'",
    "nothing": "  ",
}


@pytest.mark.parametrize("name", sorted(INJECTIONS))
def test_a_predicate_that_is_more_than_one_is_refused(name: str) -> None:
    with pytest.raises(PredicateError, match="override of daily"):
        asked({"overrides": [{"flow_name": "daily", "predicate_override": INJECTIONS[name]}]})


@pytest.mark.parametrize("text", sorted(text for text in INJECTIONS.values() if text.strip()))
def test_text_in_a_bound_stays_a_string_and_a_column_one_name(text: str) -> None:
    (override,) = asked({"flow_name": "daily", "equals": {text: text}}).overrides

    assert columns_of(parse(override.predicate_override)) == (text.strip(),)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"overrides": [{"flow_name": "nope", "predicate_override": "d > 1"}]}, "Its flows are daily, weekly."),
        ({"overrides": [{"flow": "daily"}]}, "One of the overrides is {'flow': 'daily'}."),
        ({"overrides": "d > 1"}, "overrides is 'd > 1', which is no JSON."),
        ({"overrides": 5}, "overrides is 5."),
        (
            {"overrides": [{"flow_name": "daily", "predicate_override": "d > 1"}] * 2},
            "The flow daily has two overrides.",
        ),
        (
            {"overrides": [{"flow_name": "daily", "predicate_override": "d > 1"}], "refresh_selection": ["weekly"]},
            "refresh_selection leaves its table daily out",
        ),
        ({"refresh_selection": ["nope"]}, "Its tables are daily, weekly."),
        ({"refresh_selection": [1]}, "refresh_selection is [1]."),
        ({"column": "d", "start": "2026-01-01"}, "Bounds are given, but not for which flow."),
        ({"flow_name": "nope"}, "Its flows are daily, weekly."),
        ({"flow_name": "daily", "start": 1}, "no column"),
        ({"flow_name": "daily", "column": "d", "start": "2026-01-02", "end": "2026-01-02"}, "is empty"),
        ({"flow_name": "daily", "column": "d", "start": "2026-01-02", "end": 5}, "of different kinds"),
        ({"flow_name": "daily", "column": "d", "start": "soon", "column_type": "date"}, "start is 'soon'"),
        ({"flow_name": "daily", "column": "d", "start": "1", "column_type": "blob"}, "column_type is 'blob'."),
        ({"statement": "REFRESH STREAMING TABLE rides WHERE d > 1"}, "No flow of this pipeline feeds rides."),
        ({"statement": "DROP TABLE daily"}, "statement:1:"),
        ({"statement": "REFRESH STREAMING TABLE daily; DROP TABLE daily"}, "statement:1:"),
        ({"statement": "SET a = b"}, "something else than REFRESH STREAMING TABLE"),
        ({"statement": "REFRESH STREAMING TABLE daily", "start": 1}, "given in more than one way"),
        ({"dry_run": "perhaps"}, "dry_run is 'perhaps'."),
    ],
)
def test_a_wrong_param_is_refused_in_words(values: dict[str, Any], message: str) -> None:
    with pytest.raises((RequestError, DefinitionError)) as refused:
        asked(values)
    assert message in str(refused.value)


def test_a_pipeline_with_one_flow_needs_no_name() -> None:
    one = TWO.split(";")[0]

    assert asked({"column": "d", "start": "2026-01-01"}, one) == Asked(
        select=("daily",), overrides=(Override("daily", "`d` >= DATE '2026-01-01'"),)
    )


def test_several_statements_refresh_several_tables() -> None:
    statement = "REFRESH STREAMING TABLE daily WHERE d = DATE '2026-01-01' SYNC; REFRESH STREAMING TABLE weekly FULL"

    assert asked({"statement": statement}) == Asked(
        select=("daily", "weekly"),
        overrides=(Override("daily", "d = DATE '2026-01-01'"),),
        full_refresh=("weekly",),
    )


def test_overrides_may_be_typed_as_json_text_and_names_with_commas() -> None:
    found = asked(
        {
            "overrides": '[{"flow_name": "Daily", "predicate_override": "n > 1"}]',
            "refresh_selection": "daily, `weekly`",
        }
    )

    assert found.overrides == (Override("Daily", "n > 1"),)
    assert found.select == ("daily", "`weekly`")


def test_a_full_refresh_of_a_flow_with_an_override_is_a_contradiction() -> None:
    with pytest.raises(RequestError, match="both an override and a full refresh"):
        asked({"column": "d", "start": "2026-01-01", "flow_name": "daily", "full_refresh": "true"})


def test_flows_of_python_files_are_taken_at_their_word(tmp_path: Any) -> None:
    file = tmp_path / "flows.py"
    file.write_text("this is not even run here")
    python = define(str(file), {}, folders=["."], time_zone="UTC", null_keys=None)
    values = dict.fromkeys(FIELDS) | {"flow_name": "revenue", "column": "d", "end": "2026-01-01"}

    found = read_backfill(values, python)
    check_asked(found, python)

    assert found == Asked(select=("revenue",), overrides=(Override("revenue", "`d` < DATE '2026-01-01'"),))
    with pytest.raises(RequestError, match="Name the tables"):
        read_backfill(dict.fromkeys(FIELDS) | {"full_refresh": True}, python)


def test_a_form_may_name_flow_and_column_beforehand() -> None:
    form = {"flow_name": "daily", "column": "d"}

    assert asked(form) == Asked(select=("daily",))
    assert asked(form | {"equals": {"city": "Basel"}}).overrides == (Override("daily", "`city` = 'Basel'"),)
    overrides = [{"flow_name": "weekly", "predicate_override": "n > 1"}]
    assert asked(form | {"overrides": overrides}) == Asked(overrides=(Override("weekly", "n > 1"),))


def test_chunks_come_from_a_form_as_texts() -> None:
    values = {"chunk": "week", "chunk_size": "2", "chunk_order": "newest", "chunk_column": " day "}
    assert asked({**values, "flow_name": "daily"}).chunking == Chunking("week", 2, "day", "newest")
    # A form may have everything but the unit beforehand.
    assert asked({**values, "chunk": "", "flow_name": "daily"}).chunking is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunk": "hour"}, "chunk is 'hour'"),
        ({"chunk": "day", "chunk_size": "many"}, "chunk_size is 'many'"),
        ({"chunk": "day", "chunk_size": 0}, "chunk_size is 0"),
        ({"chunk": "day", "on_chunk_failure": "weep"}, "on_chunk_failure is 'weep'"),
    ],
)
def test_chunks_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        asked({**values, "flow_name": "daily"})


# -- one chunk of a backfill as a task of its own ----------------------------------------------------------------------

PART = {"flow": "daily", "number": 2, "of": 3, "predicate": "(`d` = DATE '2026-01-02')"}
RANGE = {"flow_name": "daily", "column": "d", "start": "2026-01-01", "end": "2026-01-04", "chunk": "day"}


def test_a_part_narrows_what_is_asked_for_and_never_widens_it() -> None:
    whole = asked(RANGE)
    part = only_part(whole, PART, "dag/run/backfill")
    (override,) = part.overrides
    assert override.predicate_override == f"({whole.overrides[0].predicate_override}) AND ({PART['predicate']})"
    assert part.chunking is None
    assert part.chunk == Chunk(2, 3, "dag/run/backfill")
    check_asked(part, definition())


@pytest.mark.parametrize(
    ("part", "values", "found"),
    [
        ({**PART, "predicate": None}, RANGE, "part is "),
        ({}, RANGE, "part is "),
        ("daily", RANGE, "part is 'daily'"),
        ({**PART, "flow": "weekly"}, RANGE, "a chunk of the flow weekly, and a range is asked for of daily"),
        (PART, {}, "a range is asked for of none"),
    ],
)
def test_a_part_that_fits_nothing_is_refused(part: Any, values: dict[str, Any], found: str) -> None:
    with pytest.raises(RequestError, match=found):
        only_part(asked(values), part, "dag/run/backfill")
