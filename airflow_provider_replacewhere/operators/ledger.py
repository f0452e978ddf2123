"""One application's entries in the ledger, from its start to its end, however it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_replacewhere.errors import (
    HistoryError,
    HistoryRowError,
    HistorySchemaError,
    ReplaceWhereError,
    SubmitError,
)
from airflow_provider_replacewhere.planning.report import Failure, JobOutcome
from airflow_provider_replacewhere.planning.request import Identity, RunRequest

if TYPE_CHECKING:
    from airflow_provider_replacewhere.flows.model import Flow
    from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
    from airflow_provider_replacewhere.operators.definition import Definition

# How far back the ledger is asked for targets, when a pipeline's Python files keep theirs to themselves.
RECENT_RUNS = 500


@dataclass(frozen=True)
class Slice:
    """As much of the ledger as a plan needs: by target, the report of its last successful run, and its coverage."""

    previous: Mapping[str, Mapping[str, Any]]
    coverage: Mapping[str, Mapping[str, Any]]


class Ledger:
    """The ledger as one task sees it.

    :param identity: the task that asks
    """

    def __init__(self, hook: PredicateHistoryHook, identity: Identity) -> None:
        self._hook = hook
        self.identity = identity
        self._open: dict[str, Failure] = {}

    def slice(self, definition: Definition) -> Slice:
        """What the driver plans with."""
        targets = list(definition.targets)
        if not definition.is_complete:
            targets += [name for name in self._hook.recent_targets(RECENT_RUNS) if name not in targets]
        return Slice(self._hook.last_successful(targets), self._hook.coverage(targets))

    def earlier(self, definition: Definition) -> tuple[Mapping[str, Any], ...]:
        """The reports of earlier tries of this task."""
        if self.identity.try_number is None or self.identity.try_number < 2:
            return ()
        return tuple(self._hook.reports_of(self.identity, definition.targets))

    @contextmanager
    def running(self, request: RunRequest, definition: Definition, *, taken_up: bool = False) -> Iterator[None]:
        """Record the start of every flow that is known to run, and the failure of those that leave no other end.

        A dry run does nothing to its targets, so nothing is recorded of it.

        :param taken_up: whether an earlier try has begun the runs and recorded their start
        """
        if not request.dry_run:
            for flow in definition.selected(request.select) or ():
                if request.chunking is not None and _has_override(request, flow):
                    continue  # how many runs it becomes, the driver finds out
                if not taken_up:
                    with suppress(HistoryRowError):  # a damaged row of an old run keeps no new one from running
                        self._hook.end_lost(str(flow.target), self.identity)
                self._start(request, flow)
        try:
            yield
        except TaskDeferred:
            raise  # the runs go on
        except BaseException as error:
            self._fail_open(error)
            raise

    def record(self, outcome: JobOutcome) -> None:
        """Record all that the application did. Runs that it says nothing of had not begun when it ended."""
        self._hook.record_outcome(outcome, self.identity)
        for run_id in (*(r.run_id for r in outcome.reports), *(f.run_id for f in outcome.failures)):
            self._open.pop(run_id, None)
        if self._open:
            try:
                outcome.raise_for_failure()
            except ReplaceWhereError as error:
                self._fail_open(error)

    def _start(self, request: RunRequest, flow: Flow) -> None:
        override = next((o for o in request.overrides if o.flow_name.lower() == flow.name.lower()), None)
        run_id = f"{request.run_id}/{flow.name}"
        self._hook.started(
            run_id,
            flow.name,
            str(flow.target),
            as_of=request.as_of,
            predicate=override.predicate_override if override else flow.replace_where.text,
            override=override is not None,
            identity=self.identity,
        )
        started_at = datetime.now(UTC).isoformat()
        self._open[run_id] = Failure(flow.name, str(flow.target), run_id, {}, started_at, started_at)

    def _fail_open(self, error: BaseException) -> None:
        reason = error if isinstance(error, ReplaceWhereError) else SubmitError(f"The task was ended: {error!r}")
        for run_id, run in list(self._open.items()):
            ended = Failure(
                run.flow, run.target, run_id, reason.to_json(), run.started_at, datetime.now(UTC).isoformat()
            )
            # The error that ended the task is the one to see, also where the ledger cannot be reached any more.
            with suppress(HistoryError, HistorySchemaError):
                self._hook.failed(ended, self.identity)
            del self._open[run_id]


def _has_override(request: RunRequest, flow: Flow) -> bool:
    return any(
        override.flow_name.lower() in (flow.name.lower(), str(flow.target).lower()) for override in request.overrides
    )
