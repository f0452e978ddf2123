"""The task that runs: which one it is, where its files lie, and how Airflow learns what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.planning.request import Identity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """Errors of ours become those by which Airflow knows whether another try is worth it."""
    try:
        yield
    except ReplaceWhereError as error:
        kind = AirflowException if error.retryable else AirflowFailException
        raise kind(str(error)) from error


def identity_of(context: Context) -> Identity:
    """Which task of which Dag run this is, and which try of it."""
    ti = context["ti"]
    return Identity(ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)


def logical_run_of(context: Context) -> str:
    """What all tries of one task's run have in common; who clears the task, or runs its Dag again, asks for another.

    Clearing raises the number of tries that are allowed at most, which a retry does not. A Dag run that was deleted and
    made again has the same id, but begins at another time.
    """
    ti: Any = context["ti"]
    began = getattr(context.get("dag_run"), "start_date", None)
    parts = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.max_tries, began and began.isoformat())
    return json.dumps(parts)


def folders_of(context: Context) -> list[str]:
    """Where relative paths are looked for, in order."""
    dag: Any = context["dag"]
    searchpath = dag.template_searchpath or ()
    searchpath = [searchpath] if isinstance(searchpath, str) else list(searchpath)
    return list(dict.fromkeys([str(Path(dag.fileloc).parent), *searchpath, str(Path.cwd())]))
