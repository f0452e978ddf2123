"""What the ledger forgets, and what it never does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.retention import Outline, forgettable
from airflow_provider_replacewhere.history.store import HistoryStore
from tests.history import failure, report

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

NOW = datetime(2026, 3, 10, tzinfo=UTC)


@st.composite
def ledgers(draw: st.DrawFn) -> list[Outline]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        ended = draw(st.booleans())
        found.append(
            Outline(
                key=str(number),
                target=draw(st.sampled_from("ab")),
                sequence=number * 2,
                last_at=NOW - timedelta(days=draw(st.integers(0, 10))),
                succeeded_as=draw(st.none() | st.just(number * 2 + 1)) if ended else None,
                ended=ended,
            )
        )
    return draw(st.permutations(found))


@given(ledgers(), st.none() | st.integers(0, 10), st.none() | st.integers(0, 5))
def test_what_the_next_run_decides_by_is_never_forgotten(
    runs: list[Outline], keep_days: int | None, keep_runs: int | None
) -> None:
    gone = forgettable(runs, NOW, keep_days=keep_days, keep_runs=keep_runs)
    for target in "ab":
        of_target = [run for run in runs if run.target == target]
        successes = [run for run in of_target if run.succeeded_as is not None]
        assert not gone & {run.key for run in of_target if not run.ended}
        assert not gone & {run.key for run in sorted(successes, key=lambda run: run.sequence)[-1:]}
        if keep_runs:
            assert not gone & {run.key for run in sorted(of_target, key=lambda run: run.sequence)[-keep_runs:]}
    if keep_days is not None:
        assert not gone & {run.key for run in runs if NOW - run.last_at <= timedelta(days=keep_days)}


def test_pruning_by_number_keeps_the_newest_of_each_target(store: HistoryStore) -> None:
    for number in range(4):
        store.record(report(f"a{number}", target="a"))
        store.record(report(f"b{number}", target="b"))
    assert store.prune(keep_runs=3) == 2
    assert [run.run_id for run in store.runs()] == ["b3", "a3", "b2", "a2", "b1", "a1"]


def test_pruning_keeps_the_last_success_and_what_still_runs(store: HistoryStore) -> None:
    store.started("hanging", "daily", "sales.daily")
    store.record(report("old success"))
    store.record(report("last success"))
    store.failed(failure("failed"))
    assert store.prune(keep_runs=0) == 2
    assert [run.run_id for run in store.runs()] == ["last success", "hanging"]
    assert store.last_successful(["sales.daily"])["sales.daily"]["run_id"] == "last success"


def test_pruning_by_age_counts_from_the_last_event(store: HistoryStore, history_url: str) -> None:
    for run_id in ("old", "older", "new"):
        store.started(run_id, "daily", "sales.daily")
        store.record(report(run_id))
    engine = sa.create_engine(history_url)
    with engine.begin() as connection:
        for run_id, days in (("old", 40), ("older", 50)):
            recorded_at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
            connection.execute(
                sa.text("UPDATE replacewhere_events SET recorded_at = :at WHERE run_id = :run_id"),
                {"at": recorded_at, "run_id": run_id},
            )
        # A run of two months that ended today is not old.
        connection.execute(
            sa.text("UPDATE replacewhere_events SET recorded_at = :at WHERE run_id = 'new' AND kind = 'started'"),
            {"at": (datetime.now(UTC) - timedelta(days=60)).isoformat(timespec="microseconds")},
        )
    engine.dispose()
    assert store.prune(keep_days=45) == 1
    assert store.prune(keep_days=45) == 0
    assert [run.run_id for run in store.runs()] == ["new", "old"]


def test_numbers_go_on_after_pruning(store: HistoryStore) -> None:
    for number in range(3):
        store.failed(failure(f"r{number}"))
    assert store.prune(keep_runs=0) == 3
    store.failed(failure("next"))
    assert [run.sequence for run in store.runs()] == [4]


@pytest.mark.parametrize("limits", [{}, {"keep_days": -1}, {"keep_runs": -1, "keep_days": 3}])
def test_pruning_without_a_limit_is_refused(store: HistoryStore, limits: dict[str, int]) -> None:
    with pytest.raises(RequestError, match="was to be pruned"):
        store.prune(**limits)
