from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.predicates.nodes import Literal, Value
from airflow_provider_replacewhere.predicates.parse import parse
from airflow_provider_replacewhere.predicates.render import literal, quoted, string, with_null_keys


@given(st.text())
def test_any_string_is_read_back(value: str) -> None:
    assert parse(string(value)).node == Literal("string", value)


@given(st.text(min_size=1))
def test_any_name_is_read_back(name: str) -> None:
    assert parse(quoted(name)).node.parts == (name,)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "type_", "sql"),
    [
        (None, "date", "CAST(NULL AS DATE)"),
        (None, "null", "NULL"),
        (True, "boolean", "TRUE"),
        (-1, "date", "DATE '1969-12-31'"),
        (2_932_896, "date", "DATE '9999-12-31'"),
        (-1, "timestamp", "TIMESTAMP '1969-12-31T23:59:59.999999Z'"),
        (1_500_000, "timestamp_ntz", "TIMESTAMP_NTZ '1970-01-01 00:00:01.5'"),
        (7, "bigint", "7L"),
        (Decimal("1E+3"), "decimal(10,2)", "1000BD"),
        (Decimal("0.00"), "decimal", "0.00BD"),
        (float("nan"), "double", "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "float", "CAST('-Infinity' AS FLOAT)"),
        (1e300, "double", "1e+300D"),
        (-0.0, "double", "-0.0D"),
        (b"\x00\xff", "binary", "X'00FF'"),
    ],
)
def test_a_literal_names_its_type(value: Value, type_: str, sql: str) -> None:
    assert literal(value, type_) == sql


@pytest.mark.parametrize(("value", "type_"), [("x", "int"), (1, "string"), (True, "int"), (1, "array")])
def test_a_value_of_another_type_is_refused(value: Value, type_: str) -> None:
    with pytest.raises(ValueError, match="no value of type"):
        literal(value, type_)


def test_null_keys_join_the_window() -> None:
    assert with_null_keys("(`d` > 1)", ["d"]) == "((`d` > 1)) OR (`d` IS NULL)"
    assert with_null_keys("(`st`.`a` > 1)", ["st"]) == "((`st`.`a` > 1)) OR (`st`.`a` IS NULL)"
    both = "((`st`.`a` > 1) AND (`st`.`b` > 1))"
    assert with_null_keys(both, ["st"]) == f"({both}) OR (({both}) IS NULL)"
    assert with_null_keys("(`d` > `e`)", ["d", "e"]) == "((`d` > `e`)) OR (((`d` > `e`)) IS NULL)"
