"""What Airflow reads about this provider when it starts. Imports nothing: Airflow is still being imported."""

from __future__ import annotations

from typing import Any

CONNECTION_TYPE = "replacewhere"
HOOK_CLASS = "airflow_provider_replacewhere.hooks.predicate_history.PredicateHistoryHook"
HOOK_NAME = "REPLACE WHERE history"
INTEGRATION = "REPLACE WHERE"

# The connection's form. Airflow reads it here from 3.2 on; the hook's methods give it to earlier versions.
CONNECTION_FIELDS: dict[str, dict[str, Any]] = {
    "backend": {
        "label": "Backend",
        "description": "Where the history is kept: postgresql, mysql or sqlite.",
        "schema": {"type": "string", "enum": ["postgresql", "mysql", "sqlite"], "default": "postgresql"},
    },
    "sslmode": {
        "label": "SSL mode",
        "description": "PostgreSQL only: disable, allow, prefer, require, verify-ca or verify-full.",
        "schema": {"type": ["string", "null"]},
    },
}
HIDDEN_FIELDS = ["extra"]
RELABELING = {"schema": "Database"}
PLACEHOLDERS = {"schema": "database, or for sqlite a file name below AIRFLOW_HOME/replacewhere"}


def get_provider_info() -> dict[str, Any]:
    """The provider as Airflow's ``provider_info.schema.json`` describes one."""
    return {
        "package-name": "airflow-provider-replacewhere",
        "name": "REPLACE WHERE",
        "description": "REPLACE WHERE flows on Spark and Delta Lake: replace exactly the rows that match a predicate.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://airflow-provider-replacewhere.readthedocs.io/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": INTEGRATION,
                "python-modules": [
                    "airflow_provider_replacewhere.operators.replace_where",
                    "airflow_provider_replacewhere.operators.backfill",
                    "airflow_provider_replacewhere.operators.undo",
                ],
            }
        ],
        "hooks": [
            {
                "integration-name": INTEGRATION,
                "python-modules": ["airflow_provider_replacewhere.hooks.predicate_history"],
            }
        ],
        "triggers": [
            {
                "integration-name": INTEGRATION,
                "python-modules": ["airflow_provider_replacewhere.triggers.application"],
            }
        ],
        # Airflow 2 makes the links that it finds in a Dag's record only of classes that are named here.
        "extra-links": [
            "airflow_provider_replacewhere.links.operator_links.TableLink",
            "airflow_provider_replacewhere.links.operator_links.RunLink",
            "airflow_provider_replacewhere.links.operator_links.SparkLink",
        ],
        "cli": ["airflow_provider_replacewhere.commands.get_commands"],
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": HOOK_CLASS,
                "hook-name": HOOK_NAME,
                "conn-fields": CONNECTION_FIELDS,
                "ui-field-behaviour": {
                    "hidden-fields": HIDDEN_FIELDS,
                    "relabeling": RELABELING,
                    "placeholders": PLACEHOLDERS,
                },
            }
        ],
    }
