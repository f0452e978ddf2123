"""Work around a start-up race of ``dag.test`` in Airflow 3.0 to 3.2."""

from __future__ import annotations

import os
import secrets
import time

START_LIMIT = 120.0


def start_execution_api() -> None:
    """Start the in-process Execution API once, wait until it can answer, and let every later task use it.

    ``dag.test`` makes one per task and sends the first request without waiting for its start-up, so that on a busy
    machine tasks fail for want of ``svcs_registry``. Does nothing on Airflow 2, which has no such API.
    """
    try:
        from airflow.sdk.execution_time import supervisor
    except ImportError:
        return
    # Up to 3.2 the start-up makes a token validator, and in a home that has no secret it ends without a word.
    os.environ.setdefault("AIRFLOW__API_AUTH__JWT_SECRET", secrets.token_hex(64))
    api = supervisor.in_process_api_server()
    _ = api.transport  # the property starts the application
    deadline = time.monotonic() + START_LIMIT
    while not hasattr(api.app.state, "svcs_registry"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"Airflow's in-process Execution API did not start in {START_LIMIT:.0f} s")
        time.sleep(0.05)
    supervisor.in_process_api_server = lambda: api  # type: ignore[assignment]
