"""This package's flow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders.measured import SHAPE, compete
from benchmarks.sales import AS_OF
from benchmarks.sides import Side, ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def flow(spark: SparkSession, root: Path) -> Side:
    from airflow_provider_replacewhere.local import LocalSession

    return ours(LocalSession(spark, root=root), SHAPE.flow(), root, SHAPE.target, AS_OF)


if __name__ == "__main__":
    compete("a flow", flow)
