"""Claims, leases and clocks for tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_replacewhere.history.leases import Claim, Conflict, Granted, Lease
from airflow_provider_replacewhere.predicates import Region, parse_predicate

TARGET = "sales.daily"


def numbers(first: int, end: int) -> Region:
    """``first <= n < end``."""
    return parse_predicate(f"n >= {first} AND n < {end}", {"n": "int"})


def claim(run_id: str, region: Region | None = None, **changes: Any) -> Claim:
    """A claim on everything, unless a region is given."""
    values: dict[str, Any] = {"target": TARGET, "flow": "daily", **changes}
    return Claim(run_id=run_id, region=Region.everything() if region is None else region, **values)


def granted(found: Granted | Conflict) -> Lease:
    """The one lease that was granted."""
    assert isinstance(found, Granted), str(found)
    (lease,) = found.leases
    return lease


def refused(found: Granted | Conflict) -> list[str]:
    """The runs that stood in the way, in order of their leases."""
    assert isinstance(found, Conflict)
    return [overlap.lease.run_id for overlap in sorted(found.overlaps, key=lambda overlap: overlap.lease.fence)]


@dataclass
class Clock:
    """A clock that only the test moves: the database's, and the one that the waiting run looks at."""

    now: datetime = datetime(2026, 3, 10, 4, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
