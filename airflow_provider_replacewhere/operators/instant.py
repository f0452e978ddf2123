"""Which instant a Dag run is about: the one that all time functions of its flows see."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow_provider_replacewhere.errors import RequestError


def instant_of_run(context: Mapping[str, Any]) -> datetime:
    """The instant of a Dag run; aware, and the same on every retry and after a clear.

    It is the end of the run's data interval; without one the logical date; without that (a run that an asset or a
    person started on Airflow 3) the moment from which the run was allowed to run, and on Airflow 2 its start.

    :raises RequestError: the run has none of them
    """
    dag_run = context.get("dag_run")
    candidates = (
        context.get("data_interval_end"),
        context.get("logical_date"),
        # Not the start: clearing a run gives it a new one, and with it another window.
        getattr(dag_run, "run_after", None),
        getattr(dag_run, "start_date", None),
    )
    for candidate in candidates:
        if candidate is not None:
            return datetime.fromisoformat(candidate.isoformat())
    raise RequestError(
        "The Dag run has neither a data interval, a logical date nor a start.",
        hint="Give the operator as_of, an instant such as 2026-03-10T00:00:00+00:00.",
    )
