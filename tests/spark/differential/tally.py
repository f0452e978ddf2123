"""What many scenarios gave, in numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.spark.differential.play import Played, Scenario

MODES = ("NO_OP", "INCREMENTAL", "FULL_RECOMPUTE", "FULL_REFRESH")


@dataclass
class Tally:
    """Totals; they add up over worlds and processes.

    :param rows: by shape, rows of the windows of later runs, those left alone, those under keys that did not change
    """

    scenarios: int = 0
    worlds: int = 0
    first: int = 0
    wrong: int = 0
    applied: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    shapes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, played: Played) -> None:
        """Count one world."""
        self.worlds += 1
        self.applied += played.applied
        self.skipped.update(played.skipped)
        self.killed.update(point.split()[0] for point in played.killed.elements())
        for scenario in played.scenarios:
            self._add(scenario)

    def _add(self, scenario: Scenario) -> None:
        self.scenarios += 1
        self.first += scenario.first
        self.wrong += bool(scenario.faults)
        self.outcomes[scenario.outcome] += 1
        if scenario.first:
            return
        shape = scenario.label.partition("+")[0]
        self.shapes[shape][scenario.outcome] += 1
        if scenario.rows is not None:
            totals = self.rows.setdefault(shape, [0, 0, 0])
            self.rows[shape] = [a + b for a, b in zip(totals, scenario.rows, strict=True)]

    def later(self, mode: str) -> int:
        """How many runs that were not a target's first had that mode."""
        return sum(counter[mode] for counter in self.shapes.values())

    def lines(self, shapes: bool = True) -> Iterable[str]:
        """The totals as text."""
        later = {name: self.later(name) for name in MODES}
        failed = {name: count for name, count in self.outcomes.items() if name not in MODES}
        yield f"scenarios {self.scenarios} in {self.worlds} worlds, mismatches {self.wrong}"
        yield f"first runs {self.first}; later runs: " + ", ".join(f"{name} {count}" for name, count in later.items())
        yield f"runs that failed as they should: {sum(failed.values())} {_listed(failed)}"
        yield f"runs that were killed, besides: {sum(self.killed.values())} {_listed(self.killed)}"
        yield f"changes applied {self.applied}, refused by Spark {sum(self.skipped.values())}"
        yield from (f"  {count} x {text}" for text, count in self.skipped.most_common(8))
        yield "of the windows' rows, later runs: " + _share(_sum(self.rows.values()))
        if shapes:
            yield f"{'shape':28} {'runs':>5} {'no-op':>5} {'incr':>5} {'full':>5} {'failed':>6}  rows left alone"
            for shape, counter in sorted(self.shapes.items()):
                counts = [sum(counter.values()), *(counter[name] for name in MODES[:2])]
                full = counter["FULL_RECOMPUTE"] + counter["FULL_REFRESH"]
                bad = counts[0] - sum(counts[1:]) - full
                columns = f"{counts[0]:5} {counts[1]:5} {counts[2]:5} {full:5} {bad:6}"
                yield f"{shape:28} {columns}  {_share(self.rows.get(shape, [0, 0, 0]))}"


def _sum(rows: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0]


def _share(rows: list[int]) -> str:
    inside, alone, unchanged = rows
    if not inside:
        return "none"
    return f"{alone / inside:4.0%} left alone, {unchanged / inside:4.0%} under unchanged keys, of {inside}"


def _listed(counts: dict[str, int]) -> str:
    return "(" + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) + ")" if counts else ""
