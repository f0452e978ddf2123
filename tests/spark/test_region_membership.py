"""The rows of a region are the rows that Spark's WHERE gives, for random predicates over all types.

``REPLACEWHERE_PAIRS`` sets how many pairs of predicate and row are tried.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.random_predicates import COLUMNS, PREDICATES, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = rows(100)
ZONES = ("UTC", "America/New_York", "Europe/Berlin")
BATCH = 40
EXAMPLES = max(1, int(os.environ.get("REPLACEWHERE_PAIRS", "24000")) // (len(ZONES) * BATCH * len(ROWS)))


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    names = [f"`{name.replace('`', '``')}` {type_}" for name, type_ in COLUMNS.items()]
    values = [tuple(row[name] for name in COLUMNS) for row in ROWS]
    return spark.createDataFrame(values, ", ".join(names)).coalesce(1).cache()


@pytest.mark.parametrize("zone", ZONES)
def test_membership_here_and_in_spark_is_the_same(spark: SparkSession, table: DataFrame, zone: str) -> None:
    @settings(
        # The first example is always the simplest of all.
        max_examples=EXAMPLES + 1,
        deadline=None,
        derandomize=EXAMPLES < 10,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(PREDICATES, min_size=BATCH, max_size=BATCH, unique=True))
    def check(predicates: list[str]) -> None:
        regions = [parse_predicate(sql, COLUMNS, zone) for sql in predicates]
        columns = []
        for number, (sql, region) in enumerate(zip(predicates, regions, strict=True)):
            columns += [f"({sql}) <=> TRUE AS theirs{number}", f"({region.to_sql()}) <=> TRUE AS rendered{number}"]
        answers = table.selectExpr(*columns).collect()
        wrong = [
            (sql, regions[n].to_sql(), row, f"Spark: {answer[f'theirs{n}']}, rendered: {answer[f'rendered{n}']}")
            for row, answer in zip(ROWS, answers, strict=True)
            for n, sql in enumerate(predicates)
            if answer[f"rendered{n}"] != answer[f"theirs{n}"] or not _agrees(regions[n], row, answer[f"theirs{n}"])
        ]
        assert wrong == []

    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        check()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _agrees(region: Region, row: dict[str, Any], selected: bool) -> bool:
    if region.is_exact:
        return region.contains_row(row) == selected
    inside, outside = region.subset(1000).contains_row(row), not region.hull(1000).contains_row(row)
    return not (inside and not selected) and not (outside and selected)
