"""The chunks of a planned backfill as a list, for tasks that are mapped over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class ListChunks(BaseOperator):
    """Returns the chunks that a plan pushed: Airflow maps tasks over what a task returns, and over nothing else.

    :param plan: the id of the task that planned, a :class:`~..operators.backfill.BackfillOperator` with ``dry_run``
    """

    def __init__(self, *, plan: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """One element for each chunk, as ``part`` takes it."""
        found: list[dict[str, Any]] = context["ti"].xcom_pull(task_ids=self.plan, key="chunks")
        self.log.info("%d chunks", len(found))
        return found
