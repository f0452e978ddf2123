"""A pipeline whose Python files are run: only then all its flows are known."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_replacewhere.flows.checks import check
from airflow_provider_replacewhere.flows.model import NullKeys, Pipeline
from airflow_provider_replacewhere.flows.pipeline import combine
from airflow_provider_replacewhere.spark.python_files import PipelineSpark, run_file


def with_python(
    pipeline: Pipeline, spark: PipelineSpark, *, time_zone: str = "UTC", null_keys: NullKeys = "fail"
) -> Pipeline:
    """The whole pipeline, its Python files run, checked as one.

    :param time_zone: IANA name for Python flows that name none
    :param null_keys: policy for Python flows that name none
    :raises DefinitionError: a file fails, or the pipeline cannot be run as it is declared
    """
    run = [run_file(document, spark, time_zone=time_zone, null_keys=null_keys) for document in pipeline.python]
    # Their texts are among the pipeline's documents already.
    whole = combine(replace(pipeline, python=()), *(replace(declared, documents=()) for declared in run))
    check(whole)
    return whole
