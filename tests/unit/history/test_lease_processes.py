"""Leases among threads, processes, dead processes, and processes that have the time wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import LeaseLostError
from airflow_provider_replacewhere.history.leases import Granted
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.waiting import take
from tests.lease_process import ROUNDS, THREADS
from tests.leases import claim, granted, numbers, refused
from tests.postgres import PostgresServer

ROOT = Path(__file__).parents[3]
PROCESSES = 4


def start(*arguments: object, before: str = "") -> subprocess.Popen[str]:
    """A process of :mod:`tests.lease_process`, with some code before all imports."""
    code = f"{before}\nimport runpy, sys\nrunpy.run_module('tests.lease_process', run_name='__main__', alter_sys=True)"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    try:
        said = process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 0, said
    return said


def outputs(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Of all, also where one of them failed."""
    with ThreadPoolExecutor(len(processes)) as pool:
        return list(pool.map(output, processes))


def test_of_many_who_want_the_same_rows_only_one_writes_at_a_time(
    store: HistoryStore, history_url: str, tmp_path: Path
) -> None:
    store.migrate()
    folder = tmp_path / "runs"
    folder.mkdir()
    processes = [start("compete", history_url, f"p{number}", folder) for number in range(PROCESSES)]
    while len(list(folder.glob("*.ready"))) < PROCESSES and all(process.poll() is None for process in processes):
        time.sleep(0.01)
    (folder / "go").touch()
    assert outputs(processes) == [""] * PROCESSES

    lines: list[dict[str, Any]] = [line for file in folder.glob("*.json") for line in json.loads(file.read_text())]
    outcomes = Counter(line["outcome"] for line in lines)
    assert outcomes.total() == PROCESSES * THREADS * ROUNDS
    assert min(outcomes[outcome] for outcome in ("committed", "failed", "skipped", "lost")) > 0, outcomes
    committed = [line for line in lines if line["outcome"] == "committed"]
    for one, other in combinations(committed, 2):
        at_once = one["from"] < other["to"] and other["from"] < one["to"]
        same_rows = one["span"][0] < other["span"][1] and other["span"][0] < one["span"][1]
        assert not (at_once and same_rows and {*one["tables"]} & {*other["tables"]}), (one, other)
    side_by_side = sum(
        one["from"] < other["to"] and other["from"] < one["to"] for one, other in combinations(committed, 2)
    )
    assert side_by_side > 0, "disjoint regions are written at once"
    runs = {line["run"] for line in lines}
    for line in lines:
        if line["outcome"] in ("failed", "skipped"):
            assert any(f"run {run} " in line["told"] for run in runs - {line["run"]}), line
    assert store.leases(waiting=True) == []


def test_a_process_that_is_killed_frees_its_lease_by_expiry(store: HistoryStore, history_url: str) -> None:
    store.migrate()
    process = start("hold", history_url, "killed", 3)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        while (lease := store.leases()[0]).renewed_at - lease.acquired_at < timedelta(seconds=3):
            time.sleep(0.05)
        assert refused(store.acquire([claim("b")])) == ["killed"], "its heartbeat has kept it"
        process.send_signal(signal.SIGKILL)
        process.wait()
        (zombie,) = store.leases()
        found = take(store, [claim("b")], wait_seconds=120, poll_seconds=0.1)
        granted(found)
        assert isinstance(found, Granted)
        assert [lease.run_id for lease in found.expired] == ["killed"]
        with pytest.raises(LeaseLostError):
            store.permit(zombie)
    finally:
        process.kill()
        process.communicate()


SKEWED = """
import datetime, time
real, now, seconds = datetime.datetime, time.time, {seconds}
class Skewed(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=seconds)
datetime.datetime = Skewed
time.time = lambda: now() + seconds
"""


@pytest.mark.postgres
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_whose_clock_is_wrong_neither_takes_nor_loses_anything(
    postgres_server: PostgresServer, hours: int
) -> None:
    url = postgres_server.new_database().render_as_string(hide_password=False)
    store = HistoryStore(url)
    granted(store.acquire([claim("a", numbers(0, 10))]))
    said = json.loads(output(start("skewed", url, "skewed", before=SKEWED.format(seconds=hours * 3600))))
    here = datetime.now(UTC)
    assert abs(datetime.fromisoformat(said["now"]) - here - timedelta(hours=hours)) < timedelta(minutes=10)
    assert said["refused"] == ["a"]
    assert said["live"] == ["a", "skewed"]
    assert abs(datetime.fromisoformat(said["renewed_at"]) - here) < timedelta(minutes=10)
    assert refused(store.acquire([claim("b")])) == ["a", "skewed"]
