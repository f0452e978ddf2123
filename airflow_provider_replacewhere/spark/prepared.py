"""What a run is about, before it is decided how much of it has to be done: query, columns, predicate, window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import MapType, StructType

from airflow_provider_replacewhere.errors import DefinitionError, SchemaError
from airflow_provider_replacewhere.flows.alias import dotted_names, unqualify
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, TableName
from airflow_provider_replacewhere.planning.leasing import Leases, NoLeases
from airflow_provider_replacewhere.planning.pipeline import substituted
from airflow_provider_replacewhere.planning.report import Found
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.window import Window
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.spark import python_files
from airflow_provider_replacewhere.spark.changes import Question
from airflow_provider_replacewhere.spark.definition import definition_hash
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.errors import in_short
from airflow_provider_replacewhere.spark.schema import Fit, declared_schema, fit, require_unique, same_columns
from airflow_provider_replacewhere.spark.session import flow_session, make_safe, refuse_running_clocks
from airflow_provider_replacewhere.spark.sources import Source, Sources
from airflow_provider_replacewhere.spark.target import Layout, State, Target
from airflow_provider_replacewhere.spark.window import freeze_window
from airflow_provider_replacewhere.text import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPECTATION = "__expectation_"
# What Delta notes beside a column that is CHAR or VARCHAR: it may store another text than the query gives.
TEXT_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"

BeforeRead = Callable[[TableName, Span | None], None]


@dataclass(frozen=True)
class Setting:
    """What all runs of one application share.

    :param leases: who is asked for the regions that the runs write
    :param found: the runs that the ledger does not know, as they are come upon
    :param schemas: by target, the types of its columns as the last run leaves them
    """

    session: SparkSession
    spark: python_files.PipelineSpark
    pipeline: Pipeline
    request: RunRequest
    leases: Leases = field(default_factory=NoLeases)
    found: list[Found] = field(default_factory=list)
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def directory(self) -> DirectoryCatalog | None:
        return DirectoryCatalog(self.request.root) if self.request.root else None


@dataclass(frozen=True)
class Prepared:
    """One run's flow, read and understood.

    :param session: of this flow alone
    :param state: the target as it is; None where there is none yet
    :param query: as the user wrote it
    :param judged: the same with the conditions of the expectations
    :param fit: how its columns go into the target's
    :param rows: the query in the target's types
    :param sources: all that was found to be read, pinned
    :param predicate: over the target's columns, with its time functions
    """

    session: SparkSession
    flow: Flow
    target: Target
    state: State | None
    query: DataFrame
    judged: DataFrame
    fit: Fit
    rows: DataFrame
    sources: Sequence[Source]
    predicate: Span
    window: Window
    definition_hash: str

    @property
    def version(self) -> int | None:
        """The target's version; None where there is no table."""
        return None if self.state is None else self.state.version

    def schema(self, *, is_written: bool) -> dict[str, str]:
        """The types of the target's columns, by name.

        :param is_written: whether as they are when the query has been written to it
        """
        there = () if self.state is None or (is_written and self.fit.redefines) else self.state.schema
        columns = [*there, *(self.rows.schema if is_written else ())]
        types: dict[str, str] = {}
        for column in columns:
            if column.name.lower() not in (name.lower() for name in types):
                types[column.name] = column.dataType.simpleString()
        return types

    def question(self, policy: str) -> Question:
        """What to ask of the sources' changes."""
        conditions = [name for name in self.judged.columns if name.startswith(EXPECTATION)]
        rows = self.judged.selectExpr(*self.fit.select, *(f"`{name}`" for name in conditions))
        texts = {f.name for f in self.state.schema if TEXT_LENGTH in f.metadata} if self.state is not None else set()
        layout = self.state.partition_columns if self.state is not None else ()
        keys = {name.lower() for name in (*self.window.columns, *layout)}
        names = [name for name in rows.columns if name not in conditions and name not in texts]
        return Question(
            rows,
            self.window.region,
            columns=sorted(names, key=lambda name: name.lower() not in keys),
            keys=frozenset(name for name in names if name.lower() in keys),
            thorough=policy in ("incremental", "incremental_strict"),
        )


def prepare(setting: Setting, flow: Flow, *, override: str | None, full_refresh: bool, before: BeforeRead) -> Prepared:
    """Read a flow's sources, query and predicate.

    :param override: predicate for this run in place of the flow's own
    :param full_refresh: whether the whole table is replaced by what the query gives for the window
    :param before: called for every table before it is read, so that the flow which fills it runs first
    :raises ReplaceWhereError: the flow cannot be run as it is
    """
    request = setting.request
    clock = Clock(request.as_of, flow.time_zone)
    settings = _session_settings(setting.pipeline, flow)
    session = flow_session(setting.session, clock, settings)
    target = Target.at(session, flow.target, setting.directory)
    state = target.state()

    sources = _sources(setting, flow, session, before)
    query = _query(setting, flow, sources, clock)
    require_unique(query.schema, str(flow.target))
    judged = _with_expectations(query, flow)
    read = sources.found(judged)
    if state is not None and any(source.path == state.path for source in read):
        raise _reads_its_target(flow, flow.query)  # by its path, or through a view
    found = _columns(target, query, flow, state, full_refresh=full_refresh, allow_missing=request.allow_missing_columns)
    # In the target's types from here on: the same condition may hold for other rows of another type.
    rows = query.selectExpr(*found.select)
    predicate = _predicate(setting, flow, override, rows)
    return Prepared(
        session=session,
        flow=flow,
        target=target,
        state=state,
        query=query,
        judged=judged,
        fit=found,
        rows=rows,
        sources=read,
        predicate=predicate,
        window=freeze_window(rows, predicate, clock, flow.null_keys),
        definition_hash=definition_hash(
            judged,
            settings,
            [f"{e.name}:{e.on_violation}" for e in flow.table.expectations],
            [document.text for document in setting.pipeline.documents if document.is_python],
        ),
    )


def no_expectation(flow: Flow, error: PySparkException) -> DefinitionError:
    """The error of an expectation that is no condition over the query's columns."""
    return DefinitionError(
        f"An expectation of {flow.target} cannot be evaluated: {in_short(error)}",
        hint="An expectation is a condition over the query's output columns.",
        span=flow.table.span,
    )


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
    refuse_running_clocks(frame, f"The query of {flow.name}")
    return frame


def _with_expectations(query: DataFrame, flow: Flow) -> DataFrame:
    """The query with the conditions of its expectations: they decide too which rows there are."""
    if not flow.table.expectations:
        return query
    conditions = [f"({e.condition}) AS `{EXPECTATION}{i}`" for i, e in enumerate(flow.table.expectations)]
    try:
        judged = query.selectExpr("*", *conditions)
    except PySparkException as error:
        raise no_expectation(flow, error) from error
    refuse_running_clocks(judged, f"An expectation of {flow.target}")
    return judged


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
