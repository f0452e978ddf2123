"""What the README promises a newcomer: `make airflow`, and with a browser alone to a table that is fresh again."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compose import ROOT
from tools.demo_site import PAGE

pytestmark = pytest.mark.long

MINUTES = 60_000  # of the browser's milliseconds
DAYS = ("2026-02-20", "2026-02-21", "2026-02-22")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the demo's Airflow is, once it says what to do there."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    said = tmp_path_factory.mktemp("airflow") / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.demo_site", "--port", str(port)], cwd=ROOT, stdout=output, stderr=output
        )
    try:
        until = time.monotonic() + 900
        while "Ctrl-C ends it" not in said.read_text():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)


def test_stale_days_are_found_and_made_fresh(browser: Any, address: str, shots: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto(f"{address}{PAGE}")
    for day in DAYS:
        page.get_by_role("gridcell", name=f"{day}: foreign change").wait_for()
    page.get_by_role("gridcell", name=f"{DAYS[0]}: foreign change").click()
    page.get_by_role("gridcell", name=f"{DAYS[-1]}: foreign change").click(modifiers=["Shift"])
    page.screenshot(path=shots / "ten-minutes-stale.png", full_page=True)

    page.get_by_role("link", name="Backfill this range").click()
    page.get_by_role("button", name=re.compile("Trigger example_backfill_form")).wait_for()
    assert page.get_by_label("First value behind the range").input_value() == "2026-02-23"
    page.screenshot(path=shots / "ten-minutes-form.png", full_page=True)
    page.get_by_role("button", name=re.compile("Trigger example_backfill_form")).click()
    page.get_by_text("Triggered:").wait_for()

    _approve(page, address, shots)

    until = time.monotonic() + 600
    while page.get_by_role("gridcell", name=re.compile("foreign change")).count() or time.monotonic() > until:
        assert time.monotonic() < until, "the map did not turn fresh"
        time.sleep(3)
        page.goto(f"{address}{PAGE}")
        page.get_by_role("gridcell", name=re.compile(DAYS[0])).wait_for()
    for day in DAYS:
        assert page.get_by_role("gridcell", name=f"{day}: fresh").count() == 1
    page.screenshot(path=shots / "ten-minutes-fresh.png", full_page=True)
    context.close()


def _approve(page: Any, address: str, shots: Path) -> None:
    """In Airflow's own interface: read the plan, and say yes."""
    page.goto(f"{address}/required_actions")
    page.get_by_role("link", name=re.compile("Backfill of daily_rides")).first.click(timeout=10 * MINUTES)
    approve = page.get_by_role("button", name="Approve")
    approve.wait_for(timeout=MINUTES)
    page.get_by_text("2026-02-20").first.wait_for()
    page.screenshot(path=shots / "ten-minutes-plan.png", full_page=True)
    approve.click()
