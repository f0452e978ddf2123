"""The compose file and its image, as far as they can be judged by reading them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.compose import FILE, ROOT, services

DOCKERFILE = ROOT / "docker" / "Dockerfile"
PINNED = re.compile(r":\d+(\.\d+)+[\w.-]*$")


def test_the_file_follows_the_compose_specification() -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(checker, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_airflows_processes_a_database_and_two_workers() -> None:
    airflow = {"init", "api-server", "scheduler", "dag-processor", "triggerer"}
    assert set(services()) == airflow | {"postgres", "spark-master", "spark-worker-1", "spark-worker-2"}


@pytest.mark.parametrize("name", services())
def test_every_image_has_an_exact_version(name: str) -> None:
    assert PINNED.search(services()[name]["image"])


@pytest.mark.parametrize("name", sorted(set(services()) - {"init"}))
def test_every_lasting_service_has_a_health_check(name: str) -> None:
    assert services()[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", services())
def test_mounted_files_exist(name: str) -> None:
    mounts = [volume.split(":")[0] for volume in services()[name].get("volumes", [])]
    missing = [mount for mount in mounts if mount.startswith(".") and not (ROOT / mount).exists()]
    assert missing == []


@pytest.mark.parametrize("name", services())
def test_ports_are_open_to_this_machine_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in services()[name].get("ports", []))


@pytest.mark.parametrize("name", services())
def test_waiting_for_health_means_that_there_is_a_health_check(name: str) -> None:
    for other, how in services()[name].get("depends_on", {}).items():
        assert how["condition"] != "service_healthy" or "healthcheck" in services()[other]


def test_driver_and_workers_see_the_data_at_one_path() -> None:
    seen = {name for name, service in services().items() if "data:/data" in service.get("volumes", [])}
    assert seen >= {"scheduler", "triggerer", "spark-worker-1", "spark-worker-2"}


def test_the_image_starts_from_an_exact_version_and_copies_what_exists() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    (base,) = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert PINNED.search(base)
    sources = [source for line in lines if line.startswith("COPY ") for source in line.split()[1:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_image_of_our_code_has_the_packages_version() -> None:
    import airflow_provider_replacewhere

    ours = {service["image"] for service in services().values() if "build" in service}
    assert ours == {f"airflow-provider-replacewhere:{airflow_provider_replacewhere.__version__}"}
