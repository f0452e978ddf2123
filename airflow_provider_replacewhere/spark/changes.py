"""From the changes of a source to the part of a window that they may have changed: cheapest way first."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
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
from airflow_provider_replacewhere.spark.log import layout_of_frame
from airflow_provider_replacewhere.spark.multiset import quoted
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.skipping import scanned, table_bytes
from airflow_provider_replacewhere.spark.sources import pinned
from airflow_provider_replacewhere.spark.values import key_of, to_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_replacewhere.spark.sources import Source

Arrivals: TypeAlias = Mapping[str, Sequence[Arrival]]
"""By the target's column, how a filter on it reaches one source."""

MOST_VALUES = 1_000
"""More changed values of a column of the predicate than this are taken for the range around them."""
MOST_OTHER_VALUES = 16
"""A column that the predicate does not name narrows by at most so many values."""
MOST_FILES = 200
"""So many added files are looked at one by one."""
CHEAP_BYTES = 64 << 20
"""Changed files up to this size are always looked into: it costs about as much as asking whether it pays."""
LEAST_GAIN = 3
"""Larger ones only where recomputing what they may have changed would read so many times as much."""
FEW_ROWS = 100_000
"""So many rows of a table between two others are sent to each task; more are sorted."""
LARGE_PARTNER = 2 << 30
"""A join with a table of so many bytes in the window costs more than to try it with a few values first."""
SAMPLE = 3
"""So many single values are tried."""


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
    _answers: dict[tuple[str, frozenset[tuple[str, Pin]]], SourceChange | None] = field(default_factory=dict)
    _logs: dict[tuple[str, Pin], tuple[LogCommit, ...] | SourceChange] = field(default_factory=dict)

    def __call__(self, name: str, before: Mapping[str, Pin]) -> SourceChange | None:
        """What changed in a source since a run read all sources at these versions; None where no row did."""
        key = (name, frozenset(before.items()))
        if key not in self._answers:
            self._answers[key] = self._change(name, before)
        return self._answers[key]

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
        commits = self.commits(name, before[name])
        if isinstance(commits, SourceChange):
            return commits
        if not commits:
            return None
        arrivals = self.lineage.of(name)
        if not arrivals:
            cause = f"no filter on the target reaches every read of {name}"
            return SourceChange(Reason.SOURCE_CHANGED, {"cause": cause})
        mapping = _Mapping(self, name, before, commits, arrivals)
        by_bounds = mapping.by_bounds()
        if by_bounds.is_empty:
            return None
        if not mapping.pays(by_bounds):
            by_bounds = mapping.by_bounds(others=True)
            return SourceChange(Reason.SOURCE_CHANGED, {"found_by": "statistics"}, by_bounds)
        try:
            by_rows = mapping.by_rows(by_bounds)
        except (Py4JError, PySparkException, PredicateError, ValueError, LookupError, ArithmeticError) as error:
            # The files are gone, or cannot be read: what the log says of them still holds.
            cause = f"the changed rows cannot be read: {in_short(error)}"
            return SourceChange(Reason.SOURCE_CHANGED, {"found_by": "statistics", "cause": cause}, by_bounds)
        return None if by_rows.is_empty else SourceChange(Reason.SOURCE_CHANGED, {"found_by": "rows"}, by_rows)

    def commits(self, name: str, before: Pin) -> tuple[LogCommit, ...] | SourceChange:
        """The commits that changed rows of a source since a version, or what makes them say nothing of it."""
        key = (name, before)
        if key not in self._logs:
            source = self.sources[name]
            assert source.version is not None
            now = Pin(source.version, source.table_id)
            self._logs[key] = source_commits(self.session, source.path, before, now)
        return self._logs[key]

    def rows(self, name: str, before: Pin) -> ChangedRows | None:
        """The rows of a source that changed since a version; None where none did.

        :raises ValueError: that cannot be told
        """
        commits, path = self.commits(name, before), self.sources[name].path
        if isinstance(commits, SourceChange) or path is None:
            raise ValueError(f"{name} was changed otherwise than row by row")
        return ChangedRows(self.session, path, commits) if commits else None


@dataclass
class _Mapping:
    """The changes of one source, mapped to the window.

    :param before: the versions of all sources since which that is asked
    :param commits: those that changed rows of the source
    """

    changes: SourceChanges
    name: str
    before: Mapping[str, Pin]
    commits: Sequence[LogCommit]
    arrivals: Arrivals
    _cached: list[DataFrame] = field(default_factory=list)

    @property
    def session(self) -> SparkSession:
        return self.changes.session

    @property
    def question(self) -> Question:
        return self.changes.question

    @cached_property
    def changed(self) -> ChangedRows:
        found = self.changes.rows(self.name, self.before[self.name])
        assert found is not None
        return found

    @cached_property
    def frame(self) -> DataFrame:
        return pinned(self.session, self.changes.sources[self.name])

    @cached_property
    def types(self) -> dict[str, str]:
        """The source's columns, with their Spark types."""
        return {f.name: sql_type(self.session, f.dataType) for f in self.frame.schema}

    @property
    def time_zone(self) -> str:
        return str(self.session.conf.get("spark.sql.session.timeZone"))

    @cached_property
    def layout(self) -> Layout:
        """How the source's log speaks of the columns that the arrivals are about."""
        texts = " ".join(
            text for found in self.arrivals.values() for arrival in found for text in (arrival.value, *arrival.where)
        ).lower()
        types = {name: type_ for name, type_ in self.types.items() if name.lower() in texts}
        return layout_of_frame(self.frame, types)

    # -- by what the log says --

    def by_bounds(self, *, others: bool = False) -> Region:
        """The part of the window that the changed files' partition values and statistics allow.

        :param others: whether columns that are no keys may narrow it too
        """
        stale = self.question.window
        for column in self.keys:
            stale = stale.intersect(self.region_of(column, self._bounds(column)))
        for column in self.others if others else ():
            if not self._is_worth_another(stale):
                break
            values = self._bounds(column)
            if _number_of(values) <= MOST_OTHER_VALUES:
                stale = stale.intersect(self.region_of(column, values))
        return stale

    @cached_property
    def _rows(self) -> Region:
        """A region of the source that holds every row which changed."""
        return rows_changed(self.commits, self.layout, self.types, self.time_zone)

    def _bounds(self, column: Column) -> Values:
        found = Values.nothing(column.domain)
        for arrival in self.arrivals[column.name]:
            values = None if arrival.partner is not None else self._values_from(self._rows, arrival, column)
            if values is None:
                return column.within
            found = found.union(values)
        return found

    def _values_from(self, rows: Region, arrival: Arrival, column: Column) -> Values | None:
        return values_from(rows, arrival, column.within, self.types, self.time_zone)

    # -- by the rows themselves --

    def pays(self, stale: Region) -> bool:
        """Whether a look at the changed rows may save more than it costs: a part of the recomputation of ``stale``."""
        if self._files_tell_all():
            return False
        if self.question.thorough or self.changed.bytes <= CHEAP_BYTES:
            return True
        work = scanned(self.question.rows.where(stale.to_sql()))["bytes"]
        return work is not None and self.changed.bytes * LEAST_GAIN <= work

    def _files_tell_all(self) -> bool:
        """Whether the log says as much as the rows would: each value of a key that files are about did change.

        So it is where each file is about one value, and more of the rows about it are there than before, or fewer.
        """
        gone, new = self.changed.gone, self.changed.new
        if not self.keys or len(gone) + len(new) > MOST_FILES:
            return False
        for key in self.keys:
            for arrival in self.arrivals[key.name]:
                if arrival.partner is not None or not all(sql.endswith(" IS NOT NULL)") for sql in arrival.where):
                    return False
                more: dict[Values, int] = defaultdict(int)
                for sign, files in ((1, new), (-1, gone)):
                    for file in files:
                        # Where nothing was removed, any rows are more rows.
                        rows = file.rows if gone else 1
                        values = self._values_from(rows_of(file, self.layout), arrival, key)
                        if rows is None or values is None or _number_of(values) > 1:
                            return False
                        if not values.is_empty:
                            more[values] += sign * rows
                if 0 in more.values():
                    return False
        return True

    def by_rows(self, stale: Region) -> Region:
        """The part of what bounds allow that the changed rows themselves are about."""
        asked = (*self.keys, *self.others)
        needed = dict.fromkeys(name for c in asked for a in self.arrivals[c.name] for name in a.used)
        frame = self.changed.frame(tuple(needed))
        # Read once, however many questions are asked of them.
        changed = self._kept(frame) if sum(len(self.arrivals[c.name]) for c in self.keys) > 1 else frame
        try:
            for column in self.keys:
                values = self._found(changed, column, MOST_VALUES)
                stale = stale.intersect(self.region_of(column, values))
            for column in self.others:
                if not self._is_worth_another(stale):
                    break
                if all(arrival.partner is None for arrival in self.arrivals[column.name]):
                    values = self._found(changed, column, MOST_OTHER_VALUES)
                    stale = stale.intersect(self.region_of(column, values))
        finally:
            for kept in self._cached:
                kept.unpersist()
        return stale

    def _kept(self, frame: DataFrame) -> DataFrame:
        self._cached.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._cached[-1]

    def _is_worth_another(self, stale: Region) -> bool:
        """Whether a column that is no key should narrow too: files are laid out by keys, and rewritten whole."""
        return not stale.is_empty and (self.question.thorough or stale == self.question.window)

    def _found(self, changed: DataFrame, column: Column, most: int) -> Values:
        """The values of a column that changed rows are about; a range around them where there are too many."""
        arrivals, domain = self.arrivals[column.name], column.domain
        if any(self._are_probably_all(changed, column, arrival) for arrival in arrivals):
            return column.within
        frames = (self._values(changed, arrival, column) for arrival in arrivals)
        found = reduce(DataFrame.unionAll, frames).where("`value` IS NOT NULL")
        distinct = found.distinct().limit(most + 1).collect()
        if len(distinct) <= most:
            keys = [key_of(row[0], domain) for row in distinct]
            return Values.of(domain, [(key, domain.next(key)) for key in keys]).intersect(column.within)
        if most == MOST_OTHER_VALUES or domain.name == "string":
            return column.within
        low, high = (key_of(bound, domain) for bound in found.agg(F.min("value"), F.max("value")).collect()[0])
        return Values.of(domain, [(low, domain.next(high))]).intersect(column.within)

    def _are_probably_all(self, changed: DataFrame, column: Column, arrival: Arrival) -> bool:
        """Whether a sample of the values says that a join with a large partner would find them all."""
        sample = _sample(column.within)
        if arrival.partner is None or sample is None or self.question.thorough:
            return False
        last = arrival.partner.chain[-1]
        if table_bytes(self._partner(last)) <= LARGE_PARTNER:
            return False
        size = scanned(self._inside(last, arrival, column))["bytes"]
        if size is None or size <= LARGE_PARTNER:
            return False
        few = Column(column.name, column.domain, sample)
        return self._values(changed, arrival, few, as_they_were=False).distinct().count() == SAMPLE

    def _values(self, changed: DataFrame, arrival: Arrival, column: Column, *, as_they_were: bool = True) -> DataFrame:
        """The values that changed rows are about, as keys.

        :param as_they_were: whether rows count that partners had before and have no more: they may have been joined
            with those of the source that are gone too
        """
        rows, are_few = _where(changed, arrival.where), self.changed.bytes <= CHEAP_BYTES
        for partner in arrival.partner.chain if arrival.partner is not None else ():
            is_last = partner.partner is None
            theirs = self._inside(partner, arrival, column) if is_last else self._partner(partner)
            on = F.expr(" AND ".join(f"({sql})" for sql in partner.on))
            met = theirs.alias(PARTNER).join((F.broadcast(rows) if are_few else rows).alias(CHANGED), on, "left_semi")
            # Without the alias, which a column of the same name would stand behind.
            rows = met.select(*(F.col(f"{PARTNER}.{name}") for name in quoted(partner.used))).toDF(*partner.used)
            moved = self.changes.rows(partner.source, self.before[partner.source]) if as_they_were else None
            if moved is not None and not moved.only_added:
                rows = rows.unionAll(_where(moved.frame(partner.used, only_removed=True), partner.where))
            if not is_last:
                # How many rows of a table in between there are shows only when they are counted.
                some = self._kept(rows.limit(FEW_ROWS + 1))
                are_few = some.count() <= FEW_ROWS
                rows = some if are_few else rows
        return rows.selectExpr(f"{to_key(arrival.value, column.domain)} AS `value`")

    def _inside(self, partner: Partner, arrival: Arrival, column: Column) -> DataFrame:
        """The rows of the last partner that are about values in the window."""
        return self._partner(partner).where(column.within.to_sql(f"({arrival.value})"))

    def _partner(self, partner: Partner) -> DataFrame:
        return _where(pinned(self.session, self.changes.sources[partner.source]), partner.where)

    # -- the window's columns --

    @cached_property
    def keys(self) -> tuple[Column, ...]:
        """The keys that reach the source."""
        return tuple(self._columns(lambda name: name in self.question.keys))

    @cached_property
    def others(self) -> tuple[Column, ...]:
        """The other columns that reach it."""
        return tuple(self._columns(lambda name: name not in self.question.keys))

    def _columns(self, wanted: Callable[[str], bool]) -> Iterator[Column]:
        types = {f.name: Domain.of(sql_type(self.session, f.dataType)) for f in self.question.rows.schema}
        for name in self.question.columns:
            if name in self.arrivals and wanted(name):
                yield Column(name, types[name], _projected(self.question.window, name, types[name]))

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


def _where(frame: DataFrame, conditions: Iterable[str]) -> DataFrame:
    return reduce(lambda rows, sql: rows.where(sql), conditions, frame)
