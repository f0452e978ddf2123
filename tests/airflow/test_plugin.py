"""Airflow finds the page where it has web pages of that kind, and pays nothing for it elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

import pytest

from airflow_provider_replacewhere.operators.versions import airflow_line

pytestmark = pytest.mark.matrix

HAS_APPS = find_spec("airflow.api_fastapi") is not None

LOADED = """
import json, sys, time
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
from importlib.metadata import entry_points
(found,) = [each for each in entry_points(group="airflow.plugins") if each.name == "replacewhere"]
base = plugins_manager.AirflowPlugin
ours = found.load()()
print("FOUND", json.dumps({
    "modules": sorted(name for name in sys.modules if name.startswith("airflow_provider_replacewhere")),
    "views": getattr(ours, "external_views", []) if hasattr(base, "external_views") else [],
}))
"""

SERVED = """
import json
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
apps = plugins_manager.get_fastapi_plugins()[0] if hasattr(plugins_manager, "get_fastapi_plugins") else None
if apps is None:
    plugins_manager.initialize_fastapi_plugins()
    apps = plugins_manager.fastapi_apps
print("FOUND", json.dumps({each["name"]: each["url_prefix"] for each in apps}))
"""


def answer(code: str) -> object:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    return json.loads(line[6:])


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not [each for each in entry_points(group="airflow.plugins") if each.name == "replacewhere"]:
        pytest.fail("the package is installed without its entry point: run make env again")


def test_loading_plugins_brings_in_nothing_but_the_entry() -> None:
    found = answer(LOADED)
    assert isinstance(found, dict)
    of_page = [name for name in found["modules"] if name.startswith("airflow_provider_replacewhere.plugin")]
    assert of_page == ["airflow_provider_replacewhere.plugin", "airflow_provider_replacewhere.plugin.entry"]
    assert not [name for name in found["modules"] if ".history" in name or ".planning" in name]
    # Inside Airflow's own pages, where it can show others there.
    assert len(found["views"]) == (airflow_line() not in ("2", "3.0"))


@pytest.mark.skipif(not HAS_APPS, reason="Airflow 2 has no such pages")
def test_the_web_server_gets_the_application() -> None:
    found = answer(SERVED)
    assert isinstance(found, dict)
    assert found["Freshness"] == "/replacewhere"
