"""YARN with one node, as plain processes, for tests: Hadoop's own daemons from the jar of its small cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

from tests.cluster import HOST, START_LIMIT, free_port, spark_home
from tests.daemons import daemon
from tools.fetch_jars import Wish, resolve

DAEMONS = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}

BOUNCY_CASTLE = "1.81"


@dataclass(frozen=True)
class Yarn:
    """A running YARN.

    :param address: of the resource manager's web services, ``host:port``
    :param configuration: the folder for ``HADOOP_CONF_DIR``
    :param logs: folder with one log per daemon, and in ``containers`` those of the applications
    """

    address: str
    configuration: Path
    logs: Path

    def applications(self) -> list[Mapping[str, Any]]:
        """All applications there have been, by the time of their start."""
        found = self._get("apps").get("apps") or {"app": []}
        return sorted(found["app"], key=lambda app: int(app["startedTime"]))

    def live_nodes(self) -> int:
        return int(self._get("metrics")["clusterMetrics"]["activeNodes"])

    def await_end(self) -> None:
        """Until no application runs or waits any more."""
        while any(app["finalStatus"] == "UNDEFINED" for app in self.applications()):
            time.sleep(0.3)

    def _get(self, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.address}/ws/v1/cluster/{what}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextlib.contextmanager
def running_yarn(folder: Path) -> Iterator[Yarn]:
    """Start a resource manager and one node below ``folder``, and stop both, and all containers, at the end.

    :raises RuntimeError: with the logs, when the node does not register
    """
    jars = daemons_jars(folder)
    yarn = Yarn(f"{HOST}:{free_port()}", folder / "conf", folder / "logs")
    for each in (yarn.configuration, yarn.logs, folder / "local"):
        each.mkdir()
    write_configuration(yarn, folder)
    class_path = os.pathsep.join([str(yarn.configuration), f"{jars}/*", f"{spark_home()}/jars/*"])
    environment = os.environ | {"HADOOP_CONF_DIR": str(yarn.configuration)}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                daemon(["java", "-Xmx384m", "-cp", class_path, main], environment, yarn.logs / f"{name}.log")
            )
            for name, main in DAEMONS.items()
        ]
        await_node(yarn, processes)
        yield yarn


def daemons_jars(folder: Path) -> Path:
    """The folder of what the daemons need besides Spark's jars: Hadoop's servers, of the version of Spark's Hadoop."""
    (client,) = (spark_home() / "jars").glob("hadoop-client-api-*.jar")
    version = re.sub(r"^hadoop-client-api-|\.jar$", "", client.name)
    into = folder / "jars"
    into.mkdir()
    for wish in (
        Wish("org.apache.hadoop", "hadoop-client-minicluster", version, alone=True),
        Wish("org.bouncycastle", "bcprov-jdk18on", BOUNCY_CASTLE, alone=True),
        Wish("org.bouncycastle", "bcpkix-jdk18on", BOUNCY_CASTLE, alone=True),
        Wish("org.bouncycastle", "bcutil-jdk18on", BOUNCY_CASTLE, alone=True),
    ):
        resolve(wish, spark_home() / "jars", into)
    return into


def write_configuration(yarn: Yarn, folder: Path) -> None:
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    services = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
    values = {
        f"{manager}.hostname": HOST,
        **{f"{manager}.{service}": f"{HOST}:{free_port()}" for service in services},
        f"{manager}.webapp.address": yarn.address,
        f"{manager}.scheduler.class": f"org.apache.hadoop.yarn.server.{manager[5:]}.scheduler.fifo.FifoScheduler",
        f"{node}.hostname": HOST,
        **{f"{node}.{service}": f"{HOST}:{free_port()}" for service in ("address", "localizer.address")},
        f"{node}.webapp.address": f"{HOST}:{free_port()}",
        f"{node}.local-dirs": folder / "local",
        f"{node}.log-dirs": yarn.logs / "containers",
        f"{node}.resource.memory-mb": 6144,
        f"{node}.resource.cpu-vcores": 8,
        f"{node}.vmem-check-enabled": "false",
        f"{node}.pmem-check-enabled": "false",
        f"{node}.disk-health-checker.enable": "false",
        f"{node}.delete.debug-delay-sec": 600,
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.am.liveness-monitor.expiry-interval-ms": 60_000,
    }
    files = {"yarn-site.xml": values, "core-site.xml": {"fs.defaultFS": "file:///"}}
    for name, settings in files.items():
        root = Element("configuration")
        for key, value in settings.items():
            setting = SubElement(root, "property")
            SubElement(setting, "name").text, SubElement(setting, "value").text = key, str(value)
        ElementTree(root).write(yarn.configuration / name)


def await_node(yarn: Yarn, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if yarn.live_nodes() == 1:
                return
        if any(process.poll() is not None for process in processes):
            break
        time.sleep(0.3)
    tails = "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in sorted(yarn.logs.glob("*.log")))
    raise RuntimeError(f"YARN had no live node after {START_LIMIT:.0f} s\n{tails}")
