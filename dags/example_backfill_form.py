"""A backfill that a person starts from a form, reads the plan of, and approves."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow_provider_replacewhere.dags import backfill_dag

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

# [START howto_backfill_dag]
# Params, a plan, an approval where Airflow can ask for one, and the backfill.
dag = backfill_dag(
    ["pipelines/daily_rides.sql", "pipelines/city_weeks.sql"],
    "example_backfill_form",
    column="ride_date",
    operator={"root": ROOT, "conf": CONF},
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example", "replacewhere"],
    doc_md=__doc__,
)
# [END howto_backfill_dag]
