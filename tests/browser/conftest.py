"""One web server and one browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.site import PASSWORDS, Site, chromium, launched, running_site
from tests.compose import ROOT

SHOTS = ROOT / "build" / "browser"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Airflow's own web server with the page in it."""
    with running_site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser; where none is installed, nothing of this can be tested."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if chromium() is None:
        pytest.skip("no Chromium is installed (on Debian: apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        found = launched(playwright)
        yield found
        found.close()


@pytest.fixture(scope="session")
def cookies(site: Site, browser: Any) -> list[Any]:
    """What a browser holds after a person has logged in by the form."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.address)
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(PASSWORDS["admin"])
    page.locator("button[type=submit]").click()
    page.get_by_role("link", name="Freshness").first.wait_for(timeout=60_000)
    found: list[Any] = context.cookies()
    context.close()
    return found


@pytest.fixture
def shots() -> Path:
    """Where screenshots are kept for people to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS
