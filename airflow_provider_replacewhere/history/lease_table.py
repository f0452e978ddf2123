"""Leases in the ledger's database: each function is what happens within one writing transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import HistoryRowError, LeaseLostError, PredicateError, RequestError
from airflow_provider_replacewhere.history.counter import next_fences
from airflow_provider_replacewhere.history.leases import (
    Claim,
    Conflict,
    Granted,
    Lease,
    LeaseState,
    gives_way,
    in_common,
    in_the_way,
    in_words,
    may_narrow,
    resumed,
)
from airflow_provider_replacewhere.history.rows import digest, target_digest
from airflow_provider_replacewhere.history.tables import leases
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates.region import Region

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, RowMapping

# Nobody comes back after so long; until then an expired lease that is in nobody's way stays its run's.
_FORGOTTEN_AFTER = timedelta(days=1)


def acquire(
    connection: Connection, claims: Sequence[Claim], now: datetime, *, seconds: float, queue_seconds: float
) -> Granted | Conflict:
    """Grant all the claims or none. The caller holds the counter, so nobody else is here at the same time.

    :param now: by the database's clock, read after the counter was locked
    :param queue_seconds: how long a place is kept if they conflict; 0: none is taken, and one they had is given up
    """
    # With the rows locked, nobody can renew what is about to be removed as expired.
    present = _read(connection, leases.c.target_key.in_([target_digest(claim.target) for claim in claims]), lock=True)
    kept = [resumed(claim, present) for claim in claims]
    new = [claim for claim, lease in zip(claims, kept, strict=True) if lease is None]
    if overlaps := in_the_way(new, present, now):
        _queue(connection, new, present, now, queue_seconds)
        return Conflict(overlaps)
    # Places of those who came later are in nobody's way, and stay while their runs are heard of.
    expired = [lease for lease in present if any(gives_way(lease, c, now) and _meets_any(lease, [c]) for c in new)]
    runs = {claim.run_id for claim in claims}
    ended = [lease.fence for lease in present if lease in expired or lease.run_id in runs]
    connection.execute(leases.delete().where(leases.c.fence.in_(ended)))
    connection.execute(leases.delete().where(leases.c.expires_at < _text(now - _FORGOTTEN_AFTER)))
    fences = next_fences(connection, len(claims))
    granted = tuple(
        _granted(claim, own, fence, now, seconds) for claim, own, fence in zip(claims, kept, fences, strict=True)
    )
    for lease in granted:
        connection.execute(leases.insert().values(_row_of(lease)))
    return Granted(granted, tuple(lease for lease in expired if lease.state is not LeaseState.WAITING))


def resume(connection: Connection, target: str, run_id: str, now: datetime, *, seconds: float) -> Lease | None:
    """The lease that a run has, under a new number; None where it is gone. The caller holds the counter."""
    own = _read(
        connection,
        leases.c.target_key == target_digest(target),
        leases.c.run_key == digest(run_id),
        leases.c.state != LeaseState.WAITING.value,
        lock=True,
    )
    found = acquire(connection, own, now, seconds=seconds, queue_seconds=0.0)
    return found.leases[0] if isinstance(found, Granted) and found.leases else None


def withdraw(connection: Connection, claims: Iterable[Claim]) -> None:
    """Give up the places that claims have among those who wait. The caller holds the counter."""
    for claim in claims:
        connection.execute(
            leases.delete().where(
                leases.c.run_key == digest(claim.run_id),
                leases.c.target_key == target_digest(claim.target),
                leases.c.state == LeaseState.WAITING.value,
            )
        )


def renew(connection: Connection, lease: Lease, now: datetime, *, seconds: float, committing: bool = False) -> Lease:
    """Let a lease last at least so long from now on; ``committing`` marks it, for good.

    :raises LeaseLostError: it is gone
    """
    until = _text(now + timedelta(seconds=seconds))
    values: dict[str, Any] = {
        "renewed_at": _text(now),
        # A heartbeat takes nothing away from a permission.
        "expires_at": sa.case((leases.c.expires_at > until, leases.c.expires_at), else_=until),
    }
    if committing:
        values["state"] = LeaseState.COMMITTING.value
    changed = connection.execute(leases.update().where(_is_lease(lease.fence)).values(values))
    if changed.rowcount == 0:
        raise _lost(connection, lease, now)
    (renewed,) = _read(connection, _is_lease(lease.fence))
    return renewed


def narrow(connection: Connection, lease: Lease, region: Region, now: datetime) -> Lease:
    """Give up all of a lease but this region.

    :raises RequestError: the region is not certainly within the lease's, or the lease's run has permission to commit
    :raises LeaseLostError: it is gone
    """
    found = _read(connection, _is_lease(lease.fence), lock=True)
    if not found:
        raise _lost(connection, lease, now)
    held = found[0]
    if held.state is LeaseState.COMMITTING:
        raise RequestError(
            f"Lease {lease.fence} on {lease.target} was to be narrowed while its run has permission to commit.",
            hint="Narrow it before asking for the permission.",
        )
    if not may_narrow(held.region, region):
        raise RequestError(
            f"Lease {lease.fence} on {lease.target} is for {in_words(held.region)} and was to become one for "
            f"{in_words(region)}, which is not within that.",
            hint="Release the lease, then claim the other region.",
        )
    connection.execute(leases.update().where(_is_lease(lease.fence)).values(region=_region_text(region)))
    (narrowed,) = _read(connection, _is_lease(lease.fence))
    return narrowed


def release(connection: Connection, lease: Lease) -> bool:
    """Free a lease.

    :return: whether it was there
    """
    return bool(connection.execute(leases.delete().where(leases.c.fence == lease.fence)).rowcount)


def break_by_hand(connection: Connection, fence: int, now: datetime) -> Lease:
    """Free a lease, or a place, of somebody else.

    :raises RequestError: there is none of this number, or its run has permission to commit, which cannot be taken back
    """
    found = _read(connection, leases.c.fence == fence, lock=True)
    if not found:
        raise RequestError(
            f"There is no lease {fence}.", hint="It may have ended: list the leases that there are without --break."
        )
    (lease,) = found
    if lease.state is LeaseState.COMMITTING and lease.expires_at > now:
        raise RequestError(
            f"Lease {fence} on {lease.target} is that of {lease.run}, which has permission to commit until "
            f"{lease.expires_at:%Y-%m-%d %H:%M:%S} UTC.",
            hint="Its commit may be landing right now, so nobody can have the region before then; it is free after.",
        )
    connection.execute(leases.delete().where(leases.c.fence == fence))
    return lease


def live(connection: Connection, now: datetime, target: str | None, *, waiting: bool) -> list[Lease]:
    """The leases that have not expired, by target and number."""
    wanted = [leases.c.expires_at > _text(now)]
    if target is not None:
        wanted.append(leases.c.target_key == target_digest(target))
    if not waiting:
        wanted.append(leases.c.state != LeaseState.WAITING.value)
    return sorted(_read(connection, *wanted), key=lambda lease: (lease.target_key, lease.fence))


def _queue(
    connection: Connection, claims: Sequence[Claim], present: Sequence[Lease], now: datetime, seconds: float
) -> None:
    """Keep the places of these claims, or give them up."""
    withdraw(connection, claims)
    if seconds <= 0:
        return
    # Once taken, a place keeps its number however often its run asks again.
    places = {(lease.run_id, lease.target_key): lease for lease in present if lease.state is LeaseState.WAITING}
    fences = iter(next_fences(connection, len(claims)))
    for claim in claims:
        place = places.get((claim.run_id, claim.target_key))
        waits = _lease(
            claim,
            fence=place.fence if place else next(fences),
            state=LeaseState.WAITING,
            acquired_at=place.acquired_at if place else now,
            renewed_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        connection.execute(leases.insert().values(_row_of(waits)))


def _meets_any(lease: Lease, claims: Iterable[Claim]) -> bool:
    return any(
        lease.target_key == claim.target_key
        and lease.run_id != claim.run_id
        and not in_common(claim.region, lease.region).is_empty
        for claim in claims
    )


def _granted(claim: Claim, kept: Lease | None, fence: int, now: datetime, seconds: float) -> Lease:
    until = now + timedelta(seconds=seconds)
    if kept is None:
        return _lease(claim, fence=fence, state=LeaseState.HELD, acquired_at=now, renewed_at=now, expires_at=until)
    # Taken up again as it was: a commit that is under way still needs all of it.
    return _lease(
        claim,
        region=kept.region,
        fence=fence,
        state=kept.state,
        acquired_at=kept.acquired_at,
        renewed_at=now,
        expires_at=max(until, kept.expires_at),
    )


def _lost(connection: Connection, lease: Lease, now: datetime) -> LeaseLostError:
    others = [
        other
        for other in live(connection, now, lease.target, waiting=False)
        if not in_common(lease.region, other.region).is_empty
    ]
    became = (
        f"its region is now held by {'; '.join(f'{other.run}, lease {other.fence}' for other in others)}"
        if others
        else "it has expired and another run has had its region since, or it was broken by hand"
    )
    return LeaseLostError(
        f"{lease.run} has lost lease {lease.fence} on {lease.target} for {in_words(lease.region)}: {became}.",
        hint="Nothing may be committed under it. The next try takes a lease of its own.",
    )


def _is_lease(fence: int) -> sa.ColumnElement[bool]:
    return sa.and_(leases.c.fence == fence, leases.c.state != LeaseState.WAITING.value)


def _read(connection: Connection, *wanted: sa.ColumnElement[bool], lock: bool = False) -> list[Lease]:
    query = sa.select(leases).where(*wanted).order_by(leases.c.fence)
    rows = connection.execute(query.with_for_update() if lock else query).mappings().all()
    return [_lease_of(row) for row in rows]


def _lease(claim: Claim, *, region: Region | None = None, **values: Any) -> Lease:
    return Lease(
        target=claim.target,
        flow=claim.flow,
        run_id=claim.run_id,
        region=claim.region if region is None else region,
        identity=claim.identity,
        **values,
    )


def _row_of(lease: Lease) -> dict[str, Any]:
    identity = lease.identity
    return {
        "fence": lease.fence,
        "target_key": target_digest(lease.target),
        "run_key": digest(lease.run_id),
        "state": lease.state.value,
        "acquired_at": _text(lease.acquired_at),
        "renewed_at": _text(lease.renewed_at),
        "expires_at": _text(lease.expires_at),
        "target": lease.target,
        "flow": lease.flow,
        "run_id": lease.run_id,
        "region": _region_text(lease.region),
        "dag_id": identity.dag_id,
        "dag_run_id": identity.dag_run_id,
        "task_id": identity.task_id,
        "map_index": identity.map_index,
        "try_number": identity.try_number,
    }


def _lease_of(row: RowMapping) -> Lease:
    try:
        return Lease(
            fence=row["fence"],
            target=row["target"],
            flow=row["flow"],
            run_id=row["run_id"],
            region=_region_of(row["region"]),
            identity=Identity(
                dag_id=row["dag_id"],
                dag_run_id=row["dag_run_id"],
                task_id=row["task_id"],
                map_index=row["map_index"],
                try_number=row["try_number"],
            ),
            state=LeaseState(row["state"]),
            acquired_at=_instant(row["acquired_at"]),
            renewed_at=_instant(row["renewed_at"]),
            expires_at=_instant(row["expires_at"]),
        )
    except (TypeError, ValueError) as error:
        raise HistoryRowError(
            f"Lease {row['fence']} on {row['target']} cannot be read: {error}.",
            hint=f"Somebody has changed it by hand. Once its run has ended, delete its row from {leases.name}.",
        ) from error


def _region_of(text: str) -> Region:
    try:
        return Region.from_json(json.loads(text))
    except (PredicateError, RecursionError, TypeError, ValueError):
        # Not readable, so nobody can be shown to be outside.
        return Region.everything()


def _region_text(region: Region) -> str:
    return json.dumps(region.to_json(), sort_keys=True, ensure_ascii=False)


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return found


def _text(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds")
