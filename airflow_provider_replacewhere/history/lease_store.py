"""Leases as callers take and keep them: each call is one transaction."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_replacewhere.history import lease_table
from airflow_provider_replacewhere.history.appending import append
from airflow_provider_replacewhere.history.base import Base
from airflow_provider_replacewhere.history.counter import lock_counter
from airflow_provider_replacewhere.history.leases import Claim, Conflict, Granted, Lease, LeaseState, checked
from airflow_provider_replacewhere.history.lost import lease_taken
from airflow_provider_replacewhere.planning.leasing import COMMIT_SECONDS, LEASE_SECONDS
from airflow_provider_replacewhere.predicates.region import Region


class LeaseStore(Base):
    """Leases in the ledger's database. Every method raises what those of :class:`~.store.HistoryStore` do."""

    def acquire(
        self, claims: Iterable[Claim], *, seconds: float = LEASE_SECONDS, queue_seconds: float = 0.0
    ) -> Granted | Conflict:
        """Take leases on all the claimed regions at once, or on none. Does not wait; :func:`~.waiting.take` does.

        A run that has its lease already, such as one that was cut off and goes on elsewhere, takes it up again: it is
        given a new number, and whoever had it under the old one has lost it.

        :param claims: one for each target
        :param seconds: how long the leases last unless they are renewed
        :param queue_seconds: if there is a conflict, how long a place among those who wait is kept, counted from the
            last time of asking; 0: none is taken, and one that was there is given up
        :raises RequestError: a target is claimed twice, or a lease of the same run is there and too small
        """
        wanted = checked(claims)
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            now = self._time(connection)
            found = lease_table.acquire(connection, wanted, now, seconds=seconds, queue_seconds=queue_seconds)
            if isinstance(found, Granted):
                append(connection, map(lease_taken, found.expired))
            return found

    def resume(self, target: str, run_id: str, *, seconds: float = LEASE_SECONDS) -> Lease | None:
        """Take up the lease of a run that goes on, whose worker was lost: also one that has expired, if nobody took it.

        It gets a new number, and whoever has it under the old one has lost it.

        :param target: the target, however it is spelled
        :param run_id: the flow's run
        :param seconds: how long the lease lasts unless it is renewed
        :return: None where it is gone: others may have written the region since
        """
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            return lease_table.resume(connection, target, run_id, self._time(connection), seconds=seconds)

    def withdraw(self, claims: Iterable[Claim]) -> None:
        """Give up places among those who wait; none to be there is no error.

        :param claims: what they wait for
        """
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            lease_table.withdraw(connection, claims)

    def renew(self, lease: Lease, *, seconds: float = LEASE_SECONDS) -> Lease:
        """The heartbeat: let a lease last at least so long from now on.

        :param lease: the lease as it was given last
        :param seconds: how long it lasts then
        :raises LeaseLostError: it is gone
        """
        self._prepare()
        with self._database.writing() as connection:
            return lease_table.renew(connection, lease, self._time(connection), seconds=seconds)

    def permit(self, lease: Lease, *, seconds: float = COMMIT_SECONDS) -> Lease:
        """Permission to commit what the lease is for; to be asked for right before.

        It is given where the lease is still its run's, expired or not. The commit has to land within
        :attr:`~.leases.Lease.lasts_seconds`, or to be given up. Until then nobody else gets the region, not even if
        this run dies; whether its commit is there, the next one finds in the table's log.

        :param lease: the lease as it was given last
        :param seconds: how long the permission lasts
        :raises LeaseLostError: the lease is gone: nothing may be committed
        """
        self._prepare()
        with self._database.writing() as connection:
            return lease_table.renew(connection, lease, self._time(connection), seconds=seconds, committing=True)

    def narrow(self, lease: Lease, region: Region) -> Lease:
        """Give up all of a lease but this region, once it is known what will be written.

        :param lease: the lease as it was given last
        :param region: what is kept of it
        :raises RequestError: the region is not certainly within the lease's, or its run may commit already
        :raises LeaseLostError: it is gone
        """
        self._prepare()
        with self._database.writing() as connection:
            return lease_table.narrow(connection, lease, region, self._time(connection))

    def release(self, lease: Lease) -> bool:
        """Free a lease.

        :param lease: the lease as it was given last
        :return: whether it was still there
        """
        self._prepare()
        with self._database.writing() as connection:
            return lease_table.release(connection, lease)

    def break_lease(self, fence: int) -> Lease:
        """Free a lease of somebody else, who is then refused when they want to commit; or a place in the queue.

        :param fence: its number
        :return: the lease as it was
        :raises RequestError: there is none of this number, or its run may commit, which cannot be taken back
        """
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            broken = lease_table.break_by_hand(connection, fence, self._time(connection))
            if broken.state is not LeaseState.WAITING:
                append(connection, [lease_taken(broken)])
            return broken

    def leases(self, target: str | None = None, *, waiting: bool = False) -> list[Lease]:
        """The leases that are there and have not expired, by target.

        :param target: only those on this one, however it is spelled
        :param waiting: the places of those who wait as well
        """
        self._prepare()
        with self._database.reading() as connection:
            return lease_table.live(connection, self._time(connection), target, waiting=waiting)
