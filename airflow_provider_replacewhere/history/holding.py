"""Keeping leases while work goes on: they are renewed from a thread of their own, and freed in the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from airflow_provider_replacewhere.errors import LeaseLostError
from airflow_provider_replacewhere.history.leases import Lease, LeaseKeeper, in_words
from airflow_provider_replacewhere.planning.leasing import COMMIT_SECONDS, LEASE_SECONDS

# How long the end waits for the database; leases that could not be freed by then expire by themselves.
_GOODBYE_SECONDS = 10.0

log = logging.getLogger(__name__)


class Held:
    """Leases that are being kept. All of it may be used from any thread.

    :ivar lost: set as soon as one of them is lost: the work that it was for has to stop
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        seconds: float,
        on_lost: Callable[[LeaseLostError], None] | None,
        clock: Callable[[], float],
    ) -> None:
        self.lost = threading.Event()
        self._keeper = keeper
        self._seconds = seconds
        self._on_lost = on_lost
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}
        self._ends: dict[int, float] = {}
        self._errors: dict[int, LeaseLostError] = {}
        self._stopped = threading.Event()

    @property
    def leases(self) -> tuple[Lease, ...]:
        """Those that are still held, as they were when they were last renewed."""
        with self._lock:
            return tuple(lease for fence, lease in self._leases.items() if fence not in self._errors)

    def check(self) -> None:
        """:raises LeaseLostError: one of the leases is lost"""
        with self._lock:
            for error in self._errors.values():
                raise error

    def permit(self, lease: Lease, *, seconds: float = COMMIT_SECONDS) -> Lease:
        """Permission to commit what one of the leases is for; see :meth:`.store.HistoryStore.permit`.

        :raises LeaseLostError: it is lost: nothing may be committed
        :raises HistoryError: the database does not answer: nothing may be committed
        """
        with self._lock:
            if lease.fence in self._errors:
                raise self._errors[lease.fence]
        asked = self._clock()
        try:
            permitted = self._keeper.permit(lease, seconds=seconds)
        except LeaseLostError as error:
            self._lose(lease.fence, error)
            raise
        self._keep(permitted, asked)
        return permitted

    def release(self, lease: Lease) -> None:
        """Free one of the leases before the others, when its flow is done.

        :raises HistoryError: the database does not answer; the lease is no longer renewed and expires
        """
        with self._lock:
            self._leases.pop(lease.fence, None)
        self._keeper.release(lease)

    # -- the two threads

    def start(self, leases: Iterable[Lease], every: float) -> list[threading.Thread]:
        """Renew the leases once, and go on doing so.

        :raises LeaseLostError: one of them is lost already
        :raises HistoryError: the database does not answer
        """
        self._leases = {lease.fence: lease for lease in leases}
        for lease in self.leases:
            asked = self._clock()
            self._keep(self._keeper.renew(lease, seconds=self._seconds), asked)
        # A call to the database may hang for longer than the leases last, so whoever calls it cannot watch the time.
        threads = [
            threading.Thread(target=self._beat, args=(every,), name="lease heartbeat", daemon=True),
            threading.Thread(target=self._watch, args=(every,), name="lease watch", daemon=True),
        ]
        for thread in threads:
            thread.start()
        return threads

    def stop(self, threads: Iterable[threading.Thread], *, leave: bool = False) -> None:
        """Free the leases that are left and end the threads, whatever the database does.

        :param leave: leave the leases to whoever takes them up
        """
        self._stopped.set()
        # The goodbye has a thread too, for it may hang as well, and not that of the heartbeat, which may be hanging.
        goodbye = threading.Thread(target=_nothing if leave else self._free, name="lease release", daemon=True)
        goodbye.start()
        last_moment = time.monotonic() + _GOODBYE_SECONDS
        for thread in (goodbye, *threads):
            thread.join(max(0.0, last_moment - time.monotonic()))
        if goodbye.is_alive():
            log.warning("The database has not answered for %s seconds; the leases will expire.", _GOODBYE_SECONDS)

    def _beat(self, every: float) -> None:
        while not self._stopped.wait(every):
            for lease in self.leases:
                asked = self._clock()
                try:
                    self._keep(self._keeper.renew(lease, seconds=self._seconds), asked)
                except LeaseLostError as error:
                    self._lose(lease.fence, error)
                except Exception as error:
                    # Whatever it is may pass: the lease is lost when its time is over, and by then this has been said.
                    log.warning("Lease %s on %s could not be renewed: %s", lease.fence, lease.target, error)

    def _watch(self, every: float) -> None:
        while True:
            ends = [self._ends[lease.fence] for lease in self.leases]
            if self._stopped.wait(max(0.0, min([every, *(end - self._clock() for end in ends)]))):
                return
            for lease in self.leases:
                if self._ends[lease.fence] <= self._clock():
                    self._lose(lease.fence, _not_renewed(lease))

    def _keep(self, lease: Lease, asked: float) -> None:
        with self._lock:
            if lease.fence in self._leases:
                self._leases[lease.fence] = lease
                self._ends[lease.fence] = asked + lease.lasts_seconds

    def _lose(self, fence: int, error: LeaseLostError) -> None:
        with self._lock:
            # One that was freed meanwhile, by its own run, is not lost.
            if fence not in self._leases or fence in self._errors or self._stopped.is_set():
                return
            self._errors[fence] = error
        self.lost.set()
        log.error("%s", error)
        if self._on_lost is not None:
            try:
                self._on_lost(error)
            except Exception:
                log.exception("The work under lease %s could not be told that it is lost.", fence)

    def _free(self) -> None:
        # Lost ones as well: where only the database was silent, they are still there.
        for lease in tuple(self._leases.values()):
            try:
                self._keeper.release(lease)
            except Exception as error:
                log.warning("Lease %s on %s could not be freed and will expire: %s", lease.fence, lease.target, error)


@contextmanager
def holding(
    keeper: LeaseKeeper,
    leases: Iterable[Lease],
    *,
    seconds: float = LEASE_SECONDS,
    every: float | None = None,
    on_lost: Callable[[LeaseLostError], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    leave: Callable[[], bool] = lambda: False,
) -> Iterator[Held]:
    """Keep leases while the body runs, and free them when it ends, however it ends.

    A database that does not answer is asked again until the leases would have expired; then they are lost, also if they
    are still there. The body is not interrupted: it looks at :attr:`Held.lost`, or is told by ``on_lost``.

    :param keeper: the ledger, or the hook; it is called from other threads
    :param seconds: how long the leases last unless they are renewed
    :param every: seconds between two renewals; by default a quarter of how long they last
    :param on_lost: called from another thread for each lease that is lost
    :param clock: seconds that never go back
    :param leave: asked in the end: whether somebody else takes the leases up, so that they are not to be freed
    :raises LeaseLostError: one of them was lost before the body could start
    :raises HistoryError: the database did not answer before the body could start
    """
    held = Held(keeper, seconds, on_lost, clock)
    threads: list[threading.Thread] = []
    try:
        threads = held.start(leases, seconds / 4 if every is None else every)
        yield held
    finally:
        held.stop(threads, leave=leave())


def _nothing() -> None:
    pass


def _not_renewed(lease: Lease) -> LeaseLostError:
    return LeaseLostError(
        f"{lease.run} could not renew lease {lease.fence} on {lease.target} for {in_words(lease.region)} in time: the "
        f"history's database has not answered since {lease.renewed_at:%Y-%m-%d %H:%M:%S} UTC.",
        hint="Nothing may be committed under it. The next try takes a lease of its own.",
    )
