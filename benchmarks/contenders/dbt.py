"""dbt's ``microbatch`` model on the same Spark session: a statement for each day of the window.

Runs in an environment with ``dbt-core`` and ``dbt-spark[session]``; a turn is one ``dbt run`` inside the process.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders.measured import SHAPE, compete
from benchmarks.places import WORK
from benchmarks.sales import AS_OF, FIRST_DAY, WINDOW_START
from benchmarks.sides import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "dbt"


class DbtFailedError(Exception):
    """dbt says that the run failed."""


def project(folder: Path, tables: Path) -> None:
    """A dbt project with one model over the folder's tables."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    files = {
        # Called like none of its models: who selects a model by such a name selects them all.
        "dbt_project.yml": "name: shop\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n",
        "profiles.yml": "shop:\n  target: here\n  outputs:\n    here:\n      type: spark\n      method: session\n"
        f"      host: none\n      schema: {SCHEMA}\n      threads: 1\n",
        "models/sales.yml": "models:\n  - name: sales\n    config: {materialized: view, event_time: day}\n",
        "models/sales.sql": f"SELECT * FROM delta.`{tables / 'sales'}`\n",
        f"models/{SHAPE.target}.sql": "{{ config(materialized='incremental', incremental_strategy='microbatch', "
        f"event_time='day', begin='{FIRST_DAY}', batch_size='day', file_format='delta', partition_by='day') }}}}\n"
        + SHAPE.query.format(sales="{{ ref('sales') }}", products=f"delta.`{tables / 'products'}`"),
    }
    for name, text in files.items():
        (folder / name).write_text(text)


def dbt(spark: SparkSession, root: Path) -> Side:
    from dbt.cli.main import dbtRunner

    folder = WORK / "dbt"
    project(folder, root)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
    runner = dbtRunner()
    places = ["--project-dir", str(folder), "--profiles-dir", str(folder)]

    def run(model: str, *arguments: str) -> None:
        result = runner.invoke(["--quiet", "run", "--select", model, *arguments, *places])
        if not result.success:
            raise DbtFailedError(str(result.exception or [each.message for each in result.result]))

    def refresh() -> str:
        run(SHAPE.target, "--event-time-start", str(WINDOW_START), "--event-time-end", str(AS_OF.date()))
        return f"{(AS_OF.date() - WINDOW_START) // timedelta(days=1)} days, one by one"

    run("sales")
    (database,) = spark.sql(f"DESCRIBE DATABASE {SCHEMA}").where("info_name = 'Location'").collect()
    return Side(Path(database["info_value"].removeprefix("file:")) / SHAPE.target, refresh)


if __name__ == "__main__":
    compete("dbt microbatch", dbt)
