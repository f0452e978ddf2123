"""Run a Dag file in a process of its own: ``python -m tests.run_dag FILE ANSWER``, the runs on standard input.

Each run is ``{"logical_date": …, "conf": …, "done": …}``; the last two may be left out. The answer is a JSON list with
state, tasks, values and errors of each.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from importlib import import_module
from inspect import signature
from pathlib import Path

from tests.airflow_dags import run_dag
from tests.execution_api import start_execution_api


def import_users_table() -> None:
    """Let ``dag.test`` replace a run of the same date on Airflow 2.

    It deletes the earlier run, whose notes refer to the table of users, and only Airflow's own commands import that
    table's model: without it, any Dag that Python runs twice ends with NoReferencedTableError. Airflow 3 has no such
    reference.
    """
    import airflow

    if airflow.__version__.startswith("2."):
        import_module("airflow.providers.fab.auth_manager.models")


def start_metrics() -> None:
    """Make Airflow's metrics as they are configured, as a worker does for its task; ``dag.test`` leaves them off.

    Up to 3.1 they are made when they are first used.
    """
    try:
        stats_utils = import_module("airflow.sdk.observability.metrics.stats_utils")
    except ImportError:
        return
    from airflow.providers.common.compat.sdk import Stats

    factory = stats_utils.get_stats_factory
    arguments = {"factory": factory(Stats) if signature(factory).parameters else factory()}
    if "export_legacy_names" in signature(Stats.initialize).parameters:
        arguments["export_legacy_names"] = True
    Stats.initialize(**arguments)


def main() -> None:
    start_metrics()
    start_execution_api()
    import_users_table()
    file, answer = Path(sys.argv[1]), Path(sys.argv[2])
    results = [
        run_dag(file, run.get("conf"), datetime.fromisoformat(run["logical_date"]), run.get("done"))
        for run in json.load(sys.stdin)
    ]
    answer.write_text(
        json.dumps(
            [
                {"state": r.state, "tasks": r.tasks, "values": r.values, "errors": [str(e) for e in r.errors]}
                for r in results
            ]
        )
    )


if __name__ == "__main__":
    main()
