"""How runs that write the same target keep out of each other's way, as far as it can be chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from airflow_provider_replacewhere.errors import RequestError

if TYPE_CHECKING:
    from airflow_provider_replacewhere.predicates.region import Region

ON_OVERLAP = ("wait", "fail", "skip")
"""What a run may do where another run holds a part of its region, or waits for it."""


def check_on_overlap(value: str) -> None:
    """:raises RequestError: it is no policy"""
    if value not in ON_OVERLAP:
        raise RequestError(f"on_overlap is {value!r}.", hint=f"Valid are {', '.join(ON_OVERLAP)}.")


WAIT_SECONDS = 3600.0
"""How long a run waits for others at most."""

LEASE_SECONDS = 120.0
"""How long a lease lasts without being renewed: how long others wait for a run that died."""

COMMIT_SECONDS = 600.0
"""How long a permission lasts: how long others wait for a run that died in the middle of its commit."""

Permit: TypeAlias = Callable[[], None]
"""To be called right before a commit.

:raises LeaseLostError: another run may write the region by now: nothing may be committed
"""


@dataclass(frozen=True)
class Overlapped:
    """A region that another run holds, where a run is to be skipped then.

    :param holders: who stands in the way, in words
    """

    holders: str


class Leases(Protocol):
    """Whoever sees to it that runs which write the same rows of a target do so one after the other."""

    def holding(
        self, target: str, flow: str, run_id: str, region: Region
    ) -> AbstractContextManager[Permit | Overlapped]:
        """Be alone in a region of a target while the body runs.

        :raises RegionHeldError: another run is in the region, and stays there for too long
        :raises HistoryError: the leases' database does not answer
        """


class NoLeases:
    """Nobody else writes, or nobody can be asked: only Delta's own conflicts keep runs apart."""

    def holding(
        self,
        target: str,  # noqa: ARG002
        flow: str,  # noqa: ARG002
        run_id: str,  # noqa: ARG002
        region: Region,  # noqa: ARG002
    ) -> AbstractContextManager[Permit | Overlapped]:
        return nullcontext(lambda: None)
