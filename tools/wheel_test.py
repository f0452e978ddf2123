"""Install the wheel of ``dist/`` alone in a clean environment and look at it: ``python -m tools.wheel_test``.

No extra is installed, so this is what a deployment has that brings its own Spark on other machines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.run_tests import ROOT

DISTRIBUTION = "airflow-provider-replacewhere"
# The Spark floor and what stands on it need the extra [spark], and what OpenLineage asks for its provider; everything
# else must import without them.
IMPORT_ALL = """
import importlib, pkgutil, airflow_provider_replacewhere as package
needs_more = tuple(f"airflow_provider_replacewhere.{name}" for name in ("spark", "local", "operators.facets"))
names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None)]
chosen = [name for name in names if not name.startswith(needs_more) and ".migrations" not in name]
for name in chosen:
    importlib.import_module(name)
from airflow_provider_replacewhere.plugin.app import ASSETS
from airflow_provider_replacewhere.plugin.rendering import render
assert "page.css" in render("error.html", "", {"status": 404, "message": "", "hint": ""})
assert (ASSETS / "page.css").exists()
print(f"wheel: {len(chosen)} of {len(names)} modules imported, and the page's files are there")
"""


def main() -> int:
    """Install, import, and ask Airflow whether it sees the provider."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        print(f"wheel: expected one wheel in dist/, found {len(wheels)}. Run `make build` first.", file=sys.stderr)
        return 1
    home = ROOT / "build" / "wheel-test"
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    constraints = str(ROOT / "constraints" / "dev.txt")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, "-c", constraints, str(wheels[0])], check=True)

    # Another folder, so that the checkout cannot stand in for what the wheel lacks.
    with tempfile.TemporaryDirectory() as elsewhere:
        environment = os.environ | {"AIRFLOW_HOME": elsewhere}
        subprocess.run([python, "-c", IMPORT_ALL], cwd=elsewhere, env=environment, check=True)
        subprocess.run(
            [str(home / "bin" / "replacewhere"), "--help"],
            cwd=elsewhere,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        listing = [str(home / "bin" / "airflow"), "providers", "list", "--output", "plain"]
        done = subprocess.run(listing, cwd=elsewhere, env=environment, check=True, capture_output=True, text=True)
    shown = [line for line in done.stdout.splitlines() if line.startswith(DISTRIBUTION)]
    if not shown:
        print(f"wheel: `airflow providers list` does not show {DISTRIBUTION}:\n{done.stdout}", file=sys.stderr)
        return 1
    print(f"wheel: {Path(wheels[0]).name} is seen by Airflow: {' '.join(shown[0].split())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
