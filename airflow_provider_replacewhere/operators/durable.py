"""What a later try of a task needs to find the application that an earlier one left running, on Airflow 3.3 and up.

Airflow keeps one value for a task over all its tries, and does not drop it when the task is cleared. So the value says
which *logical run* of the task it belongs to: one of another is no reason not to run. Where the application's request
is, its outcome will be, and its questions are, is the exchange, which outlives the worker.

A task that is deferred is taken up in the same way, by its own try: the worker goes away on purpose, a trigger answers
the driver's questions, and a worker comes back when the application has ended.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_replacewhere.errors import ReplaceWhereError, RequestError
from airflow_provider_replacewhere.operators.exchange import Exchange, reopen_exchange

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from airflow.triggers.base import BaseTrigger
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
    :param deferrable: whether the task frees its worker while the application runs: a trigger waits for it, and answers
        the driver. Needs what ``durable`` needs
    """

    def __init__(self, *, durable: bool | None = None, deferrable: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.durable = self._can_be_asked_for if durable is None else durable
        self.deferrable = deferrable
        self._logical_run: str | None = None
        self._sent_to: Exchange | None = None
        self._submitted: Submitted | None = None
        self._is_taken_up = False
        self._was_killed = False
        self._keeps_state = False
        self._resumes = False
        self._ended_as: str | None = None

    def check_deferrable(self, context: Context, *, is_remote: bool) -> None:
        """:raises RequestError: the task is to be deferred, and cannot be"""
        if not self.deferrable:
            return
        if not (is_remote and self.durable and self._can_be_asked_for):
            raise RequestError(
                "deferrable is True, but this application cannot go on without its worker.",
                hint="It takes deploy mode 'cluster' and a way to ask for the application: yarn_track_via_rm_api=True "
                "on YARN, track_driver_via_k8s_api=True on Kubernetes; and durable must not be False.",
            )
        if cast("Any", context).get("task_state_store") is None:
            raise RequestError(
                "deferrable is True, but this Airflow keeps nothing for a task that it defers.",
                hint="It takes Airflow 3.3.",
            )
        for argument in ("yarn_rm_auth", "keytab", "principal"):
            if getattr(self, f"_{argument}", getattr(self, argument, None)) is not None:
                raise RequestError(
                    f"deferrable is True, but a trigger cannot be given {argument}.",
                    hint="Leave it out: with keytab and principal in the Spark connection, Kerberos is used without.",
                )

    def take_up(self, context: Context, wanted: RunRequest) -> tuple[Exchange, RunRequest] | None:
        """The application that an earlier try of this run has submitted, if its outcome is still to be had.

        One that still runs and was submitted for a run that was cleared, or was asked something else, or that nobody
        can answer any more, is cancelled.

        :param wanted: what is asked now: the flow's file or the params may be others than when it was submitted
        """
        logical_run = wanted.logical_run or wanted.run_id
        self._logical_run, self._sent_to, self._submitted = logical_run, None, None
        self._is_taken_up = self._was_killed = False
        self._ended_as = None
        self._keeps_state = cast("Any", context).get("task_state_store") is not None
        found = Submitted.from_json(store.get(self.external_id_key)) if (store := self._store(context)) else None
        if found is None:
            return None
        try:
            status = super().get_job_status(found.job, context)
        except Exception as error:  # whatever the cluster's client raises, also of what it has forgotten
            if self._resumes:
                raise  # this try's own application
            # Whatever it does, without an exchange it gets no permission to commit.
            self.log.warning("  nothing is known of application %s, of an earlier try: %s", found.job, error)
            reopen_exchange(found.run_id, found.place).discard()
            return None
        is_active = self.is_job_active(status)
        is_over = not (is_active or self.is_job_succeeded(status))
        # One that failed is no reason not to submit another, unless this try itself has waited for it.
        if found.logical_run == logical_run and (self._resumes or not is_over):
            taken = found.taken_up()
            if taken is not None and (self._resumes or taken[1].asks_the_same(wanted)):
                whom = "this" if self._resumes else "an earlier"
                self.log.info("  going on with application %s, which %s try has submitted: %s", found.job, whom, status)
                self._submitted, self._sent_to, self._is_taken_up = found, taken[0], True
                self._ended_as = status if is_over else None
                return taken
        if is_active:
            self.log.warning("  cancelling application %s, which an earlier try has left behind", found.job)
            self.cancel(found.job)
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
        if self._ended_as is not None and self._submitted is not None:
            self._run_post_submit_commands()
            raise RuntimeError(f"The application {self._submitted.job} has ended: {self._ended_as}.")
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
        job = _job(external_id)
        self._tell_hook(job)
        # Looked at once before: one that has ended by now, well or not, is nothing to wait for.
        if self.deferrable and self._submitted is not None and self.is_job_active(self.state_of(job)):
            self.log.info("  the application %s runs, and this worker is free until it ends", job)
            self.defer(
                trigger=self.trigger_of(self._submitted),
                method_name="execute_complete",
                timeout=self.execution_timeout,
            )
        super().poll_until_complete(job, context)

    def get_job_result(self, external_id: JsonValue, context: Context) -> None:
        if self._resumes:
            self._run_post_submit_commands()  # which the parent leaves to who polls
        super().get_job_result(_job(external_id), context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As the parent's. An application that was given up, since it took too long, is cancelled."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except Exception as error:
            store: StateStore | None = cast("Any", context).get("task_state_store")
            found = Submitted.from_json(store.get(self.external_id_key)) if store is not None else None
            if type(error).__name__ == "TaskDeferralTimeout" and found is not None:
                self.cancel(found.job)
            raise

    def trigger_of(self, submitted: Submitted) -> BaseTrigger:
        """What waits for an application while no worker does."""
        raise NotImplementedError

    def state_of(self, job: str) -> str:
        """How the cluster says that an application is doing."""
        return super().get_job_status(job, cast("Context", {}))

    def cancel(self, job: str) -> None:
        """Let the cluster end an application."""
        self._tell_hook(job)
        super().on_kill()

    def on_kill(self) -> None:
        self._was_killed = True
        super().on_kill()

    @property
    def _can_be_asked_for(self) -> bool:
        # The tracking came before an application could be taken up.
        tracked = getattr(self, "_yarn_track_via_rm_api", False) or getattr(self, "_track_driver_via_k8s_api", False)
        return bool(tracked) and hasattr(SparkSubmitOperator, "get_job_status")

    def _run_post_submit_commands(self) -> None:
        if self._hook is not None:
            self._hook._run_post_submit_commands()

    def _store(self, context: Context) -> StateStore | None:
        return cast("Any", context).get("task_state_store") if self.outlives_worker else None

    def _tell_hook(self, job: str) -> None:
        """Let the hook know an application that it may not have submitted itself, so that it can cancel it."""
        if self._hook is None:
            self._hook = self._get_hook()
        if self._hook._is_yarn_cluster_mode:
            self._hook._yarn_application_id = job
        elif self._hook._is_kubernetes:
            namespace, self._hook._kubernetes_driver_pod = self._parse_k8s_external_id(job)
            self._hook._connection["namespace"] = namespace


def _job(external_id: Any) -> str:
    found = Submitted.from_json(external_id)
    return found.job if found else str(external_id)
