"""A pipeline of several flows, in SQL and in Python, with one task for each table."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import DAG

from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

# Tables are Delta folders below one root: Variable replacewhere_root, else REPLACEWHERE_ROOT, else below AIRFLOW_HOME.
HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
DEFAULT_ROOT = os.environ.get("REPLACEWHERE_ROOT") or f"{HOME}/replacewhere/tables"
ROOT = f"{{{{ var.value.get('replacewhere_root', '{DEFAULT_ROOT}') }}}}"
# For small data on one machine; leave it out on a cluster.
CONF = {
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
}
WITH_DELTA = CONF | {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

with DAG(
    "example_pipeline",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["example", "replacewhere"],
    doc_md=__doc__,
) as dag:
    data = SparkSubmitOperator(
        task_id="data",
        application=str(Path(__file__).parent / "jobs" / "make_example_data.py"),
        application_args=[ROOT, "{{ (data_interval_end or dag_run.run_after).strftime('%Y-%m-%d') }}"],
        conf=WITH_DELTA,
        name="example-data",
    )

    # [START howto_pipeline]
    def refresh(table: str) -> ReplaceWhereOperator:
        """One table of the pipeline: every task knows all files, and runs the flow of its own table."""
        return ReplaceWhereOperator(
            task_id=table, pipeline="pipelines", refresh_selection=[table], root=ROOT, conf=CONF
        )

    # city_weeks reads daily_rides.
    data >> refresh("daily_rides") >> refresh("city_weeks")
    data >> refresh("station_revenue")
    # [END howto_pipeline]
