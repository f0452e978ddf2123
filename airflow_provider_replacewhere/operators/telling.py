"""Telling others of a run: links beside the task, metrics, the author's callbacks.

The run itself is over, or goes on without: whatever goes wrong here is logged and fails nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from airflow.providers.common.compat.sdk import BaseHook, conf

from airflow_provider_replacewhere.errors import ReplaceWhereError, RequestError
from airflow_provider_replacewhere.links.addresses import (
    HISTORY_SERVER,
    RESOURCE_MANAGER,
    named_in,
    page,
    page_of_run,
    page_of_table,
    spark_page,
)
from airflow_provider_replacewhere.links.operator_links import KeptLink, RunLink, SparkLink, TableLink
from airflow_provider_replacewhere.operators.versions import airflow_line
from airflow_provider_replacewhere.planning.report import Application, JobOutcome
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_replacewhere.flows.model import Flow
    from airflow_provider_replacewhere.planning.request import RunRequest

OnEvent: TypeAlias = Callable[[Any], object]
"""As Airflow's own callbacks: called with the task's context, in which :data:`EVENT` is what happened."""

EVENT = "replacewhere_event"

# How long the end of a run waits for Airflow to take a link.
_LINK_SECONDS = 15.0

log = logging.getLogger(__name__)


@dataclass
class Teller:
    """Tells of one try of a task.

    :param callbacks: what the Dag's author wants to be called
    :param spark_conn_id: the connection that may name Spark's history server
    :param history_server: its address, where the operator names one
    :ivar links: the addresses that are shown beside the task, by the keys of their XComs
    :ivar request: what was asked; None: nothing yet
    :ivar outcome: what came of it; None: nothing yet
    :ivar waited_seconds: how long the application waited for other runs
    """

    context: Context
    callbacks: Sequence[OnEvent]
    spark_conn_id: str
    history_server: str | None
    links: dict[str, str] = field(default_factory=dict)
    request: RunRequest | None = None
    outcome: JobOutcome | None = None
    waited_seconds: float = 0.0
    _application: Application | None = None
    _running: threading.Thread | None = None

    def begin(self, request: RunRequest, flows: Sequence[Flow] | None) -> None:
        """Before anything runs.

        :param flows: those that are to run; None: not known
        """
        self.request = request
        with _logged("The links to the page could not be made"):
            if (airflow := _address_of_page()) is None:
                return
            if flows is None or len(flows) != 1:
                self._show(TableLink(), page(airflow))
                return
            self._show(TableLink(), page_of_table(airflow, str(flows[0].target)))
            if not request.dry_run and request.chunking is None:
                self._show(RunLink(), page_of_run(airflow, f"{request.run_id}/{flows[0].name}"))

    def is_running(self, look: Callable[[], Application | None]) -> None:
        """While the application runs. Returns at once: whoever calls has a driver to answer.

        :param look: where the application can be looked at, as far as it says so
        """
        if _takes_values_from_threads():
            self._running = threading.Thread(target=self._link_running, args=(look,), name="link", daemon=True)
            self._running.start()

    def is_left(self, application: Application) -> None:
        """When the application goes on without this worker."""
        with _logged("The link to Spark could not be made"):
            self._link_spark(application, is_running=True)

    def has_ended(self, waited_seconds: float) -> None:
        """When the application runs no more, before anything else is asked of Airflow.

        :param waited_seconds: how long it waited for other runs while this worker was there
        """
        self.waited_seconds += waited_seconds
        if self._running is not None:
            self._running.join(_LINK_SECONDS)

    def end(self, outcome: JobOutcome, *, without_spark: bool) -> None:
        """When all is over, well or not.

        :param without_spark: whether the worker could tell that there was nothing to do
        """
        self.outcome = outcome
        with _logged("The links of the run could not be made"):
            # The run that failed, or else the last one.
            failed = [failure.run_id for failure in outcome.failures]
            ended = [report.run_id for report in outcome.reports if not report.dry_run]
            if (failed or ended) and (airflow := _address_of_page()) is not None:
                self._show(RunLink(), page_of_run(airflow, failed[0] if failed else ended[-1]))
            self._link_spark(outcome.application, is_running=False)
        self._count(outcome, without_spark=without_spark)
        self._call_back(outcome)

    def failed(self, error: ReplaceWhereError) -> None:
        """When there is no outcome at all."""
        if self.outcome is None:
            with _logged("The link to Spark could not be made"):
                self._link_spark(self._application, is_running=False)
            self._count(JobOutcome("", error=error.to_json()), without_spark=False)

    def _count(self, outcome: JobOutcome, *, without_spark: bool) -> None:
        with _logged("The metrics of the run could not be told"):
            # Imported here because it brings the planner, which no Dag file needs.
            from airflow_provider_replacewhere.operators.metrics import counted

            for each in counted(outcome, without_spark=without_spark, waited_seconds=self.waited_seconds):
                each.emit()

    def _call_back(self, outcome: JobOutcome) -> None:
        if not self.callbacks:
            return
        with _logged("What happened could not be put together for on_event"):
            # Imported here because it brings the planner, which no Dag file needs.
            from airflow_provider_replacewhere.planning.events import events

            values = cast("MutableMapping[str, Any]", self.context)
            for event in events(outcome.reports):
                for callback in self.callbacks:
                    values[EVENT] = event.to_json()
                    try:
                        with _logged(f"on_event failed for {event.kind} of {event.target}"):
                            callback(self.context)
                    finally:
                        del values[EVENT]

    def _link_running(self, look: Callable[[], Application | None]) -> None:
        with _logged("The link to Spark could not be made"):
            self._application = look()
            self._link_spark(self._application, is_running=True)

    def _link_spark(self, application: Application | None, *, is_running: bool) -> None:
        address = None
        if application is not None:
            extras = BaseHook.get_connection(self.spark_conn_id).extra_dejson
            address = spark_page(
                application,
                is_running=is_running,
                history=self.history_server or named_in(extras, HISTORY_SERVER),
                yarn=named_in(extras, RESOURCE_MANAGER) if application.id.startswith("application_") else None,
            )
        self._show(SparkLink(), address or "")

    def _show(self, link: KeptLink, address: str) -> None:
        """Show a link from now on; an empty address takes it away."""
        if self.links.get(link.xcom_key, "") == address:
            return
        self.links[link.xcom_key] = address
        ti: Any = self.context["ti"]
        ti.xcom_push(key=link.xcom_key, value=address)


@contextmanager
def failures_told(teller: Teller) -> Iterator[None]:
    """Tell of an error that ends the body before there is an outcome."""
    try:
        yield
    except ReplaceWhereError as error:
        teller.failed(error)
        raise


def check_callbacks(on_event: OnEvent | Sequence[OnEvent] | None) -> tuple[OnEvent, ...]:
    """The callbacks as given: none, one, or several.

    :raises RequestError: one of them cannot be called
    """
    given = () if on_event is None else tuple(on_event) if isinstance(on_event, list | tuple) else (on_event,)
    for callback in given:
        if not callable(callback):
            raise RequestError(
                f"on_event is {shown(callback)}, which cannot be called.",
                hint="Give a function of the task's context, a notifier, or a list of them.",
            )
    return cast("tuple[OnEvent, ...]", given)


def _address_of_page() -> str | None:
    """Airflow's own address, below which the provider's page is; None on Airflow 2, which has none."""
    if airflow_line() in ("2", "3.0"):  # the one serves no page, the other none that a browser can open
        return None
    return str(conf.get("api", "base_url", fallback="") or "")


def _takes_values_from_threads() -> bool:
    """Whether a thread may leave an XCom while the task's own goes on.

    Tasks of Airflow 3 ask for everything on one channel, which has a lock from 3.2 on.
    """
    return airflow_line() not in ("3.0", "3.1")


@contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        log.exception("%s", what)
