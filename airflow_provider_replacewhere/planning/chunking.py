"""How a wide override is cut into chunks, each of which is a run with a commit of its own."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_replacewhere.errors import RequestError

UNITS = ("day", "week", "month", "year", "values", "rows", "bytes")
ORDERS = ("oldest", "newest")
ON_CHUNK_FAILURE = ("stop", "go_on")


@dataclass(frozen=True)
class Chunking:
    """How a window is cut, and what becomes of the other chunks when one fails.

    :param by: ``day``, ``week`` (from Monday), ``month`` or ``year`` of the flow's time zone, for a column of dates or
        timestamps; ``values`` for one of whole numbers, DECIMALs or dates; ``rows`` or ``bytes``, estimated, for any of
        these, in whole days or values
    :param size: how many of them make a chunk
    :param column: the column to cut along; None: the only one that can be
    :param order: whether the ``oldest`` or the ``newest`` chunk comes first
    :param on_failure: ``stop`` at the first chunk that fails, or ``go_on`` with the next
    :raises RequestError: one of them makes no sense
    """

    by: str
    size: int = 1
    column: str | None = None
    order: str = "oldest"
    on_failure: str = "stop"

    @property
    def is_by_weight(self) -> bool:
        """Whether statistics have to tell where to cut."""
        return self.by in ("rows", "bytes")

    def __post_init__(self) -> None:
        for name, value, valid in (
            ("chunk", self.by, UNITS),
            ("chunk_order", self.order, ORDERS),
            ("on_chunk_failure", self.on_failure, ON_CHUNK_FAILURE),
        ):
            if value not in valid:
                raise RequestError(f"{name} is {value!r}.", hint=f"Valid are {', '.join(valid)}.")
        if isinstance(self.size, bool) or self.size < 1:
            raise RequestError(f"chunk_size is {self.size!r}.", hint="Give a whole number above 0.")


@dataclass(frozen=True)
class Chunk:
    """Which chunk of a backfill a run was.

    :param number: from 1 on, in the order in which they run
    :param of: how many there are
    :param backfill: the id of the application that runs them
    """

    number: int
    of: int
    backfill: str
