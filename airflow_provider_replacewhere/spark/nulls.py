"""Rows without a key, ruled out by the logs of the sources, so that no query has to be run to look for them.

Catalyst is asked what the query, filtered by "a key is NULL", reads; see :mod:`..planning.nulls`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from airflow_provider_replacewhere.planning.coverage import Pin
from airflow_provider_replacewhere.planning.nulls import (
    NEVER,
    Formula,
    NullsKnown,
    all_of,
    any_of,
    holds,
    no_nulls_in,
)
from airflow_provider_replacewhere.planning.touched import has_no_null
from airflow_provider_replacewhere.spark.jvm import class_name, seq, to_seq
from airflow_provider_replacewhere.spark.lineage import asking, conjuncts
from airflow_provider_replacewhere.spark.log import layout_of_frame
from airflow_provider_replacewhere.spark.multiset import quoted
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.skipping import emptiness, gives_nothing
from airflow_provider_replacewhere.spark.sources import Source, pinned, source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.planning.changes import LogCommit
    from airflow_provider_replacewhere.planning.decide import SourceChange
    from airflow_provider_replacewhere.planning.window import Window


@dataclass
class KeyNulls:
    """What is known of the rows without a key that one run's query may give.

    :param rows: the query, in the types of the target
    :param definition_hash: of the query
    :param commits: those that changed rows of a source since a version, or what makes them say nothing of it
    :param kept: what an earlier run has found out, as the ledger keeps it
    """

    rows: DataFrame
    window: Window
    sources: Mapping[str, Source]
    definition_hash: str
    commits: Callable[[str, Pin], tuple[LogCommit, ...] | SourceChange]
    kept: Mapping[str, Any] | None = None
    _proven: dict[tuple[str, str], Pin] = field(default_factory=dict)

    def ruled_out(self) -> bool:
        """Whether it is certain that the predicate can tell of every row whether it belongs."""
        return self._is_told_by_keys() and holds(self.formula, self._has_no_nulls)

    def to_json(self) -> dict[str, Any] | None:
        """What is known by now, for the ledger."""
        if "formula" not in self.__dict__:
            return None if self._known is None else self._known.to_json()
        before = self._known.proven if self._known is not None else {}
        return NullsKnown(self._key, self.formula, {**before, **self._proven}).to_json()

    @cached_property
    def formula(self) -> Formula:
        """What has to hold so that no key is NULL: from the ledger, or else by asking Catalyst."""
        if self._known is not None:
            return self._known.formula
        return ask(self.rows, self.window.columns, self.sources.values())

    @cached_property
    def _known(self) -> NullsKnown | None:
        return NullsKnown.from_json(self.kept, self._key)

    @cached_property
    def _key(self) -> str:
        parts = (self.definition_hash, self.rows.schema.json(), *sorted(self.window.columns))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _is_told_by_keys(self) -> bool:
        """Whether the predicate is never NULL where no key is: by what Catalyst says of its parts."""
        session, keys = self.rows.sparkSession, {name.lower() for name in self.window.columns}
        fields = [StructField(f.name, f.dataType, f.name.lower() not in keys) for f in self.rows.schema]
        try:
            asked = session.createDataFrame([], StructType(fields)).selectExpr(self.window.unknown)
        except PySparkException:
            return False
        (column,) = seq(asked._jdf.queryExecution().analyzed().projectList())
        is_null = column.child()
        return class_name(is_null) == "IsNull" and not is_null.child().nullable()

    def _has_no_nulls(self, name: str, column: str) -> bool:
        source = self.sources.get(name)
        if source is None or source.version is None or source.path is None:
            return False
        session, now = self.rows.sparkSession, Pin(source.version, source.table_id)
        before = self._known.proven.get((name, column)) if self._known is not None else None
        is_filled = before is not None and self._bring_none(source, column, before, now)
        if not is_filled and not gives_nothing(pinned(session, source).where(f"{quoted([column])[0]} IS NULL")):
            return False
        self._proven[name, column] = now
        return True

    def _bring_none(self, source: Source, column: str, before: Pin, now: Pin) -> bool:
        """Whether no NULL has come into a column since a version at which it had none."""
        if before.table_id != now.table_id:
            return False
        if before.version == now.version:
            return True
        commits = self.commits(source.name, before)
        return isinstance(commits, tuple) and _are_filled(self.rows.sparkSession, source, column, commits)


def ask(rows: DataFrame, keys: Iterable[str], sources: Iterable[Source]) -> Formula:
    """What has to hold so that no row that a query gives has a NULL among some columns.

    :param sources: what the query reads, as :meth:`Sources.found` tells it
    """
    session = rows.sparkSession
    names = {(source.path, source.version): source.name for source in sources}
    without = rows.where(" OR ".join(f"{key} IS NULL" for key in quoted(keys)))

    def of_filter(node: Any) -> Formula:
        (below,) = seq(node.children())
        source = source_of(below) if class_name(below) == "LogicalRelation" else None
        name = None if source is None else names.get((source.path, source.version))
        return NEVER if name is None else _never(session, node.condition(), below, name)

    try:
        with asking(session):
            plan = session._jsparkSession.sessionState().optimizer().execute(without._jdf.queryExecution().analyzed())
            return emptiness(plan, lambda _: NEVER, of_filter)
    except (Py4JError, PySparkException):
        return NEVER


def _never(session: SparkSession, condition: Any, scan: Any, source: str) -> Formula:
    """What has to hold so that a condition over a scan's columns is never TRUE."""
    parts = conjuncts(condition)
    ids = [a.exprId().id() for part in parts if class_name(part) == "IsNotNull" for a in _columns_of(part.child())]

    def never(part: Any) -> Formula:
        match class_name(part):
            case "And":
                return any_of(never(part.left()), never(part.right()))
            case "Or":
                return all_of(never(part.left()), never(part.right()))
            case "IsNull":
                return _not_null(session, part.child(), scan, source, ids)
        return NEVER

    return any_of(*map(never, parts))


def _not_null(session: SparkSession, value: Any, scan: Any, source: str, filled: Container[int]) -> Formula:
    """What has to hold so that a value is never NULL: that its columns are not, if that is enough by its own type.

    :param filled: columns that hold no NULL in the rows that matter
    """
    if not value.references().subsetOf(scan.outputSet()) or _over_filled(session, value).nullable():
        return NEVER
    columns = [a for a in seq(value.references().toSeq()) if a.nullable() and a.exprId().id() not in filled]
    return all_of(*(no_nulls_in(source, str(column.name())) for column in columns))


def _columns_of(expression: Any) -> list[Any]:
    """The column that an expression is, or none."""
    return [expression] if class_name(expression) == "AttributeReference" else []


def _over_filled(session: SparkSession, expression: Any) -> Any:
    """The expression over columns that hold no NULL."""
    if class_name(expression) == "AttributeReference":
        return expression.withNullability(False)
    children = seq(expression.children())
    if not children:
        return expression
    return expression.withNewChildren(to_seq(session, [_over_filled(session, child) for child in children]))


def _are_filled(session: SparkSession, source: Source, column: str, commits: Iterable[LogCommit]) -> bool:
    frame = pinned(session, source)
    layout = layout_of_frame(frame, {f.name: sql_type(session, f.dataType) for f in frame.schema if f.name == column})
    return all(has_no_null(file, column, layout) for commit in commits for file in commit.added)
