"""What the end-to-end tests start once and share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import SparkCluster, running_cluster
from tests.jvm import let_java_start_quickly
from tests.postgres import postgres_server  # noqa: F401 (a fixture)

let_java_start_quickly()


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A Spark master with two workers, for the whole session."""
    with running_cluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster
