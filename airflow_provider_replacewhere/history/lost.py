"""Runs that nobody will end any more: the process that was to record their end is gone.

A run that is called lost has done nothing to the table, or has committed and could not tell. Its commit then carries
its report, and whoever reads the table's log next records its success, which wins over this.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_provider_replacewhere.errors import RunLostError
from airflow_provider_replacewhere.history.leases import Lease
from airflow_provider_replacewhere.history.records import Event
from airflow_provider_replacewhere.planning.request import Identity

SILENT_FOR = timedelta(days=1)
"""A run without a lease is given up after this time: before it takes one it may have to wait for its cluster."""

MOST_LOOKED_AT = 200
"""So many of a target's newest runs are looked at for those that were lost."""

_HINT = "If it has committed, its commit is found in the table's log and recorded as its success."


def lease_taken(lease: Lease) -> Event:
    """A run lost its lease to another, or to somebody who broke it: it can no longer commit."""
    at = f"{lease.renewed_at:%Y-%m-%d %H:%M:%S} UTC"
    error = RunLostError(f"The run was last heard of at {at}, and its lease {lease.fence} was given up.", hint=_HINT)
    return Event.of_lost(lease.run_id, lease.flow, lease.target, error, lease.identity)


def given_up(started: Event, identity: Identity, now: datetime, *, has_lease: bool) -> Event | None:
    """That a run is lost, if it is certain enough; None where it may go on.

    :param started: its start, after which nothing was recorded
    :param identity: the task that asks; a later try of a task means that the earlier ones are over
    :param now: UTC
    :param has_lease: whether it has a lease that has not expired, or waits for one
    """
    own = started.identity
    if own.is_earlier_try_of(identity):
        why = f"Try {identity.try_number} of the task has begun, and try {own.try_number} has left no end."
    elif not has_lease and started.recorded_at is not None and now - started.recorded_at > SILENT_FOR:
        why = f"Nothing was heard of the run since {started.recorded_at:%Y-%m-%d %H:%M:%S} UTC, and it has no lease."
    else:
        return None
    return Event.of_lost(started.run_id, started.flow, started.target, RunLostError(why, hint=_HINT), own)
