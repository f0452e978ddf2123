"""A flow as one more task of a Dag that is already there: given as arguments, between plain tasks."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import DAG, task

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
    "example_in_a_dag",
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

    @task
    def check_delivery(root: str) -> None:
        """Whatever the Dag did before."""
        if not Path(root, "rides").is_dir():
            raise FileNotFoundError(f"No rides were delivered to {root}.")

    # [START howto_flow_in_a_dag]
    busy_hours = ReplaceWhereOperator(
        task_id="busy_hours",
        target="busy_hours",
        replace_where="ride_date >= date_sub(current_date(), 7)",
        query="""
            SELECT ride_date, hour(started_at) AS hour, count(*) AS rides
            FROM rides
            GROUP BY ALL
        """,
        cluster_by=["ride_date"],
        root=ROOT,
        conf=CONF,
    )
    # [END howto_flow_in_a_dag]

    @task
    def publish(run: dict) -> str:
        """Whatever the Dag did after; the flow's task returns a summary of its run."""
        done = run["flows"]["busy_hours"]
        return f"{done['rows_written']} rows of {done['target']} are new: {done['window']}"

    data >> check_delivery(ROOT) >> busy_hours
    publish(busy_hours.output)
