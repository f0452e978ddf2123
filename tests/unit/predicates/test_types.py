from __future__ import annotations

import pytest

from airflow_provider_replacewhere.predicates.domains import Domain, resolve
from airflow_provider_replacewhere.predicates.types import SparkType, spark_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date", SparkType("date")),
        ("BIGINT", SparkType("bigint")),
        ("long", SparkType("bigint")),
        ("TIMESTAMP_LTZ", SparkType("timestamp")),
        ("decimal(10,2)", SparkType("decimal", (10, 2))),
        ("DECIMAL ( 10 , 2 )", SparkType("decimal", (10, 2))),
        ("numeric", SparkType("decimal", (10, 0))),
        ("varchar(20)", SparkType("varchar", (20,))),
        ("array<struct<a:int>>", SparkType("array")),
        ("map<string,array<int>>", SparkType("map")),
        ("string collate UTF8_LCASE", SparkType("collated string")),
        ("struct<a:int,b:string>", SparkType("struct", fields=(("a", SparkType("int")), ("b", SparkType("string"))))),
        (
            "STRUCT<`a b`: map<string,int>, c: STRUCT<d: DATE NOT NULL COMMENT x> >",
            SparkType(
                "struct",
                fields=(("a b", SparkType("map")), ("c", SparkType("struct", fields=(("d", SparkType("date")),)))),
            ),
        ),
        ("", SparkType("unknown")),
    ],
)
def test_a_type_is_read_from_what_spark_prints(text: str, expected: SparkType) -> None:
    assert spark_type(text) == expected


@pytest.mark.parametrize("text", ["string collate UTF8_LCASE", "char(4)", "array<int>", "interval day", "variant"])
def test_a_type_with_rules_of_its_own_has_no_order_here(text: str) -> None:
    assert not Domain.of(text).is_ordered


def test_a_collated_field_of_a_struct_has_no_order_either() -> None:
    found = resolve(("ST", "A"), {"st": "struct<a:string collate UNICODE,b:string>"})
    assert found == (("st", "a"), Domain("other"))
