"""The Spark application: reads its request, runs the flows in the order in which they read each other, reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from airflow_provider_replacewhere.errors import DefinitionError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Pipeline, TableName
from airflow_provider_replacewhere.planning.leasing import Leases, NoLeases
from airflow_provider_replacewhere.planning.pipeline import flow_named, pipeline_of, selected
from airflow_provider_replacewhere.planning.report import Failure, Found, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.spark.asking import WorkersLeases
from airflow_provider_replacewhere.spark.errors import unexpected
from airflow_provider_replacewhere.spark.exchange import write_text
from airflow_provider_replacewhere.spark.pipeline import with_python
from airflow_provider_replacewhere.spark.prepared import Setting
from airflow_provider_replacewhere.spark.python_files import PipelineSpark
from airflow_provider_replacewhere.spark.run import run_flow
from airflow_provider_replacewhere.spark.session import flow_session, keeping_active, quiet, require_delta
from airflow_provider_replacewhere.spark.undo import undo
from airflow_provider_replacewhere.text import Span

OnOutcome = Callable[[JobOutcome], None]


def nobody(_: JobOutcome) -> None:
    """Tell nobody how far the application is."""


def main(arguments: list[str]) -> int:
    """Run the request whose file name is the only argument; 0 when every flow ended well.

    The file came with ``--files``. The outcome goes to the request's ``report_uri`` after every flow, so that what was
    done is known even when the application dies later.
    """
    if len(arguments) != 1:
        print("Usage: main.py REQUEST_FILE", file=sys.stderr)
        return 2
    session = SparkSession.builder.getOrCreate()
    try:
        request = RunRequest.from_json(_read_request(arguments[0]))
        outcome = run_request(session, request, lambda done: _report(session, request, done))
        for problem in (*(f.error for f in outcome.failures), *((outcome.error,) if outcome.error else ())):
            print(problem["message"], file=sys.stderr)
        return 1 if outcome.failures or outcome.error else 0
    except ReplaceWhereError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        session.stop()


def run_request(session: SparkSession, request: RunRequest, on_outcome: OnOutcome = nobody) -> JobOutcome:
    """Run what a request asks for; errors are in the outcome."""
    outcome = JobOutcome(request.run_id)
    try:
        if request.undo is not None:
            outcome = run_undo(session, request, _leases(session, request))
            on_outcome(outcome)
            return outcome
        pipeline = pipeline_of(request)
        return run_pipeline(session, pipeline, request, on_outcome, _leases(session, request))
    except ReplaceWhereError as error:
        outcome = JobOutcome(request.run_id, error=error.to_json())
    except Exception as error:
        outcome = JobOutcome(request.run_id, error=unexpected(error).to_json())
    on_outcome(outcome)
    return outcome


def run_pipeline(
    session: SparkSession,
    pipeline: Pipeline,
    request: RunRequest,
    on_outcome: OnOutcome = nobody,
    leases: Leases = NoLeases(),
) -> JobOutcome:
    """Run a pipeline's flows in the caller's session; a flow that fails stops those that read its target.

    :param on_outcome: called after every flow with what was done so far
    :param leases: who is asked for the regions that the runs write
    :raises DefinitionError: the pipeline as a whole is wrong
    :raises RequestError: the request names a flow that there is not
    """
    quiet()
    require_delta(session)
    spark = PipelineSpark(session)
    with keeping_active(session):
        null_keys = cast(NullKeys, request.null_keys or "fail")
        whole = with_python(pipeline, spark, time_zone=request.time_zone, null_keys=null_keys)
        return _Application(Setting(session, spark, whole, request, leases), on_outcome).run()


def run_undo(session: SparkSession, request: RunRequest, leases: Leases = NoLeases()) -> JobOutcome:
    """Undo the run that a request names; errors are in the outcome.

    :param leases: who is asked for the region that is put back
    """
    assert request.undo is not None
    quiet()
    require_delta(session)
    run, found = request.undo.report, list[Found]()
    started = datetime.now(UTC).isoformat()
    try:
        with keeping_active(session):
            own = flow_session(session, Clock(request.as_of, request.time_zone), {})
            return JobOutcome(request.run_id, (undo(own, request, found, leases),), found=tuple(found))
    except Exception as raised:
        error = raised if isinstance(raised, ReplaceWhereError) else unexpected(raised)
        ended = datetime.now(UTC).isoformat()
        run_id = f"{request.run_id}/{run['flow']}"
        failure = Failure(run["flow"], run["target"], run_id, error.to_json(), started, ended)
        return JobOutcome(request.run_id, failures=(failure,), found=tuple(found))


@dataclass
class _Application:
    """The runs of one application, and how far each is."""

    setting: Setting
    on_outcome: OnOutcome
    reports: list[RunReport] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    underway: list[Flow] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def run(self) -> JobOutcome:
        request, pipeline = self.setting.request, self.setting.pipeline
        flows = selected(pipeline, request.select)
        named = [flow_named(pipeline, override.flow_name).name for override in request.overrides]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise RequestError(
                f"There are two overrides for {', '.join(twice)}.", hint="Join them with OR, or run them one by one."
            )
        overrides = {flow_named(pipeline, o.flow_name).name: o.predicate_override for o in request.overrides}
        refreshed = {flow_named(pipeline, name).name for name in request.full_refresh}
        for what, names in (("an override", set(overrides)), ("a full refresh", refreshed)):
            if left_out := names - {flow.name for flow in flows}:
                raise RequestError(
                    f"There is {what} for {', '.join(sorted(left_out))}, which the selection leaves out.",
                    hint=f"The selection is {', '.join(flow.name for flow in flows)}.",
                )
        if both := set(overrides) & refreshed:
            raise RequestError(
                f"{', '.join(sorted(both))} is to be fully refreshed and to be run with an override.",
                hint="A full refresh takes the flow's own predicate; ask for one of the two.",
            )
        by_target = {flow.target.key: flow for flow in flows}
        for flow in flows:
            self._ensure(flow, by_target, overrides, refreshed)
        outcome = self._outcome()
        self.on_outcome(outcome)
        return outcome

    def _ensure(
        self, flow: Flow, by_target: Mapping[tuple[str, ...], Flow], overrides: Mapping[str, str], refreshed: set[str]
    ) -> None:
        """Run a flow unless it has run, after those whose targets it reads: found out while it reads them."""
        if flow.name in self.done:
            return

        def before(name: TableName, span: Span | None) -> None:
            upstream = by_target.get(name.key)
            if upstream is None:
                return
            if upstream in self.underway:
                circle = " → ".join(f.name for f in (*self.underway[self.underway.index(upstream) :], upstream))
                raise DefinitionError(f"Flows read each other in a circle: {circle}.", span=span)
            self._ensure(upstream, by_target, overrides, refreshed)
            if upstream.name in self.failures:
                raise _UpstreamError(
                    f"{flow.name} reads {upstream.target}, whose flow {upstream.name} failed in this run.",
                    hint="It was not run; its target is as it was.",
                    retryable=bool(self.failures[upstream.name].error["retryable"]),
                )

        self.underway.append(flow)
        started = datetime.now(UTC).isoformat()
        try:
            report = run_flow(
                self.setting,
                flow,
                override=overrides.get(flow.name),
                full_refresh=flow.name in refreshed,
                before=before,
            )
            self.reports.append(report)
        except Exception as raised:
            error = raised if isinstance(raised, ReplaceWhereError) else unexpected(raised)
            self.failures[flow.name] = Failure(
                flow=flow.name,
                target=str(flow.target),
                run_id=f"{self.setting.request.run_id}/{flow.name}",
                error=error.to_json(),
                started_at=started,
                finished_at=datetime.now(UTC).isoformat(),
            )
        finally:
            self.underway.pop()
            self.done.add(flow.name)
        self.on_outcome(self._outcome())

    def _outcome(self) -> JobOutcome:
        return JobOutcome(
            self.setting.request.run_id,
            tuple(self.reports),
            tuple(self.failures.values()),
            found=tuple(self.setting.found),
        )


class _UpstreamError(ReplaceWhereError):
    """A flow that was not run, since one that it reads from failed; worth a retry when that one is."""

    def __init__(self, message: str, *, hint: str, retryable: bool) -> None:
        super().__init__(message, hint=hint)
        self._retryable = retryable

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"retryable": self._retryable}


def _leases(session: SparkSession, request: RunRequest) -> Leases:
    if request.questions_uri is None:
        return NoLeases()
    return WorkersLeases(session, request.questions_uri, silence_seconds=request.silence_seconds)


def _read_request(name: str) -> str:
    """The request's text: where ``--files`` puts it differs by cluster manager and deploy mode."""
    for path in (Path(SparkFiles.get(name)), Path(name)):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise RequestError(
        f"The request file {name} did not reach the driver.",
        hint="It is sent with --files; look whether the cluster manager delivers files to the driver.",
    )


def _report(session: SparkSession, request: RunRequest, outcome: JobOutcome) -> None:
    if request.report_uri is not None:
        write_text(session, request.report_uri, outcome.to_json())
