"""A driver's side of the talk about leases, without Spark."""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path
from typing import Any

from airflow_provider_replacewhere.operators.exchange import Exchange
from airflow_provider_replacewhere.predicates import Region, parse_predicate

WEEK = parse_predicate("day >= DATE'2026-03-01' AND day < DATE'2026-03-08'", {"day": "date"})


class Driver:
    """Asks as ``spark/asking.py`` does."""

    def __init__(self, exchange: Exchange) -> None:
        self.folder = Path(exchange.questions_uri)
        self.folder.mkdir(exist_ok=True)
        self.numbers = count(1)

    def write(self, text: str) -> int:
        number = next(self.numbers)
        beside = self.folder / "beside"
        beside.write_text(text)
        beside.rename(self.folder / f"question-{number}.json")
        return number

    def answer(self, number: int, seconds: float = 20) -> dict[str, Any] | None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            file = self.folder / f"answer-{number}.json"
            if file.exists():
                return dict(json.loads(file.read_text()))
            time.sleep(0.01)
        return None

    def ask(self, verb: str, region: Region = WEEK, run: str = "app/daily") -> dict[str, Any] | None:
        question = {"verb": verb, "target": "daily", "flow": "daily", "run_id": run, "region": region.to_json()}
        return self.answer(self.write(json.dumps(question)))
