"""Each error of the flow language as a pair of texts: what a user wrote, and exactly what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows import check, parse_sql, unqualify
from airflow_provider_replacewhere.text import Span

FIXTURES = Path(__file__).parents[2] / "fixtures"


def pairs(name: str) -> list[tuple[str, str]]:
    """The cases of a fixture file: input and output, without the comments in front."""
    cases = (FIXTURES / name).read_text(encoding="utf-8").rstrip("\n").split("\n-----\n")
    texts = ("\n".join(line for line in case.split("\n") if not line.startswith("# ")) for case in cases)
    return [(given, expected) for given, expected in (text.split("\n=====\n") for text in texts)]


@pytest.mark.parametrize(("text", "message"), pairs("flow_errors.txt"))
def test_error_shows_the_place_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        check(parse_sql(text, "flow.sql"))
    assert str(caught.value) == message


@pytest.mark.parametrize(("text", "expected"), pairs("flow_aliases.txt"))
def test_source_columns_in_predicates_become_output_columns(text: str, expected: str) -> None:
    predicate, query = text.split("\n")
    try:
        found = unqualify(Span.of(predicate, "predicate"), Span.of(query, "query"))
    except DefinitionError as error:
        found = str(error)
    assert found == expected


def test_alias_error_underlines_the_column_in_the_file() -> None:
    (flow,) = parse_sql(
        "CREATE STREAMING TABLE t\nFLOW REPLACE WHERE x = 1 AND r.d > 1 BY NAME\nSELECT r.x FROM rides r", "t.sql"
    ).flows
    assert flow.query is not None
    with pytest.raises(DefinitionError) as caught:
        unqualify(flow.replace_where, flow.query)
    assert str(caught.value).splitlines()[:3] == [
        "t.sql:2:30: The query does not give r.d.",
        "  2 | FLOW REPLACE WHERE x = 1 AND r.d > 1 BY NAME",
        "    |                              ^^^",
    ]
