"""Results as JSON files in ``benchmarks/measured``, one for each benchmark and size."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.meter import Work
from benchmarks.places import MEASURED

OURS, BY_HAND = "ours", "by hand"


@dataclass
class Case:
    """One case of a benchmark: what was measured in each turn, by side.

    :param settings: what tells the case from the others, such as its layout and what had changed
    """

    name: str
    settings: Mapping[str, Any]
    turns: list[dict[str, Work]] = field(default_factory=list)

    def line(self) -> str:
        """The medians in short, for whoever waits at the terminal."""
        sides = list(self.turns[0])
        parts = [
            f"{side} {median_of(self.turns, side, 'seconds'):.2f} s ({self.turns[-1][side].mode})" for side in sides
        ]
        ratio = statistics.median(turn[sides[-1]].seconds / turn[sides[0]].seconds for turn in self.turns)
        about = " ".join(str(value) for value in self.settings.values() if not isinstance(value, list))
        return f"{self.name:<24} {about:<24} {', '.join(parts)}: {ratio:.2f} x"

    def to_json(self) -> dict[str, Any]:
        turns = [{side: asdict(work) for side, work in turn.items()} for turn in self.turns]
        return {"name": self.name, "settings": dict(self.settings), "turns": turns}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Case:
        turns = [{side: Work(**work) for side, work in turn.items()} for turn in value["turns"]]
        return cls(value["name"], value["settings"], turns)


def median_of(turns: Iterable[Mapping[str, Work]], side: str, figure: str) -> float:
    return float(statistics.median(getattr(turn[side], figure) for turn in turns))


def write(benchmark: str, rows: int, cases: Iterable[Case], **more: Any) -> Path:
    """Write one benchmark's results at one size, in place of older ones."""
    document = {
        "benchmark": benchmark,
        "rows": rows,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        **more,
        "cases": [case.to_json() for case in cases],
    }
    MEASURED.mkdir(parents=True, exist_ok=True)
    path = MEASURED / f"{benchmark}-{rows}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)
    return path


def read(benchmark: str) -> list[dict[str, Any]]:
    """The results of one benchmark, the smallest size first."""
    found = (json.loads(path.read_text()) for path in MEASURED.glob(f"{benchmark}-*.json"))
    return sorted((value for value in found if value["benchmark"] == benchmark), key=lambda value: int(value["rows"]))


def machine() -> dict[str, Any]:
    """Cores, memory in GiB, and processor."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {"cores": os.cpu_count(), "memory_gib": round(memory / 2**30), "processor": models[0] if models else None}


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {}
    for name in ("airflow-provider-replacewhere", "pyspark", "delta-spark", "apache-airflow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
