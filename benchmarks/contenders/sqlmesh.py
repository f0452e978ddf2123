"""SQLMesh's ``INCREMENTAL_BY_TIME_RANGE`` model on the same Spark session: the window is restated in one statement.

Runs in an environment with ``sqlmesh``; its state is a DuckDB file.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders.measured import SHAPE, compete
from benchmarks.places import WORK
from benchmarks.sales import AS_OF, WINDOW_START
from benchmarks.sides import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = f"totals.{SHAPE.target}"


def project(folder: Path, tables: Path) -> None:
    """A SQLMesh project with one model over the folder's tables."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    (folder / "config.yaml").write_text(
        "gateways:\n  spark:\n    connection: {type: spark}\n"
        f"    state_connection: {{type: duckdb, database: '{folder / 'state.db'}'}}\n"
        "default_gateway: spark\ndisable_anonymized_analytics: true\n"
        f"model_defaults: {{dialect: spark, start: '{WINDOW_START}'}}\n"
    )
    query = SHAPE.by_hand(tables).replace(" GROUP BY", " WHERE s.day BETWEEN @start_date AND @end_date GROUP BY")
    (folder / "models" / "totals.sql").write_text(
        f"MODEL (name {MODEL}, kind INCREMENTAL_BY_TIME_RANGE (time_column day), table_format delta, "
        f"cron '@daily');\n{query}\n"
    )


def sqlmesh(spark: SparkSession, root: Path) -> Side:
    from sqlmesh import Context

    folder = WORK / "sqlmesh"
    project(folder, root)
    context = Context(paths=str(folder))
    first, last = str(WINDOW_START), str(AS_OF.date() - timedelta(days=1))
    options = {"auto_apply": True, "no_prompts": True, "execution_time": AS_OF.isoformat()}
    context.plan(**options)
    table = context.table_name(MODEL, "prod")
    (detail,) = spark.sql(f"DESCRIBE DETAIL {table}").collect()

    def refresh() -> str:
        context.plan(restate_models=[MODEL], start=first, end=last, **options)
        return "the window, restated"

    return Side(Path(detail["location"].removeprefix("file:")), refresh)


if __name__ == "__main__":
    compete("SQLMesh", sqlmesh)
