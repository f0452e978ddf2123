"""The page's application over a real ledger, as a web server runs it; who may see it is tested in tests/browser."""

from __future__ import annotations

import json
import re
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="Airflow 2 brings no FastAPI, and has no page")

from fastapi import Depends, HTTPException

from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.view import HistoryView
from airflow_provider_replacewhere.links.addresses import page, page_of_run, page_of_table
from airflow_provider_replacewhere.plugin.app import FACTS, create_app
from airflow_provider_replacewhere.plugin.reading import _fresh_to
from tests.asgi import Client
from tests.pages import HOSTILE, fill

ADDRESSES = {
    "tables": "",
    "table": "?target=daily_rides",
    "runs": "",
    "run": "?run=1",
    "definitions": "?target=daily_rides",
    "activity": "",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'history.db'}"
    fill(HistoryStore(url))
    return url


@pytest.fixture(scope="module")
def client(url: str) -> Client:
    return Client(create_app(lambda: HistoryView(url)))


class _Page(HTMLParser):
    """The elements of a page: a parser of its own, so that what a browser would see is what is looked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_every_address_answers_people_and_programs(client: Client) -> None:
    assert ADDRESSES.keys() == FACTS.keys()
    for name, query in ADDRESSES.items():
        page = client.get(f"/{'' if name == 'tables' else name}{query}")
        assert page.status_code == 200, (name, page.text)
        assert page.headers["content-type"].startswith("text/html")
        facts = client.get(f"/api/{name}{query}")
        assert facts.status_code == 200
        assert facts.headers["content-type"] == "application/json"


def test_the_links_of_tasks_lead_to_pages_that_are_there(client: Client, url: str) -> None:
    run = HistoryStore(url).runs("daily_rides")[0].run_id
    for address in (page(""), page_of_table("", "daily_rides"), page_of_run("", run)):
        answer = client.get(address.removeprefix("/replacewhere"))
        assert answer.status_code == 200, address
    assert client.get("/backfill").status_code == 200


def test_it_is_only_read(client: Client, url: str) -> None:
    for method in ("post", "put", "patch", "delete"):
        for path in ("/", "/table?target=daily_rides", "/api/runs", "/backfill"):
            assert client.request(method, path).status_code == 405, (method, path)
    with pytest.raises(AssertionError), HistoryView(url)._database.writing():
        pass


def test_whoever_may_not_see_it_gets_nothing_of_it(url: str) -> None:
    def refuse() -> None:
        raise HTTPException(401)

    closed = Client(create_app(lambda: HistoryView(url), [Depends(refuse)]))
    paths = [f"/{name}{query}" for name, query in ADDRESSES.items()]
    paths += [f"/api/{name}{query}" for name, query in ADDRESSES.items()]
    for path in ("/", *paths, "/assets/page.js", "/nothing", "/backfill", "/docs", "/openapi.json", "/redoc"):
        assert closed.get(path).status_code == 401, path


def test_nothing_comes_from_elsewhere_and_nothing_is_inline(client: Client) -> None:
    for name, query in ADDRESSES.items():
        answer = client.get(f"/{'' if name == 'tables' else name}{query}")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        page = _Page(answer.text)
        for tag, attributes in page.elements:
            assert "style" not in attributes, (name, tag)
            assert not [key for key in attributes if key.startswith("on")], (name, tag)
            for key in ("src", "href", "action"):
                assert not re.match(r"(\w+:)?//", attributes.get(key) or ""), (name, attributes)
        assert all("src" in script or script.get("type") == "application/json" for script in page.all("script"))


def test_what_the_ledger_holds_is_text(client: Client) -> None:
    for path in ("/runs?text=bold", "/table?target=hostile", "/", "/run?run=99", "/definitions?target=hostile"):
        answer = client.get(path)
        assert "<script>document" not in answer.text
        assert "<b>bold" not in answer.text
    page = _Page(client.get("/runs?text=bold").text)
    assert any("<b>bold</b>" in text for text in page.text)
    # What a person put into the address comes back as text too.
    for path in ("/table", "/run", "/runs", "/backfill", "/definitions"):
        answer = client.get(path, params={"target": "<b>x</b>", "run": "<b>x</b>", "text": "<b>x</b>", "from": "<b>x"})
        assert "<b>x" not in answer.text, path


def test_the_map_is_a_grid_that_says_what_each_cell_is(client: Client) -> None:
    page = _Page(client.get("/table?target=daily_rides").text)
    cells = [each for each in page.all("td") if each.get("role") == "gridcell"]
    labels = {str(each["aria-label"]).partition(":")[0]: str(each["aria-label"]) for each in cells}
    assert labels["2026-03-20"] == "2026-03-20: fresh"
    assert labels["2026-02-10"] == "2026-02-10: foreign change"
    assert labels["2026-02-21"] == "2026-02-21: failed"
    assert labels["2026-02-03"] == "2026-02-03: running"
    assert labels["2025-12-24"] == "2025-12-24: stale"
    assert labels["2026-02-25"] == "2026-02-25: unchecked"
    data = json.loads(re.search(r'id="map-data">(.*?)</script>', client.get("/table?target=daily_rides").text)[1])  # type: ignore[index]
    assert len(data["rows"][0]["cells"]) == len(cells)


def test_the_same_facts_as_json(client: Client) -> None:
    found = client.get("/api/table?target=daily_rides").json()
    by_label = {cell["label"]: cell for cell in found["rows"][0]["cells"]}
    fact = found["facts"][by_label["2026-03-20"]["facts"][0]]
    assert fact["sources"] == {"rides": 20, "stations": 3}
    assert found["looked"]["run"] == fact["run"]
    assert found["counts"]["failed"] == 3
    assert {gap["state"] for gap in found["gaps"]} == {"stale", "failed", "foreign change"}
    assert found["saved"]["runs"] > 10
    assert found["leases"][0]["who"].startswith("flow daily_rides")


def test_a_second_column_makes_rows(client: Client) -> None:
    found = client.get("/api/table?target=city_weeks").json()
    assert found["rows_by"] == "city"
    assert [row["label"] for row in found["rows"]] == ["Basel, Bern", "Zürich", "all others"]
    assert 'role="grid" class="bands' in client.get("/table?target=city_weeks").text


@pytest.mark.parametrize(("unit", "columns"), [("week", 53), ("month", 12)])
def test_weeks_and_months_are_laid_out_by_year(client: Client, unit: str, columns: int) -> None:
    answer = client.get(f"/table?target=daily_rides&unit={unit}")
    page = _Page(answer.text)
    assert any("yearly" in str(each.get("class")) for each in page.all("table"))
    cells = [each for each in page.all("td") if each.get("role") == "gridcell"]
    numbers = [int(str(each["data-cell"])) for each in cells]
    assert numbers == list(
        range(len(client.get(f"/api/table?target=daily_rides&unit={unit}").json()["rows"][0]["cells"]))
    )
    in_years = len(cells) + len([each for each in page.all("td") if each.get("class") == "none"])
    assert in_years == 2 * columns


def test_runs_are_filtered_and_paged(client: Client) -> None:
    def numbers(query: str) -> list[int]:
        return [run["run"] for run in client.get(f"/api/runs?{query}").json()["runs"]]

    everything = numbers("")
    assert everything == sorted(everything, reverse=True)
    assert len(numbers("status=failed")) == 1
    assert len(numbers("target=daily_rides&mode=NO_OP")) == 3
    assert len(numbers("text=nullkeyerror")) == 1
    assert len(numbers("text=RIDE_DATE IS null")) == 1
    assert numbers("text=100%25") == []
    assert len(numbers("text=backfill_rides")) == 5
    assert numbers(f"before={everything[3]}") == everything[4:]
    assert client.get("/runs?status=odd").status_code == 400
    assert client.get("/runs?mode=odd").status_code == 400
    assert client.get("/runs?before=x").status_code == 400
    assert client.get(f"/runs?before={'9' * 5_000}").status_code == 400
    assert "No run is like that" in client.get("/runs?text=nowhere").text


def test_one_run_shows_its_plan_and_reasons(client: Client) -> None:
    (run,) = client.get("/api/runs?status=failed").json()["runs"]
    page = client.get(f"/run?run={run['run']}")
    assert "3 rows whose ride_date is NULL" in page.text
    assert "/dags/fix/runs/scheduled__21/tasks/daily_rides" in page.text
    (whole,) = client.get("/api/runs?target=daily_rides&mode=FULL_RECOMPUTE&text=scheduled-2/").json()["runs"]
    page = client.get(f"/run?run={whole['run']}")
    assert "QUERY_FINGERPRINT_CHANGED" in page.text
    assert "184,000 written" in page.text


def test_definitions_are_compared(client: Client) -> None:
    newest, oldest = client.get("/api/definitions?target=daily_rides").json()["definitions"]
    differences = {each["what"]: (each["before"], each["after"]) for each in newest["differences"]}
    assert differences["predicate"] == ("ride_date >= DATE'2025-11-03'", "ride_date >= date_sub(current_date(), 7)")
    assert differences["source stations"] == (None, "read")
    assert oldest["differences"] is None


def test_backfills_tell_how_far_they_are(client: Client) -> None:
    (found,) = client.get("/api/activity").json()["backfills"]
    assert (found["done"], found["of"], found["seconds_left"]) == (4, 9, 300)
    page = _Page(client.get("/activity").text)
    assert page.all("progress") == [{"max": "9", "value": "4", "aria-label": "Chunks done"}]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/table?target=nowhere", "does not know the table nowhere"),
        ("/table", "No table is named"),
        ("/run?run=999999", "no run 999999"),
        ("/run?run=" + "9" * 40, "There is no run"),
        ("/nothing/at/all", "There is no page"),
        ("/assets/..%2Fapp.py", "There is no"),
        ("/assets/app.py", "There is no app.py"),
    ],
)
def test_what_is_not_there_is_said_in_words(client: Client, path: str, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert words in answer.text
    assert "Traceback" not in answer.text


def test_the_path_that_airflow_is_served_below_is_in_every_address(url: str) -> None:
    below = Client(create_app(lambda: HistoryView(url)), root="/team/replacewhere")
    page = _Page(below.get("/table?target=daily_rides").text)
    addresses = [str(each.get("href")) for each in (*page.all("a"), *page.all("link"))]
    assert all(address.startswith(("/team/replacewhere/", "#")) for address in addresses), addresses
    missing = below.get("/api/run?run=999999")
    assert missing.json()["error"]["message"]
    assert '"/team/dags/rides_daily/runs/scheduled__1/tasks/daily_rides"' in below.get("/run?run=1").text


# -- a ledger that is not as one would wish --


def app_over(url: str) -> Client:
    return Client(create_app(lambda: HistoryView(url)))


def test_an_empty_ledger_is_a_friendly_page_and_stays_empty(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "history.db"
    client = app_over(f"sqlite:///{file}")
    assert "Nothing has been run yet" in client.get("/").text
    assert client.get("/runs").status_code == 200
    assert client.get("/activity").status_code == 200
    assert client.get("/table?target=x").status_code == 404
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("version", "words"), [("9999", "A newer version has migrated it"), ("0002", "The next run brings it up to date")]
)
def test_a_schema_of_another_version_is_a_readable_page(tmp_path: Path, version: str, words: str) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    HistoryStore(url).migrate()
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("UPDATE replacewhere_alembic_version SET version_num = ?", (version,))
    connection.close()
    for path in ("/", "/table?target=x", "/runs"):
        answer = app_over(url).get(path)
        assert answer.status_code == 503
        assert words in answer.text
    problem = app_over(url).get("/api/tables")
    assert problem.status_code == 503
    assert problem.json()["error"]["type"] == "HistorySchemaError"


def test_a_database_that_does_not_answer_is_a_readable_page(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    file.write_text("this is no database " * 100)
    answer = app_over(f"sqlite:///{file}").get("/")
    assert answer.status_code == 503
    assert "damaged or no SQLite file" in answer.text


def test_a_damaged_row_keeps_nothing_else_from_being_shown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    fill(HistoryStore(url))
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("UPDATE replacewhere_events SET report = '{\"no\": 1}' WHERE sequence IN (3, 7)")
        connection.execute("UPDATE replacewhere_events SET report = 'no JSON' WHERE sequence = 5")
    connection.close()
    client = app_over(url)
    for name, query in ADDRESSES.items():
        answer = client.get(f"/{'' if name == 'tables' else name}{query}")
        assert answer.status_code == 200, (name, answer.text)
    assert client.get("/run?run=5").status_code == 200


def test_a_row_that_lacks_what_its_words_need_is_a_readable_page(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    fill(HistoryStore(url))
    with sqlite3.connect(tmp_path / "history.db") as connection:
        (text,) = connection.execute("SELECT report FROM replacewhere_events WHERE sequence = 20").fetchone()
        damaged = json.dumps(json.loads(text) | {"reasons": [{"reason": "SOURCE_CHANGED"}]})
        connection.execute("UPDATE replacewhere_events SET report = ? WHERE sequence = 20", (damaged,))
    connection.close()
    answer = app_over(url).get("/run?run=20")
    assert answer.status_code == 503
    assert "changed by hand" in answer.text
    assert app_over(url).get("/api/run?run=20").json()["error"]["type"] == "HistoryRowError"
    assert app_over(url).get("/run?run=19").status_code == 200


def test_the_colours_can_be_told_apart_and_read() -> None:
    from airflow_provider_replacewhere.plugin.app import ASSETS

    text = (ASSETS / "page.css").read_text()
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+);", block)) for block in re.findall(r"\{([^}]*)\}", text)[:2])
    for theme in (light, {**light, **dark}):
        for front, back in (("fg", "bg"), ("fg", "panel"), ("muted", "bg"), ("muted", "panel"), ("accent", "bg")):
            assert contrast(theme[front], theme[back]) >= 4.5, (front, back)
        for front, back in (("on-accent", "accent-bg"), ("bad", "bad-bg"), ("good", "good-bg"), ("bad", "bg")):
            assert contrast(theme[front], theme[back]) >= 4.5, (front, back)
        for state in ("fresh", "stale", "unchecked", "running", "foreign", "failed"):
            assert contrast(theme[f"on-{state}"], theme[state]) >= 4.5, state
            assert contrast(theme[state], theme["bg"]) >= 1.8, state
        assert contrast(theme["on-missing"], theme["missing"]) >= 4.5
        assert contrast(theme["missing-line"], theme["bg"]) >= 2


def contrast(one: str, other: str) -> float:
    """WCAG 2's ratio of two colours."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear: list[Any] = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def test_hostile_predicates_are_in_this_ledger(client: Client) -> None:
    assert any(run["predicate"] == HOSTILE for run in client.get("/api/runs?target=hostile").json()["runs"])


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["missing", "fresh", "fresh"], "day 2 and on"),
        (["fresh", "fresh", "stale"], "day 1"),
        (["fresh", "stale", "unchecked", "fresh"], "day 3 and on, with gaps"),
        (["missing", "stale"], None),
    ],
)
def test_fresh_to_says_whether_something_before_is_not(states: list[str], said: str | None) -> None:
    strip = [{"label": f"day {number}", "state": state} for number, state in enumerate(states)]
    assert _fresh_to({"rows": [{"after": {"state": states[-1]}}]}, strip) == said
