"""Read ``docker-compose.yaml`` as Docker would, for tests on a machine without Docker."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docker-compose.yaml"


@cache
def services() -> dict[str, dict[str, Any]]:
    """Return the services by name, anchors merged and ``${NAME:-default}`` replaced by its default."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", FILE.read_text())
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def commands() -> dict[str, list[str]]:
    """Return the command of each service that has one, and of each health check, by a name for the test's output."""
    started = {name: service["command"] for name, service in services().items() if "command" in service}
    checked = {
        f"{name} health": service["healthcheck"]["test"][1:]
        for name, service in services().items()
        if "healthcheck" in service
    }
    return started | checked


def airflow_commands() -> dict[str, list[str]]:
    """Return the arguments of every ``airflow`` command line in the file."""
    return {name: command[1:] for name, command in commands().items() if command[0] == "airflow"}


def airflow_environment() -> dict[str, str]:
    """Return the environment of the Airflow services."""
    environment: dict[str, str] = services()["scheduler"]["environment"]
    return environment
