"""The Python dialect, without Spark."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_replacewhere import flows
from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows import Pipeline, check, collecting, order, to_pipeline
from airflow_provider_replacewhere.flows.model import Column, Expectation, OnViolation
from airflow_provider_replacewhere.text import Document

HEAD = "from airflow_provider_replacewhere.flows import decorators as dp\n"


def run(text: str, **names: Any) -> Pipeline:
    document = Document("flows.py", HEAD + text)
    with collecting(document) as declarations:
        exec(compile(document.text, document.name, "exec"), names)
    return to_pipeline(declarations, document, lambda column: f"sql of {column}", time_zone="Asia/Tokyo")


FULL = """
@dp.expect_all_or_drop({"small": "total < 9", "positive": "total > 0"})
@dp.table(
    name="shop.sales",
    replace_where="day >= date_sub(current_date(), 7)",
    comment="Sales",
    partition_cols=["day"],
    table_properties={"replacewhere.nullKeys": "drop", "delta.appendOnly": False},
    schema="day DATE NOT NULL, items ARRAY<STRUCT<id: INT>> COMMENT 'x'",
    spark_conf={"spark.sql.ansi.enabled": True},
    format="delta", private=False,
)
@dp.expect("has day", "day IS NOT NULL")
@dp.expect_or_fail("has id", "id IS NOT NULL")
def sales():
    return 1
"""


def test_every_argument_of_a_table_is_kept() -> None:
    (flow,) = run(FULL).flows
    table = flow.table
    assert (flow.name, flow.target.parts, flow.comment, table.comment) == (
        "shop.sales",
        ("shop", "sales"),
        "Sales",
        "Sales",
    )
    assert table.columns == (
        Column("day", "DATE", nullable=False),
        Column("items", "ARRAY<STRUCT<id: INT>>", comment="x"),
    )
    assert table.expectations == (
        Expectation("small", "total < 9", OnViolation.DROP_ROW),
        Expectation("positive", "total > 0", OnViolation.DROP_ROW),
        Expectation("has day", "day IS NOT NULL", OnViolation.WARN),
        Expectation("has id", "id IS NOT NULL", OnViolation.FAIL_UPDATE),
    )
    assert (table.partitioned_by, table.properties["delta.appendOnly"]) == (("day",), "false")
    assert flow.spark_conf == {"spark.sql.ansi.enabled": "true"}
    assert (flow.null_keys, flow.time_zone) == ("drop", "Asia/Tokyo")
    assert flow.function is not None
    assert flow.function() == 1


def test_a_string_predicate_is_underlined_in_the_file() -> None:
    (flow,) = run(FULL).flows
    assert flow.replace_where.where == "flows.py:6:20"
    assert flow.replace_where.text == "day >= date_sub(current_date(), 7)"
    assert flow.span is not None
    assert flow.span.where == "flows.py:4:1"


def test_a_column_becomes_sql() -> None:
    (flow,) = run("@dp.table(replace_where=column)\n@dp.expect('a', column)\ndef t(): ...", column=3).flows
    assert (flow.replace_where.text, flow.replace_where.document.name) == ("sql of 3", "replace_where of t")
    assert flow.table.expectations[0].condition == "sql of 3"


def test_views_with_and_without_parentheses() -> None:
    pipeline = run(
        "@dp.temporary_view\ndef a(): ...\n"
        "@dp.temporary_view(name='`b c`', comment='x', spark_conf={'k': 1})\ndef b(): ...\n"
        "@dp.view()\ndef c(): ..."
    )
    assert [(view.name.parts, view.comment, view.spark_conf) for view in pipeline.views] == [
        (("a",), None, {}),
        (("b c",), "x", {"k": "1"}),
        (("c",), None, {}),
    ]


def test_a_struct_type_is_read_without_spark() -> None:
    day = SimpleNamespace(
        name="day", nullable=False, metadata={"comment": "c"}, dataType=SimpleNamespace(simpleString=lambda: "date")
    )
    (flow,) = run("@dp.table(replace_where='d', schema=s)\ndef t(): ...", s=SimpleNamespace(fields=[day])).flows
    assert flow.table.columns == (Column("day", "date", nullable=False, comment="c"),)


def test_functions_stay_functions_and_order_follows_their_code() -> None:
    pipeline = run(
        "SOURCE = 'shop.b'\n"
        "def read(): return spark.table(SOURCE)\n"
        "@dp.table(replace_where='d')\ndef c(): return spark.sql('SELECT * FROM v JOIN x')\n"
        "@dp.temporary_view\ndef v(): return (lambda: read())()\n"
        "@dp.table(replace_where='d', name='shop.b')\ndef b(): return spark.table('raw.x').withColumn('shop.b', 1)\n"
    )
    check(pipeline)
    assert [flow.name for flow in order(pipeline)] == ["shop.b", "c"]


ERRORS = [
    ("@dp.table\ndef t(): ...", "flows.py:2:1: @table has no replace_where."),
    ("@dp.table(name='t')\ndef t(): ...", "flows.py:2:1: @table has no replace_where."),
    ("@dp.table(replace_where='d', path='/x')\ndef t(): ...", "flows.py:2:1: @table does not support path."),
    ("@dp.table(replace_where='d', colour='x')\ndef t(): ...", "flows.py:2:1: @table has no argument colour."),
    (
        "@dp.table(replace_where='d', format='csv')\ndef t(): ...",
        "flows.py:2:1: The format of a target is Delta, not csv.",
    ),
    ("@dp.table(replace_where='d', partition_cols='x')\ndef t(): ...", "flows.py:2:1: partition_cols is 'x'."),
    ("@dp.table(replace_where='d', cluster_by=[1])\ndef t(): ...", "flows.py:2:1: cluster_by is [1]."),
    (
        "@dp.table(replace_where='d', cluster_by=['x'], partition_cols=['x'])\ndef t(): ...",
        "flows.py:2:1: A Delta table is either partitioned or clustered.",
    ),
    ("@dp.table(replace_where='d', name='a b')\ndef t(): ...", "flows.py:2:1: The name 'a b' is not a table's name."),
    ("@dp.table(replace_where='d', schema=3)\ndef t(): ...", "The schema of t is a int."),
    ("@dp.table(replace_where='d', schema='a INT b')\ndef t(): ...", "schema of t:1:8: Expected , or ), found b."),
    (
        "@dp.table(replace_where='d', schema='a INT, CONSTRAINT c EXPECT (a)')\ndef t(): ...",
        "The schema of t declares the constraint c.",
    ),
    (
        "@dp.table(replace_where='d', table_properties={'replacewhere.x': 1})\ndef t(): ...",
        "flows.py:2:1: There is no setting replacewhere.x.",
    ),
    ("dp.table(replace_where='d')(3)", "flows.py:2:1: A int is decorated, not a function."),
    ("@dp.temporary_view(name='s.v')\ndef v(): ...", "flows.py:2:1: The view s.v is named with a schema"),
    (
        "@dp.temporary_view\n@dp.expect('a', 'b')\ndef v(): ...",
        "flows.py:2:1: The function v has expectations but is no table.",
    ),
    (
        "x = 1\n@dp.materialized_view\ndef t(): ...",
        "flows.py:3:1: materialized_view declares another kind of flow or table.",
    ),
    ("dp.create_streaming_table('t')", "flows.py:2:1: create_streaming_table declares another kind of flow or table."),
    ("@dp.append_flow(target='t')\ndef t(): ...", "flows.py:2:1: append_flow declares another kind of flow or table."),
    ("dp.create_auto_cdc_flow('t')", "flows.py:2:1: create_auto_cdc_flow declares another kind of flow or table."),
    ("dp.create_sink('t', 'kafka')", "flows.py:2:1: create_sink declares another kind of flow or table."),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_errors_show_the_line(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        run(text)
    assert str(caught.value).startswith(message)
    assert caught.value.hint


def test_a_decorator_outside_a_pipeline_says_how_to_run_the_file() -> None:
    with pytest.raises(DefinitionError, match=r"@table is used outside a pipeline") as caught:
        flows.table(replace_where="d")
    assert "test_decorators.py" in str(caught.value)


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="streaming_view"):
        run("dp.streaming_view")


def test_every_name_of_sparks_own_module_is_known_or_refused() -> None:
    own = {
        "append_flow",
        "create_auto_cdc_flow",
        "create_streaming_table",
        "materialized_view",
        "table",
        "temporary_view",
        "create_sink",
    }
    from airflow_provider_replacewhere.flows import decorators

    assert all(callable(getattr(decorators, name)) for name in own)


def test_importing_the_package_loads_nothing_and_declaring_needs_no_parser_of_sql() -> None:
    program = (
        "import sys, airflow_provider_replacewhere.flows as f; before = set(sys.modules)\n"
        "assert not {'sqlglot', 'pyspark'} & before, before\n"
        "assert not any(name.startswith('airflow_provider_replacewhere.flows.') for name in before)\n"
        "f.Flow, f.parse_sql, f.table, f.collecting\n"
        "assert not {'sqlglot', 'pyspark'} & set(sys.modules)\n"
        "assert all(getattr(f, name) is not None for name in f.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
