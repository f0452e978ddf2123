"""How much one run may do; beyond that it is refused before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import LimitExceededError, RequestError
from airflow_provider_replacewhere.predicates import instants

if TYPE_CHECKING:
    from airflow_provider_replacewhere.predicates.region import Region

ON_EMPTY = ("replace", "fail", "skip")
_DAY = timedelta(days=1) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Limits:
    """Limits of one run; None: there is none.

    :param max_deleted_rows: at most so many rows of the target may be deleted, those counted that are put back
    :param max_deleted_fraction: at most this share of the target's rows, from 0 to 1
    :param max_window_days: the window may reach over at most so many days
    :param on_empty: where the query gives no row for what is to be replaced: ``replace`` empties it, ``fail`` refuses,
        ``skip`` leaves it as it is
    :raises RequestError: one of them makes no sense
    """

    max_deleted_rows: int | None = None
    max_deleted_fraction: float | None = None
    max_window_days: float | None = None
    on_empty: str = "replace"

    def __post_init__(self) -> None:
        if self.on_empty not in ON_EMPTY:
            raise RequestError(f"on_empty is {self.on_empty!r}.", hint=f"Valid are {', '.join(ON_EMPTY)}.")
        for name in ("max_deleted_rows", "max_deleted_fraction", "max_window_days"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise RequestError(f"{name} is {value!r}.", hint="Give a number that is not negative.")
        if self.max_deleted_fraction is not None and self.max_deleted_fraction > 1:
            raise RequestError(
                f"max_deleted_fraction is {self.max_deleted_fraction!r}.",
                hint="Give a share of the table: 0.1 for 10 %.",
            )

    def check_window(self, region: Region, window: str, as_of: datetime) -> None:
        """Refuse a window that reaches over too many days.

        :param window: the same as text
        :raises LimitExceededError: it does, or its days cannot be told
        """
        if self.max_window_days is None:
            return
        days = days_of(region, as_of)
        if days is None:
            raise LimitExceededError(
                f"The window {window} has no first day, so that it reaches over more than max_window_days = "
                f"{self.max_window_days:g}.",
                hint="Give the window a lower bound over a column of type DATE or TIMESTAMP, or take the limit away.",
            )
        if days > self.max_window_days:
            raise LimitExceededError(
                f"The window {window} reaches over {days:g} days; max_window_days is {self.max_window_days:g}.",
                hint="Look whether a bound is mistyped; split a backfill, or raise the limit.",
            )

    def check_deleted(self, target: str, deleted: int, rows: int) -> None:
        """Refuse a run that would delete too many rows.

        :param rows: how many the target has
        :raises LimitExceededError: it would
        """
        share = deleted / rows if rows else 0.0
        broken = [
            f"{name} is {limit:g}"
            for name, limit, found in (
                ("max_deleted_rows", self.max_deleted_rows, deleted),
                ("max_deleted_fraction", self.max_deleted_fraction, share),
            )
            if limit is not None and found > limit
        ]
        if broken:
            raise LimitExceededError(
                f"The run would delete {deleted} of the {rows} rows of {target} ({share:.1%}); {' and '.join(broken)}.",
                hint="Nothing was written. Look at the plan (dry_run), then narrow the window or raise the limit.",
            )

    @property
    def counts_deleted(self) -> bool:
        return self.max_deleted_rows is not None or self.max_deleted_fraction is not None


def days_of(region: Region, as_of: datetime) -> float | None:
    """Over how many days a window reaches, by whichever of its columns reaches over fewest.

    A window without an end reaches to the day of ``as_of``, for which there may be rows, or to its own beginning where
    that is later.

    :return: None where no column that holds dates or instants has a first value
    """
    widths = [width for path in region.columns if (width := _width(region, path, as_of)) is not None]
    return min(widths, default=None)


def _width(region: Region, path: tuple[str, ...], as_of: datetime) -> float | None:
    lowest: float | None = None
    highest: float | None = None
    for box in region.boxes:
        values = box.by_path.get(path)
        if values is None:
            return None
        unit = {"date": 1, "timestamp": _DAY, "timestamp_ntz": _DAY}.get(values.domain.name)
        if unit is None:
            return None
        for low, high in values.intervals:
            if not isinstance(low, int):
                return None
            first = low / unit
            last = high / unit if isinstance(high, int) else max(_today(as_of) + 1, first)
            lowest = first if lowest is None else min(lowest, first)
            highest = last if highest is None else max(highest, last)
    return None if lowest is None or highest is None else highest - lowest


def _today(as_of: datetime) -> int:
    return instants.days_of(as_of.astimezone(UTC).date())
