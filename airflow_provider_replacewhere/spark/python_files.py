"""Pipeline files in Python: run in the driver, with a ``spark`` that reads pinned sources."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from airflow_provider_replacewhere.errors import DefinitionError, ReplaceWhereError
from airflow_provider_replacewhere.flows import decorators
from airflow_provider_replacewhere.flows.declarations import to_pipeline
from airflow_provider_replacewhere.flows.model import NullKeys, Pipeline
from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.spark.columns import column_to_sql
from airflow_provider_replacewhere.spark.sources import Sources
from airflow_provider_replacewhere.text import Document, Span


class PipelineSpark:
    """The global ``spark`` of a pipeline file: the flow's own session, with all reads by name pinned.

    While a query function runs, it is that flow's session; between, while the file itself is run, the caller's.
    """

    def __init__(self, session: SparkSession) -> None:
        self._outside = session
        self._sources: list[Sources] = []

    def __getattr__(self, name: str) -> Any:
        if name == "readStream":
            raise DefinitionError("A REPLACE WHERE flow reads whole tables, not streams.", hint="Use spark.read.")
        return getattr(self._session, name)

    def table(self, tableName: str) -> DataFrame:
        """As ``SparkSession.table``, at the version that this run reads."""
        sources = self._reading(f"spark.table({tableName!r})")
        return sources.table(parse_table_name(tableName), Span.of(tableName, "spark.table argument"))

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """As ``SparkSession.sql``, every table in the text at the version that this run reads."""
        sources = self._reading("spark.sql(…)")
        arguments = {} if args is None else {"args": args}
        # {name} in the text, as Spark has it: literals, Columns, and DataFrames by way of temporary views.
        formatter = SQLStringFormatter(sources.session)
        try:
            text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
            return sources.sql(Span.of(text, "spark.sql argument"), **arguments)
        finally:
            formatter.clear()

    @property
    def read(self) -> _PipelineRead:
        return _PipelineRead(self, self._session.read)

    @property
    def _session(self) -> SparkSession:
        return self._sources[-1].session if self._sources else self._outside

    def _reading(self, what: str) -> Sources:
        if not self._sources:
            raise DefinitionError(
                f"{what} is called while the pipeline file is loaded.",
                hint="Read tables inside the functions under @dp.table or @dp.temporary_view: only there it is known "
                "which version a run reads.",
            )
        return self._sources[-1]

    @contextmanager
    def reading(self, sources: Sources) -> Iterator[None]:
        """Let this ``spark`` read on behalf of one flow."""
        self._sources.append(sources)
        try:
            with _as_active_session(self):
                yield
        finally:
            self._sources.pop()


class _PipelineRead:
    """``spark.read``: tables by name and Delta folders are pinned, other files are read as they are."""

    def __init__(self, spark: PipelineSpark, reader: Any, format_name: str = "", has_options: bool = False) -> None:
        self._spark = spark
        self._reader = reader
        self._format = format_name
        self._has_options = has_options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def format(self, source: str) -> _PipelineRead:
        return _PipelineRead(self._spark, self._reader.format(source), source.lower(), self._has_options)

    def option(self, key: str, value: Any) -> _PipelineRead:
        return _PipelineRead(self._spark, self._reader.option(key, value), self._format, True)

    def options(self, **options: Any) -> _PipelineRead:
        return _PipelineRead(self._spark, self._reader.options(**options), self._format, True)

    def schema(self, schema: Any) -> _PipelineRead:
        return _PipelineRead(self._spark, self._reader.schema(schema), self._format, self._has_options)

    def table(self, tableName: str) -> DataFrame:
        # With options, such as versionAsOf, the author says how to read; what is not pinned so counts as unversioned.
        if not self._has_options:
            return self._spark.table(tableName)
        frame: DataFrame = self._reader.table(tableName)
        return frame

    def load(self, path: Any = None, format: Any = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002
        plain = schema is None and not options and not self._has_options
        if plain and isinstance(path, str) and (format or self._format) == "delta":
            return self._spark.table(f"delta.`{path}`")
        frame: DataFrame = self._reader.load(path, format, schema, **options)
        return frame


def run_file(
    document: Document, spark: PipelineSpark, *, time_zone: str = "UTC", null_keys: NullKeys = "fail"
) -> Pipeline:
    """The flows and views that a Python pipeline file declares.

    Files written for Spark's declarative pipelines run unchanged: ``from pyspark import pipelines as dp`` gives this
    package's decorators while the file runs, and ``spark`` is there without being asked for.

    :param time_zone: IANA name for flows whose table properties name none
    :param null_keys: policy for flows whose table properties name none
    :raises DefinitionError: the file fails, or declares something that is no REPLACE WHERE flow
    """
    namespace = {"__name__": Path(document.name).stem, "__file__": document.name, "spark": spark}
    with decorators.collecting(document) as declarations, _as_pyspark_pipelines(), _as_active_session(spark):
        try:
            exec(compile(document.text, document.name, "exec"), namespace)
        except ReplaceWhereError:
            raise
        except Exception as error:
            raise DefinitionError(
                f"The pipeline file {document.name} fails: {type(error).__name__}: {error}",
                hint="It is run in the Spark driver; modules that it imports must be there (py_files).",
                span=_line_of(error, document),
            ) from error
    session = spark._outside
    return to_pipeline(
        declarations,
        document,
        lambda column: column_to_sql(session, column),
        time_zone=time_zone,
        null_keys=null_keys,
    )


def call(function: Callable[[], Any], sources: Sources, spark: PipelineSpark) -> DataFrame:
    """The DataFrame that a query function gives.

    :raises DefinitionError: the function fails, or gives something else
    """
    name = getattr(function, "__name__", "function")
    try:
        with spark.reading(sources):
            frame = function()
    except ReplaceWhereError:
        raise
    except Exception as error:
        raise DefinitionError(f"The query function {name} fails: {type(error).__name__}: {error}") from error
    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"The query function {name} gives a {type(frame).__name__}.", hint="It must return a DataFrame."
        )
    if not frame._jdf.sparkSession().equals(sources.session._jsparkSession):
        raise DefinitionError(
            f"The query function {name} gives a DataFrame of another Spark session than the flow's.",
            hint="Its clock, time zone and settings are not the flow's. Use the global spark of the pipeline file, or "
            "SparkSession.active(), inside the function.",
        )
    if frame.isStreaming:
        raise DefinitionError(f"The query function {name} gives a streaming DataFrame.", hint="Use spark.read.")
    return frame


def _line_of(error: BaseException, document: Document) -> Span | None:
    """The innermost line of the file itself that was running when it failed."""
    number = error.lineno if isinstance(error, SyntaxError) else None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == document.name:
            number = traceback.tb_lineno
        traceback = traceback.tb_next
    if number is None:
        return None
    start = sum(len(line) + 1 for line in document.text.split("\n")[: number - 1])
    return Span(document, start, start + len(document.line(number))).strip()


@contextmanager
def _as_pyspark_pipelines() -> Iterator[None]:
    """Put this package's decorators where ``from pyspark import pipelines`` looks, for the time being.

    Spark has a module of that name from 4.1 on, whose ``table`` knows no ``replace_where``.
    """
    import pyspark

    shim = ModuleType("pyspark.pipelines", decorators.__doc__)
    shim.__getattr__ = lambda name: getattr(decorators, name)  # type: ignore[method-assign]
    missing = object()
    before = sys.modules.get("pyspark.pipelines", missing), getattr(pyspark, "pipelines", missing)
    sys.modules["pyspark.pipelines"] = shim
    pyspark.pipelines = shim  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if before[0] is missing:
            del sys.modules["pyspark.pipelines"]
        else:
            sys.modules["pyspark.pipelines"] = before[0]  # type: ignore[assignment]
        if before[1] is missing:
            del pyspark.pipelines  # type: ignore[attr-defined]
        else:
            pyspark.pipelines = before[1]  # type: ignore[attr-defined]


@contextmanager
def _as_active_session(spark: PipelineSpark) -> Iterator[None]:
    """Let ``SparkSession.active()`` and its like give the pipeline's ``spark``: files for Spark's pipelines ask so."""
    names = ("active", "getActiveSession")
    before = {name: SparkSession.__dict__[name] for name in names}
    build = SparkSession.Builder.getOrCreate
    for name in names:
        setattr(SparkSession, name, staticmethod(lambda: spark))
    SparkSession.Builder.getOrCreate = lambda _: spark  # type: ignore[assignment, method-assign, return-value]
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(SparkSession, name, value)
        SparkSession.Builder.getOrCreate = build  # type: ignore[method-assign]
