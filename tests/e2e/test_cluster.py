"""A Spark standalone cluster started from the pip package runs Delta jobs of this environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster import SparkCluster, spark_home

DELTA = (
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)
SMALL = ("spark.databricks.delta.snapshotPartitions=2", "spark.sql.shuffle.partitions=2", "spark.ui.enabled=false")
JOB = Path(__file__).with_name("plain") / "job.py"


@pytest.mark.cluster
def test_both_workers_are_alive_and_offer_a_core_each(spark_cluster: SparkCluster) -> None:
    status = spark_cluster.status()
    assert (status["aliveworkers"], status["cores"]) == (2, 2)


@pytest.mark.cluster
def test_a_submitted_job_replaces_rows_of_a_delta_table_on_the_workers(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    settings = [part for setting in (*DELTA, *SMALL) for part in ("--conf", setting)]
    memory = ["--driver-memory", "512m", "--executor-memory", "768m"]
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", spark_cluster.master, *settings, *memory]
    done = subprocess.run(
        [*submit, str(JOB), str(tmp_path)],
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["rows"] == [[0, "before"], [1, "after"], [2, "after"], [3, "before"], [4, "before"]]
    assert answer["executors"] == 2
