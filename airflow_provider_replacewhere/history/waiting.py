"""Taking leases, and what happens where other runs stand in the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from airflow_provider_replacewhere.errors import HistoryError, RegionHeldError
from airflow_provider_replacewhere.history.leases import Claim, Conflict, Granted, LeaseKeeper, checked
from airflow_provider_replacewhere.planning.leasing import LEASE_SECONDS, WAIT_SECONDS, check_on_overlap

POLL_SECONDS = 5.0

# A run that has not asked so many times in a row waits no longer.
_POLLS_MISSED = 12

log = logging.getLogger(__name__)


def take(
    keeper: LeaseKeeper,
    claims: Iterable[Claim],
    *,
    on_overlap: str = "wait",
    wait_seconds: float = WAIT_SECONDS,
    seconds: float = LEASE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Granted | Conflict:
    """Take leases on all the claimed regions at once.

    Those who wait keep their places: nobody who comes later gets a region that overlaps, see :mod:`.leases`. How they
    are told that it is free is by asking again.

    :param on_overlap: where another run's lease or place overlaps: ``wait``, ``fail``, or ``skip``
    :param wait_seconds: how long to wait at most
    :param seconds: how long the leases last unless they are renewed; :func:`.holding.holding` renews them
    :param poll_seconds: between two times of asking
    :param clock: seconds that never go back
    :return: a conflict only with ``skip``; it says who stands in the way
    :raises RegionHeldError: with ``fail``, or when the time to wait has passed; it says who stands in the way
    :raises RequestError: the policy is none, a target is claimed twice, or the run holds a smaller lease already
    :raises HistoryError: the database does not answer. In the middle of waiting it is given until the end of it
    """
    check_on_overlap(on_overlap)
    wanted = checked(claims)
    started = clock()
    limit = wait_seconds if on_overlap == "wait" else 0.0
    conflict: Conflict | None = None
    try:
        while True:
            left = limit - (clock() - started)
            try:
                # The last time of asking gives up the place.
                queue = _POLLS_MISSED * poll_seconds if left > 0 else 0.0
                found = keeper.acquire(wanted, seconds=seconds, queue_seconds=queue)
            except HistoryError as error:
                if conflict is None or left <= 0:
                    raise
                log.warning("While waiting for a lease: %s", error)
            else:
                if isinstance(found, Granted):
                    return _told(found)
                if left <= 0:
                    if on_overlap == "skip":
                        return found
                    raise _held(found, waited=limit)
                if conflict is None or _fences(found) != _fences(conflict):
                    log.info("Waiting, for at most %.0f seconds more, for\n%s", left, found)
                conflict = found
            sleep(min(poll_seconds, left))
    except BaseException:
        if conflict is not None:
            with suppress(HistoryError):
                keeper.withdraw(wanted)
        raise


def _told(granted: Granted) -> Granted:
    for lease in granted.expired:
        log.warning(
            "Lease %s on %s of %s was not renewed after %s and has expired; it was removed.",
            lease.fence,
            lease.target,
            lease.run,
            lease.renewed_at.isoformat(),
        )
    return granted


def _held(conflict: Conflict, *, waited: float) -> RegionHeldError:
    after = f" after {waited:.0f} seconds of waiting" if waited else ""
    return RegionHeldError(
        f"Another run stands in the way{after}.\n{conflict}",
        hint="Try again when it has ended, or let this run wait (longer): on_overlap='wait', wait_seconds. "
        "`replacewhere leases` lists the leases; that of a run that is dead ends by itself.",
    )


def _fences(conflict: Conflict) -> set[int]:
    return {overlap.lease.fence for overlap in conflict.overlaps}
