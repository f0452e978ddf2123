"""What the page costs over a long history: ``python -m benchmarks.page_of_many_runs --runs 100000 --years 5``.

Times each address over one table with so many runs, cold and warm, in one process: what a person waits for, without the
network and without Airflow's own login. The ledger stays below ``build/``, so that a second call begins at once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.view import HistoryView
from airflow_provider_replacewhere.plugin.app import create_app
from tests.asgi import Client
from tests.pages import many

ADDRESSES = (
    "/",
    "/table?target=daily_rides",
    "/table?target=daily_rides&unit=month",
    "/api/table?target=daily_rides",
    "/runs",
    "/runs?before=100001",
    "/runs?status=failed",
    "/runs?mode=NO_OP",
    "/runs?text=nowhere to be found",
    "/run?run=1",
    "/definitions?target=daily_rides",
    "/activity",
)


def main() -> None:
    """Fill the ledger where it is not there yet, and time every address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--years", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    file = Path("build") / f"page-{options.runs}-{options.years}.db"
    url = f"sqlite:///{file.resolve()}"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        started = time.monotonic()
        many(HistoryStore(url), options.runs, days=365 * options.years + 1)
        HistoryStore(url).coverage()
        print(f"filled with {options.runs:,} runs in {time.monotonic() - started:.0f} s")
    print(f"{file.stat().st_size / 1e6:,.0f} MB, {options.runs:,} runs over {options.years} years")
    client = Client(create_app(lambda: HistoryView(url)))
    for address in ADDRESSES:
        times, busy = [], []
        for _ in range(options.turns + 1):
            started, worked = time.perf_counter(), time.process_time()
            answer = client.get(address)
            times.append(time.perf_counter() - started)
            busy.append(time.process_time() - worked)
            assert answer.status_code == 200, answer.text
        waited, cpu = statistics.median(times[1:]) * 1e3, statistics.median(busy[1:]) * 1e3
        times_in_words = f"{waited:6.0f} ms ({cpu:.0f} of them CPU), first {times[0] * 1e3:.0f} ms"
        print(f"{address:<40} {times_in_words}, {len(answer.content):>9,} bytes")


if __name__ == "__main__":
    main()
