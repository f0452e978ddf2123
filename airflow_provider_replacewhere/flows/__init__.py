"""What a user declares: flows in SQL, in Python or as arguments. Pure Python.

Names are imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_replacewhere.flows.alias import unqualify
    from airflow_provider_replacewhere.flows.checks import check
    from airflow_provider_replacewhere.flows.declarations import Declarations, to_pipeline
    from airflow_provider_replacewhere.flows.decorators import (
        collecting,
        expect,
        expect_all,
        expect_all_or_drop,
        expect_all_or_fail,
        expect_or_drop,
        expect_or_fail,
        table,
        temporary_view,
    )
    from airflow_provider_replacewhere.flows.lint import LintWarning
    from airflow_provider_replacewhere.flows.model import Flow, Pipeline, Table, TableName, View
    from airflow_provider_replacewhere.flows.names import parse_table_name
    from airflow_provider_replacewhere.flows.pipeline import combine, flow_from_arguments, load_pipeline
    from airflow_provider_replacewhere.flows.reads import order, references
    from airflow_provider_replacewhere.flows.sql import parse_sql

__all__ = [
    "Declarations",
    "Flow",
    "LintWarning",
    "Pipeline",
    "Table",
    "TableName",
    "View",
    "check",
    "collecting",
    "combine",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "flow_from_arguments",
    "load_pipeline",
    "order",
    "parse_sql",
    "parse_table_name",
    "references",
    "table",
    "temporary_view",
    "to_pipeline",
    "unqualify",
]
_HOME = {
    **dict.fromkeys(("Flow", "Pipeline", "Table", "TableName", "View"), "model"),
    **dict.fromkeys(("combine", "flow_from_arguments", "load_pipeline"), "pipeline"),
    **dict.fromkeys(("order", "references"), "reads"),
    **dict.fromkeys(("Declarations", "to_pipeline"), "declarations"),
    **dict.fromkeys(("collecting", "expect", "expect_all", "expect_all_or_drop", "expect_all_or_fail"), "decorators"),
    **dict.fromkeys(("expect_or_drop", "expect_or_fail", "table", "temporary_view"), "decorators"),
    "check": "checks",
    "LintWarning": "lint",
    "unqualify": "alias",
    "parse_sql": "sql",
    "parse_table_name": "names",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
