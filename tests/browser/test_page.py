"""The page in a real browser, in a real Airflow: what a data engineer does with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.site import Site

TABLE = "/replacewhere/table?target=daily_rides"


@contextmanager
def opened(browser: Any, site: Site, cookies: list[Any], path: str, **how: Any) -> Iterator[Any]:
    """A page of a person who is logged in. Whatever the browser complains of fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, **how)
    context.add_cookies(cookies)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("request", lambda asked: complaints.append(asked.url) if _is_elsewhere(asked, site) else None)
    page.goto(f"{site.address}{path}")
    yield page
    assert complaints == []
    context.close()


def _is_elsewhere(asked: Any, site: Site) -> bool:
    parts = urlsplit(asked.url)
    return parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" != site.address


def test_the_ledger_is_that_of_the_connection_in_airflows_own_database(site: Site) -> None:
    token = site.token("admin")
    connection = {
        "connection_id": "replacewhere_default",
        "conn_type": "replacewhere",
        "schema": "another.db",
        "extra": json.dumps({"backend": "sqlite"}),
    }
    assert site.ask("POST", "/api/v2/connections", token, connection) == 201
    try:
        status, text = site.get("/replacewhere/", token)
        assert status == 200
        assert "replacewhere/another.db" in text
        assert "Nothing has been run yet" in text
    finally:
        assert site.ask("DELETE", "/api/v2/connections/replacewhere_default", token) == 204
    assert "daily_rides" in site.get("/replacewhere/", token)[1]


@pytest.mark.parametrize("path", ["/", "/table?target=daily_rides", "/assets/page.js", "/api/tables", "/nothing"])
def test_anonymous_gets_nothing(site: Site, path: str) -> None:
    status, text = site.get(f"/replacewhere{path}")
    assert status == 401
    assert "daily_rides" not in text


def test_docs_and_schema_of_the_application_are_off(site: Site) -> None:
    token = site.token("admin")
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert site.get(f"/replacewhere{path}", token)[0] == 404
        assert site.get(f"/replacewhere{path}")[0] == 401


def test_who_may_only_view_sees_it(site: Site) -> None:
    status, text = site.get("/replacewhere/api/tables", site.token("viewer"))
    assert status == 200
    assert {table["target"] for table in json.loads(text)["tables"]} >= {"daily_rides", "city_weeks"}
    assert site.get("/replacewhere/", "no token at all")[0] in (401, 403)


def test_people_find_it_in_the_navigation_and_go_from_a_table_to_a_run(
    browser: Any, site: Site, cookies: list[Any], shots: Path
) -> None:
    with opened(browser, site, cookies, "/") as page:
        page.get_by_role("link", name="Freshness").first.click()
        frame = page.frame_locator("iframe[title='Freshness']")
        frame.get_by_role("heading", name="Tables").wait_for()
        page.screenshot(path=shots / "tables-in-airflow.png")
        frame.get_by_role("link", name="daily_rides", exact=True).first.click()
        cell = frame.get_by_role("gridcell", name="2026-03-20: fresh")
        cell.hover()
        detail = frame.get_by_label("What is known of the cell")
        detail.get_by_text("rides at version 20").wait_for()
        page.screenshot(path=shots / "table-in-airflow.png")
        cell.click()
        assert cell.get_attribute("aria-selected") == "true"
        detail.get_by_role("link", name="run ").first.click()
        frame.get_by_role("heading", name=re.compile(r"^Run \d")).wait_for()
        frame.get_by_text("SOURCE_CHANGED (rides").first.wait_for()
        page.screenshot(path=shots / "run-in-airflow.png")
        # A link to Airflow itself leads out of the frame.
        frame.get_by_role("link", name="Task in Airflow").click()
        page.wait_for_url("**/dags/rides_daily/**")


def test_the_map_is_worked_by_keys_alone(browser: Any, site: Site, cookies: list[Any]) -> None:
    with opened(browser, site, cookies, TABLE) as page:
        # One stop of the tabulator for all cells: the newest.
        last = page.get_by_role("gridcell", name="2026-03-20: fresh")
        last.focus()
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "2026-03-19: fresh"
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("2026-03-12")
        assert page.locator("[role=gridcell][tabindex='0']").count() == 1
        page.get_by_role("gridcell", name="2026-02-20: failed").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Shift+ArrowDown")
        page.keyboard.press("Shift+ArrowDown")
        assert page.locator("[aria-selected=true]").count() == 3
        assert "2026-02-20 to 2026-02-22" in page.locator("#detail").inner_text()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=re.compile(r"^Run \d")).wait_for()
        assert "whose ride_date is NULL" in page.get_by_role("alert").inner_text()


def test_a_range_goes_into_the_form_of_the_backfill_dag_and_triggers_it(
    browser: Any, site: Site, cookies: list[Any], shots: Path
) -> None:
    with opened(browser, site, cookies, TABLE) as page:
        page.get_by_role("gridcell", name="2026-02-09: foreign change").click()
        page.get_by_role("gridcell", name="2026-02-11: foreign change").click(modifiers=["Shift"])
        page.screenshot(path=shots / "range.png", full_page=True)
        page.get_by_role("link", name="Backfill this range").click()
        page.get_by_label("First value", exact=True).wait_for()
        assert page.get_by_label("Flow").input_value() == "daily_rides"
        assert page.get_by_label("Column of the range").input_value() == "ride_date"
        assert page.get_by_label("First value", exact=True).input_value() == "2026-02-09"
        assert page.get_by_label("First value behind the range").input_value() == "2026-02-12"
        page.get_by_label("In chunks, by").select_option("day")
        page.screenshot(path=shots / "backfill.png", full_page=True)
        page.get_by_role("button", name="Trigger backfill_rides").click()
        page.get_by_text("Triggered:").wait_for()
        page.screenshot(path=shots / "triggered.png", full_page=True)
    runs = json.loads(site.get("/api/v2/dags/backfill_rides/dagRuns", site.token("admin"))[1])["dag_runs"]
    (run,) = runs
    assert {name: run["conf"][name] for name in ("flow_name", "column", "start", "end", "chunk", "equals")} == {
        "flow_name": "daily_rides",
        "column": "ride_date",
        "start": "2026-02-09",
        "end": "2026-02-12",
        "chunk": "day",
        "equals": None,
    }


def test_runs_are_filtered(browser: Any, site: Site, cookies: list[Any], shots: Path) -> None:
    with opened(browser, site, cookies, "/replacewhere/runs") as page:
        page.screenshot(path=shots / "runs.png", full_page=True)
        page.get_by_label("Status").select_option("failed")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**status=failed**")
        assert page.locator("tbody tr").count() == 1
        page.get_by_label("Text").fill("nowhere to be found")
        page.keyboard.press("Enter")
        page.get_by_text("No run is like that").wait_for()


def test_html_in_a_predicate_is_shown_as_text(browser: Any, site: Site, cookies: list[Any], shots: Path) -> None:
    with opened(browser, site, cookies, "/replacewhere/runs?target=hostile") as page:
        assert page.title().startswith("Runs")
        assert "<b>bold</b>" in page.locator("tbody").inner_text()
        assert page.locator("tbody b").count() == 0
        page.get_by_role("row").nth(1).get_by_role("link").first.click()
        page.get_by_text("<script>document.title").first.wait_for()
        assert page.title().startswith("Run ")
        page.screenshot(path=shots / "hostile.png", full_page=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_as_dark_or_light_as_airflow(
    browser: Any, site: Site, cookies: list[Any], shots: Path, theme: str
) -> None:
    other = "dark" if theme == "light" else "light"
    # The person's choice in Airflow counts, whatever the system prefers.
    with opened(browser, site, cookies, "/replacewhere/", color_scheme=other) as page:
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        for name, path in {
            "tables": "/replacewhere/",
            "table": TABLE,
            "rows": "/replacewhere/table?target=city_weeks",
            "weeks": f"{TABLE}&unit=week",
            "months": f"{TABLE}&unit=month",
            "large": f"{TABLE}&from=2026-02-01&to=2026-03-15",
            "definitions": "/replacewhere/definitions?target=daily_rides",
            "activity": "/replacewhere/activity",
        }.items():
            page.goto(f"{site.address}{path}")
            if name in ("table", "large"):
                page.get_by_role("gridcell", name="2026-02-21: failed").click()
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            page.screenshot(path=shots / f"{name}-{theme}.png", full_page=True)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(0, 0, 0)")
        page.evaluate("localStorage.removeItem('theme')")
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == other
