"""From the changes of a source to the part of a window that they may have changed: cheapest way first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Pin
from airflow_provider_replacewhere.planning.decide import Reason, SourceChange
from airflow_provider_replacewhere.planning.lineage import CHANGED, PARTNER, Arrival, Lineage, Partner
from airflow_provider_replacewhere.planning.mapping import rows_changed, values_from
from airflow_provider_replacewhere.planning.touched import Layout, rows_of
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Values
from airflow_provider_replacewhere.spark import lineage
from airflow_provider_replacewhere.spark.changed_rows import ChangedRows
from airflow_provider_replacewhere.spark.errors import in_short
from airflow_provider_replacewhere.spark.freshness import source_commits
from airflow_provider_replacewhere.spark.jvm import class_name, walk
from airflow_provider_replacewhere.spark.log import layout_of
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.skipping import scanned
from airflow_provider_replacewhere.spark.values import key_of, to_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.spark.sources import Source

Arrivals: TypeAlias = Mapping[str, Sequence[Arrival]]
"""By the target's column, how a filter on it reaches one source."""

MOST_VALUES = 1_000
"""More changed values of a column of the predicate than this are taken for the range around them."""
MOST_OTHER_VALUES = 16
"""A column that the predicate does not name narrows by at most so many values."""
CHEAP_BYTES = 64 << 20
"""Changed files up to this size are always looked into: it costs about as much as asking whether it pays."""
LEAST_GAIN = 3
"""Larger ones only where recomputing what they may have changed would read so many times as much."""
SAMPLE = 3
"""So many single values are tried first, where a join with a large partner has to tell them."""

_VALUE = "`__value`"


@dataclass(frozen=True)
class Column:
    """A column of the target, with those of its values that are in the window, NULL left out."""

    name: str
    domain: Domain
    within: Values


@dataclass(frozen=True)
class Question:
    """One run's window, over which sources' changes are mapped.

    :param rows: the query in the types of the target, with its expectations
    :param window: the rows that the run replaces; exact
    :param columns: the target's columns that may narrow it, those of the predicate first
    :param keys: those of the predicate, and those by which the target's files are laid out
    :param thorough: whether to narrow even where that costs more than it saves
    """

    rows: DataFrame
    window: Region
    columns: Sequence[str]
    keys: frozenset[str]
    thorough: bool = False


@dataclass
class SourceChanges:
    """What the commits of the sources did to one window; asked by :func:`..planning.decide.decide`.

    :param definition_hash: of the query that the question is about
    :param kept: what Catalyst answered in an earlier run, as the ledger keeps it
    """

    session: SparkSession
    question: Question
    sources: Mapping[str, Source]
    definition_hash: str
    kept: Mapping[str, Any] | None = None
    answers: dict[tuple[str, frozenset[tuple[str, Pin]]], SourceChange | None] = field(default_factory=dict)

    def __call__(self, name: str, before: Mapping[str, Pin]) -> SourceChange | None:
        """What changed in a source since a run read all sources at these versions; None where no row did."""
        key = (name, frozenset(before.items()))
        if key not in self.answers:
            self.answers[key] = self._change(name, before)
        return self.answers[key]

    @property
    def answered(self) -> dict[str, Any] | None:
        """What Catalyst answered, in this run or an earlier one, as JSON for the ledger."""
        asked = self.__dict__.get("lineage", Lineage.from_json(self.kept, self._key))
        return None if asked is None else asked.to_json()

    @cached_property
    def lineage(self) -> Lineage:
        """How the window's columns reach the sources: from the ledger, or else by asking Catalyst."""
        known = Lineage.from_json(self.kept, self._key)
        if known is not None and set(self.question.columns) <= set(known.asked):
            return known
        found = lineage.ask(self.question.rows, self.question.columns, self.sources.values())
        return Lineage(self._key, found, tuple(self.question.columns))

    @cached_property
    def _key(self) -> str:
        # The target's types are no part of the definition, but a value is one of the target's.
        types = self.question.rows.schema.json()
        return hashlib.sha256(f"{self.definition_hash}:{types}".encode()).hexdigest()

    def _change(self, name: str, before: Mapping[str, Pin]) -> SourceChange | None:
        found = self._commits(name, before)
        if isinstance(found, SourceChange):
            return found
        return self._mapped(_Mapping(self, name, before, found)) if found else None

    def _commits(self, name: str, before: Mapping[str, Pin]) -> tuple[LogCommit, ...] | SourceChange:
        source = self.sources[name]
        assert source.version is not None
        return source_commits(self.session, source.path, before[name], Pin(source.version, source.table_id))

    def rows(self, name: str, before: Mapping[str, Pin]) -> ChangedRows | None:
        """The changed rows of a source; None where none changed.

        :raises ValueError: that cannot be told
        """
        found, path = self._commits(name, before), self.sources[name].path
        if isinstance(found, SourceChange) or path is None:
            raise ValueError(f"{name} was changed otherwise than row by row")
        return ChangedRows(self.session, path, found) if found else None

    def _mapped(self, mapping: _Mapping) -> SourceChange | None:
        arrivals = self.lineage.of(mapping.name)
        if not arrivals:
            cause = f"no filter on the target reaches every read of {mapping.name}"
            return SourceChange(Reason.SOURCE_CHANGED, {"cause": cause})
        by_bounds = mapping.by_bounds(arrivals)
        if by_bounds.is_empty:
            return None
        if not mapping.pays(arrivals, by_bounds):
            by_bounds = mapping.by_bounds(arrivals, others=True)
            return SourceChange(Reason.SOURCE_CHANGED, {"found_by": "statistics"}, by_bounds)
        try:
            by_rows = mapping.by_rows(arrivals, by_bounds)
        except (Py4JError, PySparkException, PredicateError, ValueError, LookupError) as error:
            # The files are gone, or cannot be read: what the log says of them still holds.
            cause = f"the changed rows cannot be read: {in_short(error)}"
            return SourceChange(Reason.SOURCE_CHANGED, {"found_by": "statistics", "cause": cause}, by_bounds)
        return None if by_rows.is_empty else SourceChange(Reason.SOURCE_CHANGED, {"found_by": "rows"}, by_rows)


@dataclass
class _Mapping:
    """The changes of one source, mapped to the window.

    :param before: the versions of all sources since which that is asked
    """

    changes: SourceChanges
    name: str
    before: Mapping[str, Pin]
    commits: Sequence[LogCommit]

    @property
    def session(self) -> SparkSession:
        return self.changes.session

    @property
    def question(self) -> Question:
        return self.changes.question

    @cached_property
    def changed(self) -> ChangedRows:
        path = self.changes.sources[self.name].path
        assert path is not None
        return ChangedRows(self.session, path, self.commits)

    @cached_property
    def frame(self) -> DataFrame:
        return _pinned(self.session, self.changes.sources[self.name])

    @cached_property
    def types(self) -> dict[str, str]:
        """The source's columns, with their Spark types."""
        return {f.name: sql_type(self.session, f.dataType) for f in self.frame.schema}

    @cached_property
    def time_zone(self) -> str:
        return str(self.session.conf.get("spark.sql.session.timeZone"))

    # -- by what the log says --

    def by_bounds(self, arrivals: Arrivals, *, others: bool = False) -> Region:
        """The part of the window that the changed files' partition values and statistics allow.

        :param others: whether columns that are no keys may narrow it too
        """
        rows = rows_changed(self.commits, self.layout(arrivals), self.types, self.time_zone)
        keys, further = self.columns(arrivals)
        window = stale = self.question.window
        for column in keys:
            stale = stale.intersect(self.region_of(column, self._bounds(rows, column, arrivals)))
        for column in further if others else ():
            if stale.is_empty or not self._is_worth_another(stale, window):
                break
            values = self._bounds(rows, column, arrivals)
            if _number_of(values) <= MOST_OTHER_VALUES:
                stale = stale.intersect(self.region_of(column, values))
        return stale

    def _bounds(self, rows: Region, column: Column, arrivals: Arrivals) -> Values:
        found = Values.nothing(column.domain)
        for arrival in arrivals[column.name]:
            if arrival.partner is not None:
                return column.within
            values = values_from(rows, arrival, column.within, self.types, self.time_zone)
            if values is None:
                return column.within
            found = found.union(values)
        return found

    def layout(self, arrivals: Arrivals) -> Layout:
        """How the source's log speaks of the columns that the arrivals are about."""
        texts = " ".join(
            text for found in arrivals.values() for arrival in found for text in (arrival.value, *arrival.where)
        ).lower()
        (leaf,) = (n for n in walk(self.frame._jdf.queryExecution().analyzed()) if class_name(n) == "LogicalRelation")
        types = {name: type_ for name, type_ in self.types.items() if name.lower() in texts}
        return layout_of(types, leaf.relation().location().metadata())

    # -- by the rows themselves --

    def pays(self, arrivals: Arrivals, stale: Region) -> bool:
        """Whether a look at the changed rows may save more than it costs: a part of the recomputation of ``stale``."""
        if self.changed.only_added and self._files_tell_all(arrivals):
            return False
        if self.question.thorough or self.changed.bytes <= CHEAP_BYTES:
            return True
        work = scanned(self.question.rows.where(stale.to_sql()))["bytes"]
        return work is not None and self.changed.bytes * LEAST_GAIN <= work

    def _files_tell_all(self, arrivals: Arrivals) -> bool:
        """Whether each file that was added is about one value of each key: its rows tell no more than its bounds."""
        files = [file for commit in self.commits for file in commit.added]
        keys, _ = self.columns(arrivals)
        if not keys or len(files) > MOST_OTHER_VALUES:
            return False
        layout = self.layout(arrivals)
        for key in keys:
            for arrival in arrivals[key.name]:
                if arrival.partner is not None or not all(sql.endswith(" IS NOT NULL)") for sql in arrival.where):
                    return False
                for file in files:
                    values = values_from(rows_of(file, layout), arrival, key.within, self.types, self.time_zone)
                    if values is None or _number_of(values) > 1:
                        return False
        return True

    def by_rows(self, arrivals: Arrivals, stale: Region) -> Region:
        """The part of what bounds allow that the changed rows themselves are about."""
        keys, others = self.columns(arrivals)
        needed = dict.fromkeys(name for c in (*keys, *others) for a in arrivals[c.name] for name in a.used)
        questions = sum(len(arrivals[column.name]) for column in keys)
        with _kept(self.changed.frame(tuple(needed)), reads=questions) as changed:
            for column in keys:
                values = self._found(changed, column, arrivals, MOST_VALUES)
                stale = stale.intersect(self.region_of(column, values))
            for column in others:
                if stale.is_empty or not self._is_worth_another(stale, self.question.window):
                    break
                if all(arrival.partner is None for arrival in arrivals[column.name]):
                    values = self._found(changed, column, arrivals, MOST_OTHER_VALUES)
                    stale = stale.intersect(self.region_of(column, values))
        return stale

    def _is_worth_another(self, stale: Region, window: Region) -> bool:
        """Whether a column that is no key should narrow too: files are laid out by keys, and rewritten whole."""
        return self.question.thorough or stale == window

    def _found(self, changed: DataFrame, column: Column, arrivals: Arrivals, most: int) -> Values:
        """The values of a column that changed rows are about; a range around them where there are too many."""
        if self._are_probably_all(changed, column, arrivals[column.name]):
            return column.within
        frames = (self._values(changed, arrival, column) for arrival in arrivals[column.name])
        found = reduce(lambda one, other: one.unionAll(other), frames).where("`value` IS NOT NULL")
        domain = column.domain
        distinct = found.distinct().limit(most + 1).collect()
        if len(distinct) <= most:
            keys = [key_of(row[0], domain) for row in distinct]
            return Values.of(domain, [(key, domain.next(key)) for key in keys]).intersect(column.within)
        if most == MOST_OTHER_VALUES or domain.name == "string":
            return column.within
        low, high = (key_of(bound, domain) for bound in found.agg(F.min("value"), F.max("value")).collect()[0])
        return Values.of(domain, [(low, domain.next(high))]).intersect(column.within)

    def _are_probably_all(self, changed: DataFrame, column: Column, arrivals: Sequence[Arrival]) -> bool:
        """Whether a sample of the values says that a join with a large partner would find them all."""
        if self.question.thorough:
            return False
        for arrival in arrivals:
            sample = _sample(column.within)
            if arrival.partner is None or sample is None:
                continue
            source = _where(_pinned(self.session, self.changes.sources[arrival.partner.source]), arrival.partner.where)
            size = scanned(source.where(column.within.to_sql(f"({arrival.value})")))["bytes"]
            if size is None or size <= CHEAP_BYTES:
                continue
            few = Column(column.name, column.domain, sample)
            rows = _where(changed, arrival.where)
            if self._met(rows, arrival, arrival.partner, few).distinct().count() == SAMPLE:
                return True
        return False

    def _values(self, changed: DataFrame, arrival: Arrival, column: Column) -> DataFrame:
        rows = _where(changed, arrival.where)
        if arrival.partner is None:
            return rows.selectExpr(f"{to_key(arrival.value, column.domain)} AS `value`")
        met = self._met(rows, arrival, arrival.partner, column)
        # Rows that the partner had before may have met them too.
        if arrival.partner.source != self.name:
            moved = self.changes.rows(arrival.partner.source, self.before)
            if moved is not None:
                theirs = _where(moved.frame(arrival.partner.used), arrival.partner.where)
                met = met.unionAll(theirs.selectExpr(f"{to_key(arrival.value, column.domain)} AS `value`"))
        return met

    def _met(self, rows: DataFrame, arrival: Arrival, partner: Partner, column: Column) -> DataFrame:
        """The values of those rows of the partner, as it is now, that the changed rows are joined with."""
        theirs = _where(_pinned(self.session, self.changes.sources[partner.source]), partner.where)
        inside = theirs.where(column.within.to_sql(f"({arrival.value})"))
        valued = inside.withColumn("__value", F.expr(to_key(arrival.value, column.domain)))
        few = F.broadcast(rows) if self.changed.bytes <= CHEAP_BYTES else rows
        on = F.expr(" AND ".join(f"({sql})" for sql in partner.on))
        return valued.alias(PARTNER).join(few.alias(CHANGED), on, "left_semi").selectExpr(f"{_VALUE} AS `value`")

    # -- the window's columns --

    def columns(self, arrivals: Arrivals) -> tuple[list[Column], list[Column]]:
        """The columns that reach the source: the keys, and the others."""
        types = {f.name: Domain.of(sql_type(self.session, f.dataType)) for f in self.question.rows.schema}
        found = [
            Column(name, types[name], _projected(self.question.window, name, types[name]))
            for name in self.question.columns
            if name in arrivals
        ]
        keys = self.question.keys
        return [c for c in found if c.name in keys], [c for c in found if c.name not in keys]

    def region_of(self, column: Column, values: Values) -> Region:
        """The rows of the target with one of these values, and those with NULL, of which the filter says nothing."""
        nullable = next(f.nullable for f in self.question.rows.schema if f.name == column.name)
        return Region.of((column.name,), Values.of(values.domain, values.intervals, null=nullable))


def _projected(window: Region, column: str, domain: Domain) -> Values:
    found = Values.nothing(domain)
    for box in window.boxes:
        found = found.union(box.by_path.get((column,), Values.everything(domain)))
    return found.not_null()


def _number_of(values: Values) -> float:
    """How many values are in a set: infinity where that cannot be told."""
    number = 0.0
    for low, high in values.intervals:
        if isinstance(low, int) and isinstance(high, int):
            number += high - low
        elif low is not None and high == values.domain.next(low):
            number += 1
        else:
            return float("inf")
    return number


def _sample(within: Values) -> Values | None:
    """Some of the days or numbers that matter, far apart; None where there are few."""
    if not within.intervals or (within.domain.name != "date" and within.domain.name not in INTEGERS):
        return None
    (first, *_), (*_, end) = within.intervals[0], within.intervals[-1]
    if not isinstance(first, int):
        return None
    # A window without an end has its rows where it begins.
    beyond = end if isinstance(end, int) else first + 10 * SAMPLE
    chosen = [first + (beyond - first) * (2 * n + 1) // (2 * SAMPLE) for n in range(SAMPLE)]
    inside = Values.of(within.domain, [(key, key + 1) for key in chosen]).intersect(within)
    return inside if _number_of(inside) == SAMPLE and beyond - first > 3 * SAMPLE else None


def _pinned(session: SparkSession, source: Source) -> DataFrame:
    assert source.path is not None
    return session.read.format("delta").option("versionAsOf", str(source.version)).load(source.path)


def _where(frame: DataFrame, conditions: Iterable[str]) -> DataFrame:
    return reduce(lambda rows, sql: rows.where(sql), conditions, frame)


@contextmanager
def _kept(frame: DataFrame, *, reads: int) -> Iterator[DataFrame]:
    """The rows read once, however many questions are asked of them."""
    if reads == 1:
        yield frame
        return
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
