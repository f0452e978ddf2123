"""Whoever is killed, and wherever: the table is before the run or after it, never twice, and the ledger says which.

Each cell: a run over changed sources is killed at a point; then the task is tried again, or cleared, or the next
scheduled run comes. In the end the table must hold what the query gives, in one commit for each run that wrote, and the
ledger must say so. ``make chaos`` plays all cells; the suite plays a few.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.stage import Row, Stage

FIRST, KILLED, NEXT = (f"2026-03-{day}T00:00:00+00:00" for day in ("09", "10", "11"))

DRIVER = ("started", "before_write", "while_writing", "committed", "reported")
WORKER = (
    "before_request",
    "asked",
    "before_permission",
    "permitted",
    "committed",
    "before_record",
    "recorded",
)
ACTIONS = ("retry", "clear", "next run")
CELLS = [
    (who, point, action)
    for (who, points), action in itertools.product((("driver", DRIVER), ("worker", WORKER)), ACTIONS)
    for point in points
]
# Nothing is there, and another write is asked for. That a commit is there and nobody knows, test_chunked_backfill has.
IN_SUITE = {("worker", "before_permission", "clear")}
WRITTEN = {("driver", "committed"), ("driver", "reported")} | {
    ("worker", point) for point in ("permitted", "committed", "before_record", "recorded")
}


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.create(tmp_path_factory.mktemp("chaos"))


def changed_after_a_run(stage: Stage) -> list[Row]:
    """Let the sources change after a run, and return what the target held then."""
    stage.begin()
    assert stage.run(FIRST) == "success"
    stage.add((10, 5))
    return stage.rows("daily")


@pytest.mark.parametrize(
    ("who", "point", "action"),
    [pytest.param(*cell, marks=() if cell in IN_SUITE else pytest.mark.long, id="-".join(cell)) for cell in CELLS],
)
def test_a_run_that_is_killed_ends_right(stage: Stage, who: str, point: str, action: str) -> None:
    before, wanted = changed_after_a_run(stage), stage.wanted()
    assert before != wanted

    state = stage.run(
        KILLED, driver_fault=point if who == "driver" else None, worker_fault=point if who == "worker" else None
    )
    stage.await_drivers()

    # Before the run or after it, and nothing in between.
    landed = (who, point) in WRITTEN
    assert stage.rows("daily") == (wanted if landed else before)
    assert state == "killed" if who == "worker" else state in ("failed", "success")

    match action:
        case "retry":
            stage.try_again(KILLED)
        case "clear":
            stage.clear(KILLED)
        case _:
            assert stage.run(NEXT) == "success"
    stage.await_drivers()

    assert stage.rows("daily") == wanted
    assert Counter(len(tokens) for tokens in _commits_by_token(stage).values()) == {1: 2}, "one commit for each write"
    # The ledger knows every commit, and nothing that is not there.
    recorded = {r.report.token for r in stage.runs() if r.report is not None and r.report.mode != "NO_OP"}
    assert recorded == set(_commits_by_token(stage))
    assert not [lease for lease in stage.store.leases(waiting=True) if lease.state == "held"]
    # And it is all fresh: nothing is left to do.
    assert stage.run("2026-03-12T00:00:00+00:00") == "success"
    (last, *_) = stage.runs()
    assert last.report is not None
    assert last.report.mode == "NO_OP"


@pytest.mark.long
def test_a_task_that_is_told_to_end_while_it_holds_its_lease(stage: Stage) -> None:
    before = changed_after_a_run(stage)

    assert stage.run(KILLED, worker_fault="told_to_end") == "failed"

    assert stage.drivers_alive() == []
    assert stage.rows("daily") == before
    assert not stage.store.leases(waiting=True)
    assert [str(run.status) for run in stage.runs()] == ["failed", "succeeded"]
    stage.try_again(KILLED)
    assert stage.rows("daily") == stage.wanted()
    assert [str(run.status) for run in stage.runs()] == ["succeeded", "failed", "succeeded"]


@pytest.mark.long
def test_a_table_whose_disk_takes_no_more(stage: Stage) -> None:
    before = changed_after_a_run(stage)

    assert stage.run(KILLED, driver_fault="disk_full") == "failed"

    assert stage.rows("daily") == before
    assert len(stage.commits()) == 1
    (run, _) = stage.runs()
    assert run.error is not None
    assert "File too large" in run.error["message"]
    assert not stage.store.leases(waiting=True)
    stage.try_again(KILLED)
    assert stage.rows("daily") == stage.wanted()


def _commits_by_token(stage: Stage) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, commit in enumerate(stage.commits()):
        found.setdefault(commit["token"], []).append(number)
    return found


def test_every_point_is_in_the_matrix() -> None:
    folder = Path(__file__).parent
    for program, points in (("faulty_application.py", DRIVER), ("faulty_worker.py", WORKER)):
        text = (folder / program).read_text()
        named = {line.split('"')[1] for line in text.splitlines() if line.strip().startswith('case "')}
        assert named - {"none", "told_to_end", "third_told_to_end", "third_committed", "disk_full"} == set(points)
