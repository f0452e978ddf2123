"""What a user declares: flows in SQL, in Python or as arguments. Pure Python.

Names are imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_replacewhere.flows.model import Flow, Pipeline, Table, TableName, View
    from airflow_provider_replacewhere.flows.sql import parse_sql

_HOME = {
    "Flow": "model",
    "Pipeline": "model",
    "Table": "model",
    "TableName": "model",
    "View": "model",
    "parse_sql": "sql",
}

__all__ = ["Flow", "Pipeline", "Table", "TableName", "View", "parse_sql"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
