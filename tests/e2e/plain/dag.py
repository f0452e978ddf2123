"""A Dag with one plain SparkSubmitOperator, run by ``dag.test``. It knows nothing of our package."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import DAG

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

with DAG("plain", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
    SparkSubmitOperator(
        task_id="job",
        application=str(Path(__file__).with_name("job.py")),
        application_args=[os.environ["ANSWER_FOLDER"]],
        conf=CONF,
    )

if __name__ == "__main__":
    from tests.execution_api import start_execution_api

    start_execution_api()
    sys.exit(dag.test().state != "success")
