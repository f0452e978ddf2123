"""Runs for which there is nothing to do start no JVM; and every doubt starts Spark, with its reason in the log.

One real Spark application fills the tables; afterwards the command ``spark-submit`` of these tests only notes that it
was called. All else is real: operator, ledger, tables.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.planning.report import RunReport
from tests.airflow.operators.conftest import LOCAL_SPARK
from tests.airflow_dags import DagFolder, DagResult, only_our_warnings_count

MANY = 1_000
CONF = {"spark.ui.enabled": "false", "spark.databricks.delta.snapshotPartitions": "1"}
PIPELINE = """
CREATE STREAMING TABLE weekly FLOW REPLACE WHERE d >= DATE '2026-03-02' BY NAME SELECT d, sum(n) AS n FROM late GROUP BY d;
CREATE VIEW late AS SELECT * FROM by_path WHERE n > 0;
CREATE STREAMING TABLE by_path FLOW REPLACE WHERE d >= date_sub(current_date(), 7) BY NAME
  SELECT d, n FROM delta.`{lake}/rides`;
CREATE STREAMING TABLE gold.partitioned PARTITIONED BY (d) FLOW REPLACE WHERE d >= date_sub(current_date(), 7) BY NAME
  SELECT d, n FROM shop.by_day;
CREATE STREAMING TABLE long FLOW REPLACE WHERE d >= date_sub(current_date(), 7) BY NAME SELECT d, n FROM Many_Commits;
"""  # noqa: E501
PROGRAM = """\
#!/bin/sh
echo "$@" >> {folder}/calls
[ -e {folder}/real ] && exec {spark_submit} "$@"
sleep 1
exit 3
"""


@dataclass(frozen=True)
class House:
    """Tables and a ledger, as a first run left them.

    :param folder: with ``lake``, the directory catalog; ``kept``, its copy; ``bin``, with the command for Spark
    :param ledger: the file of the ledger
    """

    folder: Path
    ledger: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def table(self, name: str) -> Path:
        return self.lake.joinpath(*name.split("."))

    @property
    def was_spark_called(self) -> bool:
        return (self.folder / "calls").exists()

    def task(self, pipeline: str = PIPELINE, conf: dict[str, str] = CONF, **arguments: Any) -> str:
        text = pipeline.replace("{lake}", str(self.lake))
        more = "".join(f", {name}={value!r}" for name, value in arguments.items())
        return f'ReplaceWhereOperator(task_id="t", pipeline="""{text}""", root={str(self.lake)!r}, conf={conf!r}{more})'

    def keep(self) -> None:
        shutil.copytree(self.lake, self.folder / "kept")
        shutil.copy(self.ledger, self.folder / "ledger")
        (self.folder / "calls").unlink()
        (self.folder / "real").unlink()

    def restore(self) -> None:
        shutil.rmtree(self.lake)
        shutil.copytree(self.folder / "kept", self.lake)
        shutil.copy(self.folder / "ledger", self.ledger)
        (self.folder / "calls").unlink(missing_ok=True)


def rows(*days: int) -> pa.Table:
    return pa.table({"d": [date(2026, 3, day) for day in days], "n": list(days)})


def append(house: House, name: str, *days: int) -> None:
    write_deltalake(str(house.table(name)), rows(*days), mode="append")


def make_long_table(path: Path) -> None:
    """A table whose one file was replaced again and again."""
    write_deltalake(str(path), rows(8, 9))
    log = path / "_delta_log"
    *_, text = (log / f"{0:020d}.json").read_text().splitlines()
    added = json.loads(text)["add"]
    for version in range(1, MANY):
        name = f"part-{version}.parquet"
        shutil.copy(path / added["path"], path / name)
        removed, added = added, {**added, "path": name}
        actions = (
            {"commitInfo": {"operation": "WRITE"}},
            {"remove": {"path": removed["path"], "deletionTimestamp": 1, "dataChange": True}},
            {"add": added},
        )
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.fixture(scope="module")
def filled(running_airflow: Path, tmp_path_factory: pytest.TempPathFactory) -> House:
    """The tables after one real run."""
    house = House(tmp_path_factory.mktemp("house"), running_airflow / "replacewhere" / "history.db")
    write_deltalake(str(house.table("rides")), rows(7, 8, 9))
    write_deltalake(str(house.table("shop.by_day")), rows(7, 8, 9), partition_by=["d"])
    make_long_table(house.table("many_commits"))
    spark_submit = shutil.which("spark-submit")
    assert spark_submit is not None
    (house.folder / "bin").mkdir()
    program = house.folder / "bin" / "spark-submit"
    program.write_text(PROGRAM.format(folder=house.folder, spark_submit=spark_submit))
    program.chmod(0o755)
    (house.folder / "real").touch()
    house.ledger.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        result = dags_of(house.folder, patch).run(house.task())
    assert result.state == "success", result.errors
    assert modes(result) == dict.fromkeys(("by_path", "weekly", "gold.partitioned", "long"), "FULL_RECOMPUTE")
    house.keep()
    return house


def dags_of(folder: Path, patch: pytest.MonkeyPatch) -> DagFolder:
    made = DagFolder(folder / "dags")
    made.folder.mkdir(exist_ok=True)
    patch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", made.bundle())
    patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
    patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return made


@pytest.fixture
def house(filled: House) -> House:
    filled.restore()
    return filled


@pytest.fixture
def dags(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagFolder]:
    yield dags_of(house.folder, monkeypatch)
    house.ledger.unlink()


@pytest.fixture
def why(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What the task's log says of the start of Spark since it was asked last."""

    def read() -> str:
        found = re.findall(r"(?:starting Spark|Spark is not started): ([^\[\n]*)", "".join(capfd.readouterr()))
        return "; ".join(text.strip() for text in found)

    return read


def modes(result: DagResult) -> dict[str, str]:
    return {flow: value["mode"] for flow, value in result.values["t"]["flows"].items()}


@contextmanager
def watching_processes() -> Iterator[set[str]]:
    """The names of the programs that this process and its children start meanwhile."""
    seen: set[str] = set()
    done = threading.Event()
    before = dict(_programs_below(os.getpid()))  # such as one that has ended, and that nobody has asked for its status

    def watch() -> None:
        while not done.wait(0.01):
            seen.update(name for process, name in _programs_below(os.getpid()) if process not in before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _programs_below(root: int) -> Iterator[tuple[int, str]]:
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue  # gone meanwhile
            names[int(entry.name)], parents[int(entry.name)] = name, int(rest.split()[1])
    for process, name in names.items():
        above = parents[process]
        while above in parents and above != root:
            above = parents[above]
        if above == root:
            yield process, name


def test_nothing_to_do_starts_no_jvm_over_path_partitioned_and_long_tables(
    house: House, dags: DagFolder, why: Callable[[], str]
) -> None:
    with watching_processes() as programs:
        result = dags.run(house.task())

    assert result.state == "success", result.errors
    assert modes(result) == dict.fromkeys(("by_path", "weekly", "gold.partitioned", "long"), "NO_OP")
    assert not house.was_spark_called
    assert not programs & {"java", "spark-submit", "sh", "bash"}, programs
    assert why() == "the ledger and the tables' logs prove everything fresh"
    runs = {run.flow: run for run in PredicateHistoryHook().runs(limit=4)}
    assert {run.status for run in runs.values()} == {"succeeded"}
    assert runs["long"].report is not None
    assert runs["long"].report.source_versions == {"many_commits": MANY - 1}
    assert runs["by_path"].identity.task_id == "t"


def test_a_call_of_spark_is_seen(house: House, dags: DagFolder) -> None:
    append(house, "rides", 9)
    with watching_processes() as programs:
        result = dags.run(house.task())
    assert result.state == "failed", "the stand-in leaves no outcome"
    assert house.was_spark_called
    assert programs & {"spark-submit", "sh"}, programs


def test_no_ops_follow_each_other_and_commits_that_move_files_are_no_change(house: House, dags: DagFolder) -> None:
    for day in (10, 11, 12):
        append_nothing(house)
        result = dags.run(house.task(), logical_date=datetime(2026, 3, day, tzinfo=UTC))
        assert set(modes(result).values()) == {"NO_OP"}
    assert not house.was_spark_called
    report = PredicateHistoryHook().runs(target="by_path", limit=1)[0].report
    assert report is not None
    assert report.window == "(`d` >= DATE '2026-03-05')"
    assert report.source_versions == {f"delta.`file:{house.table('rides')}`": 3}


def append_nothing(house: House) -> None:
    """Commits as VACUUM makes them."""
    for name in ("rides", "shop.by_day", "by_path"):
        table = DeltaTable(str(house.table(name)))
        file = house.table(name) / "_delta_log" / f"{table.version() + 1:020d}.json"
        file.write_text(json.dumps({"commitInfo": {"operation": "VACUUM END", "timestamp": 1}}))
        assert DeltaTable(str(house.table(name))).version() == table.version() + 1


def test_a_source_that_is_compacted_has_not_changed(house: House, dags: DagFolder, why: Callable[[], str]) -> None:
    append(house, "rides", 8)
    append(house, "rides", 9)
    # As if Spark had read the rows that came in between.
    versions_in_ledger(house, "rides", 2)
    DeltaTable(str(house.table("rides"))).optimize.compact()
    assert DeltaTable(str(house.table("rides"))).version() == 3

    result = dags.run(house.task())

    assert set(modes(result).values()) == {"NO_OP"}, why()
    assert not house.was_spark_called


def versions_in_ledger(house: House, source: str, version: int) -> None:
    """Record for every flow what a run over a newer version of a source would have reported."""
    hook = PredicateHistoryHook()
    for run in hook.runs(limit=4):
        assert run.report is not None
        text = json.dumps(run.report.to_json())
        name = re.escape(json.dumps(f"delta.`file:{house.table(source)}`"))
        text = re.sub(rf"({name}: )0", rf"\g<1>{version}", text)
        text = re.sub(rf'({name}: {{[^}}]*"version": )0', rf"\g<1>{version}", text)
        text = re.sub(rf'("table_name": {name}, "version": )0', rf"\g<1>{version}", text)
        report = RunReport.from_json(json.loads(text.replace(run.run_id, f"{run.run_id}-later")))
        hook.record(report)


def remake(house: House) -> None:
    shutil.rmtree(house.table("rides"))
    write_deltalake(str(house.table("rides")), rows(7, 8, 9))


def clean_log(house: House) -> None:
    append_nothing(house)
    append_nothing(house)
    (house.table("rides") / "_delta_log" / f"{1:020d}.json").unlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda house: append(house, "rides", 9), "has changed since version 0 (WRITE at version 1)"),
        (lambda house: append(house, "shop.by_day", 9), "shop.by_day has changed since version 0 (WRITE at version 1)"),
        (lambda house: append(house, "many_commits", 9), f"many_commits has changed since version {MANY - 1}"),
        (remake, "has been replaced by another table"),
        (lambda house: shutil.rmtree(house.table("rides")), "there is no Delta log of"),
        (clean_log, "does not reach back to version 0: 1 is gone"),
        (lambda house: append(house, "by_path", 9), "by_path was changed by someone else (WRITE at version 2)"),
        (lambda house: append(house, "by_path", 1), "by_path was changed by someone else (WRITE at version 2)"),
    ],
)
def test_every_doubt_about_a_table_starts_spark(
    house: House, dags: DagFolder, why: Callable[[], str], change: Callable[[House], None], reason: str
) -> None:
    change(house)
    result = dags.run(house.task())
    assert reason in why()
    assert house.was_spark_called
    assert result.state == "failed", "the stand-in leaves no outcome"


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (lambda house: house.task(PIPELINE.replace("n > 0", "n > 1")), "the definition has changed since the last run"),
        (lambda house: house.task(time_zone="Europe/Zurich"), "the definition has changed since the last run"),
        (lambda house: house.task(conf={**CONF, "spark.sql.ansi.enabled": "false"}), "the configuration of Spark has"),
        (lambda house: house.task(env_vars={"SPARK_ANSI": "1"}), "the configuration of Spark has changed since"),
        (lambda house: house.task(jars="/etc/hosts"), "the configuration of Spark has changed since the last run"),
        (lambda house: house.task(refresh_policy="full"), "refresh_policy is full"),
        (lambda house: house.task(full_refresh=True), "a full refresh is asked for"),
        (lambda house: house.task(dry_run=True), "a dry run is asked for"),
    ],
)
def test_every_doubt_about_what_is_asked_starts_spark(
    house: House, dags: DagFolder, why: Callable[[], str], task: Callable[[House], str], reason: str
) -> None:
    dags.run(task(house))
    assert reason in why()
    assert house.was_spark_called


def test_tables_of_a_metastore_are_left_to_spark(house: House, dags: DagFolder, why: Callable[[], str]) -> None:
    # The same names for Spark's catalog instead of the folder: the definition is another already, so as if it were not.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_replacewhere.planning.fingerprint.changed", lambda before, now: None)
        dags.run(house.task().replace(f"root={str(house.lake)!r}", "root=None"))
    assert "is a table of Spark's catalog, which cannot be watched from here" in why()
    assert house.was_spark_called


def test_flows_of_python_files_are_left_to_spark(house: House, dags: DagFolder, why: Callable[[], str]) -> None:
    (dags.folder / "flows.py").write_text("from pyspark import pipelines as dp\n")
    dags.run(f'ReplaceWhereOperator(task_id="t", pipeline="flows.py", root={str(house.lake)!r})')
    assert "the flows of Python files show only there" in why()
    assert house.was_spark_called


def test_a_look_that_fails_does_not_fail_the_task(
    house: House, dags: DagFolder, why: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("airflow_provider_replacewhere.planning.quick_look.quick_look", broken)
    dags.run(house.task())
    assert "the look without it failed" in why()
    assert house.was_spark_called


def test_a_backfill_of_what_is_fresh_starts_spark_unless_only_the_stale_part_is_asked_for(
    house: House, dags: DagFolder, why: Callable[[], str]
) -> None:
    task = house.task().replace("ReplaceWhereOperator", "BackfillOperator")
    bounds = {"flow_name": "long", "column": "d", "start": "2026-03-04", "end": "2026-03-06"}

    result = dags.run(task, {**bounds, "only_stale": True})
    assert modes(result) == {"long": "NO_OP"}
    assert result.values["t"]["flows"]["long"]["override"] is True
    assert not house.was_spark_called
    why()

    dags.run(task, bounds)
    assert "an override recomputes its whole window" in why()
    assert house.was_spark_called


def test_a_no_op_is_no_event_of_an_outlet(house: House, dags: DagFolder) -> None:
    from tests.airflow_dags import asset_events

    task = house.task()[:-1] + ', outlets=[Asset("file://lake/never_written")])'
    with only_our_warnings_count():
        result = dags.run(task)
    assert set(modes(result).values()) == {"NO_OP"}
    assert not any(asset_events("file://lake/never_written"))
