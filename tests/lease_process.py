"""What tests of leases let other processes do: ``python -m tests.lease_process VERB URL …``."""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from airflow_provider_replacewhere.errors import LeaseLostError, RegionHeldError
from airflow_provider_replacewhere.history.holding import holding
from airflow_provider_replacewhere.history.leases import Conflict
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.waiting import take
from tests.leases import claim, granted, numbers, refused

ROUNDS = 4
THREADS = 5


def compete(url: str, name: str, folder: str) -> None:
    """Take leases at random, commit under them at random moments, and write down from when to when each was used."""
    logging.disable()
    Path(folder, f"{name}.ready").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.005)
    with ThreadPoolExecutor(THREADS) as pool:
        lines = [line for each in pool.map(_competitor, [url] * THREADS, _names(name)) for line in each]
    Path(folder, f"{name}.json").write_text(json.dumps(lines))


def _names(process: str) -> list[str]:
    return [f"{process}.{thread}" for thread in range(THREADS)]


def _competitor(url: str, name: str) -> list[dict[str, Any]]:
    chance = random.Random(name)
    store = HistoryStore(url)
    return [_round(store, chance, f"{name}.{number}") for number in range(ROUNDS)]


def _round(store: HistoryStore, chance: random.Random, run: str) -> dict[str, Any]:
    first = chance.randrange(12)
    span = [first, first + chance.choice([1, 1, 2, 4, 12])]
    tables = chance.choice([["t1"], ["t1"], ["t1", "t2"], ["t2", "t1"]])
    # Some have leases that end before they commit.
    slow = chance.random() < 0.3
    line: dict[str, Any] = {"run": run, "span": span, "tables": tables}
    try:
        found = take(
            store,
            [claim(run, numbers(*span), target=table) for table in tables],
            on_overlap=chance.choice(["wait", "wait", "wait", "fail", "skip"]),
            wait_seconds=120,
            seconds=0.05 if slow else 120,
            poll_seconds=0.05,
        )
    except RegionHeldError as error:
        return {**line, "outcome": "failed", "told": str(error)}
    if isinstance(found, Conflict):
        return {**line, "outcome": "skipped", "told": str(found)}
    from_ = time.monotonic()
    time.sleep(chance.choice([0.05, 0.2]) if slow else 0)
    try:
        for lease in found.leases:
            store.permit(lease)
            # Until then the lease of a slow one may have been another's.
            from_ = time.monotonic() if slow else from_
        time.sleep(chance.uniform(0, 0.02))
        return {**line, "outcome": "committed", "from": from_, "to": time.monotonic()}
    except LeaseLostError as error:
        return {**line, "outcome": "lost", "told": str(error)}
    finally:
        for lease in found.leases:
            store.release(lease)


def hold(url: str, run: str, seconds: str) -> None:
    """Hold a lease on everything until the end of the process, however it comes."""
    store = HistoryStore(url)
    lease = granted(store.acquire([claim(run)], seconds=float(seconds)))
    with holding(store, [lease], seconds=float(seconds), every=0.1):
        print("held", flush=True)
        time.sleep(600)


def skewed(url: str, run: str) -> None:
    """Ask for what is held and for what is free, and tell both answers and what time it is here."""
    from datetime import UTC, datetime

    store = HistoryStore(url)
    names = refused(store.acquire([claim(run, numbers(5, 15))]))
    lease = granted(store.acquire([claim(run, numbers(10, 20))]))
    told = {"now": datetime.now(UTC).isoformat(), "refused": names, "live": [each.run_id for each in store.leases()]}
    print(json.dumps({**told, **lease.to_json()}))


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    {"compete": compete, "hold": hold, "skewed": skewed}[verb](*arguments)
