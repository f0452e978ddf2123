"""What the compose file says to Airflow, said to the installed Airflow by plain processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests import compose

ASK_AIRFLOW = """
import json, sys
from airflow.cli.cli_parser import get_parser
from airflow.configuration import conf
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.operators.cluster import cluster_of

commands, names = json.load(sys.stdin)
settings = [name.lower().split("__")[1:] for name in names if name.startswith("AIRFLOW__")]
known = {section: described["options"] for section, described in conf.configuration_description.items()}
print(json.dumps({
    "accepted": [bool(get_parser().parse_args(arguments)) for arguments in commands],
    "unknown": [(section, option) for section, option in settings if option not in known.get(section, ())],
    "history": PredicateHistoryHook().url,
    "spark": cluster_of("spark_default").master,
}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Airflow makes of the file's commands, settings and connections."""
    connections = {name: text for name, text in compose.airflow_environment().items() if "AIRFLOW_CONN_" in name}
    environment = os.environ | connections | {"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow"))}
    question = json.dumps([list(compose.airflow_commands().values()), list(compose.airflow_environment())])
    done = subprocess.run(
        [sys.executable, "-c", ASK_AIRFLOW],
        env=environment,
        input=question,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_airflow_accepts_every_command(answer: dict[str, Any]) -> None:
    assert answer["accepted"] == [True] * len(compose.airflow_commands())
    assert len(compose.airflow_commands()) == 7


def test_airflow_knows_every_setting(answer: dict[str, Any]) -> None:
    assert answer["unknown"] == []


def test_the_connections_name_the_database_and_the_master_of_the_file(answer: dict[str, Any]) -> None:
    assert answer["history"] == "postgresql+psycopg2://replacewhere:***@postgres:5432/replacewhere"
    assert answer["spark"] == "spark://spark-master:7077"
