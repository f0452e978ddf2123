"""Airflow finds the provider, and reads its description before anything else is there."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.get_provider_info import get_provider_info

AIRFLOW = Path((find_spec("airflow").submodule_search_locations or [""])[0])  # type: ignore[union-attr]
FORM_BY_PROVIDER_INFO = "conn-fields" in (AIRFLOW / "provider.yaml.schema.json").read_text()

IMPORTED = """
import sys
before = set(sys.modules)
from airflow_provider_replacewhere.get_provider_info import get_provider_info
get_provider_info()
foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(sorted(foreign))
"""


def connection_type() -> dict[str, Any]:
    (found,) = get_provider_info()["connection-types"]
    return found  # type: ignore[no-any-return]


def test_importing_the_provider_info_imports_only_the_standard_library() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout == "['airflow_provider_replacewhere']\n"


def test_it_fits_airflows_schema() -> None:
    schema = json.loads((AIRFLOW / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.skipif(not FORM_BY_PROVIDER_INFO, reason="before Airflow 3.2 the form comes from the hook's methods")
def test_the_form_fits_the_strict_schema_that_airflows_own_providers_are_held_to() -> None:
    strict = json.loads((AIRFLOW / "provider.yaml.schema.json").read_text())["properties"]["connection-types"]
    jsonschema.validate([connection_type()], strict)


def test_every_module_that_it_names_exists() -> None:
    info = get_provider_info()
    for part in (*info["operators"], *info["hooks"]):
        for module in part["python-modules"]:
            import_module(module)
    module, _, name = connection_type()["hook-class-name"].rpartition(".")
    hook = getattr(import_module(module), name)
    assert (hook.conn_type, hook.hook_name) == ("replacewhere", connection_type()["hook-name"])


def test_airflow_lists_the_provider() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "providers", "list", "-o", "json"], capture_output=True, text=True, check=True
    )
    listed = {entry["package_name"]: entry["version"] for entry in json.loads(done.stdout[done.stdout.index("[{") :])}
    assert listed["airflow-provider-replacewhere"] == __version__


FORM = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
(meta,) = [meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "replacewhere"]
print("FORM", json.dumps(meta.model_dump(mode="json")))
"""


def test_the_connection_form_has_our_fields() -> None:
    if find_spec("airflow.api_fastapi") is None:
        pytest.skip("Airflow 2 makes its form in the web server; the next test reads the same methods")
    if not FORM_BY_PROVIDER_INFO and find_spec("flask_appbuilder") is None:
        pytest.skip("before Airflow 3.2 the form needs flask_appbuilder; without it Airflow shows the extras as JSON")
    # In a process of its own, because Airflow 3.0 and 3.1 put stand-ins for wtforms in place to read a form.
    done = subprocess.run([sys.executable, "-c", FORM], capture_output=True, text=True, check=True)
    form = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("FORM "))[5:])
    assert form["hook_name"] == "REPLACE WHERE history"
    backend = form["extra_fields"]["backend"]
    assert backend["schema"]["enum"] == ["postgresql", "mysql", "sqlite"]
    assert backend["value"] == "postgresql"
    assert set(form["extra_fields"]) == {"backend", "sslmode"}
    assert form["standard_fields"]["url_schema"]["title"] == "Database"


def test_earlier_versions_get_the_same_form_from_the_hook() -> None:
    if not all(find_spec(module) for module in ("wtforms", "flask_babel", "flask_appbuilder")):
        pytest.skip("this Airflow has no wtforms and reads the provider info instead")
    from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook

    widgets = PredicateHistoryHook.get_connection_form_widgets()
    assert list(widgets) == list(connection_type()["conn-fields"])
    behaviour = PredicateHistoryHook.get_ui_field_behaviour()
    declared = connection_type()["ui-field-behaviour"]
    assert behaviour == {key.replace("-", "_"): value for key, value in declared.items()}
