"""Leases for the runs of one task or session, taken from the ledger's database when a run asks for its region."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_replacewhere.errors import LeaseLostError
from airflow_provider_replacewhere.history.holding import holding
from airflow_provider_replacewhere.history.leases import Claim, Conflict, Lease, LeaseKeeper
from airflow_provider_replacewhere.history.waiting import take
from airflow_provider_replacewhere.planning.leasing import LEASE_SECONDS, WAIT_SECONDS, Overlapped, Permit
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates.region import Region


@dataclass(frozen=True)
class LedgerLeases:
    """As :class:`~..planning.leasing.Leases`, from the ledger.

    :param keeper: the ledger, or the hook
    :param identity: the task that the runs are of
    :param on_overlap: where another run is in the region: ``wait``, ``fail`` or ``skip``
    :param wait_seconds: how long to wait at most
    :param seconds: how long a lease lasts without being renewed
    :param sleep: how to wait; what it raises ends the waiting
    :param on_lost: called, from another thread, when a lease is lost while a run goes on
    :param leave: asked in the end: whether somebody else takes the leases up, so that they are not to be freed
    """

    keeper: LeaseKeeper
    identity: Identity = Identity()
    on_overlap: str = "wait"
    wait_seconds: float = WAIT_SECONDS
    seconds: float = LEASE_SECONDS
    sleep: Callable[[float], None] = time.sleep
    on_lost: Callable[[LeaseLostError], None] | None = None
    leave: Callable[[], bool] = lambda: False

    @contextmanager
    def holding(self, target: str, flow: str, run_id: str, region: Region) -> Iterator[Permit | Overlapped]:
        """See :meth:`..planning.leasing.Leases.holding`."""
        claim = Claim(target=target, flow=flow, run_id=run_id, region=region, identity=self.identity)
        found = take(
            self.keeper,
            [claim],
            on_overlap=self.on_overlap,
            wait_seconds=self.wait_seconds,
            seconds=self.seconds,
            sleep=self.sleep,
        )
        if isinstance(found, Conflict):
            yield Overlapped(str(found))
            return
        with self._kept(*found.leases) as permit:
            yield permit

    @contextmanager
    def resuming(self, target: str, run_id: str) -> Iterator[Permit | None]:
        """Keep the lease of a run whose worker was lost; None where it is gone: others may have written since.

        :raises HistoryError: the leases' database does not answer
        """
        lease = self.keeper.resume(target, run_id, seconds=self.seconds)
        if lease is None:
            yield None
            return
        with self._kept(lease) as permit:
            yield permit

    @contextmanager
    def _kept(self, lease: Lease) -> Iterator[Permit]:
        kept = holding(self.keeper, [lease], seconds=self.seconds, on_lost=self.on_lost, leave=self.leave)
        with kept as held:

            def permit() -> None:
                held.permit(lease)

            yield permit
