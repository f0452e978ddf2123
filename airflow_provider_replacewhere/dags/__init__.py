"""Pipelines as Dags: a task for each flow, and a form for backfills.

Names are imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_replacewhere.dags.backfill import backfill_dag
    from airflow_provider_replacewhere.dags.pipeline import replace_where_dag, replace_where_task_group

__all__ = ["backfill_dag", "replace_where_dag", "replace_where_task_group"]

_HOME = {"backfill_dag": "backfill", "replace_where_dag": "pipeline", "replace_where_task_group": "pipeline"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
