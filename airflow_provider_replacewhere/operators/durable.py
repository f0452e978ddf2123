"""What a later try of a task needs to find the application that an earlier one left running, on Airflow 3.3 and up.

Airflow keeps one value for a task over all its tries, and does not drop it when the task is cleared. So the value says
which *logical run* of the task it belongs to: one of another is no reason not to run. Where the application's request
is, its outcome will be, and its questions are, is the exchange, which outlives the worker.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.operators.exchange import Exchange, reopen_exchange

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from pydantic import JsonValue

    from airflow_provider_replacewhere.planning.request import RunRequest

SUPERSEDED = "SUPERSEDED"
"""A state that no cluster knows: an application that is not, or no more, this task's."""

NOTICED_SECONDS = 900.0
"""How long Airflow may take to notice that a worker is gone and to start the next try, besides the task's own delay
between tries; by default it waits five minutes for a heartbeat."""


class StateStore(Protocol):
    """As much as is needed of what Airflow keeps for a task."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def delete(self, key: str) -> None: ...


@dataclass(frozen=True)
class Submitted:
    """An application in a cluster.

    :param job: the cluster's name of it
    :param logical_run: the task's run that it was submitted for
    :param run_id: the application's own id
    :param place: where its outcome will be, as the worker reads it
    """

    job: str
    logical_run: str
    run_id: str
    place: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Submitted | None:
        """None where the value is no such thing, such as that of another version or of the parent operator."""
        names = ("job", "logical_run", "run_id", "place")
        if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in names):
            return None
        return cls(*(value[name] for name in names))

    def taken_up(self) -> tuple[Exchange, RunRequest] | None:
        """Its exchange and what it was asked; None where they are gone: nobody could answer it or read its outcome."""
        exchange = reopen_exchange(self.run_id, self.place)
        try:
            request = exchange.kept_request()
        except ReplaceWhereError:
            exchange.discard_folder()
            return None
        if (request.run_id, request.logical_run) != (self.run_id, self.logical_run):
            exchange.discard_folder()
            return None
        return exchange, request


class DurableSparkSubmitOperator(SparkSubmitOperator):
    """The parent, whose application a later try of the task takes up where it still runs, or has ended meanwhile.

    The parent itself knows an application by the cluster's name of it alone: it returns nothing when it has taken one
    up, and takes up that of a run that was cleared since.

    :param durable: whether a later try takes the application up, when the worker was lost. Needs Airflow 3.3, deploy
        mode ``cluster``, and a way to ask for the application: ``yarn_track_via_rm_api`` or
        ``track_driver_via_k8s_api``. None: where all of that is there. Without it the application that was left behind
        gets no permission to commit, and the next try submits another.
    """

    def __init__(self, *, durable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.durable = self._can_be_asked_for if durable is None else durable
        self._logical_run: str | None = None
        self._sent_to: Exchange | None = None
        self._submitted: Submitted | None = None
        self._is_taken_up = False
        self._was_killed = False
        self._keeps_state = False

    def take_up(self, context: Context, wanted: RunRequest) -> tuple[Exchange, RunRequest] | None:
        """The application that an earlier try of this run has submitted, if its outcome is still to be had.

        One that still runs and was submitted for a run that was cleared, or was asked something else, or that nobody
        can answer any more, is cancelled.

        :param wanted: what is asked now: the flow's file or the params may be others than when it was submitted
        """
        logical_run = wanted.logical_run or wanted.run_id
        self._logical_run, self._sent_to, self._submitted = logical_run, None, None
        self._is_taken_up = self._was_killed = False
        self._keeps_state = cast("Any", context).get("task_state_store") is not None
        found = Submitted.from_json(store.get(self.external_id_key)) if (store := self._store(context)) else None
        if found is None:
            return None
        try:
            status = super().get_job_status(found.job, context)
        except Exception as error:  # whatever the cluster's client raises, also of what it has forgotten
            # Whatever it does, without an exchange it gets no permission to commit.
            self.log.warning("  nothing is known of application %s, of an earlier try: %s", found.job, error)
            reopen_exchange(found.run_id, found.place).discard()
            return None
        is_active = self.is_job_active(status)
        if found.logical_run == logical_run and (is_active or self.is_job_succeeded(status)):
            taken = found.taken_up()
            if taken is not None and taken[1].asks_the_same(wanted):
                self.log.info(
                    "  going on with application %s, which an earlier try has submitted: %s", found.job, status
                )
                self._submitted, self._sent_to, self._is_taken_up = found, taken[0], True
                return taken
        if is_active:
            self.log.warning("  cancelling application %s, which an earlier try has left behind", found.job)
            self._tell_hook(found.job)
            super().on_kill()
        reopen_exchange(found.run_id, found.place).discard()
        return None

    @property
    def outlives_worker(self) -> bool:
        """Whether a later try may take up the application of this one; known from :meth:`take_up` on."""
        return bool(self.durable) and self._can_be_asked_for and self._keeps_state

    def may_go_on(self, context: Context) -> bool:
        """Whether the application may still be running, and a later try take it up."""
        if self._submitted is None or self._was_killed:
            return False
        try:
            return self.is_job_active(super().get_job_status(self._submitted.job, context))
        except Exception:  # whatever the cluster's client raises: who cannot tell, leaves everything as it is
            return True

    def forget(self, context: Context) -> None:
        """The outcome is known: a later try has to submit an application of its own."""
        store = self._store(context)
        if store is not None and self._submitted is not None:
            store.delete(self.external_id_key)
        self._submitted = None

    # -- what the parent's machine asks

    def submit_job(self, context: Context) -> Any:
        store = self._store(context)
        if store is not None:
            store.delete(self._K8S_DRIVER_STATUS_KEY)  # of an application before this one
        job = super().submit_job(context)
        if store is None or job is None or self._sent_to is None or self._logical_run is None:
            return job
        self._submitted = Submitted(job, self._logical_run, self._sent_to.run_id, self._sent_to.place)
        return self._submitted.to_json()

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        if not self._is_taken_up:
            return SUPERSEDED
        return super().get_job_status(_job(external_id), context)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        self._tell_hook(_job(external_id))
        super().poll_until_complete(_job(external_id), context)

    def on_kill(self) -> None:
        self._was_killed = True
        super().on_kill()

    @property
    def _can_be_asked_for(self) -> bool:
        # The tracking came before an application could be taken up.
        tracked = getattr(self, "_yarn_track_via_rm_api", False) or getattr(self, "_track_driver_via_k8s_api", False)
        return bool(tracked) and hasattr(SparkSubmitOperator, "get_job_status")

    def _store(self, context: Context) -> StateStore | None:
        return cast("Any", context).get("task_state_store") if self.outlives_worker else None

    def _tell_hook(self, job: str) -> None:
        """Let the hook know an application that it may not have submitted itself, so that it can cancel it."""
        if self._hook is None:
            self._hook = self._get_hook()
        if self._hook._is_yarn_cluster_mode:
            self._hook._yarn_application_id = job
        elif self._hook._is_kubernetes:
            _, self._hook._kubernetes_driver_pod = self._parse_k8s_external_id(job)


def _job(external_id: Any) -> str:
    found = Submitted.from_json(external_id)
    return found.job if found else str(external_id)
