"""Addresses that a person's browser is sent to."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.links.addresses import page, page_of_run, page_of_table, spark_page, web_address
from airflow_provider_replacewhere.planning.report import Application

HISTORY, MANAGER, OWN = "http://history:18080", "rm.example:8088", "http://worker:4040"


@pytest.mark.parametrize("airflow", ["", "/"])
def test_without_an_address_of_airflow_a_view_is_one_on_its_host(airflow: str) -> None:
    assert page_of_table(airflow, "daily") == "/replacewhere/table?target=daily"
    assert page(airflow) == "/replacewhere/"


def test_names_and_run_ids_stay_one_parameter() -> None:
    base = "https://host/airflow/"
    assert page_of_run(base, "1f/a b&c=#") == "https://host/airflow/replacewhere/run?run=1f%2Fa+b%26c%3D%23"
    assert (
        page_of_table(base, "delta.`/lake/x`")
        == "https://host/airflow/replacewhere/table?target=delta.%60%2Flake%2Fx%60"
    )


@pytest.mark.parametrize(
    ("is_running", "is_logged", "history", "yarn", "found"),
    [
        (True, True, HISTORY, None, OWN),
        (True, True, HISTORY, MANAGER, "http://rm.example:8088/proxy/app-1"),
        (False, True, HISTORY, MANAGER, "http://history:18080/history/app-1"),
        (False, True, None, MANAGER, "http://rm.example:8088/proxy/app-1"),
        (False, False, HISTORY, MANAGER, "http://rm.example:8088/proxy/app-1"),
        (False, False, HISTORY, None, None),
        (False, True, None, None, None),
    ],
    ids=[
        "the driver's own pages while it runs",
        "YARN's proxy while it runs",
        "the history server afterwards",
        "YARN's proxy, which knows the history server",
        "no history where nothing was logged",
        "nothing where nothing was logged",
        "nothing when the driver has gone",
    ],
)
def test_an_application_is_looked_at_where_it_can_be(
    is_running: bool, is_logged: bool, history: str | None, yarn: str | None, found: str | None
) -> None:
    address = spark_page(Application("app-1", OWN, is_logged), is_running=is_running, history=history, yarn=yarn)
    assert address == (f"{found}/" if found and found != OWN else found)


def test_an_application_cannot_lead_out_of_its_part_of_the_path() -> None:
    application = Application("../../evil?", OWN, is_logged=True)
    address = spark_page(application, is_running=False, history=HISTORY, yarn=None)
    assert address == "http://history:18080/history/..%2F..%2Fevil%3F/"


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "javascript://x/%0aalert(1)",
        "file:///etc/passwd",
        "http://",
        "http://a\nb",
        "http://[x",
        "",
        f"http://host/{'x' * 3_000}",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_address_of_the_web_is_no_link(text: str) -> None:
    assert web_address(text) is None
    assert spark_page(Application("app-1", text), is_running=True, history=None, yarn=None) is None
