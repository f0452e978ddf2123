"""Sets of values of one column: sorted, disjoint, half-open ranges of keys, and whether NULL is in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from airflow_provider_replacewhere.predicates.domains import Domain, Key

Interval: TypeAlias = tuple[Key | None, Key | None]
"""From the first key (None: no lower bound) up to, but without, the second (None: no upper bound)."""


_LOW_ZERO = "-0.0D"
"""The lower of two zeros, which Spark calls equal. Parquet does not: for ``>= 0.0`` it passes over pages of -0.0."""


@dataclass(frozen=True)
class Values:
    """A set of values.

    Made by :meth:`of`, which brings any ranges into the one form that a set has, so that equal sets are equal values.
    """

    domain: Domain
    intervals: tuple[Interval, ...] = ()
    null: bool = False

    @classmethod
    def of(cls, domain: Domain, intervals: Iterable[Interval], null: bool = False) -> Values:
        """The set that these ranges cover together."""
        first, end = domain.bounds
        clipped = []
        for low, high in intervals:
            # What lies beyond the type's own bounds holds no value.
            low = None if low is not None and first is not None and _le(low, first) else low
            high = None if high is not None and end is not None and _le(end, high) else high
            if _is_empty(low, high) or (low is not None and end is not None and _le(end, low)):
                continue
            if high is not None and first is not None and _le(high, first):
                continue
            clipped.append((low, high))
        return cls(domain, _merged(clipped), null)

    @classmethod
    def everything(cls, domain: Domain, null: bool = True) -> Values:
        return cls(domain, ((None, None),), null)

    @classmethod
    def nothing(cls, domain: Domain, null: bool = False) -> Values:
        return cls(domain, (), null)

    @property
    def is_empty(self) -> bool:
        return not self.intervals and not self.null

    @property
    def is_everything(self) -> bool:
        return self.null and self.intervals == ((None, None),)

    def __contains__(self, key: Key | None) -> bool:
        """Whether a key is in the set; None is NULL."""
        if key is None:
            return self.null
        passed = bisect_right(self.cuts, key)
        return (passed % 2 == 1) != self.starts_below_all

    @cached_property
    def cuts(self) -> tuple[Key, ...]:
        """The keys at which membership changes, in order."""
        return tuple(key for interval in self.intervals for key in interval if key is not None)

    @property
    def starts_below_all(self) -> bool:
        return bool(self.intervals) and self.intervals[0][0] is None

    def union(self, other: Values) -> Values:
        return Values(self.domain, _merged((*self.intervals, *other.intervals)), self.null or other.null)

    def intersect(self, other: Values) -> Values:
        pairs = []
        mine, theirs = list(self.intervals), list(other.intervals)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low = _later(mine[i][0], theirs[j][0])
            high = _earlier(mine[i][1], theirs[j][1])
            if not _is_empty(low, high):
                pairs.append((low, high))
            if high == mine[i][1]:
                i += 1
            else:
                j += 1
        return Values(self.domain, tuple(pairs), self.null and other.null)

    def complement(self) -> Values:
        """All values that are not in the set, NULL included if it is not."""
        gaps: list[Interval] = []
        start: Key | None = None
        open_start = True
        for low, high in self.intervals:
            if low is not None:
                gaps.append((None if open_start else start, low))
            start, open_start = high, False
        if open_start or start is not None:
            gaps.append((start, None))
        return Values.of(self.domain, gaps, not self.null)

    def subtract(self, other: Values) -> Values:
        return self.intersect(other.complement())

    def contains(self, other: Values) -> bool:
        return (self.null or not other.null) and all(self._holds(*interval) for interval in other.intervals)

    def _holds(self, low: Key | None, high: Key | None) -> bool:
        # Ranges of a set never touch, so only the last one that starts in time can hold the other whole.
        if low is None:
            number = 0 if self.intervals and self.intervals[0][0] is None else -1
        else:
            open_start = len(self.intervals) - len(self._starts)
            number = bisect_right(self._starts, low) + open_start - 1
        if number < 0:
            return False
        end = self.intervals[number][1]
        return end is None or (high is not None and _le(high, end))

    @cached_property
    def _starts(self) -> list[Key]:
        return [low for low, _ in self.intervals if low is not None]

    def not_null(self) -> Values:
        return Values(self.domain, self.intervals)

    def to_sql(self, column: str) -> str:
        """The condition on a column, given as quoted SQL, that is TRUE for these values only."""
        if self.is_everything:
            return "TRUE"
        if self.intervals == ((None, None),):
            return f"({column} IS NOT NULL)"
        points = [point for interval in self.intervals if (point := self._point(interval)) is not None]
        parts = self._points_to_sql(column, points)
        parts += [self._range_to_sql(column, *interval) for interval in self.intervals if self._point(interval) is None]
        if self.null:
            parts.append(f"({column} IS NULL)")
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})" if parts else "FALSE"

    def _point(self, interval: Interval) -> Key | None:
        """The only key of a range, if it has just one."""
        first, end = self.domain.bounds
        low = first if interval[0] is None else interval[0]
        high = end if interval[1] is None else interval[1]
        return low if low is not None and high == self.domain.next(low) else None

    def _points_to_sql(self, column: str, points: list[Key]) -> list[str]:
        written = [self.domain.to_sql(point) for point in points]
        # A long IN list is looked up by hash, where -0.0 and 0.0 differ; so do they where Parquet leaves out rows.
        if self.domain.name == "double" and 0 in points:
            zero = f"(({column} >= {_LOW_ZERO}) AND ({column} <= 0.0D))"
            pairs = zip(points, written, strict=True)
            return [zero if point == 0 else f"({column} = {value})" for point, value in pairs]
        if len(written) < 2:
            return [f"({column} = {value})" for value in written]
        return [f"({column} IN ({', '.join(str(value) for value in written)}))"]

    def _range_to_sql(self, column: str, low: Key | None, high: Key | None) -> str:
        bounds = [] if low is None else [f"({column} {self._bound(low, '>=', '>')})"]
        bounds += [] if high is None else [f"({column} {self._bound(high, '<', '<=')})"]
        return bounds[0] if len(bounds) == 1 else f"({' AND '.join(bounds)})"

    def _bound(self, key: Key, usual: str, other: str) -> str:
        """``>= key``, or ``> previous`` where only that can be written or is what a person would write."""
        previous = self.domain.previous(key)
        written = self.domain.to_sql(key)
        before = None if previous is None else self.domain.to_sql(previous)
        if written is None:
            return f"{other} {before}"
        if self.domain.name == "double" and key == 0 and usual == ">=":
            written = _LOW_ZERO
        from_text = self.domain.name in ("string", "binary") and before is not None
        shorter = self.domain.name == "double" and before is not None and len(before) < len(written)
        return f"{other} {before}" if from_text or shorter else f"{usual} {written}"

    def to_json(self) -> dict[str, Any]:
        encode = self.domain.key_to_json
        return {
            "type": self.domain.to_json(),
            "ranges": [[encode(low), encode(high)] for low, high in self.intervals],
            "null": self.null,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Values:
        domain = Domain.of(value["type"])
        decode = domain.key_from_json
        intervals = tuple((decode(low), decode(high)) for low, high in value["ranges"])
        _require_order(domain, intervals)
        if not isinstance(value["null"], bool):
            raise TypeError(f"null is {value['null']!r}")
        return cls(domain, intervals, value["null"])


@dataclass(frozen=True)
class Extent:
    """From the first to the last of some values; ``null``: whether NULL is one, ``any``: whether others are."""

    domain: Domain
    low: Key | None
    high: Key | None
    null: bool
    any: bool

    @classmethod
    def around(cls, sets: Sequence[Values]) -> Extent:
        ends = [(values.intervals[0][0], values.intervals[-1][1]) for values in sets if values.intervals]
        lows, highs = [low for low, _ in ends if low is not None], [high for _, high in ends if high is not None]
        return cls(
            domain=sets[0].domain,
            low=min(lows) if lows and len(lows) == len(ends) else None,
            high=max(highs) if highs and len(highs) == len(ends) else None,
            null=any(values.null for values in sets),
            any=bool(ends),
        )

    def is_apart(self, other: Extent) -> bool:
        """Whether the two certainly have no value in common."""
        if (self.null and other.null) or (self.domain is not other.domain and self.domain != other.domain):
            return False
        # Written out: this is asked thousands of times for one plan.
        return (
            (self.low is not None and other.high is not None and other.high <= self.low)  # type: ignore[operator]
            or (other.low is not None and self.high is not None and self.high <= other.low)  # type: ignore[operator]
            or not (self.any and other.any)
        )


def _require_order(domain: Domain, intervals: tuple[Interval, ...]) -> None:
    """What comes from a document is looked at: ranges out of order would be answered wrongly later on, not refused.

    :raises TypeError, ValueError: these are no ranges of the domain's keys, each behind the one before
    """
    kind = {"string": str, "binary": bytes}.get(domain.name, int)
    last: Key | None = None
    for number, (low, high) in enumerate(intervals):
        for key in (low, high):
            if key is not None and (not isinstance(key, kind) or isinstance(key, bool) or not domain.is_ordered):
                raise TypeError(f"{key!r} is no key of type {domain.name}")
        if (low is None and number) or (high is None and number < len(intervals) - 1) or _is_empty(low, high):
            raise ValueError(f"the range from {low!r} to {high!r} is none, or not in its place")
        if last is not None and low is not None and not _le(last, low):
            raise ValueError(f"the range from {low!r} begins before {last!r}, where the one before it ends")
        last = high


def _le(a: Key, b: Key) -> bool:
    return a <= b  # type: ignore[operator]  # both are keys of one domain


def _is_empty(low: Key | None, high: Key | None) -> bool:
    return low is not None and high is not None and _le(high, low)


def _later(a: Key | None, b: Key | None) -> Key | None:
    """The later of two lower bounds."""
    if a is None or b is None:
        return b if a is None else a
    return b if _le(a, b) else a


def _earlier(a: Key | None, b: Key | None) -> Key | None:
    """The earlier of two upper bounds."""
    if a is None or b is None:
        return b if a is None else a
    return a if _le(a, b) else b


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Sorted, and joined where they touch or overlap."""
    without_low = [interval for interval in intervals if interval[0] is None]
    with_low = sorted((i for i in intervals if i[0] is not None), key=lambda i: i[0])  # type: ignore[arg-type,return-value]
    merged: list[Interval] = []
    for low, high in (*without_low, *with_low):
        if merged and (merged[-1][1] is None or low is None or _le(low, merged[-1][1])):
            last_low, last_high = merged[-1]
            later = None if last_high is None or high is None else high if _le(last_high, high) else last_high
            merged[-1] = (last_low, later)
        else:
            merged.append((low, high))
    return tuple(merged)
