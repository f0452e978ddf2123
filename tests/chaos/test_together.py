"""Twenty backfills of one table at once: no row is lost or doubled, nobody waits for ever, every loser is told why."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import ConcurrentWriteError, RegionHeldError, ReplaceWhereError
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.postgres import PostgresServer, postgres_server  # noqa: F401 (a fixture)
from tests.spark.tables import NOON, Lake, flow

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

RUNS = 20
DAYS = [f"2026-02-{day:02d}" for day in range(1, 26)]
EVERYTHING = "day >= date_sub(current_date(), 60)"
# Longer than a deadlock would let pass for slow.
PATIENCE = 900.0

LAYOUTS = ("partitioned", "plain")
WINDOWS = ("overlapping", "disjoint")
POLICIES = ("wait", "fail", "skip")
# The one in which most runs meet and all of them have to end well.
IN_SUITE = ("partitioned", "overlapping", "wait")


@dataclass(frozen=True)
class Backfill:
    """One of the twenty.

    :param days: which it replaces
    :param problem: what it was refused with
    """

    days: tuple[str, ...]
    report: RunReport | None = None
    problem: ReplaceWhereError | None = None


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("layout", "windows", "policy"),
    [
        pytest.param(*case, marks=() if case == IN_SUITE else pytest.mark.long, id="-".join(case))
        for case in itertools.product(LAYOUTS, WINDOWS, POLICIES)
    ],
)
def test_twenty_backfills_at_once(
    spark: SparkSession,
    tmp_path: Path,
    postgres_server: PostgresServer,  # noqa: F811 (the fixture)
    layout: str,
    windows: str,
    policy: str,
) -> None:
    lake = Lake(spark, tmp_path)
    lake.make("rides", "day DATE, fare INT", [(day, 1) for day in DAYS])
    clauses = "PARTITIONED BY (day)" if layout == "partitioned" else ""
    pipeline = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=EVERYTHING, clauses=clauses)
    url = postgres_server.new_database().render_as_string(hide_password=False)
    LocalSession(spark, root=tmp_path, history=url).run(pipeline, as_of=NOON)
    lake.add("rides", *((day, 10) for day in DAYS))
    before = lake.version("daily")

    def backfill(first: int) -> Backfill:
        days = tuple(DAYS[first : first + (5 if windows == "overlapping" else 1)])
        session = LocalSession(
            spark.newSession(), root=tmp_path, history=HistoryStore(url), on_overlap=policy, wait_seconds=PATIENCE / 2
        )
        window = f"day >= DATE'{days[0]}' AND day <= DATE'{days[-1]}'"
        try:
            (report,) = session.run(pipeline, as_of=NOON, overrides={"daily": window})
        except ReplaceWhereError as problem:
            return Backfill(days, problem=problem)
        return Backfill(days, report)

    with ThreadPoolExecutor(RUNS) as pool:
        ended = list(pool.map(backfill, range(RUNS), timeout=PATIENCE))

    written = [each for each in ended if each.report is not None and each.report.mode is not Mode.NO_OP]
    replaced = {day for each in written for day in each.days}
    assert lake.rows("daily") == [(day, 11 if day in replaced else 1) for day in DAYS]
    # One commit for each that wrote, and no other.
    tokens = [_token(lake, version) for version in range(before + 1, lake.version("daily") + 1)]
    assert Counter(tokens) == Counter(each.report.token for each in written if each.report)
    history = HistoryStore(url)
    assert history.leases(waiting=True) == []
    known = {run.report.token for run in history.runs() if run.report}
    assert set(tokens) <= known
    for each in ended:
        _is_told_why(each, layout, policy)
    if (policy, windows, layout) in (("wait", "overlapping", "partitioned"), ("wait", "disjoint", "partitioned")):
        assert len(written) == RUNS
    # Whatever was refused can be had by asking again: nothing was left behind.
    LocalSession(spark, root=tmp_path, history=url).run(pipeline, as_of=NOON)
    assert lake.rows("daily") == [(day, 11) for day in DAYS]


def _is_told_why(each: Backfill, layout: str, policy: str) -> None:
    if each.problem is not None:
        if isinstance(each.problem, RegionHeldError):
            assert policy == "fail"
            assert "daily" in str(each.problem)
            assert "flow daily, run local-" in str(each.problem)
        else:
            # Without partitions Delta cannot tell that two runs of one table write apart.
            assert isinstance(each.problem, ConcurrentWriteError), each.problem
            assert layout == "plain"
        return
    assert each.report is not None
    if each.report.mode is Mode.NO_OP:
        assert policy == "skip"
        assert each.report.reasons[-1]["reason"] == "REGION_HELD_SKIPPED"
        assert "flow daily, run local-" in each.report.reasons[-1]["holders"]


def _token(lake: Lake, version: int) -> str:
    return str(json.loads(lake.commit("daily", version)["userMetadata"])["replacewhere"]["token"])
