"""Run REPLACE WHERE flows as a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from airflow_provider_replacewhere.errors import SubmitError
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.links.operator_links import RunLink, SparkLink, TableLink
from airflow_provider_replacewhere.operators import summary
from airflow_provider_replacewhere.operators.answering import Stop, Waits, answering
from airflow_provider_replacewhere.operators.asked import Asked, check_asked, full_refresh, names, truth
from airflow_provider_replacewhere.operators.cluster import Cluster, check_spark_binary, cluster_of, with_delta
from airflow_provider_replacewhere.operators.definition import Definition, PathLike, define
from airflow_provider_replacewhere.operators.durable import NOTICED_SECONDS, DurableSparkSubmitOperator, Submitted
from airflow_provider_replacewhere.operators.exchange import Exchange, open_exchange
from airflow_provider_replacewhere.operators.following import LOCAL_SECONDS, REMOTE_SECONDS, following
from airflow_provider_replacewhere.operators.instant import instant_of_run
from airflow_provider_replacewhere.operators.ledger import Ledger
from airflow_provider_replacewhere.operators.outlets import ASSET_URI, check_asset_uri, tell_outlets
from airflow_provider_replacewhere.operators.package import code_package
from airflow_provider_replacewhere.operators.task import as_airflow_errors, folders_of, identity_of, logical_run_of
from airflow_provider_replacewhere.operators.telling import OnEvent, Teller, check_callbacks, failures_told
from airflow_provider_replacewhere.planning.instant import instant_given, zone_named
from airflow_provider_replacewhere.planning.leasing import WAIT_SECONDS, check_on_overlap
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.questions import SILENCE_SECONDS
from airflow_provider_replacewhere.planning.report import Application, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import Identity, RunRequest

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.common.compat.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_replacewhere.flows.model import Flow
    from airflow_provider_replacewhere.history.leases import Lease


class ReplaceWhereOperator(DurableSparkSubmitOperator):
    """Replace exactly the rows that match a flow's predicate by what its query gives for the same predicate.

    The flows come from ``pipeline``, or from ``target``, ``replace_where`` and ``query``. They run in one Spark
    application, in the order in which they read each other. Every argument of ``SparkSubmitOperator`` works here too,
    except those that say which application to submit.

    The texts of pipeline files are never touched by templates: what a file says is what runs. Text that stands in the
    Dag file itself is templated as any other argument of an operator.

    The task returns ``{"run_id", "as_of", "dry_run", "flows": {flow: {…}}}``, and for each flow ``mode``, ``reasons``,
    ``window``, ``replaced``, ``rows_deleted``, ``rows_written``, ``target_version``, ``token`` and ``run_id``. The
    events of the task's outlets carry the same as extra, when something was written; an outlet that is an asset alias
    has no event otherwise. A failure that would come again fails the task at once; any other leaves it to the task's
    retries.

    :param pipeline: SQL text, or a path or several: files, folders, or patterns. Relative paths are looked for in the
        Dag file's folder, in the Dag's ``template_searchpath``, then in the working directory. (templated)
    :param target: the table to keep, as named in SQL (templated)
    :param replace_where: a predicate over the target's columns (templated)
    :param query: the source query (templated)
    :param partitioned_by: with ``target``: columns by which a new table is partitioned
    :param cluster_by: with ``target``: columns by which a new table is clustered
    :param table_properties: with ``target``: properties of a new table
    :param comment: with ``target``: comment of a new table
    :param refresh_selection: tables to run; by default all of the pipeline (templated)
    :param as_of: the instant that ``current_date()`` and all other time functions see: a datetime or ISO 8601 text;
        without a zone it is a wall clock in ``time_zone``. By default the end of the run's data interval, without one
        the logical date, without that the moment from which the run was allowed to run. (templated)
    :param time_zone: IANA name, for flows that name none (templated)
    :param null_keys: for flows that name none: ``fail``, ``drop`` or ``include`` rows for which the predicate is NULL
    :param full_refresh: True, or tables: replace the whole table, not only the window (templated)
    :param allow_full_refresh: whether a full refresh may lose rows outside the window
    :param refresh_policy: ``auto``, ``incremental``, ``incremental_strict`` or ``full`` (templated)
    :param allow_missing_columns: whether a column that the query does not give may be filled with NULL
    :param skip_unchanged: whether to leave out the part of what would be replaced in which the target holds the query's
        rows already; costs a comparison of the two
    :param max_deleted_rows: refuse a run that would delete more rows of a target, those counted that are put back
    :param max_deleted_fraction: refuse one that would delete a larger share of a target's rows, from 0 to 1
    :param max_window_days: refuse a window that reaches over more days
    :param on_empty: where the query gives no row for what is to be replaced: ``replace`` empties it, ``fail`` refuses,
        ``skip`` leaves it as it is
    :param on_overlap: where another run is writing a part of a run's window: ``wait`` for it, ``fail``, so that the
        task's retries decide, or ``skip`` the flow
    :param wait_seconds: how long to wait at most
    :param root: folder of the directory catalog: tables are Delta folders below it, by name. By default names are
        resolved by Spark's catalog. (templated)
    :param exchange: a folder that driver and worker both reach, for the outcome; needed with deploy mode ``cluster``.
        A path, or a URI that may name an Airflow connection: ``s3a://connection@bucket/folder``. (templated)
    :param history_conn_id: connection of type ``replacewhere`` for the history of runs (templated)
    :param on_event: a function of the task's context, a notifier, or a list of them: called for each thing that is
        worth alerting somebody, which ``context["replacewhere_event"]`` tells; what goes wrong in it is logged
    :param asset_uri: URI of the assets whose events an outlet that is an alias gets; ``{table}`` stands for the table
    :param partition_keys: ``day``, ``week``, ``month`` or ``year``: an asset's event has those that were replaced as
        partition keys, on Airflow 3.3 and later. Airflow starts no Dag by such an event but those that wait for
        partitions. By default it has none
    :param spark_history_url: address of Spark's history server, for the link to Spark's pages; by default the extra
        ``spark_history_url`` of the Spark connection (templated)
    :param dry_run: plan only, write nothing; as an attribute it is called ``plan_only``, since every operator of
        Airflow has a method ``dry_run`` (templated)
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "pipeline",
        "target",
        "replace_where",
        "query",
        "refresh_selection",
        "as_of",
        "time_zone",
        "full_refresh",
        "refresh_policy",
        "root",
        "exchange",
        "history_conn_id",
        "spark_history_url",
        "plan_only",
    )
    # A template field whose value ends like this would be replaced by the file's content: pipeline="flows/daily.sql".
    template_ext: Sequence[str] = ()
    operator_extra_links = (TableLink(), RunLink(), SparkLink())
    template_fields_renderers = {"query": "sql", "replace_where": "sql"}  # noqa: RUF012  (as Airflow declares it)
    ui_color = "#d7ecf2"

    def __init__(
        self,
        *,
        pipeline: PathLike | Sequence[PathLike] | None = None,
        target: str | None = None,
        replace_where: str | None = None,
        query: str | None = None,
        partitioned_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        table_properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        refresh_selection: Sequence[str] | str | None = None,
        as_of: datetime | str | None = None,
        time_zone: str = "UTC",
        null_keys: str | None = None,
        full_refresh: bool | Sequence[str] | str = False,
        allow_full_refresh: bool = False,
        refresh_policy: str = "auto",
        allow_missing_columns: bool = False,
        skip_unchanged: bool = False,
        max_deleted_rows: int | None = None,
        max_deleted_fraction: float | None = None,
        max_window_days: float | None = None,
        on_empty: str = "replace",
        on_overlap: str = "wait",
        wait_seconds: float = WAIT_SECONDS,
        root: str | None = None,
        exchange: str | None = None,
        history_conn_id: str = PredicateHistoryHook.default_conn_name,
        on_event: OnEvent | Sequence[OnEvent] | None = None,
        asset_uri: str = ASSET_URI,
        partition_keys: str | None = None,
        spark_history_url: str | None = None,
        dry_run: bool | str = False,
        name: str = "replacewhere",
        **kwargs: Any,
    ) -> None:
        for argument in ("application", "application_args", "java_class"):
            if argument in kwargs:
                raise TypeError(f"{type(self).__name__} brings its own application; take {argument} away.")
        super().__init__(name=name, **kwargs)
        self.pipeline = pipeline
        self.target = target
        self.replace_where = replace_where
        self.query = query
        self.partitioned_by = partitioned_by
        self.cluster_by = cluster_by
        self.table_properties = table_properties
        self.comment = comment
        self.refresh_selection = refresh_selection
        self.as_of = as_of
        self.time_zone = time_zone
        self.null_keys = null_keys
        self.full_refresh = full_refresh
        self.allow_full_refresh = allow_full_refresh
        self.refresh_policy = refresh_policy
        self.allow_missing_columns = allow_missing_columns
        self.skip_unchanged = skip_unchanged
        self.max_deleted_rows = max_deleted_rows
        self.max_deleted_fraction = max_deleted_fraction
        self.max_window_days = max_window_days
        self.on_empty = on_empty
        self.on_overlap = on_overlap
        self.wait_seconds = wait_seconds
        self.root = root
        self.exchange = exchange
        self.history_conn_id = history_conn_id
        self.on_event = on_event
        self.asset_uri = asset_uri
        self.partition_keys = partition_keys
        self.spark_history_url = spark_history_url
        self.plan_only = dry_run
        self._teller: Teller | None = None
        self._identity = Identity()
        self._sent: tuple[Path, Path] | None = None

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # it returns nothing
        """Run the flows.

        :return: the summary of the run, plain JSON
        """
        self._resumes = False
        return self._run_and_tell(context)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on where :meth:`execute` has freed the worker: the application has ended.

        :return: the same as :meth:`execute`
        """
        self.log.info("  application %s: %s", event["job"], event["state"])
        self._resumes = True
        return self._run_and_tell(context, event["waited_seconds"])

    def _run_and_tell(self, context: Context, waited_seconds: float = 0.0) -> dict[str, Any]:
        with as_airflow_errors():
            callbacks = check_callbacks(self.on_event)
            teller = self._teller = Teller(context, callbacks, self._conn_id, self.spark_history_url)
            teller.waited_seconds = waited_seconds
            with failures_told(teller):
                return self._run(context, teller)

    def _run(self, context: Context, teller: Teller) -> dict[str, Any]:
        check_on_overlap(self.on_overlap)
        check_asset_uri(self.asset_uri)
        if self.partition_keys is not None:
            # Imported here because no Dag file needs it.
            from airflow_provider_replacewhere.planning.partitions import check_partition_keys

            check_partition_keys(self.partition_keys)
        cluster = self._find_cluster()
        self.check_deferrable(context, is_remote=cluster.is_remote)
        definition = self._read_definition(context)
        asked = self._read_asked(definition, context)
        check_asked(asked, definition)
        hook = PredicateHistoryHook(self.history_conn_id)
        wanted = self._wanted(context, definition, asked)
        with self._exchange(context, cluster, wanted) as (exchange, running):
            ledger = Ledger(hook, running.identity if running else wanted.identity)
            request = running or self._request(wanted, exchange, definition, ledger)
            self._say(summary.request_lines(request, cluster.master))
            teller.begin(request, definition.selected(request.select))
            with ledger.running(request, definition, taken_up=running is not None):
                found = None if running else self._look(request, cluster)
                outcome = found or self._run_application(context, exchange, request, definition, teller, running)
                ledger.record(outcome)
            self.forget(context)
        self._tell(context, outcome)
        teller.end(outcome, without_spark=found is not None)
        outcome.raise_for_failure()
        return summary.xcom_value(outcome, request, self._busy(outcome) if request.dry_run else ())

    @property
    def links(self) -> dict[str, str]:
        """The addresses to show beside the task, by the keys of their XComs."""
        return self._teller.links if self._teller is not None else {}

    def _busy(self, outcome: JobOutcome) -> list[Lease]:
        """Who is writing what a plan would replace."""
        hook = PredicateHistoryHook(self.history_conn_id)
        targets = dict.fromkeys(report.target for report in outcome.reports)
        return [lease for target in targets for lease in hook.leases(target, waiting=True)]

    def _find_cluster(self) -> Cluster:
        cluster = cluster_of(self._conn_id, self._deploy_mode)
        check_spark_binary(self._conn_id, self._spark_binary, self.env_vars)
        return cluster

    def _read_definition(self, context: Context) -> Definition:
        zone_named(self.time_zone)
        return define(
            self.pipeline,
            {
                "target": self.target,
                "replace_where": self.replace_where,
                "query": self.query,
                "partitioned_by": tuple(self.partitioned_by),
                "clustered_by": tuple(self.cluster_by),
                "properties": dict(self.table_properties or {}),
                "comment": self.comment,
            },
            folders=folders_of(context),
            time_zone=self.time_zone,
            null_keys=self.null_keys,
        )

    def _read_asked(self, definition: Definition, context: Context) -> Asked:  # noqa: ARG002  (for subclasses)
        select = names("refresh_selection", self.refresh_selection)
        return Asked(
            select=select,
            full_refresh=full_refresh(self.full_refresh, select, definition),
            dry_run=truth("dry_run", self.plan_only),
        )

    @contextmanager
    def _exchange(
        self, context: Context, cluster: Cluster, wanted: RunRequest
    ) -> Iterator[tuple[Exchange, RunRequest | None]]:
        """The exchange with this try's application, and what it was asked where an earlier try has submitted it."""
        taken = self.take_up(context, wanted)
        exchange, running = taken or (open_exchange(wanted.run_id, cluster, self.exchange), None)
        is_deferred = False
        try:
            yield exchange, running
        except TaskDeferred:
            is_deferred = True
            raise
        finally:
            # One that has ended since it was left has its outcome there, with which the task goes on.
            if is_deferred or self.may_go_on(context):
                exchange.discard_folder()
            else:
                exchange.discard()

    def _wanted(self, context: Context, definition: Definition, asked: Asked) -> RunRequest:
        """What this task asks for, before anything is known of the tables and of earlier runs."""
        return RunRequest(
            run_id=uuid4().hex,
            as_of=instant_given(self.as_of, self.time_zone) if self.as_of else instant_of_run(context),
            documents=definition.documents,
            arguments=definition.arguments,
            time_zone=self.time_zone,
            overrides=asked.overrides,
            select=asked.select,
            full_refresh=asked.full_refresh,
            allow_full_refresh=self.allow_full_refresh,
            refresh_policy=self.refresh_policy,
            null_keys=self.null_keys,
            root=self.root,
            allow_missing_columns=self.allow_missing_columns,
            skip_unchanged=self.skip_unchanged,
            identity=identity_of(context),
            dry_run=asked.dry_run,
            only_stale=asked.only_stale,
            fingerprint=self._fingerprint(definition),
            logical_run=logical_run_of(context),
            undo=asked.undo,
            chunking=asked.chunking,
            chunk=asked.chunk,
            limits=Limits(
                max_deleted_rows=self.max_deleted_rows,
                max_deleted_fraction=self.max_deleted_fraction,
                max_window_days=self.max_window_days,
                on_empty=self.on_empty,
            ),
        )

    def _request(self, wanted: RunRequest, exchange: Exchange, definition: Definition, ledger: Ledger) -> RunRequest:
        known = ledger.slice(definition)
        return replace(
            wanted,
            previous=known.previous,
            coverage=known.coverage,
            earlier=ledger.earlier(definition),
            report_uri=exchange.report_uri,
            questions_uri=exchange.questions_uri,
            silence_seconds=self._silence_seconds(),
        )

    def _silence_seconds(self) -> float:
        delay: timedelta = self.retry_delay
        return NOTICED_SECONDS + delay.total_seconds() if self.outlives_worker else SILENCE_SECONDS

    def _look(self, request: RunRequest, cluster: Cluster) -> JobOutcome | None:
        """The outcome of a run that has nothing to do; None where Spark is needed, if only to tell."""
        if request.undo is not None:
            return None
        # Imported here because it brings the planner, which no Dag file needs.
        from airflow_provider_replacewhere.operators.lake import WorkerLake
        from airflow_provider_replacewhere.planning.quick_look import quick_look
        from airflow_provider_replacewhere.planning.table_log import InDoubtError

        try:
            outcome = quick_look(request, WorkerLake(self.root, is_remote=cluster.is_remote, exchange=self.exchange))
        except InDoubtError as doubt:
            self.log.info("  starting Spark: %s", doubt)
            return None
        except Exception:  # Spark can do without this look, whatever is wrong with it
            self.log.warning("  starting Spark: the look without it failed", exc_info=True)
            return None
        self.log.info("  Spark is not started: the ledger and the tables' logs prove everything fresh")
        return outcome

    def _fingerprint(self, definition: Definition) -> str | None:
        """Of all that decides what the flows mean; None where that cannot be told without Spark."""
        # Imported here because no Dag file needs it.
        from airflow_provider_replacewhere.operators.surroundings import fingerprint_of

        try:
            return fingerprint_of(self, self._conn_id, definition)
        except OSError as error:
            self.log.info("  a part of the configuration cannot be read: %s", error)
            return None

    def _run_application(
        self,
        context: Context,
        exchange: Exchange,
        request: RunRequest,
        definition: Definition,
        teller: Teller,
        running: RunRequest | None,
    ) -> JobOutcome:
        # Imported here because it brings the region algebra, which no Dag file needs.
        from airflow_provider_replacewhere.history.keeping import LedgerLeases

        code = code_package()
        exchange.put(request, keep=self.outlives_worker)
        self._sent_to = exchange
        self.application = str(code.application)
        # Only a name goes on the command line, which Airflow and Spark both log.
        self.application_args = [exchange.request_file.name]
        self.conf = with_delta(self.conf, self.properties_file)
        self._sent = (exchange.request_file, code.archive)
        self._hook = None
        self._identity = request.identity
        stop = Stop()
        waits = Waits(stop)
        history = PredicateHistoryHook(self.history_conn_id)
        history.get_conn()  # in this thread: only one at a time may ask Airflow for a connection
        leases = LedgerLeases(
            history,
            request.identity,
            self.on_overlap,
            self.wait_seconds,
            sleep=waits.sleep,
            on_lost=lambda _: self.on_kill(),
        )
        answers = answering(
            exchange,
            leases,
            stop,
            poll_seconds=0.1 if exchange.is_local else 2.0,
            taken_up=running is not None,
            on_contact=lambda: teller.is_running(exchange.application),
        )
        follow = following(
            exchange,
            partial(history.record_outcome, identity=request.identity),
            self._say,
            self.log.warning,
            every_seconds=LOCAL_SECONDS if exchange.is_local else REMOTE_SECONDS,
        )
        try:
            # The trigger of a task that is deferred answers from the first question on.
            with nullcontext() if self.deferrable else answers, follow:
                failure = self._submit(context)
        except TaskDeferred:
            if self._submitted is not None:
                teller.is_left(Application(self._submitted.job))
            raise
        teller.has_ended(waits.seconds)
        try:
            outcome = exchange.outcome()
        except SubmitError as missing:
            raise missing from failure
        if failure is None:
            return outcome
        return _of_failed_application(outcome, request, definition.selected(request.select))

    def trigger_of(self, submitted: Submitted) -> BaseTrigger:
        """See the parent's."""
        # Imported here because no Dag file needs it.
        from airflow_provider_replacewhere.triggers.application import ApplicationTrigger

        return ApplicationTrigger.of(self, self._conn_id, submitted, self._identity)

    def _submit(self, context: Context) -> Exception | None:
        """Start the application, wait for its end, and return the error with which it ended, if any."""
        # Airflow 2 takes a parent's execute that a subclass calls for a nested operator, and warns of it or refuses it.
        submit = getattr(SparkSubmitOperator.execute, "__wrapped__", SparkSubmitOperator.execute)
        try:
            submit(self, context)
        except (AirflowException, RuntimeError) as failure:  # the latter where the driver runs in the cluster
            return failure
        return None

    def _get_hook(self) -> SparkSubmitHook:
        """The parent's hook, which sends our files beside the user's.

        The attributes stay what the user gave: ``dag.test`` tries one operator object again and again.
        """
        given = self.files, self.py_files
        if self._sent is not None:
            self.files, self.py_files = (_joined(*pair) for pair in zip(given, self._sent, strict=True))
        try:
            return super()._get_hook()
        finally:
            self.files, self.py_files = given

    def _tell(self, context: Context, outcome: JobOutcome) -> None:
        for report in outcome.reports:
            self._say(summary.report_lines(report))
        for failure in outcome.failures:
            self._say(summary.failure_lines(failure))
        outlets, warn = self.outlets or (), self.log.warning
        tell_outlets(context, outlets, self.asset_uri, outcome.reports, self.partition_keys, warn)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  (as OpenLineage asks)
        """What the task read and wrote, for Airflow's OpenLineage provider."""
        # Imported here because it is no dependency.
        from airflow_provider_replacewhere.operators.facets import facets

        return facets(self._teller)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """The same of a task that failed: what ended well before is told."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def _say(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.log.info("%s", line)


def _of_failed_application(outcome: JobOutcome, request: RunRequest, flows: Sequence[Flow] | None) -> JobOutcome:
    """What an application that failed left behind: after every run it writes how far it is, so this may be a part.

    :param flows: those that it was to run; None: not known
    """
    reports = {report.flow: report for report in outcome.reports}
    ended = {flow for flow, last in reports.items() if request.chunking is None or _is_last(last)}
    if outcome.failures or outcome.error or (flows is not None and ended >= {flow.name for flow in flows}):
        return outcome
    error = SubmitError(
        f"The Spark application ended before it had run all flows; {', '.join(sorted(ended)) or 'none'} ended well.",
        hint="Look into this task's log above for what spark-submit said.",
    )
    return replace(outcome, error=error.to_json())


def _is_last(report: RunReport) -> bool:
    """Whether no chunk comes after this one."""
    return report.chunk is None or report.chunk.number == report.chunk.of


def _joined(given: str | None, path: Path) -> str:
    return f"{given},{path}" if given else str(path)
