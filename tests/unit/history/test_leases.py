"""Leases: regions that are written do not overlap, and whoever lost one is told before the commit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from airflow_provider_replacewhere.errors import HistorySchemaError, LeaseLostError, RequestError
from airflow_provider_replacewhere.history import schema
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.leases import Conflict, Granted, Lease, LeaseState
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.leasing import COMMIT_SECONDS, LEASE_SECONDS
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.history import report
from tests.leases import TARGET, Clock, claim, granted, numbers, refused

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

TASK = Identity("sales", "scheduled__2026-03-10", "daily", map_index=3, try_number=2)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(history_url: str, clock: Clock) -> HistoryStore:
    return HistoryStore(history_url, clock=clock)


@pytest.fixture
def engine(history_url: str) -> Engine:
    """The same database, past the store."""
    return sa.create_engine(history_url, poolclass=NullPool)


# -- taking and freeing -----------------------------------------------------------------------------------------------


def test_a_lease_comes_back_as_it_was_taken(store: HistoryStore, clock: Clock) -> None:
    region = parse_predicate("d >= DATE'2026-03-01' AND city = 'Zürich %:x'", {"d": "date", "city": "string"})
    lease = granted(store.acquire([claim("a", region, identity=TASK, target="Sales.`Täglich`")], seconds=30))
    end = clock.now + timedelta(seconds=30)
    assert lease == Lease(
        target="Sales.`Täglich`", flow="daily", run_id="a", region=region, identity=TASK, fence=1,
        state=LeaseState.HELD, acquired_at=clock.now, renewed_at=clock.now, expires_at=end,
    )  # fmt: skip
    assert store.leases() == [lease]
    assert store.leases("sales.TÄGLICH") == [lease]
    assert store.leases("sales.other") == []
    assert lease.lasts_seconds == 30


def test_disjoint_regions_are_held_side_by_side_and_overlapping_ones_are_not(store: HistoryStore) -> None:
    first = granted(store.acquire([claim("a", numbers(0, 10))]))
    granted(store.acquire([claim("b", numbers(10, 20))]))
    assert refused(store.acquire([claim("c", numbers(5, 15))])) == ["a", "b"]
    assert refused(store.acquire([claim("d")])) == ["a", "b"]
    assert store.release(first)
    assert refused(store.acquire([claim("c", numbers(5, 15))])) == ["b"]
    granted(store.acquire([claim("c", numbers(5, 10))]))
    assert [lease.run_id for lease in store.leases()] == ["b", "c"]


def test_one_target_is_one_however_it_is_spelled_and_others_are_free(store: HistoryStore) -> None:
    granted(store.acquire([claim("a")]))
    assert refused(store.acquire([claim("b", target="SALES.`Daily`")])) == ["a"]
    granted(store.acquire([claim("b", target="sales.other")]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (parse_predicate("length(s) > 3", {"s": "string"}), parse_predicate("length(s) < 2", {"s": "string"})),
        (parse_predicate("n < 0", {"n": "int"}), parse_predicate("n > 0", {"n": "bigint"})),
        (parse_predicate("n < 0", {"n": "int"}), parse_predicate("n > '5'", {"n": "string"})),
    ],
    ids=["opaque conditions", "types that differ", "types that cannot be compared"],
)
def test_regions_that_cannot_be_told_apart_overlap(store: HistoryStore, one: Region, other: Region) -> None:
    lease = granted(store.acquire([claim("a", one)]))
    assert refused(store.acquire([claim("b", other)])) == ["a"]
    with pytest.raises(RequestError, match="not within that"):
        store.narrow(lease, other)


def test_several_targets_are_taken_together_or_not_at_all(store: HistoryStore) -> None:
    granted(store.acquire([claim("a", target="t2")]))
    wanted = [claim("b/1", target="t1"), claim("b/2", target="t2"), claim("b/3", target="t3")]
    assert refused(store.acquire(wanted)) == ["a"]
    assert [lease.target for lease in store.leases()] == ["t2"]
    found = store.acquire([wanted[2], wanted[0]])
    assert isinstance(found, Granted)
    assert [lease.target for lease in found.leases] == ["t3", "t1"], "in the order of the claims"
    assert store.acquire([]) == Granted(())


def test_a_target_that_is_claimed_twice_at_once_is_refused(store: HistoryStore) -> None:
    with pytest.raises(RequestError, match="claimed twice at once, by flow daily and by flow weekly"):
        store.acquire([claim("a", numbers(0, 1)), claim("b", numbers(1, 2), flow="weekly", target="SALES.daily")])


def test_later_leases_have_higher_numbers_also_when_all_were_freed(store: HistoryStore) -> None:
    fences = []
    for number in range(3):
        lease = granted(store.acquire([claim(f"run {number}")]))
        fences.append(lease.fence)
        store.release(lease)
    assert fences == [1, 2, 3]
    store.record(report("r"))
    assert store.runs()[0].sequence == 1, "leases use up no number of the runs"


def test_freeing_twice_is_no_error_and_frees_nobody_else(store: HistoryStore) -> None:
    lease = granted(store.acquire([claim("a")]))
    assert store.release(lease)
    granted(store.acquire([claim("b")]))
    assert not store.release(lease)
    assert [held.run_id for held in store.leases()] == ["b"]


def test_the_holder_is_named_with_what_both_want_to_write(store: HistoryStore) -> None:
    granted(store.acquire([claim("app-1/daily", numbers(0, 10), identity=TASK)]))
    granted(store.acquire([claim("command-2/daily", numbers(20, 30), flow="fill")]))
    found = store.acquire([claim("c", numbers(5, 25), flow="wide")])
    assert isinstance(found, Conflict)
    until = "until 2026-03-10 04:02:00 unless renewed"
    assert str(found) == (
        "sales.daily: flow daily (Dag sales, Dag run scheduled__2026-03-10, task daily[3], try 2) writes "
        f"(n >= 0) AND (n < 10) since 2026-03-10 04:00:00 UTC (lease 1, {until}); "
        "in common with flow wide: (n >= 5) AND (n < 10)\n"
        "sales.daily: flow fill, run command-2/daily writes (n >= 20) AND (n < 30) since 2026-03-10 04:00:00 UTC "
        f"(lease 2, {until}); in common with flow wide: (n >= 20) AND (n < 25)"
    )


def test_a_region_of_many_ranges_is_named_by_what_surrounds_it(store: HistoryStore) -> None:
    odd = parse_predicate(f"n IN ({', '.join(str(n) for n in range(1, 201, 2))})", {"n": "int"})
    granted(store.acquire([claim("a", odd)]))
    assert len(str(store.acquire([claim("b", odd)]))) < 3000
    granted(store.acquire([claim("c", numbers(2, 3))]))


# -- expiry and heartbeat ---------------------------------------------------------------------------------------------


def test_an_expired_lease_is_removed_for_who_wants_its_region_and_its_run_is_refused(
    store: HistoryStore, clock: Clock
) -> None:
    zombie = granted(store.acquire([claim("a", numbers(0, 10))]))
    clock.sleep(LEASE_SECONDS - 1)
    assert refused(store.acquire([claim("b", numbers(5, 15))])) == ["a"]
    clock.sleep(1)
    assert store.leases() == []
    found = store.acquire([claim("b", numbers(5, 15), identity=TASK)])
    lease = granted(found)
    assert isinstance(found, Granted)
    assert found.expired == (zombie,)
    for use in (store.permit, store.renew, lambda lost: store.narrow(lost, numbers(0, 1))):
        with pytest.raises(LeaseLostError, match=r"run a has lost lease 1[\s\S]*now held by flow daily \(Dag sales"):
            use(zombie)
    assert not store.release(zombie)
    assert store.leases() == [lease]
    store.release(lease)
    with pytest.raises(LeaseLostError, match="another run has had its region since"):
        store.permit(zombie)


def test_a_heartbeat_keeps_a_lease_for_as_long_as_it_beats(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a")]))
    for _ in range(10):
        clock.sleep(LEASE_SECONDS - 1)
        lease = store.renew(lease)
        assert refused(store.acquire([claim("b")])) == ["a"]
    assert lease.renewed_at == clock.now
    assert lease.acquired_at < clock.now
    clock.sleep(LEASE_SECONDS)
    granted(store.acquire([claim("b")]))


def test_a_lease_that_expired_in_nobodys_way_is_renewed_on_the_spot(store: HistoryStore, clock: Clock) -> None:
    leases = [granted(store.acquire([claim(f"run {n}", numbers(n, n + 1))])) for n in range(2)]
    clock.sleep(10 * LEASE_SECONDS)
    granted(store.acquire([claim("other", numbers(5, 6))]))
    assert store.permit(leases[0]).expires_at == clock.now + timedelta(seconds=COMMIT_SECONDS)
    assert store.renew(leases[1]).expires_at == clock.now + timedelta(seconds=LEASE_SECONDS)
    assert refused(store.acquire([claim("b", numbers(0, 2))])) == ["run 0", "run 1"]


def test_leases_that_nobody_came_back_for_are_forgotten_in_the_end(store: HistoryStore, clock: Clock) -> None:
    old = granted(store.acquire([claim("a", target="t1")]))
    clock.sleep(timedelta(days=2).total_seconds())
    granted(store.acquire([claim("b", target="t2")]))
    with pytest.raises(LeaseLostError):
        store.permit(old)


def test_a_conflict_takes_no_expired_lease_away(store: HistoryStore, clock: Clock) -> None:
    asleep = granted(store.acquire([claim("a", numbers(0, 10))]))
    clock.sleep(LEASE_SECONDS)
    granted(store.acquire([claim("b", numbers(10, 20))]))
    assert refused(store.acquire([claim("c")])) == ["b"]
    assert store.permit(asleep).state is LeaseState.COMMITTING


# -- permission to commit ---------------------------------------------------------------------------------------------


def test_permission_keeps_the_region_until_the_commit_must_have_landed(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a")]))
    clock.sleep(1)
    permitted = store.permit(lease)
    assert (permitted.state, permitted.lasts_seconds) == (LeaseState.COMMITTING, COMMIT_SECONDS)
    clock.sleep(COMMIT_SECONDS - 1)
    assert refused(store.acquire([claim("b")])) == ["a"]
    assert "is committing" in str(store.acquire([claim("b")]))
    clock.sleep(1)
    granted(store.acquire([claim("b")]))


def test_a_heartbeat_takes_nothing_away_from_a_permission(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a")]))
    end = store.permit(lease).expires_at
    clock.sleep(10)
    renewed = store.renew(lease)
    assert (renewed.state, renewed.expires_at) == (LeaseState.COMMITTING, end)
    assert renewed.lasts_seconds == COMMIT_SECONDS - 10
    clock.sleep(COMMIT_SECONDS - 11)
    assert store.renew(lease).expires_at == clock.now + timedelta(seconds=LEASE_SECONDS)


def test_a_lease_is_broken_by_hand_unless_its_run_may_be_committing(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a", numbers(0, 5))]))
    assert store.break_lease(lease.fence) == lease
    with pytest.raises(LeaseLostError, match="broken by hand"):
        store.permit(lease)
    with pytest.raises(RequestError, match="There is no lease 1"):
        store.break_lease(lease.fence)

    lease = store.permit(granted(store.acquire([claim("b", identity=TASK)])))
    with pytest.raises(RequestError, match=r"Dag sales[\s\S]* permission to commit until 2026-03-10 04:10:00 UTC"):
        store.break_lease(lease.fence)
    clock.sleep(COMMIT_SECONDS)
    assert store.break_lease(lease.fence) == lease


# -- narrowing, and taking up again -----------------------------------------------------------------------------------


def test_what_a_narrowed_lease_gives_up_is_free(store: HistoryStore) -> None:
    lease = granted(store.acquire([claim("a")]))
    narrowed = store.narrow(lease, numbers(0, 10))
    assert narrowed.region == numbers(0, 10)
    assert store.leases() == [narrowed]
    granted(store.acquire([claim("b", numbers(10, 20))]))
    assert refused(store.acquire([claim("c", numbers(9, 10))])) == ["a"]
    assert store.renew(lease).region == numbers(0, 10)


def test_a_lease_is_never_widened(store: HistoryStore) -> None:
    lease = store.narrow(granted(store.acquire([claim("a")])), numbers(0, 10))
    with pytest.raises(RequestError, match=r"for \(n >= 0\) AND \(n < 10\) and was to become one for \(n >= 5\)"):
        store.narrow(lease, numbers(5, 11))
    with pytest.raises(RequestError, match="holds lease 1 on sales"):
        store.acquire([claim("a")])
    assert store.leases() == [lease]


def test_a_lease_is_not_narrowed_while_its_commit_may_be_landing(store: HistoryStore) -> None:
    lease = store.permit(granted(store.acquire([claim("a")])))
    with pytest.raises(RequestError, match="Narrow it before asking for the permission"):
        store.narrow(lease, numbers(0, 10))


def test_a_run_takes_its_lease_up_again_and_the_process_that_had_it_is_refused(
    store: HistoryStore, clock: Clock
) -> None:
    before = store.permit(granted(store.acquire([claim("a", numbers(0, 10))])))
    clock.sleep(5)
    again = granted(store.acquire([claim("a", numbers(0, 5))]))
    assert again.fence > before.fence
    assert (again.region, again.state) == (before.region, LeaseState.COMMITTING), "its commit may be under way"
    assert (again.acquired_at, again.expires_at) == (before.acquired_at, before.expires_at)
    with pytest.raises(LeaseLostError):
        store.permit(before)
    store.permit(again)
    assert store.leases()[0].fence == again.fence
    assert len(store.leases()) == 1


# -- those who wait ---------------------------------------------------------------------------------------------------


def test_the_lease_of_a_run_is_resumed_as_it_was_under_a_new_number(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a", numbers(0, 10), identity=TASK)], seconds=30))
    clock.sleep(100)  # expired, and nobody wanted it
    resumed = store.resume(TARGET.upper(), "a", seconds=60)
    assert resumed is not None
    assert (resumed.region, resumed.identity, resumed.state) == (lease.region, TASK, LeaseState.HELD)
    assert resumed.fence > lease.fence
    assert resumed.lasts_seconds == 60
    with pytest.raises(LeaseLostError):
        store.permit(lease)
    permitted = store.permit(resumed)
    again = store.resume(TARGET, "a")
    assert again is not None
    assert (again.state, again.expires_at) == (LeaseState.COMMITTING, permitted.expires_at)


def test_a_lease_that_is_gone_is_not_resumed(store: HistoryStore, clock: Clock) -> None:
    assert store.resume(TARGET, "a") is None
    granted(store.acquire([claim("a", numbers(0, 10))], seconds=30))
    clock.sleep(100)
    other = granted(store.acquire([claim("b", numbers(5, 15))], seconds=30))
    assert store.resume(TARGET, "a") is None
    store.release(other)
    assert store.resume(TARGET, "a") is None
    assert store.leases(waiting=True) == []


def test_a_later_try_of_a_task_takes_the_lease_of_the_earlier_one(store: HistoryStore) -> None:
    first, second = (Identity("dag", "run", "task", -1, number) for number in (1, 2))
    left = granted(store.acquire([claim("first", identity=first)]))
    assert refused(store.acquire([claim("other", identity=replace(second, task_id="other"))])) == ["first"]
    assert refused(store.acquire([claim("mapped", identity=replace(second, map_index=0))])) == ["first"]
    granted(store.acquire([claim("second", identity=second)]))
    with pytest.raises(LeaseLostError):
        store.permit(left)
    # The earlier try gets nothing back.
    assert refused(store.acquire([claim("first again", identity=first)])) == ["second"]


def test_a_later_try_waits_for_the_earlier_one_where_that_may_commit(store: HistoryStore) -> None:
    first, second = (Identity("dag", "run", "task", -1, number) for number in (1, 2))
    store.permit(granted(store.acquire([claim("first", identity=first)])))
    assert refused(store.acquire([claim("second", identity=second)])) == ["first"]


def test_nobody_passes_one_who_waits_for_the_same_rows(store: HistoryStore, clock: Clock) -> None:
    small = granted(store.acquire([claim("small", numbers(0, 10))]))
    assert refused(store.acquire([claim("wide")], queue_seconds=60)) == ["small"]
    # It would fit beside what is held, and would keep the wide one waiting.
    assert refused(store.acquire([claim("late", numbers(20, 30))], queue_seconds=60)) == ["wide"]
    assert refused(store.acquire([claim("hasty", numbers(20, 30))])) == ["wide", "late"]
    granted(store.acquire([claim("elsewhere", target="other")]))
    assert [lease.run_id for lease in store.leases(TARGET)] == ["small"]
    assert [(lease.run_id, str(lease.state)) for lease in store.leases(TARGET, waiting=True)] == [
        ("small", "held"), ("wide", "waiting"), ("late", "waiting"),
    ]  # fmt: skip
    store.release(small)
    assert refused(store.acquire([claim("late", numbers(20, 30))], queue_seconds=60)) == ["wide"]
    wide = granted(store.acquire([claim("wide")], queue_seconds=60))
    store.release(wide)
    granted(store.acquire([claim("late", numbers(20, 30))], queue_seconds=60))
    assert len(store.leases(TARGET, waiting=True)) == 1, "places end with the waiting"


def test_a_place_is_kept_while_its_run_asks_and_lost_when_it_does_not(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a")], seconds=10_000))
    (first,) = _place(store, "patient")
    for _ in range(3):
        clock.sleep(50)
        (place,) = _place(store, "patient")
        assert (place.fence, place.acquired_at) == (first.fence, first.acquired_at)
    store.release(lease)
    clock.sleep(59)
    assert refused(store.acquire([claim("b")])) == ["patient"]
    clock.sleep(1)
    found = store.acquire([claim("b")])
    granted(found)
    assert found == Granted(tuple(store.leases()), ()), "a place that was left is no lease that expired"


def _place(store: HistoryStore, run_id: str) -> list[Lease]:
    assert isinstance(store.acquire([claim(run_id)], queue_seconds=60), Conflict)
    return [lease for lease in store.leases(waiting=True) if lease.state is LeaseState.WAITING]


def test_a_place_can_be_given_up(store: HistoryStore) -> None:
    lease = granted(store.acquire([claim("a", numbers(0, 10))]))
    wide = claim("wide")
    for give_up in (lambda: store.withdraw([wide]), lambda: store.acquire([wide])):
        store.acquire([wide], queue_seconds=60)
        assert refused(store.acquire([claim("b", numbers(10, 20))])) == ["wide"]
        give_up()
        store.release(granted(store.acquire([claim("b", numbers(10, 20))])))
    store.withdraw([claim("a")])
    assert store.leases(waiting=True) == [lease], "a lease is no place"


def test_a_place_allows_nothing(store: HistoryStore) -> None:
    granted(store.acquire([claim("a")]))
    store.acquire([claim("b")], queue_seconds=60)
    (place,) = (lease for lease in store.leases(waiting=True) if lease.state is LeaseState.WAITING)
    for use in (store.permit, store.renew, lambda lease: store.narrow(lease, numbers(0, 1))):
        with pytest.raises(LeaseLostError):
            use(place)


def test_two_who_wait_for_each_others_targets_do_not_block_each_other(store: HistoryStore) -> None:
    first = granted(store.acquire([claim("x", target="t1")]))
    second = granted(store.acquire([claim("y", target="t2")]))
    one = [claim("one/1", target="t1"), claim("one/2", target="t2")]
    two = [claim("two/2", target="t2"), claim("two/1", target="t1")]
    for wanted in (one, two):
        assert isinstance(store.acquire(wanted, queue_seconds=60), Conflict)
    store.release(first)
    store.release(second)
    assert set(refused(store.acquire(two, queue_seconds=60))) == {"one/1", "one/2"}
    found = store.acquire(one, queue_seconds=60)
    assert isinstance(found, Granted)
    for lease in found.leases:
        store.release(lease)
    assert isinstance(store.acquire(two, queue_seconds=60), Granted)


# -- what is in the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", ["", "{", '{"version": 99, "parts": []}', '{"version": 1}', "[]"])
def test_a_region_that_cannot_be_read_is_everything(store: HistoryStore, engine: Engine, region: str) -> None:
    granted(store.acquire([claim("a", numbers(0, 1))]))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE replacewhere_leases SET region = :region"), {"region": region})
    assert refused(store.acquire([claim("b", numbers(5, 6))])) == ["a"]
    assert store.leases()[0].region == Region.everything()


@pytest.mark.parametrize(("column", "value"), [("state", "idle"), ("renewed_at", "noon")])
def test_a_lease_that_was_changed_by_hand_is_named(
    store: HistoryStore, engine: Engine, column: str, value: str
) -> None:
    granted(store.acquire([claim("a")]))
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE replacewhere_leases SET {column} = :value"), {"value": value})
    for use in (store.leases, lambda: store.acquire([claim("b")])):
        with pytest.raises(HistorySchemaError, match=rf"Lease 1 on sales.daily cannot be read: .*{value}"):
            use()


def test_a_history_of_the_version_before_gets_leases(history_url: str) -> None:
    schema.migrate(Database(history_url), "0003")
    store = HistoryStore(history_url)
    store.record(report("r"))
    assert granted(store.acquire([claim("a")])).fence == 1
    assert [run.sequence for run in store.runs()] == [1]


def test_without_another_clock_the_databases_counts(history_url: str) -> None:
    before = datetime.now(UTC)
    lease = granted(HistoryStore(history_url).acquire([claim("a")], seconds=30))
    # Both databases of these tests run on this machine.
    assert before <= lease.acquired_at <= datetime.now(UTC)
    assert lease.expires_at - lease.acquired_at == timedelta(seconds=30)


# -- the database's clock is set ---------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_frees_nothing_that_is_held(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("a")], seconds=LEASE_SECONDS))
    clock.sleep(-3600)
    renewed = store.renew(lease, seconds=LEASE_SECONDS)
    assert renewed.expires_at == lease.expires_at, "a heartbeat takes nothing away"
    assert refused(store.acquire([claim("b")])) == ["a"]
    store.permit(renewed)
    store.release(renewed)
    granted(store.acquire([claim("b")]))


def test_a_clock_that_is_set_forward_frees_what_is_held_and_its_holder_may_not_commit(
    store: HistoryStore, clock: Clock
) -> None:
    lease = granted(store.acquire([claim("a")], seconds=LEASE_SECONDS))
    clock.sleep(3600)
    granted(store.acquire([claim("b")]))
    with pytest.raises(LeaseLostError, match="b"):
        store.permit(lease)
    # One that nobody has asked for meanwhile goes on.
    alone = granted(store.acquire([claim("c", target="sales.weekly")], seconds=LEASE_SECONDS))
    clock.sleep(3600)
    store.permit(store.renew(alone, seconds=LEASE_SECONDS))
