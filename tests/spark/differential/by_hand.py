"""What a target must hold after a run, by plain Spark SQL: none of the package's own code decides here.

Every table is read whole, and what lies in the window is told by a column beside the rows, so that neither the log's
statistics nor a push-down is trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.spark.differential.script import Flow, Form, Script, Step, by_hand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Row:
    """One row of the query, of the target before the run or of the target after it.

    :param inside: whether the window holds it, as a person reads the predicate
    :param unknown: whether the predicate is NULL for it
    :param reported: whether the window of the report holds it
    :param replaced: whether the report says that it was replaced
    :param fresh: whether the report says that it was left alone as fresh
    :param sane: whether it meets the flow's expectation
    """

    values: Values
    inside: bool
    unknown: bool
    reported: bool
    replaced: bool
    fresh: bool
    sane: bool


@dataclass
class Evidence:
    """All rows that decide about one run.

    :param columns: the target's columns, in the order of the rows' values
    :param given: what the query gives, of all days
    :param before: the target before the run
    :param after: the target after it
    """

    columns: tuple[str, ...] = ()
    given: list[Row] = field(default_factory=list)
    before: list[Row] = field(default_factory=list)
    after: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One run of one flow, to be judged.

    :param versions: the target's version before and after; -1 where there is no table
    :param before: the target as it was before the run; None where there was none
    :param failure: the error's type and message, where the run failed
    """

    script: Script
    step: Step
    flow: Flow
    form: Form
    versions: tuple[int, int]
    report: RunReport | None = None
    failure: tuple[str, str] | None = None
    before: DataFrame | None = None

    @property
    def where(self) -> str:
        return self.step.overrides[self.flow.target][0] if self.flow.target in self.step.overrides else self.form.where

    @property
    def keys(self) -> tuple[str, ...]:
        return self.step.overrides[self.flow.target][1] if self.flow.target in self.step.overrides else self.form.keys

    @property
    def full_refresh(self) -> bool:
        return self.flow.target in self.step.full_refresh


class QueryFailedError(Exception):
    """The query fails by hand too."""


@dataclass
class Reference:
    """Reads the tables of a world and evaluates its queries, in a session that the flows know nothing of.

    Each table is read once after each change, as a whole.
    """

    session: SparkSession
    root: Path
    _read: dict[str, DataFrame] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, root: Path, settings: Mapping[str, str]) -> Reference:
        """A reference for the tables below a folder."""
        session = spark.newSession()
        # Tables are tiny, and a broadcast is a job of its own.
        for key, value in {**settings, "spark.sql.autoBroadcastJoinThreshold": "-1"}.items():
            session.conf.set(key, value)
        return cls(session, root)

    def forget(self, names: Iterable[str]) -> None:
        """Tables that may have changed."""
        for name in names:
            self._read.pop(name, None)

    def table(self, name: str) -> DataFrame | None:
        """A table as it is now; None where there is none."""
        if name not in self._read:
            if not (self.root / name / "_delta_log").exists():
                return None
            frame = self.session.read.format("delta").load(str(self.root / name)).localCheckpoint()
            frame.createOrReplaceTempView(name)
            self._read[name] = frame
        return self._read[name]

    def evidence(self, cases: list[Case]) -> list[Evidence | QueryFailedError]:
        """The rows behind each case; one Spark job where no query fails."""
        try:
            return self._collected(cases)
        except PySparkException:
            found: list[Evidence | QueryFailedError] = []
            for case in cases:
                try:
                    found += self._collected([case])
                except PySparkException as error:
                    found.append(QueryFailedError(str(error).splitlines()[0]))
            return found

    def _collected(self, cases: list[Case]) -> list[Evidence | QueryFailedError]:
        frames: list[DataFrame] = []
        found = []
        for number, case in enumerate(cases):
            columns, parts = self._parts(case)
            found.append(Evidence(columns))
            frames += [part.select(F.lit(number), F.lit(name), "*") for name, part in parts]
        rows = reduce(lambda left, right: left.union(right), frames).collect()
        for number, name, values, *flags in rows:
            getattr(found[number], name).append(Row(tuple(values), *flags))
        return list(found)

    def _parts(self, case: Case) -> tuple[tuple[str, ...], list[tuple[str, DataFrame]]]:
        for name in (*case.script.tables, *(flow.target for flow in case.script.flows)):
            self.table(name)
        given = self.session.sql(by_hand(case.form.query, case.script, case.step))
        where = by_hand(case.where, case.script, case.step)
        held = self.table(case.flow.target)
        schema = given.schema if held is None else held.schema
        columns = tuple(schema.names)
        missing = {name.lower() for name in given.columns} - {name.lower() for name in columns}
        if case.failure is None and missing:
            raise AssertionError(f"{case.flow.target} lacks {missing}, which the query gives")

        def rows(frame: DataFrame) -> DataFrame:
            """Of the target's types, with what is said of each row."""
            there = {name.lower() for name in frame.columns}
            typed = frame.select(
                *(
                    (F.col(f.name) if f.name.lower() in there else F.lit(None)).cast(f.dataType).alias(f.name)
                    for f in schema
                )
            )
            return typed.select(F.array(*map(_text, columns)), *_flags(case, where))

        parts = [("given", rows(given))]
        if case.failure is None and held is not None:
            parts.append(("after", rows(held)))
            if case.before is not None:
                parts.append(("before", rows(case.before)))
        return columns, parts


def _text(name: str) -> Column:
    return F.col(name).cast("string")


def _flags(case: Case, where: str) -> Iterator[Column]:
    condition = f"({where})"
    unknown = f"({condition} IS NULL)"
    if case.flow.null_keys == "include":
        also = unknown if len(case.keys) > 1 else f"({unknown} OR {case.keys[0]} IS NULL)"
        condition = f"({condition} OR {also})"
    yield _is_true(condition)
    yield _is_true(unknown)
    report = case.report
    yield _is_true(report.window if report else None)
    yield _is_true(report.replaced if report else None)
    yield _is_true(report.fresh if report else None)
    yield _is_true(f"({case.flow.expectation[0]})") if case.flow.expectation else F.lit(True)


def _is_true(sql: str | None) -> Column:
    return F.lit(False) if sql is None else F.coalesce(F.expr(sql), F.lit(False))


# -- judgement ---------------------------------------------------------------------------------------------------------


def must_be(case: Case, found: Evidence) -> Counter[Values]:
    """What the target must hold after the run."""
    kept = Counter(row.values for row in wanted(case, found))
    return kept if case.full_refresh else kept + Counter(row.values for row in found.before if not row.inside)


def wanted(case: Case, found: Evidence) -> list[Row]:
    """What the window must hold."""
    dropping = case.flow.expectation is not None and case.flow.expectation[1] == "DROP ROW"
    return [row for row in found.given if row.inside and (row.sane or not dropping)]


def must_fail(case: Case, found: Evidence) -> str | None:
    """The error with which the run has to fail, or None."""
    expectation = case.flow.expectation
    if case.flow.null_keys == "fail" and any(row.unknown for row in found.given):
        return "NullKeyError"
    if expectation and expectation[1] == "FAIL UPDATE" and any(row.inside and not row.sane for row in found.given):
        return "ExpectationError"
    return None


def faults(case: Case, found: Evidence) -> list[str]:
    """What is wrong with a run that ended well: the rows, or what the report says of them."""
    report = case.report
    assert report is not None
    wrong = []
    have, must = Counter(row.values for row in found.after), must_be(case, found)
    if have != must:
        wrong.append(f"the target is wrong: missing {_some(must - have)}, too many {_some(have - must)}")
    error = must_fail(case, found)
    # What lies in a fresh part was judged when it was written.
    if error is not None and not (error == "NullKeyError" and report.mode is Mode.NO_OP):
        wrong.append(f"it should have failed with {error}")
    return wrong + _untrue(case, report, found)


def _untrue(case: Case, report: RunReport, found: Evidence) -> list[str]:
    """What the report says, and is not so."""
    wrong = []
    before, after = case.versions
    rows = [*found.given, *found.before, *found.after]
    if report.target_version != after:
        wrong.append(f"target_version is {report.target_version}, the table is at {after}")
    if report.mode is Mode.NO_OP and (after != before or report.replaced is not None):
        wrong.append(f"NO_OP, but the table went from {before} to {after}, replaced {report.replaced}")
    if report.mode is not Mode.NO_OP and report.replaced is None:
        wrong.append(f"{report.mode}, but nothing is said to be replaced")
    if (report.mode is Mode.FULL_REFRESH) != case.full_refresh:
        wrong.append(f"the mode is {report.mode}")
    if report.override != (case.flow.target in case.step.overrides):
        wrong.append(f"override is {report.override}")
    wrong += [f"the reported window is wrong for {row.values}" for row in rows if row.reported != row.inside][:1]
    if report.mode is not Mode.FULL_REFRESH:
        wrong += [f"replaced outside of the window: {row.values}" for row in rows if row.replaced and not row.inside][
            :1
        ]
    if report.mode is Mode.INCREMENTAL:
        neither = [row for row in rows if row.inside and row.replaced == row.fresh]
        wrong += [f"neither replaced nor fresh, or both: {row.values}" for row in neither][:1]
    if report.mode is not Mode.NO_OP:
        counts = {
            "rows_deleted": (report.rows_deleted, sum(row.replaced for row in found.before)),
            "rows_written": (report.rows_written, sum(row.replaced for row in found.after)),
        }
        wrong += [f"{name} is {said}, and was {was}" for name, (said, was) in counts.items() if said not in (None, was)]
    return wrong


def _some(rows: Mapping[Values, int]) -> str:
    shown = [f"{values} x {count}" for values, count in list(rows.items())[:5]]
    return f"{len(rows)}: {'; '.join(shown)}" if rows else "none"


def left_alone(case: Case, found: Evidence) -> tuple[int, int, int]:
    """Rows of the window, how many of them the run left alone, and how many lie under keys that did not change."""
    report = case.report
    assert report is not None
    inside = wanted(case, found)
    replaced = sum(row.replaced for row in inside)
    at = [i for i, name in enumerate(found.columns) if name.lower() in {key.lower() for key in case.keys}]

    def by_key(rows: list[Row]) -> dict[Values, Counter[Values]]:
        groups: dict[Values, Counter[Values]] = {}
        for row in rows:
            groups.setdefault(tuple(row.values[i] for i in at), Counter())[row.values] += 1
        return groups

    old = by_key([row for row in found.before if row.inside])
    unchanged = sum(sum(rows.values()) for key, rows in by_key(inside).items() if old.get(key) == rows)
    return len(inside), len(inside) - replaced if report.replaced else len(inside), unchanged


def justified(case: Case, found: Evidence | QueryFailedError) -> bool:
    """Whether a run may have failed as it did."""
    assert case.failure is not None
    kind, message = case.failure
    if isinstance(found, QueryFailedError):
        return True
    if kind == "PlanRefusedError":
        return case.step.policy == "incremental_strict"
    if kind in ("NullKeyError", "ExpectationError"):
        return must_fail(case, found) is not None
    # The query reads another flow's target, and that flow has failed in this run.
    return kind == "_UpstreamError" or ("failed in this run" in message)
