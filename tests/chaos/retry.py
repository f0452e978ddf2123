"""What a scheduler does with a task whose worker was lost, and what a person does who clears it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.models import DagRun
from airflow.models.taskinstance import clear_task_instances
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from tests.airflow_dags import run_task_again
from tests.execution_api import start_execution_api


def try_again(file: Path, logical_date: datetime) -> None:
    """The next try: one more than the last, of as many as were allowed before."""
    _next_try(logical_date, cleared=False)
    start_execution_api()
    run_task_again(file, "daily", logical_date)


def clear(file: Path, logical_date: datetime) -> None:
    """The first try after clearing."""
    _next_try(logical_date, cleared=True)
    start_execution_api()
    run_task_again(file, "daily", logical_date)


def _next_try(logical_date: datetime, *, cleared: bool) -> None:
    with create_session() as session:
        dag_run = session.scalars(
            select(DagRun).where(DagRun.dag_id == "flow", DagRun.logical_date == logical_date)
        ).one()
        (task,) = dag_run.get_task_instances(session=session)
        if cleared:
            # By then the scheduler has noticed that nobody is at work; one that is cleared before counts as a retry.
            task.state = TaskInstanceState.FAILED
            clear_task_instances([task], session)
        task.try_number += 1
