"""A stage whose Spark applications run on a YARN."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.chaos.stage import Stage
from tests.cluster import spark_home
from tests.yarn import Yarn


def stage_on(yarn: Yarn, folder: Path, **more: Any) -> Stage:
    """A stage whose drivers run on YARN.

    :param more: arguments of the operator
    """
    for name in ("staging", "exchange", "stage"):
        (folder / name).mkdir()
    connection = {
        "conn_type": "spark",
        "host": "yarn",
        "extra": {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.address},
    }
    conf = {
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": str(folder / "staging"),
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.yarn.maxAppAttempts": "1",
        "spark.executor.instances": "1",
    }
    arguments = {
        "conn_id": "spark_yarn",
        "exchange": str(folder / "exchange"),
        "yarn_track_via_rm_api": True,
        "driver_memory": "640m",
        "executor_memory": "512m",
        "executor_cores": 1,
        **more,
    }
    return Stage.create(
        folder / "stage",
        conf,
        arguments,
        faulty_drivers=False,
        AIRFLOW_CONN_SPARK_YARN=json.dumps(connection),
        HADOOP_CONF_DIR=str(yarn.configuration),
    )
