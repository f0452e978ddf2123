"""How much of a table lies where along one of its columns, as far as file statistics tell, and cuts of even weight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_replacewhere.predicates.values import Values


@dataclass(frozen=True)
class Weight:
    """An amount that is spread evenly over the keys from ``low`` on and before ``high``."""

    low: int
    high: int
    amount: float


def weights_of(files: Iterable[tuple[Values | None, float]]) -> tuple[Weight, ...]:
    """The weights of some files; that of files of which nothing is known is spread like that of the others.

    :param files: of each, the values that the column may have in it, None where that is not known; and its amount
    """
    found: list[Weight] = []
    unknown = 0.0
    for values, amount in files:
        ends = None if values is None or not values.intervals else (values.intervals[0][0], values.intervals[-1][1])
        if ends is None or not isinstance(ends[0], int) or not isinstance(ends[1], int):
            unknown += amount
        else:
            found.append(Weight(ends[0], ends[1], amount))
    known = sum(weight.amount for weight in found)
    factor = (known + unknown) / known if known else 1.0
    return tuple(Weight(weight.low, weight.high, weight.amount * factor) for weight in found)


class Cumulated:
    """The amount before each key of a range.

    :param first: the first key of the range
    :param end: the key behind its last
    """

    def __init__(self, weights: Iterable[Weight], first: int, end: int) -> None:
        changes: dict[int, float] = {first: 0.0, end: 0.0}
        for weight in weights:
            low, high = max(weight.low, first), min(weight.high, end)
            if low < high:
                density = weight.amount / (weight.high - weight.low)
                changes[low] = changes.get(low, 0.0) + density
                changes[high] = changes.get(high, 0.0) - density
        self._keys = sorted(changes)
        self._before, density = [0.0], 0.0
        for low, high in pairwise(self._keys):
            density += changes[low]
            self._before.append(self._before[-1] + max(0.0, density) * (high - low))

    @property
    def total(self) -> float:
        return self._before[-1]

    def before(self, key: int) -> float:
        """How much lies before a key."""
        number = min(max(0, bisect_right(self._keys, key) - 1), len(self._keys) - 2)
        low, high = self._keys[number], self._keys[number + 1]
        share = (min(max(key, low), high) - low) / (high - low)
        return self._before[number] + share * (self._before[number + 1] - self._before[number])

    def key_at(self, amount: float) -> int:
        """The last key before which no more than an amount lies."""
        number = bisect_right(self._before, amount) - 1
        if number >= len(self._keys) - 1:
            return self._keys[-1]
        inside = self._before[number + 1] - self._before[number]
        low, high = self._keys[number], self._keys[number + 1]
        return low + int((amount - self._before[number]) / inside * (high - low))


def even_cuts(
    weights: Sequence[Weight],
    first: int,
    end: int,
    size: float,
    unit: Callable[[int], tuple[int, int]],
    most: int,
) -> list[int] | None:
    """Where to cut a range so that about ``size`` lies between two cuts, and never less than a unit.

    :param unit: of a key, where the unit that it is in begins and ends
    :param most: so many pieces at most
    :return: the beginnings of all pieces, the first among them; None where there would be more
    """
    cumulated, cuts = Cumulated(weights, first, end), [first]
    while True:
        wanted = cumulated.key_at(cumulated.before(cuts[-1]) + size)
        if wanted >= end:
            return cuts
        cut, _ = unit(wanted)
        if cut <= cuts[-1]:  # a single unit is more than that
            _, cut = unit(cuts[-1])
        if cut >= end:
            return cuts
        cuts.append(cut)
        if len(cuts) > most:
            return None
