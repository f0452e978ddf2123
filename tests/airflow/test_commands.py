from __future__ import annotations

import json
import subprocess
import sys

import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook

pytestmark = pytest.mark.skipif(
    not hasattr(ProvidersManager, "cli_command_functions"), reason="Airflow takes commands from providers from 3.2 on"
)


def airflow(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow", "replacewhere", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("history_file")
def test_airflow_has_the_verbs_over_the_operators_history() -> None:
    PredicateHistoryHook().started("a/daily_rides", "daily_rides", "daily_rides")
    done = airflow("history", "--target", "daily_rides", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [run["run_id"] for run in json.loads(done.stdout)] == ["a/daily_rides"]


@pytest.mark.usefixtures("history_file")
def test_the_exit_status_tells_wrong_input() -> None:
    done = airflow("history", "--run", "no-such-run")
    assert done.returncode == 2
    assert "has no run no-such-run" in done.stderr
