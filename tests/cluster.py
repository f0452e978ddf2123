"""A Spark standalone master and two workers as plain processes of the installed pyspark, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.daemons import daemon

HOST = "127.0.0.1"
START_LIMIT = 120.0


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster.

    :param master: address for ``spark-submit --master``, such as ``spark://127.0.0.1:41234``
    :param status_url: where the master tells its state as JSON
    :param logs: folder with one log per process
    """

    master: str
    status_url: str
    logs: Path

    def status(self) -> dict[str, object]:
        """Return the master's state: its workers, running and completed applications."""
        with urllib.request.urlopen(self.status_url, timeout=5) as answer:
            state: dict[str, object] = json.load(answer)
            return state


def spark_home() -> Path:
    """Return the folder of the installed pyspark, which is a whole Spark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def free_port() -> int:
    """Return a TCP port of the loopback address that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _process(
    name: str, arguments: list[str], environment: Mapping[str, str], logs: Path
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """One of Spark's daemons."""
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name.split('-')[0]}", *arguments]
    return daemon(command, environment, logs / f"{name}.log")


def _await_workers(cluster: SparkCluster, workers: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the master counts all workers as alive."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            if cluster.status()["aliveworkers"] == workers:
                return
        if any(process.poll() is not None for process in processes):
            break
        time.sleep(0.3)
    tails = "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in sorted(cluster.logs.glob("*.log")))
    raise RuntimeError(f"the Spark cluster did not reach {workers} live workers in {START_LIMIT:.0f} s\n{tails}")


@contextlib.contextmanager
def running_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[SparkCluster]:
    """Start a master and workers below ``folder``, wait until they are ready, and stop them at the end.

    :param cores: cores that each worker offers
    :param memory: memory that each worker offers, in Spark's notation
    :raises RuntimeError: with the logs, when the workers do not register
    """
    port, page = free_port(), free_port()
    cluster = SparkCluster(f"spark://{HOST}:{port}", f"http://{HOST}:{page}/json/", folder)
    environment = os.environ | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "512m",
    }
    with contextlib.ExitStack() as stack:
        master = ["-h", HOST, "-p", str(port), "--webui-port", str(page)]
        processes = [stack.enter_context(_process("master.Master", master, environment, folder))]
        for number in range(1, workers + 1):
            work = ["-h", HOST, "-c", str(cores), "-m", memory, "-d", str(folder / f"work-{number}")]
            worker = [*work, "--webui-port", str(free_port()), cluster.master]
            processes.append(stack.enter_context(_process(f"worker.Worker-{number}", worker, environment, folder)))
        _await_workers(cluster, workers, processes)
        yield cluster
