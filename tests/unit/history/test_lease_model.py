"""Leases taken, renewed, narrowed, used and freed in any order while time passes: as a model with plain sets says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_replacewhere.errors import LeaseLostError, RequestError
from airflow_provider_replacewhere.history.leases import Conflict, Lease
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.leasing import COMMIT_SECONDS, LEASE_SECONDS
from tests.leases import Clock, claim, numbers

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

RUNS = ("a", "b", "c", "d")
TABLES = st.sampled_from([("t1",), ("t2",), ("t1", "t2")])
SPANS = st.tuples(st.integers(0, 5), st.integers(1, 3)).map(lambda span: (span[0], span[0] + span[1]))
PLACE_SECONDS = 60


@dataclass
class Row:
    """A lease, or with ``place`` an age among those who wait."""

    run: str
    table: str
    cells: set[int]
    end: datetime
    place: int | None = None
    committing: bool = False

    def meets(self, run: str, tables: Iterable[str], cells: set[int]) -> bool:
        return self.run != run and self.table in tables and bool(self.cells & cells)


class AnyOrder(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.clock = Clock()
        self.store = HistoryStore(f"sqlite:///{Path(self.folder.name) / 'history.db'}", clock=self.clock)
        self.rows: list[Row] = []
        self.arrivals = 0
        # Every lease that was ever granted, with its row, which may be gone.
        self.granted: list[tuple[Lease, Row]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(run=st.sampled_from(RUNS), tables=TABLES, span=SPANS, queue=st.booleans())
    def acquire(self, run: str, tables: tuple[str, ...], span: tuple[int, int], queue: bool) -> None:
        if any(row.run == run and row.table in tables and row.place is None for row in self.rows):
            return  # taking a lease up again has a test of its own
        cells, now = set(range(*span)), self.clock.now
        own = {row.table: row for row in self.rows if row.run == run and row.table in tables}
        age = min((row.place for row in own.values() if row.place is not None), default=None)
        met = [row for row in self.rows if row.meets(run, tables, cells)]
        blocking = [row for row in met if row.end > now and (row.place is None or age is None or row.place < age)]
        found = self.store.acquire(
            [claim(run, numbers(*span), target=table) for table in tables], queue_seconds=PLACE_SECONDS if queue else 0
        )
        assert isinstance(found, Conflict) == bool(blocking)
        self.rows = [row for row in self.rows if row not in own.values()]
        if isinstance(found, Conflict):
            assert sorted((o.lease.run_id, o.lease.target) for o in found.overlaps) == sorted(
                (row.run, row.table) for row in blocking
            )
            for table in tables if queue else ():
                self.arrivals += 1
                place = own[table].place if table in own else self.arrivals
                self.rows.append(Row(run, table, cells, now + timedelta(seconds=PLACE_SECONDS), place))
            return
        ended = [row for row in met if row.end <= now]
        assert {lease.run_id for lease in found.expired} == {row.run for row in ended if row.place is None}
        self.rows = [row for row in self.rows if row not in ended]
        for lease in found.leases:
            assert all(lease.fence > before.fence for before, _ in self.granted)
            row = Row(run, lease.target, set(cells), now + timedelta(seconds=LEASE_SECONDS))
            self.rows.append(row)
            self.granted.append((lease, row))

    @rule(run=st.sampled_from(RUNS), tables=TABLES)
    def withdraw(self, run: str, tables: tuple[str, ...]) -> None:
        self.store.withdraw([claim(run, target=table) for table in tables])
        self.rows = [row for row in self.rows if row.run != run or row.table not in tables or row.place is None]

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), commit=st.booleans())
    def renew_or_commit(self, data: st.DataObject, commit: bool) -> None:
        lease, row = data.draw(st.sampled_from(self.granted))
        use = self.store.permit if commit else self.store.renew
        if not self.is_there(row):
            with pytest.raises(LeaseLostError):
                use(lease)
            return
        renewed = use(lease)
        seconds = COMMIT_SECONDS if commit else LEASE_SECONDS
        row.end = max(row.end, self.clock.now + timedelta(seconds=seconds))
        row.committing |= commit
        assert renewed.expires_at == row.end

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), span=SPANS)
    def narrow(self, data: st.DataObject, span: tuple[int, int]) -> None:
        lease, row = data.draw(st.sampled_from(self.granted))
        cells = set(range(*span))
        if self.is_there(row) and not row.committing and cells <= row.cells:
            self.store.narrow(lease, numbers(*span))
            row.cells = cells
            return
        with pytest.raises(RequestError if self.is_there(row) else LeaseLostError):
            self.store.narrow(lease, numbers(*span))

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease, row = data.draw(st.sampled_from(self.granted))
        assert self.store.release(lease) == self.is_there(row)
        self.rows = [other for other in self.rows if other is not row]

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def break_by_hand(self, data: st.DataObject) -> None:
        lease, row = data.draw(st.sampled_from(self.granted))
        if self.is_there(row) and not (row.committing and row.end > self.clock.now):
            self.store.break_lease(lease.fence)
            self.rows = [other for other in self.rows if other is not row]
            return
        with pytest.raises(RequestError):
            self.store.break_lease(lease.fence)

    @rule(seconds=st.sampled_from([1, PLACE_SECONDS - 1, PLACE_SECONDS, LEASE_SECONDS, COMMIT_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    @invariant()
    def live_leases_are_the_models_and_do_not_overlap(self) -> None:
        found = self.store.leases(waiting=True)
        live = [row for row in self.rows if row.end > self.clock.now]
        assert sorted((lease.run_id, lease.target, str(lease.state)) for lease in found) == sorted(
            (row.run, row.table, "waiting" if row.place else "committing" if row.committing else "held") for row in live
        )
        held = [lease for lease in found if lease.state != "waiting"]
        for number, lease in enumerate(held):
            for other in held[:number]:
                assert lease.target != other.target or not lease.region.overlaps(other.region)

    def is_there(self, row: Row) -> bool:
        return any(other is row for other in self.rows)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
