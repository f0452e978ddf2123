"""Addresses of pages about runs: the provider's own page, and Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from airflow_provider_replacewhere.planning.report import Application

PAGE = "replacewhere"
"""Where the provider's page is mounted, below Airflow's own address."""

HISTORY_SERVER = "spark_history_url"
"""The extra of a Spark connection that names the address of Spark's history server."""

RESOURCE_MANAGER = "yarn_resourcemanager_webapp_address"
"""The extra of a Spark connection that the Spark provider reads to ask YARN for an application."""

# What comes from the exchange place is anybody's who can write there.
_MOST_CHARACTERS = 2_000


def page(airflow: str, view: str = "", **asked: str) -> str:
    """The address of a view of the provider's page.

    :param airflow: Airflow's own address, as ``[api] base_url``; may be empty: the address is then one on its host
    :param view: its path below the page, as :mod:`..plugin.app` serves it
    :param asked: its parameters
    """
    query = f"?{urlencode(asked)}" if asked else ""
    return f"{airflow.rstrip('/')}/{PAGE}/{view}{query}"


def page_of_table(airflow: str, target: str) -> str:
    """Where a table is shown: which parts are fresh, stale, missing or running."""
    return page(airflow, "table", target=target)


def page_of_run(airflow: str, run_id: str) -> str:
    """Where a run is shown: its plan and the reasons for it."""
    return page(airflow, "run", run=run_id)


def spark_page(application: Application, *, is_running: bool, history: str | None, yarn: str | None) -> str | None:
    """Where Spark shows an application; None where nothing does, or not any more.

    :param history: address of Spark's history server, where there is one
    :param yarn: address of YARN's resource manager, where the application is one of YARN's: it leads to the driver's
        pages while that runs and to the history server's afterwards, if YARN knows one
    """
    own = application.ui if is_running else None
    by_history = history if application.is_logged and not is_running else None
    for address, path in ((by_history, "history/{}/"), (yarn, "proxy/{}/"), (own, "")):
        if address and (base := web_address(address)):
            return f"{base}/{path.format(quote(application.id, safe=''))}" if path else base
    return None


def web_address(text: str) -> str | None:
    """An address that a browser may be sent to; None where the text is none, such as a script.

    A host alone, as the Spark provider takes it for YARN's, is one of ``http``.
    """
    address = (text if "://" in text else f"http://{text}").strip().rstrip("/")
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not fit, or a port that is none
        return None
    return address if is_one and address.isprintable() and len(address) <= _MOST_CHARACTERS else None


def named_in(extras: Mapping[str, Any], name: str) -> str | None:
    """One of a connection's extras, where it is a text."""
    value = extras.get(name)
    return value if isinstance(value, str) and value.strip() else None
