"""What the README promises a newcomer: `make airflow`, and with a browser alone to a table that is fresh again."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compose import ROOT
from tools.demo import TARGET
from tools.demo_site import PAGE
from tools.demo_table import rides_by_day_and_city

pytestmark = pytest.mark.long

MINUTE = 60_000  # in the browser's milliseconds
DAYS = ("2026-02-20", "2026-02-21", "2026-02-22")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a demo that nobody has played yet."""
    return tmp_path_factory.mktemp("newcomer") / "demo"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where the demo's Airflow is, once it says what to do there."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    said = folder.with_name("said")
    command = [sys.executable, "-m", "tools.demo_site", "--port", str(port), "--folder", str(folder)]
    with said.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        until = time.monotonic() + 900
        while "Ctrl-C ends it" not in said.read_text():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        # Not an interrupt, which a process may have been started to ignore.
        process.terminate()
        process.wait(timeout=120)


def test_stale_days_are_found_and_made_fresh(browser: Any, address: str, folder: Path, shots: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(MINUTE)
    page = context.new_page()
    page.goto(f"{address}{PAGE}")
    for day in DAYS:
        page.get_by_role("gridcell", name=f"{day}: foreign change").wait_for()
    assert page.get_by_role("gridcell", name=re.compile("foreign change")).count() == len(DAYS)
    page.get_by_role("gridcell", name=f"{DAYS[0]}: foreign change").click()
    page.get_by_role("gridcell", name=f"{DAYS[-1]}: foreign change").click(modifiers=["Shift"])
    page.screenshot(path=shots / "ten-minutes-stale.png", full_page=True)

    page.get_by_role("link", name="Backfill this range").click()
    trigger = page.get_by_role("button", name="Trigger example_backfill_form")
    trigger.wait_for()
    assert page.get_by_label("First value", exact=True).input_value() == "2026-02-20"
    assert page.get_by_label("First value behind the range").input_value() == "2026-02-23"
    page.screenshot(path=shots / "ten-minutes-form.png", full_page=True)
    trigger.click()
    page.get_by_text("Triggered:").get_by_role("link").click()

    _read_the_plan(page, shots)
    assert not set(DAYS) & _days(folder), "nothing is written before somebody says yes"
    page.get_by_role("button", name="Approve").click()

    _wait_until_fresh(page, f"{address}{PAGE}")
    page.screenshot(path=shots / "ten-minutes-fresh.png", full_page=True)
    assert set(DAYS) <= _days(folder)
    context.close()


def _read_the_plan(page: Any, shots: Path) -> None:
    """In Airflow's own interface: wait until it asks, and read the plan."""
    page.get_by_role("button", name=re.compile("Required Action")).click(timeout=10 * MINUTE)
    page.get_by_role("button", name="Approve").wait_for()
    page.get_by_text("daily_rides: would replace its window (FULL_RECOMPUTE)").wait_for()
    window = page.get_by_role("listitem").filter(has_text=re.compile("^window"))
    assert window.inner_text().startswith("window (ride_date >= DATE '2026-02-20') AND (ride_date < DATE '2026-02-23')")
    # The dialog fades in.
    page.screenshot(path=shots / "ten-minutes-plan.png", animations="disabled")


def _wait_until_fresh(page: Any, table: str) -> None:
    until = time.monotonic() + 600
    while True:
        page.goto(table)
        page.get_by_role("gridcell", name=re.compile(DAYS[0])).wait_for()
        labels = [page.get_by_role("gridcell", name=re.compile(day)).get_attribute("aria-label") for day in DAYS]
        if labels == [f"{day}: fresh" for day in DAYS]:
            return
        assert time.monotonic() < until, f"the map did not turn fresh: {labels}"
        time.sleep(3)


def _days(folder: Path) -> set[str]:
    """The days that have rows in the table."""
    return {str(day) for day in rides_by_day_and_city(folder / "tables" / TARGET)}
