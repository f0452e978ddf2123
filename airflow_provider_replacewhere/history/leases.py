"""Leases as values: who may write which region of a target, and what stands in the way of a claim.

What holds:

* No two leases of one target overlap. That a lease has expired only allows others to remove it, in the transaction that
  gives its region to them: as long as it is there, its run may renew it.
* A run asks for *permission* right before it commits. It is given where the run's lease is still there, and nobody else
  gets the region before the time allowed for the commit has passed. A run that came back too late finds its lease gone.
* A later try of a task takes the leases of the earlier ones, unless those may commit.
* A run that dies between the permission and the commit keeps others waiting until that time has passed. Whether its
  commit has landed is then in the table's own log, where the next run looks for the token before it writes.
* What no lease can rule out is a commit that takes longer than the permission lasts: its sender has to give it up by
  then (see :attr:`Lease.lasts_seconds`), and the Delta transaction's id is the last line.
* The database's clock decides what has expired, so clocks of workers may be wrong. If that clock itself is set forward,
  leases expire early and their runs are refused; only permissions that are being used then could be overtaken.
* A run gets all the leases that it needs at once or none, so a run that waits holds nothing, and runs cannot wait for
  each other in a circle.
* Those who wait have places. A claim that came later gets no region that overlaps that of one that waits, however
  well it would fit beside what is held now. So a run waits only for leases and places that were there when it began
  to wait, and no stream of small runs keeps a large one waiting forever. Claims that do not overlap pass each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.records import target_key
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.planning.words import plain
from airflow_provider_replacewhere.predicates.region import Region

# Regions of more ranges are shown by what surrounds them.
_MOST_RANGES_SHOWN = 20


class LeaseState(StrEnum):
    """What a row among the leases says."""

    WAITING = "waiting"
    HELD = "held"
    COMMITTING = "committing"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a run wants to be alone in.

    :param target: the target as the flow spells it
    :param flow: the flow's name
    :param run_id: the flow's run, ``<application>/<flow>``; every try of a task needs its own
    :param region: what it will write at most; everything where that is not known yet
    :param identity: the task that asks
    """

    target: str
    flow: str
    run_id: str
    region: Region = field(default_factory=Region.everything)
    identity: Identity = Identity()

    @property
    def target_key(self) -> str:
        """The same for all spellings of one target."""
        return target_key(self.target)

    @property
    def run(self) -> str:
        """The run in words."""
        task = self.identity
        if task.dag_id is None:
            return f"flow {self.flow}, run {self.run_id}"
        mapped = f"[{task.map_index}]" if task.map_index is not None and task.map_index >= 0 else ""
        return (
            f"flow {self.flow} (Dag {task.dag_id}, Dag run {task.dag_run_id}, task {task.task_id}{mapped}, "
            f"try {task.try_number})"
        )


@dataclass(frozen=True, kw_only=True)
class Lease(Claim):
    """A claim that was granted, or one that waits.

    All instants are UTC by the database's clock.

    :param fence: the lease's number and the name that it goes by; one that was granted later has a higher one
    :param state: whether it is held, held by a run that has permission to commit, or no lease but a place among those
        who wait
    :param acquired_at: when it was granted; of a place, when it was taken
    :param renewed_at: when its run was last heard of
    :param expires_at: when others may take it away
    """

    fence: int
    state: LeaseState
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime

    @property
    def lasts_seconds(self) -> float:
        """How long nobody else can get the region, counted from just before this was asked for.

        To be measured by the run's own monotonic clock: instants of two clocks are never compared.
        """
        return (self.expires_at - self.renewed_at).total_seconds()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the region as canonical SQL."""
        return {
            "lease": self.fence,
            "target": self.target,
            "state": str(self.state),
            "region": self.region.to_sql(),
            "flow": self.flow,
            "run_id": self.run_id,
            "dag_id": self.identity.dag_id,
            "dag_run_id": self.identity.dag_run_id,
            "task_id": self.identity.task_id,
            "map_index": self.identity.map_index,
            "try_number": self.identity.try_number,
            "acquired_at": self.acquired_at.isoformat(),
            "renewed_at": self.renewed_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
        }


@dataclass(frozen=True)
class Overlap:
    """A lease, or a place of one that came earlier, that stands in a claim's way.

    :param region: the rows that both would write, as far as can be told; with opaque conditions rather too many
    """

    claim: Claim
    lease: Lease
    region: Region

    def __str__(self) -> str:
        lease = self.lease
        verb = {
            LeaseState.WAITING: "waits to write",
            LeaseState.HELD: "writes",
            LeaseState.COMMITTING: "is committing",
        }[lease.state]
        return (
            f"{self.claim.target}: {lease.run} {verb} {in_words(lease.region)} since {_clock(lease.acquired_at)} UTC "
            f"(lease {lease.fence}, until {_clock(lease.expires_at)} unless renewed); "
            f"in common with flow {self.claim.flow}: {in_words(self.region)}"
        )


@dataclass(frozen=True)
class Conflict:
    """Nothing was granted, and this is why.

    :param overlaps: at least one
    """

    overlaps: tuple[Overlap, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.overlaps))


@dataclass(frozen=True)
class Granted:
    """All that was claimed was granted.

    :param leases: in the order of the claims
    :param expired: leases of runs that were not heard of in time, which were removed for these; those runs will be
        refused when they want to commit
    """

    leases: tuple[Lease, ...]
    expired: tuple[Lease, ...] = ()


class LeaseKeeper(Protocol):
    """What :class:`~.store.HistoryStore` and the hook over it do with leases."""

    def acquire(
        self, claims: Iterable[Claim], *, seconds: float = ..., queue_seconds: float = ...
    ) -> Granted | Conflict: ...

    def resume(self, target: str, run_id: str, *, seconds: float = ...) -> Lease | None: ...

    def withdraw(self, claims: Iterable[Claim]) -> None: ...

    def renew(self, lease: Lease, *, seconds: float = ...) -> Lease: ...

    def permit(self, lease: Lease, *, seconds: float = ...) -> Lease: ...

    def release(self, lease: Lease) -> bool: ...


def checked(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims of one call.

    :raises RequestError: two of them are for one target
    """
    found = tuple(claims)
    by_target: dict[str, Claim] = {}
    for claim in found:
        other = by_target.setdefault(claim.target_key, claim)
        if other is not claim:
            raise RequestError(
                f"{claim.target} is claimed twice at once, by flow {other.flow} and by flow {claim.flow}.",
                hint="One flow writes one target: claim the union of the regions for it.",
            )
    return found


def resumed(claim: Claim, present: Iterable[Lease]) -> Lease | None:
    """The lease that the claim's own run has on the target already, if it is there and large enough.

    :raises RequestError: it is there and too small: to wait for more while holding some is how runs block each other
    """
    for lease in present:
        if lease.state is LeaseState.WAITING or not _is_own(lease, claim):
            continue
        if not may_narrow(lease.region, claim.region):
            raise RequestError(
                f"The run {claim.run_id} holds lease {lease.fence} on {claim.target} for {in_words(lease.region)}, and "
                f"claims {in_words(claim.region)}.",
                hint="Release the lease, then claim the larger region.",
            )
        return lease
    return None


def in_the_way(claims: Sequence[Claim], present: Sequence[Lease], now: datetime) -> tuple[Overlap, ...]:
    """What keeps these claims, which belong together, from being granted now.

    :param present: all leases and places on the targets, expired or not
    :param now: by the database's clock
    """
    places = [lease.fence for lease in present for claim in claims if _is_place(lease) and _is_own(lease, claim)]
    place = min(places, default=None)
    return tuple(
        Overlap(claim, lease, common)
        for claim in claims
        for lease in present
        if lease.target_key == claim.target_key
        and lease.run_id != claim.run_id
        and not gives_way(lease, claim, now)
        and (not _is_place(lease) or place is None or lease.fence < place)
        and not (common := in_common(claim.region, lease.region)).is_empty
    )


def gives_way(lease: Lease, claim: Claim, now: datetime) -> bool:
    """Whether a lease, or a place, may be removed for a claim: its run was not heard of in time, or was given up.

    A later try of a task means that the earlier one is over, whatever is left of it somewhere. Where that may commit
    already it is waited for all the same: its commit may be under way.
    """
    if lease.expires_at <= now:
        return True
    return lease.state is not LeaseState.COMMITTING and lease.identity.is_earlier_try_of(claim.identity)


def in_common(one: Region, other: Region) -> Region:
    """The rows that may be in both; where the two cannot be compared, all of the one."""
    return one.intersect(other) if one.has_types_of(other) else one


def may_narrow(held: Region, wanted: Region) -> bool:
    """Whether it is certain that the wanted region is no larger than the one that is held."""
    return held.has_types_of(wanted) and held.contains(wanted)


def in_words(region: Region) -> str:
    """A region for messages."""
    if region.is_everything:
        return "the whole table"
    if region.size > _MOST_RANGES_SHOWN:
        hull = region.hull(_MOST_RANGES_SHOWN)
        return f"parts of {'the whole table' if hull.is_everything else plain(hull.to_sql())}"
    return plain(region.to_sql())


def _is_place(lease: Lease) -> bool:
    return lease.state is LeaseState.WAITING


def _is_own(lease: Lease, claim: Claim) -> bool:
    return lease.run_id == claim.run_id and lease.target_key == claim.target_key


def _clock(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S")
