from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.tables import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def no_generated_code(spark: SparkSession) -> None:
    """Over tables of a few rows, compiling Java for each query takes longer than the query. The end-to-end tests, and
    those in which things die, run as Spark does for everybody."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")


@pytest.fixture(scope="module", autouse=True)
def no_views_are_left(spark: SparkSession) -> Iterator[None]:
    """Temporary views end with the file whose tests made them: the next file's tables have the same names."""
    yield
    for view in spark.sql("SHOW VIEWS").collect():
        if view.isTemporary:
            spark.catalog.dropTempView(view.viewName)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A directory catalog of the test's own; the space in its name is on purpose."""
    root = tmp_path / "data lake"
    root.mkdir()
    return Lake(spark, root)


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database of Spark's own catalog, empty before and gone afterwards."""
    name = "shop"
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
    spark.sql(f"CREATE DATABASE {name}")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Settings of the caller's session for one test: what a test sets through this is unset afterwards."""

    class _Settings(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            super().__setitem__(key, value)
            before.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    before: dict[str, str | None] = {}
    yield _Settings()
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
