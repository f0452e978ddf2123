"""The application as Airflow's web server runs it: behind its login, over the ledger of the operators' hook."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from airflow_provider_replacewhere.history.view import HistoryView
from airflow_provider_replacewhere.plugin.app import create_app


def airflow_app() -> FastAPI:
    """Readable for those who may see Airflow's plugins; nothing of it for anybody else."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view

    return create_app(_ledger, [Depends(requires_access_view(AccessView.PLUGINS))])


def _ledger() -> HistoryView:
    # For each request anew: its connection may have been changed meanwhile.
    from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook

    return PredicateHistoryHook().view
