"""The Spark application: reads its request, runs the flows in the order in which they read each other, reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from airflow_provider_replacewhere.errors import DefinitionError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Pipeline, TableName
from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.chunks import chunks
from airflow_provider_replacewhere.planning.known import Known
from airflow_provider_replacewhere.planning.leasing import Leases, NoLeases
from airflow_provider_replacewhere.planning.pipeline import flow_named, pipeline_of, selected
from airflow_provider_replacewhere.planning.questions import APPLICATION
from airflow_provider_replacewhere.planning.report import Application, Failure, Found, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark.asking import WorkersLeases
from airflow_provider_replacewhere.spark.errors import unexpected
from airflow_provider_replacewhere.spark.exchange import write_text
from airflow_provider_replacewhere.spark.pipeline import with_python
from airflow_provider_replacewhere.spark.prepared import BeforeRead, Setting, prepare
from airflow_provider_replacewhere.spark.python_files import PipelineSpark
from airflow_provider_replacewhere.spark.run import run_flow
from airflow_provider_replacewhere.spark.session import flow_session, keeping_active, quiet, require_delta
from airflow_provider_replacewhere.spark.undo import undo
from airflow_provider_replacewhere.spark.weights import weights
from airflow_provider_replacewhere.text import Span

# Should the application die in between, the commits themselves tell of their runs.
SECONDS_BETWEEN_TELLING = 5.0

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
        application = application_of(session)
        _introduce(session, request, application)
        outcome = run_request(
            session, request, lambda done: _report(session, request, replace(done, application=application))
        )
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
    failures: list[Failure] = field(default_factory=list)
    underway: list[Flow] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    told_at: float = 0.0

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
            failed = [failure for failure in self.failures if failure.flow == upstream.name]
            if failed:
                raise _UpstreamError(
                    f"{flow.name} reads {upstream.target}, whose flow {upstream.name} failed in this run.",
                    hint="It was not run; its target is as it was.",
                    retryable=all(failure.error["retryable"] for failure in failed),
                )

        override = overrides.get(flow.name)
        self.underway.append(flow)
        try:
            if override is not None and self.setting.request.chunking is not None:
                self._run_in_chunks(flow, override, before)
            else:
                self._run(self.setting, flow, override, before, full_refresh=flow.name in refreshed)
        finally:
            self.underway.pop()
            self.done.add(flow.name)

    def _run(
        self,
        setting: Setting,
        flow: Flow,
        override: str | None,
        before: BeforeRead,
        *,
        full_refresh: bool = False,
    ) -> RunReport | None:
        """One run of a flow, told as it ends; None where it failed."""
        with self._failing(flow, setting.request.run_id):
            report = run_flow(setting, flow, override=override, full_refresh=full_refresh, before=before)
            self.reports.append(report)
            self._tell(soon=setting.request.chunk is None)
            return report
        return None

    def _run_in_chunks(self, flow: Flow, override: str, before: BeforeRead) -> None:
        """The chunks of an override, one run after another, each with a commit of its own."""
        request = self.setting.request
        assert request.chunking is not None
        with self._failing(flow, request.run_id):
            prepared = prepare(self.setting, flow, override=override, full_refresh=False, before=before)
            by = request.chunking.by
            regions = chunks(
                prepared.window.region, request.chunking, flow.time_zone, lambda path: weights(prepared, path, by)
            )
            if request.dry_run:
                report = run_flow(self.setting, flow, override=override, full_refresh=False, before=before)
                cut = {"chunks": [region.to_sql() for region in regions]}
                self.reports.append(replace(report, planning_information={**report.planning_information, **cut}))
                self._tell()
                return
            self._run_each(flow, regions, before)

    def _run_each(self, flow: Flow, regions: Sequence[Region], before: BeforeRead) -> None:
        request, found = self.setting.request, self.setting.found
        assert request.chunking is not None
        known = Known.of(request, str(flow.target))
        for number, region in enumerate(regions, start=1):
            # Each is a run of its own, and knows what those before it did and came upon.
            part = replace(
                request,
                run_id=f"{request.run_id}/{number}",
                chunk=Chunk(number, len(regions), request.run_id),
                earlier=(*request.earlier, *(each.report.to_json() for each in found)),
                **known.slice(),
            )
            come_upon = len(found)
            ended = self._run(replace(self.setting, request=part), flow, region.to_sql(), before)
            for each in found[come_upon:]:
                known = known.after(each.report)
            if ended is None and request.chunking.on_failure == "stop":
                return
            if ended is not None and ended.adopted is None:
                known = known.after(ended)

    @contextmanager
    def _failing(self, flow: Flow, run_id: str) -> Iterator[None]:
        """What goes wrong inside becomes the failure of the flow's run."""
        started = datetime.now(UTC).isoformat()
        try:
            yield
        except Exception as raised:
            error = raised if isinstance(raised, ReplaceWhereError) else unexpected(raised)
            ended = datetime.now(UTC).isoformat()
            failure = Failure(flow.name, str(flow.target), f"{run_id}/{flow.name}", error.to_json(), started, ended)
            self.failures.append(failure)
            self._tell()

    def _tell(self, *, soon: bool = True) -> None:
        """Tell how far the application is; of many short runs not after each, for what is told grows with them."""
        now = time.monotonic()
        if soon or now - self.told_at >= SECONDS_BETWEEN_TELLING:
            self.told_at = now
            self.on_outcome(self._outcome())

    def _outcome(self) -> JobOutcome:
        return JobOutcome(
            self.setting.request.run_id,
            tuple(self.reports),
            tuple(self.failures),
            found=tuple(self.setting.found),
            schemas=dict(self.setting.schemas),
        )


class _UpstreamError(ReplaceWhereError):
    """A flow that was not run, since one that it reads from failed; worth a retry when that one is."""

    def __init__(self, message: str, *, hint: str, retryable: bool) -> None:
        super().__init__(message, hint=hint)
        self._retryable = retryable

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"retryable": self._retryable}


def application_of(session: SparkSession) -> Application:
    """Where this application can be looked at."""
    context = session.sparkContext
    is_logged = session.conf.get("spark.eventLog.enabled", "false") == "true"
    return Application(context.applicationId, context.uiWebUrl, is_logged)


def _introduce(session: SparkSession, request: RunRequest, application: Application) -> None:
    """Tell the worker where to look while the runs go on. It can do without."""
    if request.questions_uri is not None:
        with suppress(Exception):  # whatever the file system's client raises
            write_text(session, f"{request.questions_uri}/{APPLICATION}", json.dumps(asdict(application)))


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
