"""Waiting for a Spark application in a cluster, in place of the worker that has submitted it.

The driver has no access to the ledger: it asks by files, and needs answers and signs of life for as long as it runs. So
this does what the worker does, from threads, and beside it looks from time to time whether the application has ended.
When the triggerer stops, or is lost, another one takes its leases up as a worker's next try does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.operators.answering import Answering, Stop, Waits, start_answering
from airflow_provider_replacewhere.operators.durable import DurableSparkSubmitOperator, Submitted
from airflow_provider_replacewhere.operators.exchange import reopen_exchange
from airflow_provider_replacewhere.planning.request import Identity

if TYPE_CHECKING:
    from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

POLL_SECONDS = 10.0
"""Between two looks at an application, at least, as the Spark provider's own at YARN."""

# Of looks in a row that the cluster does not answer.
MOST_SILENT_LOOKS = 10


class ApplicationTrigger(BaseTrigger):
    """Answers a driver until its application has ended, and then fires.

    All arguments are plain JSON values.

    :param submitted: the application, as :class:`~..operators.durable.Submitted` JSON
    :param identity: the task that its runs are of, as :class:`~..planning.request.Identity` JSON
    :param spark: arguments of the operator by which the cluster is asked for the application
    :param history_conn_id: connection of the history
    :param on_overlap: as the operator's
    :param wait_seconds: as the operator's
    :param poll_seconds: between two looks at the application
    """

    def __init__(
        self,
        *,
        submitted: Mapping[str, str],
        identity: Mapping[str, Any],
        spark: Mapping[str, Any],
        history_conn_id: str,
        on_overlap: str,
        wait_seconds: float,
        poll_seconds: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.submitted = dict(submitted)
        self.identity = dict(identity)
        self.spark = dict(spark)
        self.history_conn_id = history_conn_id
        self.on_overlap = on_overlap
        self.wait_seconds = wait_seconds
        self.poll_seconds = poll_seconds

    @classmethod
    def of(
        cls, operator: ReplaceWhereOperator, conn_id: str, submitted: Submitted, identity: Identity
    ) -> ApplicationTrigger:
        """What waits for the application that an operator has submitted.

        :param conn_id: of the operator's cluster
        """
        given: Any = operator  # how it was told to ask for applications it keeps to itself
        return cls(
            submitted=submitted.to_json(),
            identity=asdict(identity),
            spark={
                "conn_id": conn_id,
                "deploy_mode": given._deploy_mode,
                "yarn_track_via_rm_api": given._yarn_track_via_rm_api,
                "track_driver_via_k8s_api": given._track_driver_via_k8s_api,
            },
            history_conn_id=operator.history_conn_id,
            on_overlap=operator.on_overlap,
            wait_seconds=operator.wait_seconds,
            poll_seconds=max(given._status_poll_interval, POLL_SECONDS),
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How another process makes the same trigger."""
        names = ("submitted", "identity", "spark", "history_conn_id", "on_overlap", "wait_seconds", "poll_seconds")
        return f"{type(self).__module__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Answer and wait."""
        # Imported here because it brings the region algebra, which no Dag file needs.
        from airflow_provider_replacewhere.history.keeping import LedgerLeases

        found = Submitted(**self.submitted)
        application = await asyncio.to_thread(self._application)
        exchange = await asyncio.to_thread(reopen_exchange, found.run_id, found.place)
        hook = PredicateHistoryHook(self.history_conn_id)
        await asyncio.to_thread(hook.get_conn)
        stop, moves = Stop(), threading.Event()
        waits = Waits(stop)
        leases = LedgerLeases(
            hook,
            Identity(**self.identity),
            self.on_overlap,
            self.wait_seconds,
            sleep=waits.sleep,
            leave=moves.is_set,
        )
        # No lease that is lost ends the application: who has taken it may be the next triggerer. It may not commit.
        answers = start_answering(exchange, leases, stop, poll_seconds=0.1 if exchange.is_local else 2.0, taken_up=True)
        try:
            state = await self._state_at_the_end(application, found.job, answers)
        except BaseException:
            moves.set()  # the application goes on, and so do its leases
            raise
        finally:
            await asyncio.to_thread(answers.end)
            await asyncio.to_thread(exchange.discard_folder)
        fired = {"job": found.job, "state": state, "waited_seconds": waits.seconds}
        yield TriggerEvent(fired)  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """End the application with its task. Its leases end by themselves: it may be committing."""
        application = await asyncio.to_thread(self._application)
        await asyncio.to_thread(application.cancel, self.submitted["job"])

    async def _state_at_the_end(self, application: DurableSparkSubmitOperator, job: str, answers: Answering) -> str:
        silent = 0
        while True:
            try:
                state = await asyncio.to_thread(application.state_of, job)
            except Exception as error:  # whatever the cluster's client raises: it may pass
                silent += 1
                if silent > MOST_SILENT_LOOKS:
                    raise
                self.log.warning("The application %s could not be asked for: %s", job, error)
            else:
                silent = 0
                if not application.is_job_active(state):
                    return state
                if not answers.goes_on:
                    raise RuntimeError(f"The questions of application {job} are not answered any more.")
            await asyncio.sleep(self.poll_seconds)

    def _application(self) -> DurableSparkSubmitOperator:
        """An operator of no Dag, which knows how to ask for an application, and how to end it."""
        return DurableSparkSubmitOperator(task_id="application", **self.spark)
