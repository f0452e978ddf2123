"""The Python pipelines of the documentation declare what they seem to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.spark.python_files import PipelineSpark, run_file
from airflow_provider_replacewhere.text import Document
from tests.docs import Block, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINES = [block for block in blocks("python") if "@dp.table" in block.text]


@pytest.mark.parametrize("block", PIPELINES, ids=str)
def test_a_python_pipeline_of_the_documentation_runs(block: Block, spark: SparkSession) -> None:
    pipeline = run_file(Document(f"{block.file.stem}.py", block.text), PipelineSpark(spark))
    assert [flow.replace_where.text.count("ride_date") for flow in pipeline.flows] == [1]
