"""Plays scripts: applies the changes of each step, runs the flows, and judges every run."""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_provider_replacewhere.flows.sql import parse_sql
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.planning.report import JobOutcome
from airflow_provider_replacewhere.planning.request import Override, RunRequest
from airflow_provider_replacewhere.spark import run
from tests.spark.differential.by_hand import (
    Case,
    Evidence,
    QueryFailedError,
    Reference,
    faults,
    justified,
    left_alone,
)
from tests.spark.differential.script import Script, Step, filled, in_pipeline, places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[1]",
    "spark.sql.shuffle.partitions": "1",
    # How many tasks VACUUM lists folders with: 10,000 unless told otherwise.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Every query is another one, and seen once: compiling it takes longer than it does to run.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
    "spark.driver.memory": "1g",
}
"""What makes tiny tables cheap."""


@dataclass(frozen=True)
class Scenario:
    """One run of one flow, judged.

    :param faults: what is wrong; empty where all is well
    :param first: whether there was no target before
    :param rows: rows of the window, those left alone, those under keys that did not change
    """

    flow: int
    step: int
    label: str
    outcome: str
    first: bool = False
    faults: tuple[str, ...] = ()
    rows: tuple[int, int, int] | None = None
    case: Case | None = None
    found: Evidence | QueryFailedError | None = None


@dataclass
class Played:
    """What playing a script gave."""

    scenarios: list[Scenario] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    applied: int = 0
    killed: Counter[str] = field(default_factory=Counter)

    @property
    def wrong(self) -> list[Scenario]:
        return [scenario for scenario in self.scenarios if scenario.faults]


@dataclass(frozen=True)
class Stage:
    """A place where scripts are played: one Spark session, one ledger file to copy."""

    spark: SparkSession
    folder: Path

    @classmethod
    @contextmanager
    def at(cls, spark: SparkSession) -> Iterator[Stage]:
        """A stage of its own below the system's temporary folder, which is gone afterwards."""
        before = {key: spark.conf.get(key, None) for key in (*_OF_STAGE, "spark.sql.session.timeZone")}
        for key, value in _OF_STAGE.items():
            spark.conf.set(key, value)
        with tempfile.TemporaryDirectory(prefix="differential-") as folder:
            HistoryStore(f"sqlite:///{folder}/empty.db").migrate()
            try:
                yield cls(spark, Path(folder))
            finally:
                for key, value in before.items():
                    spark.conf.unset(key) if value is None else spark.conf.set(key, value)

    def play(self, script: Script, *, stop: bool = False) -> Played:
        """Play a script to its end, or with ``stop`` to the first step with a fault."""
        root = self.folder / f"world {uuid.uuid4().hex[:8]}"
        root.mkdir()
        shutil.copy(self.folder / "empty.db", root / "ledger.db")
        self.spark.conf.set("spark.sql.session.timeZone", script.time_zone)
        session = LocalSession(self.spark, root=root, history=f"sqlite:///{root}/ledger.db")
        settings = {**_OF_STAGE, "spark.sql.session.timeZone": script.time_zone}
        reference = Reference.of(self.spark, root, settings)
        played = Played()
        try:
            for statement in script.tables.values():
                apply(self.spark, root, statement)
            for number, step in enumerate(script.steps):
                for statement in step.changes:
                    self._change(root, statement, played)
                    reference.forget(places(statement))
                try:
                    with dying(session, step.dies):
                        played.scenarios += _run(session, reference, script, number)
                except KilledError:
                    # It left no report to judge. The next run must find what it did, and repair it.
                    reference.forget(flow.target for flow in script.flows)
                    played.killed[step.dies] += 1
                if stop and played.wrong:
                    break
        finally:
            shutil.rmtree(root)
            # For an hour, Delta would keep the tables of this world, and with them the sessions that have read them.
            jvm: Any = self.spark._jvm
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return played

    def _change(self, root: Path, statement: str, played: Played) -> None:
        try:
            apply(self.spark, root, statement)
            played.applied += 1
        except (PySparkException, Py4JJavaError, FileNotFoundError) as error:
            # A target that there is not yet, a column that was renamed: nothing has changed then.
            played.skipped[f"{statement.split()[0]}: {str(error).splitlines()[0][:150]}"] += 1


_OF_STAGE = {key: value for key, value in SETTINGS.items() if key.startswith(("spark.sql.", "spark.databricks."))}


class KilledError(BaseException):
    """What ends a run like a lost machine: nothing of ours may catch it."""


@contextmanager
def dying(session: LocalSession, when: str) -> Iterator[None]:
    """A run inside dies at the point that :attr:`.script.Step.dies` names, if it comes there."""
    if not when:
        yield
        return
    point, number = when.split()
    write, record, writes = run._Run._replace, session.history.record_outcome, count(1)

    def replace(self: Any, *about: Any) -> Any:
        is_last = next(writes) == int(number)
        if is_last and point == "before_write":
            raise KilledError
        commit = write(self, *about)
        if is_last and point == "committed":
            raise KilledError
        return commit

    def record_outcome(*about: Any) -> None:
        if point == "unrecorded":
            raise KilledError
        record(*about)

    run._Run._replace = replace  # type: ignore[method-assign]
    session.history.record_outcome = record_outcome  # type: ignore[method-assign]
    try:
        yield
    finally:
        run._Run._replace = write  # type: ignore[method-assign]
        session.history.record_outcome = record  # type: ignore[method-assign]


def apply(spark: SparkSession, root: Path, statement: str) -> None:
    """Make one change; see :mod:`~.dml` for the words that Spark does not know."""
    name = re.search(r"\{(\w+)\}", statement)
    assert name is not None
    folder = root / name[1]
    sql = filled(statement, lambda table: f"delta.`{root / table}`")
    match statement.split():
        case ["RESTORE", _, "BACK", back]:
            version = max(0, version_of(folder) - int(back))
            spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF {version}")
        case ["DROP", _]:
            shutil.rmtree(folder)
        case ["FORGET", _]:
            _forget(spark, folder)
        case _:
            spark.sql(sql)


def _forget(spark: SparkSession, folder: Path) -> None:
    """Let the table's log begin at its newest version."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(folder))
    newest = version_of(folder)
    log.checkpoint(log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()), jvm.scala.Option.empty())
    for commit in (folder / "_delta_log").glob("*.json"):
        if commit.stem.isdecimal() and int(commit.stem) < newest:
            commit.unlink()


def version_of(folder: Path) -> int:
    """A table's newest version; -1 where there is none."""
    return max((int(f.stem) for f in (folder / "_delta_log").glob("*.json") if f.stem.isdecimal()), default=-1)


def _run(session: LocalSession, reference: Reference, script: Script, number: int) -> list[Scenario]:
    step, root = script.steps[number], reference.root
    flows = [(index, flow) for index, flow in enumerate(script.flows) if not step.select or flow.target in step.select]
    versions = {flow.target: version_of(root / flow.target) for _, flow in flows}
    before = {flow.target: reference.table(flow.target) for _, flow in flows}
    outcome = _execute(session, script, step)
    cases = {}
    for index, flow in flows:
        report = next((r for r in outcome.reports if r.target == flow.target), None)
        failure = next((f.error for f in outcome.failures if f.target == flow.target), None)
        cases[index] = Case(
            script=script,
            step=step,
            flow=flow,
            form=flow.forms[step.form(index)],
            versions=(versions[flow.target], version_of(root / flow.target)),
            report=report,
            failure=(failure["type"], failure["message"]) if failure else None,
            before=before[flow.target],
        )
    # Not those that say they wrote nothing, but those whose log has grown.
    reference.forget(case.flow.target for case in cases.values() if case.versions[0] != case.versions[1])
    found = reference.evidence(list(cases.values()))
    return [_judged(index, number, case, proof) for (index, case), proof in zip(cases.items(), found, strict=True)]


def _execute(session: LocalSession, script: Script, step: Step) -> JobOutcome:
    """As :meth:`LocalSession.run` does, but a failure of one flow leaves the reports of the others in hand."""
    request = RunRequest(
        run_id=f"differential-{uuid.uuid4()}",
        as_of=step.as_of,
        time_zone=script.time_zone,
        overrides=tuple(Override(target, in_pipeline(where)) for target, (where, _) in step.overrides.items()),
        select=step.select,
        full_refresh=step.full_refresh,
        allow_full_refresh=True,
        refresh_policy=step.policy,
    )
    return session.execute(parse_sql(script.pipeline(step), time_zone=script.time_zone), request)


def _judged(flow: int, step: int, case: Case, found: Evidence | QueryFailedError) -> Scenario:
    wrong, rows = [], None
    if case.failure is not None:
        outcome = case.failure[0]
        if case.versions[0] != case.versions[1]:
            wrong.append(f"it failed, and yet the table went from version {case.versions[0]} to {case.versions[1]}")
        if not justified(case, found):
            wrong.append(f"it failed for no reason of its own: {case.failure[0]}: {case.failure[1]}")
    else:
        assert case.report is not None
        outcome = str(case.report.mode)
        if isinstance(found, QueryFailedError):
            wrong.append(f"by hand the query fails: {found}")
        else:
            wrong += faults(case, found)
            rows = left_alone(case, found)
    evidence = (case, found) if wrong else (None, None)  # what went well need not be kept
    return Scenario(flow, step, case.flow.label, outcome, case.before is None, tuple(wrong), rows, *evidence)
