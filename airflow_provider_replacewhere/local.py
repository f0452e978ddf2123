"""The same runs without Airflow: in a notebook, in a test, or behind the console command."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.flows.model import NullKeys, Pipeline
from airflow_provider_replacewhere.flows.pipeline import load_pipeline
from airflow_provider_replacewhere.flows.sql import parse_sql
from airflow_provider_replacewhere.history.keeping import LedgerLeases
from airflow_provider_replacewhere.history.place import beside
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.chunking import Chunking
from airflow_provider_replacewhere.planning.leasing import WAIT_SECONDS
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.rebuild import Rebuilt
from airflow_provider_replacewhere.planning.report import Found, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import Override, RunRequest, Undo
from airflow_provider_replacewhere.spark.job import run_pipeline, run_undo
from airflow_provider_replacewhere.spark.rebuild import rebuild
from airflow_provider_replacewhere.spark.session import create_spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LocalSession", "create_spark_session"]

PipelineLike = Pipeline | str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class LocalSession:
    """Runs flows in the caller's own Spark session.

    :param spark: a session with Delta Lake, such as :func:`create_spark_session` gives
    :param root: folder of the directory catalog, which finds sources and targets by plain name; None leaves all
        names to Spark's own catalog
    :param history: the ledger, or its SQLAlchemy URL; by default an SQLite file in the root
    :param on_overlap: where another run is writing a part of a run's region: ``wait``, ``fail`` or ``skip``
    :param wait_seconds: how long to wait at most
    :raises RequestError: there is neither a local root nor a URL, so that the ledger has no place
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        root: str | os.PathLike[str] | None = None,
        history: str | HistoryStore | None = None,
        on_overlap: str = "wait",
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.spark = spark
        self.on_overlap = on_overlap
        self.wait_seconds = wait_seconds
        self.root = None if root is None else _absolute(os.fspath(root))
        self.history = history if isinstance(history, HistoryStore) else HistoryStore(history or beside(self.root))

    def run(
        self,
        pipeline: PipelineLike,
        *,
        as_of: datetime | None = None,
        overrides: Mapping[str, str] | None = None,
        select: Iterable[str] = (),
        full_refresh: Iterable[str] = (),
        allow_full_refresh: bool = False,
        refresh_policy: str = "auto",
        null_keys: NullKeys | None = None,
        time_zone: str = "UTC",
        allow_missing_columns: bool = False,
        skip_unchanged: bool = False,
        limits: Limits = Limits(),
        chunking: Chunking | None = None,
    ) -> list[RunReport]:
        """Run a pipeline's flows, in the order in which they read each other, and record what they did.

        :param pipeline: a :class:`~.flows.Pipeline`, SQL text, or one or several paths
        :param as_of: the instant that all time functions see, aware; now by default
        :param overrides: by flow's name, a predicate for this run in place of the flow's own
        :param select: targets or flows to run; all of them by default
        :param full_refresh: targets whose whole table is replaced by what the query gives for the window
        :param allow_full_refresh: whether that may lose rows outside the window
        :param refresh_policy: ``auto``, ``incremental``, ``incremental_strict`` or ``full``
        :param null_keys: ``fail``, ``drop`` or ``include``, for flows that do not say
        :param time_zone: IANA name, for flows that do not say
        :param allow_missing_columns: whether NULL may be written to a target's column that the query does not give
        :param skip_unchanged: whether to leave out the part of what would be replaced in which the target holds the
            query's rows already; costs a comparison of the two
        :param limits: beyond which a run is refused, before anything is written
        :param chunking: how the overrides are cut into chunks, each of which is a run of its own
        :raises ReplaceWhereError: the first failure; flows that do not read the one that failed were run all the same,
            and everything is in the history
        """
        request = self._request(
            as_of, overrides, select, full_refresh, allow_full_refresh, refresh_policy, null_keys, time_zone
        )
        request = replace(
            request,
            allow_missing_columns=allow_missing_columns,
            skip_unchanged=skip_unchanged,
            limits=limits,
            chunking=chunking,
        )
        outcome = self.execute(pipeline, request)
        outcome.raise_for_failure()
        return list(outcome.reports)

    def undo(self, run: str | int, *, force: bool = False, dry_run: bool = False) -> RunReport:
        """Put the region that a run replaced back as it was before, in one commit.

        The region counts as stale then: the flow's next run recomputes it.

        :param run: the run's id, or its number in the history
        :param force: whether to do so even where later runs or other writers changed the region since
        :param dry_run: only say what would be done
        :raises RequestError: there is no such run, or it wrote nothing
        :raises UndoRefusedError: the region was changed since, or what was there before is gone
        """
        outcome, _ = self.execute_undo(run, force=force, dry_run=dry_run)
        outcome.raise_for_failure()
        return outcome.reports[0]

    def execute_undo(self, run: str | int, *, force: bool, dry_run: bool) -> tuple[JobOutcome, RunRequest]:
        """As :meth:`undo`, with the failure in the outcome."""
        report = self.history.report_of(run)
        request = self._request(None, None, (), (), False, "auto", None, report.time_zone)
        request = replace(
            request,
            coverage=self.history.coverage([report.target]),
            undo=Undo(report.to_json(), force),
            dry_run=dry_run,
        )
        leases = LedgerLeases(self.history, on_overlap=self.on_overlap, wait_seconds=self.wait_seconds)
        outcome = run_undo(self.spark, request, leases)
        if not dry_run:
            self.history.record_outcome(outcome)
        return outcome, request

    def plan(
        self,
        pipeline: PipelineLike,
        *,
        as_of: datetime | None = None,
        overrides: Mapping[str, str] | None = None,
        select: Iterable[str] = (),
        full_refresh: Iterable[str] = (),
        allow_full_refresh: bool = False,
        refresh_policy: str = "auto",
        null_keys: NullKeys | None = None,
        time_zone: str = "UTC",
    ) -> list[RunReport]:
        """What :meth:`run` would do with the same arguments; nothing is written and nothing recorded.

        A flow that reads another flow's target is planned over that target as it is now.
        """
        request = self._request(
            as_of, overrides, select, full_refresh, allow_full_refresh, refresh_policy, null_keys, time_zone
        )
        outcome = self.execute(pipeline, replace(request, dry_run=True))
        outcome.raise_for_failure()
        return list(outcome.reports)

    def rebuild(self, tables: Iterable[str] = ()) -> list[Rebuilt]:
        """Record what the tables' own logs tell of runs that the history does not know, as after it was lost.

        :param tables: their names; by default all below the root
        :return: for each table what was found and recorded
        :raises RequestError: one is no table, or its log cannot be read; nothing is recorded then
        """
        found = rebuild(self.spark, self.root, _names("tables", tables), self.history.coverage())
        runs = tuple(Found(run.report, run.identity) for each in found for run in each.runs)
        self.history.record_outcome(JobOutcome("rebuild", found=runs))
        return found

    def execute(self, pipeline: PipelineLike, request: RunRequest) -> JobOutcome:
        """Run what a request asks for, and record it unless it is a dry run; failures of flows are in the outcome.

        :param pipeline: as of :meth:`run`
        :param request: its ``root`` and ``previous`` become this session's, and its documents are not looked at
        :raises DefinitionError: the pipeline as a whole is wrong
        :raises RequestError: the request names a flow that there is not
        """
        loaded = _load(pipeline, request)
        known = replace(
            request,
            root=self.root,
            previous=self.history.last_successful(),
            coverage=self.history.coverage(),
        )
        leases = LedgerLeases(self.history, on_overlap=self.on_overlap, wait_seconds=self.wait_seconds)
        outcome = run_pipeline(self.spark, loaded, known, leases=leases)
        if not request.dry_run:
            self.history.record_outcome(outcome)
        return outcome

    def _request(
        self,
        as_of: datetime | None,
        overrides: Mapping[str, str] | None,
        select: Iterable[str],
        full_refresh: Iterable[str],
        allow_full_refresh: bool,
        refresh_policy: str,
        null_keys: NullKeys | None,
        time_zone: str,
    ) -> RunRequest:
        return RunRequest(
            run_id=f"local-{uuid.uuid4()}",
            as_of=as_of or datetime.now(UTC),
            time_zone=time_zone,
            overrides=tuple(Override(name, predicate) for name, predicate in (overrides or {}).items()),
            select=_names("select", select),
            full_refresh=_names("full_refresh", full_refresh),
            allow_full_refresh=allow_full_refresh,
            refresh_policy=refresh_policy,
            null_keys=null_keys,
            root=self.root,
        )


def _absolute(root: str) -> str:
    # Spark takes a relative folder in a statement for a table's name, and one in a write for a place below its own.
    return root if "://" in root or root.startswith("file:") else str(Path(root).absolute())


def _load(pipeline: PipelineLike, request: RunRequest) -> Pipeline:
    null_keys = cast(NullKeys, request.null_keys or "fail")
    if isinstance(pipeline, Pipeline):
        return pipeline
    if isinstance(pipeline, str) and len(pipeline.split()) > 1 and not pipeline.endswith((".sql", ".py")):
        return parse_sql(pipeline, time_zone=request.time_zone, null_keys=null_keys)
    return load_pipeline(pipeline, time_zone=request.time_zone, null_keys=null_keys)


def _names(argument: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise RequestError(f"{argument} is the text {value!r}.", hint=f"Give a list: {argument}=[{value!r}].")
    return tuple(value)
