"""Undo one run: put back what it replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.operators.asked import Asked, truth
from airflow_provider_replacewhere.operators.definition import Definition
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator
from airflow_provider_replacewhere.planning.request import FlowArguments, Undo

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_replacewhere.planning.report import RunReport


class UndoOperator(ReplaceWhereOperator):
    """Put the region that one run replaced back as it was before that run, in one commit with a record of its own.

    It is refused where the region was changed since, by a later run or by anybody else, and where the version before is
    gone. The region counts as stale afterwards: the flow's next run recomputes it, so correct the flow first.

    :param run: the run's id, ``<application>/<flow>``, or its number in the history (templated)
    :param force: undo it even where the region was changed since: what was written there is lost then (templated)

    All others are those of :class:`ReplaceWhereOperator`, but for those that define flows.
    """

    template_fields: Sequence[str] = (*ReplaceWhereOperator.template_fields, "run", "force")
    ui_color = "#f2d7d7"

    def __init__(self, *, run: str | int, force: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.force = force

    def _read_definition(self, context: Context) -> Definition:  # noqa: ARG002  (as its parent's)
        # Imported here because no Dag file needs it.
        from airflow_provider_replacewhere.planning.pipeline import flow_of

        if given := [name for name in ("pipeline", "target", "replace_where", "query") if getattr(self, name)]:
            raise RequestError(f"{', '.join(given)} is given.", hint="A run knows its flow: take it away.")
        report = self._report()
        arguments = FlowArguments(report.target, report.replaced or report.window, "SELECT 1")
        flow = replace(flow_of(arguments, report.time_zone, "fail"), name=report.flow)
        return Definition((), None, (flow,), is_complete=True)

    def _read_asked(self, definition: Definition, context: Context) -> Asked:  # noqa: ARG002  (as its parent's)
        undo = Undo(self._report().to_json(), truth("force", self.force))
        return Asked(undo=undo, dry_run=truth("dry_run", self.plan_only))

    def _report(self) -> RunReport:
        return PredicateHistoryHook(self.history_conn_id).report_of(self.run)
