"""A backfill, triggered by hand: the form asks for the range, and the flow recomputes it once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import DAG, Param

from airflow_provider_replacewhere.operators.backfill import BackfillOperator

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
    "example_backfill",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["example", "replacewhere"],
    doc_md=__doc__,
    # [START howto_backfill_form]
    params={
        "flow_name": Param("daily_rides", enum=["daily_rides", "station_revenue"], title="Flow"),
        "column": Param("ride_date", type=["null", "string"], title="Column of the range"),
        "start": Param(None, type=["null", "string"], format="date", title="First day"),
        "end": Param(None, type=["null", "string"], format="date", title="Day behind the last one"),
        "equals": Param(
            None, type=["null", "object"], title="Only rows with", description='Values by column: {"city": "Basel"}'
        ),
        "overrides": Param(
            None,
            type=["null", "array"],
            items={"type": "object"},
            title="Predicates instead of a range",
            description='[{"flow_name": "daily_rides", "predicate_override": "ride_date >= current_date()"}]',
        ),
        "only_stale": Param(False, type="boolean", title="Leave alone what is proven fresh"),
        "dry_run": Param(False, type="boolean", title="Only say what would be done"),
    },
    # [END howto_backfill_form]
) as dag:
    data = SparkSubmitOperator(
        task_id="data",
        application=str(Path(__file__).parent / "jobs" / "make_example_data.py"),
        application_args=[ROOT, "{{ (data_interval_end or dag_run.run_after).strftime('%Y-%m-%d') }}"],
        conf=WITH_DELTA,
        name="example-data",
    )
    # [START howto_backfill]
    # flow_name, start, end, equals, overrides, only_stale and dry_run are left out: they are taken from the form.
    backfill = BackfillOperator(
        task_id="backfill",
        pipeline=["pipelines/daily_rides.sql", "pipelines/station_revenue.py"],
        root=ROOT,
        conf=CONF,
    )
    # [END howto_backfill]

    data >> backfill
