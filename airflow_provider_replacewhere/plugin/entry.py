"""The page as Airflow finds it.

Every process of Airflow loads this file when it starts, so that it brings in nothing; the application is made where a
web server asks for it. Airflow 2 asks for nothing that is here.
"""

from __future__ import annotations

import logging
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

# In the web server, the scheduler and the Dag processor this is what has asked; a task has only the SDK.
if TYPE_CHECKING or "airflow.plugins_manager" in sys.modules:
    from airflow.plugins_manager import AirflowPlugin
else:
    from airflow.providers.common.compat.sdk import AirflowPlugin

log = logging.getLogger(__name__)

PREFIX = "/replacewhere"
NAME = "Freshness"
_ICON = f"{PREFIX.removeprefix('/')}/assets/icon"

# Since Airflow 3.1 a page is shown inside Airflow's own, to a browser that is logged in. 3.0 serves it to who sends a
# token along, which a browser cannot do of itself, so that no link leads there; 2 serves nothing.
_SHOWS_PAGES = hasattr(AirflowPlugin, "external_views")

# Without a leading slash, for Airflow may be served below a path of its own.
VIEW = {
    "name": NAME,
    "href": f"{PREFIX.removeprefix('/')}/",
    "destination": "nav",
    "url_route": "replacewhere",
    "icon": f"{_ICON}-light.svg",
    "icon_dark_mode": f"{_ICON}-dark.svg",
}


class ReplaceWherePlugin(AirflowPlugin):
    """What this provider adds to Airflow's web interface."""

    name = "replacewhere"

    if _SHOWS_PAGES:
        external_views = [VIEW]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The application, made when a web server first asks for it. If it cannot be made, Airflow starts without."""
        try:
            from airflow_provider_replacewhere.plugin.serve import airflow_app

            return [{"app": airflow_app(), "url_prefix": PREFIX, "name": NAME}]
        except Exception:
            log.exception("The page of airflow-provider-replacewhere is not there.")
            return []
