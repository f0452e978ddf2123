"""Asking a person whether a backfill may run. To be imported only where Airflow can ask: 3.1 and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class ApproveBackfill(ApprovalOperator):
    """Waits for a person's approval of the plan, unless the param ``ask`` says that none is needed.

    ``body`` is the plan's text, as the task that planned returns it.
    """

    def execute(self, context: Context) -> Any:
        """Ask, or go on at once."""
        if not context["params"].get("ask", True):
            self.log.info("The form says that nobody need be asked.")
            return None
        # Imported here because it brings the planner, which no Dag file needs.
        from airflow_provider_replacewhere.operators.summary import markdown_of_plan

        self.body = markdown_of_plan(self.body or "")
        return super().execute(context)
