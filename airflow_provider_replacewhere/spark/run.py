"""One run of one flow, step by step: from its declaration to the commit that is read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from airflow_provider_replacewhere.errors import (
    DefinitionError,
    ExpectationError,
    FullRefreshRefusedError,
    NullKeyError,
    SchemaError,
)
from airflow_provider_replacewhere.flows.alias import dotted_names, unqualify
from airflow_provider_replacewhere.flows.model import Flow, OnViolation, Pipeline, TableName
from airflow_provider_replacewhere.planning.coverage import Entry
from airflow_provider_replacewhere.planning.decide import Decision, Facts, decide
from airflow_provider_replacewhere.planning.pipeline import substituted
from airflow_provider_replacewhere.planning.planned import planned
from airflow_provider_replacewhere.planning.promise import Promise, promise
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.window import Window
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.spark import python_files, unchanged
from airflow_provider_replacewhere.spark.changes import Question, SourceChanges
from airflow_provider_replacewhere.spark.definition import definition_hash, unwatched
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.errors import in_short
from airflow_provider_replacewhere.spark.freshness import (
    coverage_of,
    entry,
    estimate,
    foreign_changes,
    is_deterministic,
    pins,
)
from airflow_provider_replacewhere.spark.schema import Fit, declared_schema, fit, require_unique, same_columns
from airflow_provider_replacewhere.spark.session import flow_session, make_safe, refuse_running_clocks
from airflow_provider_replacewhere.spark.skipping import gives_nothing
from airflow_provider_replacewhere.spark.sources import Sources
from airflow_provider_replacewhere.spark.target import EVERYTHING, RESET_ALLOWED, Commit, Layout, State, Target
from airflow_provider_replacewhere.spark.window import freeze_window
from airflow_provider_replacewhere.text import Span

EXPECTATION = "__expectation_"
# What Delta notes beside a column that is CHAR or VARCHAR: it may store another text than the query gives.
TEXT_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"

BeforeRead = Callable[[TableName, Span | None], None]


@dataclass(frozen=True)
class Setting:
    """What all runs of one application share."""

    session: SparkSession
    spark: python_files.PipelineSpark
    pipeline: Pipeline
    request: RunRequest

    @property
    def directory(self) -> DirectoryCatalog | None:
        return DirectoryCatalog(self.request.root) if self.request.root else None


def run_flow(
    setting: Setting, flow: Flow, *, override: str | None, full_refresh: bool, before: BeforeRead
) -> RunReport:
    """Replace one window of one target, or with ``dry_run`` say what that would do.

    :param override: predicate for this run in place of the flow's own
    :param full_refresh: replace the whole table by what the query gives for the window
    :param before: called for every table before it is read, so that the flow which fills it runs first
    :raises ReplaceWhereError: the run is refused or fails; the target is as it was
    """
    request, started = setting.request, _now()
    clock = Clock(request.as_of, flow.time_zone)
    session = flow_session(setting.session, clock, _session_settings(setting.pipeline, flow))
    target = Target.at(session, flow.target, setting.directory)
    state = target.state()

    sources = _sources(setting, flow, session, before)
    query = _query(setting, flow, sources, clock)
    require_unique(query.schema, str(flow.target))
    judged = _with_expectations(query, flow)
    read = sources.found(judged)
    if state is not None and any(source.path == state.path for source in read):
        raise _reads_its_target(flow, flow.query)  # by its path, or through a view
    plan = _columns(target, query, flow, state, full_refresh=full_refresh, allow_missing=request.allow_missing_columns)
    # In the target's types from here on: the same condition may hold for other rows of another type.
    rows = query.selectExpr(*plan.select)
    predicate = _predicate(setting, flow, override, rows)
    window = freeze_window(rows, predicate, clock, flow.null_keys)
    known = coverage_of(request.coverage.get(str(flow.target)))
    definition = definition_hash(
        judged,
        _session_settings(setting.pipeline, flow),
        [f"{e.name}:{e.on_violation}" for e in flow.table.expectations],
        [document.text for document in setting.pipeline.documents if document.is_python],
    )
    previous = request.previous.get(str(flow.target))
    changes = SourceChanges(
        session,
        _question(judged, plan, window, state, request.refresh_policy),
        {source.name: source for source in read},
        definition,
        (previous or {}).get("lineage"),
    )
    facts = Facts(
        window=window.sql,
        region=window.region,
        definition_hash=definition,
        pins=pins(read),
        target_exists=state is not None,
        target_id=state.table_id if state else None,
        target_version=state.version if state else None,
        coverage=known,
        foreign=foreign_changes(session, state, window, known),
        previous=previous,
        override=override,
        evaluated=window.evaluated,
        query_is_deterministic=is_deterministic(judged),
        full_refresh=full_refresh,
        only_stale=request.only_stale,
        changes=changes,
    )
    decision = decide(facts, request.refresh_policy)
    found = {"table_id": state.table_id, "path": state.path} if state is not None else {}
    shown = [source.to_json() for source in read]

    def decided(decision: Decision) -> RunReport:
        report = planned(request, flow, started, predicate.text, facts, decision, shown, found)
        return replace(report, window_types=window.types, unwatched=unwatched(judged), lineage=changes.answered)

    report = decided(decision)
    if full_refresh:
        _check_full_refresh(target, flow, state, window, allowed=request.allow_full_refresh)
    if request.dry_run:
        return replace(report, estimate=estimate(target, report.replaced) if state else None)

    def unwritten(report: RunReport, promised: Promise) -> RunReport:
        assert state is not None
        proof = entry(session, facts, promised, window, state, None, report.run_id)
        return replace(report, coverage=proof.to_json(), finished_at=_now())

    if decision.mode is Mode.NO_OP:
        return unwritten(report, promise(facts, decision))
    replaced = window.sql if decision.stale is None else decision.stale.to_sql()
    _check_null_keys(rows, window, flow)
    with _checked(rows.where(replaced), flow, keep=request.skip_unchanged) as (kept, expectations):
        if request.skip_unchanged and state is not None and not plan.added:
            decision = _without_unchanged(decision, facts, kept, session, state, window)
            report = decided(decision)
            if decision.mode is Mode.NO_OP:
                return replace(unwritten(report, promise(facts, decision)), expectations=expectations)
            replaced = window.sql if decision.stale is None else decision.stale.to_sql()
            kept = kept.where(replaced)
        if state is None:
            target.create(flow.table, declared_schema(session, query.schema, flow.table.columns, str(flow.target)))
            state = target.state()
        assert state is not None
        promised = promise(facts, decision)
        metadata = _commit_metadata(report, replaced, promised)
        commit = _write(target, flow, kept, report, plan, replaced, metadata)
    proof = entry(session, facts, promised, window, state, commit, report.run_id)
    report = _done(report, replaced, commit, expectations, plan.added if facts.target_exists else (), proof)
    columns = tuple(dict.fromkeys((*(field.name for field in state.schema), *rows.columns)))
    same = unchanged.count(session, state.path, columns, commit)
    return replace(report, rows_unchanged=same, finished_at=_now())


# -- the steps ---------------------------------------------------------------------------------------------------------


def _session_settings(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    own = {key: value for key, value in pipeline.settings.items() if not key.lower().startswith("replacewhere.")}
    return own | dict(flow.spark_conf)


def _sources(setting: Setting, flow: Flow, session: SparkSession, before: BeforeRead) -> Sources:
    def before_read(name: TableName, span: Span | None) -> None:
        if name.key == flow.target.key:
            raise _reads_its_target(flow, span)
        before(name, span)

    return Sources(
        session,
        directory=setting.directory,
        views={view.name.key: view for view in setting.pipeline.views},
        before_read=before_read,
        call=lambda function, reading: python_files.call(function, reading, setting.spark),
        prepare=lambda query: substituted(query, setting.pipeline.settings),
    )


def _reads_its_target(flow: Flow, span: Span | None) -> DefinitionError:
    return DefinitionError(
        f"The flow {flow.name} reads its own target.",
        hint="A second run would not give what the first gave. Read the tables that the target is made from.",
        span=span,
    )


def _query(setting: Setting, flow: Flow, sources: Sources, clock: Clock) -> DataFrame:
    if flow.function is not None:
        frame = python_files.call(flow.function, sources, setting.spark)
    else:
        assert flow.query is not None
        frame = sources.sql(flow.query)
    # Views and functions may have set what they liked.
    make_safe(sources.session, clock)
    refuse_running_clocks(frame._jdf.queryExecution().analyzed(), f"The query of {flow.name}")
    return frame


def _with_expectations(query: DataFrame, flow: Flow) -> DataFrame:
    """The query with the conditions of its expectations: they decide too which rows there are."""
    conditions = [f"({e.condition}) AS `{EXPECTATION}{i}`" for i, e in enumerate(flow.table.expectations)]
    try:
        judged = query.selectExpr("*", *conditions)
    except PySparkException as error:
        raise _no_expectation(flow, error) from error
    refuse_running_clocks(judged._jdf.queryExecution().analyzed(), f"An expectation of {flow.target}")
    return judged


def _no_expectation(flow: Flow, error: PySparkException) -> DefinitionError:
    return DefinitionError(
        f"An expectation of {flow.target} cannot be evaluated: {in_short(error)}",
        hint="An expectation is a condition over the query's output columns.",
        span=flow.table.span,
    )


def _predicate(setting: Setting, flow: Flow, override: str | None, rows: DataFrame) -> Span:
    """The predicate's text over the target's columns."""
    if override is not None:
        # Data, never code: no variables are filled in here. And it is about the target alone.
        return Span.of(override, f"predicate_override for {flow.name}")
    predicate = substituted(flow.replace_where, setting.pipeline.settings)
    if flow.query is None:
        return predicate
    text = unqualify(predicate, substituted(flow.query, setting.pipeline.settings))
    if text == predicate.text:
        return predicate
    structs = {f.name.lower() for f in rows.schema if isinstance(f.dataType, StructType | MapType)}
    for path, span in dotted_names(predicate):
        if len(path) > 1 and path[0].lower() in structs:
            raise DefinitionError(
                f"{path[0]} is a source of the query and a column of its result.",
                hint="Give the source another alias, so that it is clear which of the two is meant.",
                span=span,
            )
    return Span.of(text, predicate.document.name)


def _question(judged: DataFrame, plan: Fit, window: Window, state: State | None, policy: str) -> Question:
    """What to ask of the sources' changes."""
    conditions = [name for name in judged.columns if name.startswith(EXPECTATION)]
    rows = judged.selectExpr(*plan.select, *(f"`{name}`" for name in conditions))
    texts = {f.name for f in state.schema if TEXT_LENGTH in f.metadata} if state is not None else set()
    layout = state.partition_columns if state is not None else ()
    keys = {name.lower() for name in (*window.columns, *layout)}
    names = [name for name in rows.columns if name not in conditions and name not in texts]
    return Question(
        rows,
        window.region,
        columns=sorted(names, key=lambda name: name.lower() not in keys),
        keys=frozenset(name for name in names if name.lower() in keys),
        thorough=policy in ("incremental", "incremental_strict"),
    )


def _check_full_refresh(target: Target, flow: Flow, state: State | None, window: Window, *, allowed: bool) -> None:
    if state is None:
        return
    properties = {**flow.table.properties, **state.properties}
    forbidden = next((v for k, v in properties.items() if k.lower() == RESET_ALLOWED), "true").lower() == "false"
    if allowed and not forbidden:
        return
    lost = target.count_outside(window.sql) if set(window.columns) <= _known(state) else None
    count = "rows" if lost is None else "1 row" if lost == 1 else f"{lost} rows"
    hint = (
        f"The table says {RESET_ALLOWED} = false: change that property first."
        if forbidden
        else "Set allow_full_refresh=True to lose them, or refresh a window."
    )
    raise FullRefreshRefusedError(
        f"A full refresh of {target} would lose {count} outside {window.sql}.", hint=hint, span=flow.span
    )


def _known(state: State) -> set[str]:
    return {name for field in state.schema for name in (field.name,)}


def _check_null_keys(query: DataFrame, window: Window, flow: Flow) -> None:
    """With ``null_keys = fail``, refuse rows of which the predicate cannot tell whether they belong.

    A range window neither deletes such rows nor may they be written, so they would be lost without a word.
    """
    keys = {name.lower() for name in window.columns}
    if flow.null_keys != "fail" or not any(f.nullable for f in query.schema if f.name.lower() in keys):
        return
    undecided = query.where(window.unknown)
    unknown = 0 if gives_nothing(undecided) else undecided.count()
    if unknown:
        raise NullKeyError(
            f"The query of {flow.name} gives {unknown} {'row' if unknown == 1 else 'rows'} with NULL in "
            f"{' or '.join(window.columns)}, so that the predicate cannot tell whether they belong to the window.",
            hint="Set null_keys (table property replacewhere.nullKeys) to 'drop' to leave them out, to 'include' to "
            "have them replaced with every window, or give the column a value in the query.",
            span=flow.replace_where,
        )


def _without_unchanged(
    decision: Decision, facts: Facts, rows: DataFrame, session: SparkSession, state: State, window: Window
) -> Decision:
    """The decision without the part of what it replaces in which the target holds the same rows already."""
    if decision.mode is Mode.FULL_REFRESH or not facts.region.is_exact:
        return decision
    if set(rows.columns) != {field.name for field in state.schema}:
        return decision
    region = facts.region if decision.stale is None else decision.stale
    old = session.read.format("delta").option("versionAsOf", str(state.version)).load(state.path)
    differs = unchanged.difference(rows, old.where(region.to_sql()), region, window.columns)
    if differs is None or differs == region:
        return decision
    mode = Mode.NO_OP if differs.is_empty else Mode.INCREMENTAL
    return replace(decision, mode=mode, stale=differs, fresh=facts.region.subtract(differs))


@contextmanager
def _checked(rows: DataFrame, flow: Flow, *, keep: bool) -> Iterator[tuple[DataFrame, dict[str, dict[str, Any]]]]:
    """The rows that are to be written, and how many broke each expectation.

    :param keep: whether they are read more than once even without expectations
    :raises ExpectationError: one broke an expectation that fails the run
    """
    if not flow.table.expectations and not keep:
        yield rows, {}
        return
    # Counted and written from one evaluation: a query may not give the same rows twice.
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _judged(kept, flow)
    finally:
        # The very frame that was kept: a later run over the same files would be answered from memory.
        kept.unpersist()


def _judged(rows: DataFrame, flow: Flow) -> tuple[DataFrame, dict[str, dict[str, Any]]]:
    expectations = flow.table.expectations
    if not expectations:
        return rows, {}
    broken = {e.name: f"NOT coalesce(CAST(({e.condition}) AS BOOLEAN), false)" for e in expectations}
    try:
        counts = rows.agg(*(F.count_if(F.expr(sql)).alias(name) for name, sql in broken.items())).collect()[0]
    except PySparkException as error:
        raise _no_expectation(flow, error) from error
    found = {e.name: {"action": str(e.on_violation), "violations": int(counts[e.name])} for e in expectations}
    failed = [e for e in expectations if e.on_violation is OnViolation.FAIL_UPDATE and counts[e.name]]
    if failed:
        raise ExpectationError(
            f"{counts[failed[0].name]} rows for {flow.target} break the expectation {failed[0].name}: "
            f"{failed[0].condition}.",
            hint="Nothing was written. Correct the source or the query, or let the expectation drop the rows.",
            span=flow.table.span,
        )
    for expectation in expectations:
        if expectation.on_violation is OnViolation.DROP_ROW:
            rows = rows.where(f"NOT ({broken[expectation.name]})")
    return rows, found


def _columns(
    target: Target, query: DataFrame, flow: Flow, state: State | None, *, full_refresh: bool, allow_missing: bool
) -> Fit:
    """How the query's columns go into the target's, which for a new or refreshed table are the declared ones."""
    session, declared = target.session, flow.table.columns
    if state is not None and not full_refresh:
        return fit(session, query.schema, state.schema, str(flow.target), allow_missing=allow_missing)
    schema = declared_schema(session, query.schema, declared, str(flow.target))
    found = fit(session, query.schema, schema, str(flow.target), allow_missing=allow_missing)
    if state is not None and same_columns(schema, state.schema) and _same_layout(flow, target):
        return fit(session, query.schema, state.schema, str(flow.target), allow_missing=allow_missing)
    if declared and found.added:
        raise SchemaError(
            f"The query gives {', '.join(found.added)}, which {flow.target} does not declare.",
            hint="Declare the column, or leave it out of the query.",
            span=flow.table.span,
        )
    return replace(found, redefines=state is not None)


def _same_layout(flow: Flow, target: Target) -> bool:
    declared = Layout(flow.table.partitioned_by, flow.table.clustered_by)
    return declared == Layout() or declared.key == target.layout().key


def _write(
    target: Target, flow: Flow, rows: DataFrame, report: RunReport, plan: Fit, replaced: str, metadata: str
) -> Commit:
    if plan.redefines:
        return target.refresh(rows, flow.table, token=report.token, metadata=metadata)
    where = EVERYTHING if report.mode is Mode.FULL_REFRESH else replaced
    return target.replace(rows, where, token=report.token, metadata=metadata, new_columns=bool(plan.added))


def _commit_metadata(report: RunReport, replaced: str, promised: Promise) -> str:
    """What the commit says of itself, so that the log alone tells which run wrote it, from what, and what it proves."""
    kept = ("flow", "run_id", "token", "mode", "window", "as_of", "definition_hash", "source_versions", "override")
    value = {name: report.to_json()[name] for name in kept}
    value |= {"replaced": replaced, "promise": promised.to_json(), "evaluated": dict(report.evaluated)}
    return json.dumps({"replacewhere": {"version": 1, **value}}, sort_keys=True)


def _done(
    report: RunReport,
    replaced: str,
    commit: Commit,
    expectations: Mapping[str, Mapping[str, Any]],
    added: tuple[str, ...],
    proof: Entry,
) -> RunReport:
    return replace(
        report,
        replaced="TRUE" if report.mode is Mode.FULL_REFRESH else replaced,
        target_version=commit.version,
        rows_deleted=commit.rows_deleted,
        rows_written=commit.rows_written,
        bytes_written=commit.bytes_written,
        expectations=expectations,
        columns_added=added,
        coverage=proof.to_json(),
        finished_at=_now(),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()
