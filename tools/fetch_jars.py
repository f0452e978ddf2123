"""Put Delta's jars beside the jars of the environment's own pyspark: ``python tools/fetch_jars.py [--check]``.

After that every session, ``spark-submit``, master and worker of this environment has Delta on its class path with no
``spark.jars.packages``, and nothing is resolved, downloaded or locked when a job starts.

The jars are resolved by the Ivy that pyspark ships, with a home of its own below ``build/``: Spark's default settings
also look into the local Maven repository, and fail there when it holds a POM without its jar.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

SCALA = "2.13"
IVY_HOME = Path(__file__).resolve().parent.parent / "build" / "ivy"
PROVES_DELTA = ("delta-spark_", "delta-storage-", "delta-kernel-api-")
"""The jars without which no Delta table can be opened; all of them there means that an earlier run was complete."""


class JarsNotFetchedError(Exception):
    """The environment has no usable Delta jars; the message says why and what to do."""


def pyspark_jars() -> Path:
    """Return the ``jars`` folder of the pyspark that this interpreter would import."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsNotFetchedError(f"{sys.executable} has no pyspark. Install the extra [spark] first.")
    jars = Path(spec.origin).parent / "jars"
    if not jars.is_dir():
        raise JarsNotFetchedError(
            f"{jars} does not exist: this pyspark is the client without Spark itself. Reinstall pyspark."
        )
    return jars


def delta_artifact() -> tuple[str, str]:
    """Return Delta's Maven artifact and version for the installed pair of pyspark and delta-spark."""
    try:
        spark, delta = (importlib.metadata.version(name) for name in ("pyspark", "delta-spark"))
    except importlib.metadata.PackageNotFoundError as missing:
        raise JarsNotFetchedError(
            f"{sys.executable} has no {missing.name}. Install the extra [spark] first."
        ) from missing
    line = ".".join(spark.split(".")[:2])
    return f"delta-spark_{line}_{SCALA}", delta


def has_delta(jars: Path, delta_version: str) -> bool:
    """Tell whether ``jars`` holds Delta of exactly ``delta_version``."""
    return all(list(jars.glob(f"{prefix}*{delta_version}.jar")) for prefix in PROVES_DELTA)


def module_of(jar: Path) -> str:
    """Return the artifact name of a jar file: ``jackson-core`` for ``jackson-core-2.21.2.jar``."""
    return re.sub(r"^(.+?)-\d+(\.\w+)*(-\d+)?(-[A-Za-z]\w*)*$", r"\1", jar.stem)


@dataclass(frozen=True)
class Wish:
    """A module of Maven Central.

    :param alone: without what it needs
    """

    organisation: str
    artifact: str
    version: str
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.organisation}:{self.artifact}:{self.version}"


def ivy_module(wish: Wish, shipped: list[str]) -> ElementTree[Element]:
    """Describe the wish less every module that Spark ships, whose versions Spark was tested with."""
    module = Element("ivy-module", version="2.0")
    SubElement(module, "info", organisation="replacewhere", module="jars")
    dependencies = SubElement(module, "dependencies")
    wanted = {"org": wish.organisation, "name": wish.artifact, "rev": wish.version, "conf": "default->default"}
    if wish.alone:
        wanted |= {"conf": "default->master", "transitive": "false"}
    SubElement(dependencies, "dependency", wanted)
    for name in shipped:
        SubElement(dependencies, "exclude", module=name)
    return ElementTree(module)


def ivy_settings() -> ElementTree[Element]:
    """Describe Maven Central alone; Ivy knows its address."""
    settings = Element("ivysettings")
    SubElement(settings, "settings", defaultResolver="central")
    resolvers = SubElement(settings, "resolvers")
    SubElement(resolvers, "ibiblio", name="central", m2compatible="true")
    return ElementTree(settings)


def resolve(wish: Wish, jars: Path, into: Path) -> list[Path]:
    """Download a module and what it needs besides Spark's own jars into ``into``, and return the files."""
    java = shutil.which("java")
    if java is None:
        raise JarsNotFetchedError("There is no `java` on PATH. Spark 4 needs Java 17: install it, then run this again.")
    ivy = sorted(jars.glob("ivy-*.jar"))
    if not ivy:
        raise JarsNotFetchedError(f"{jars} has no ivy-*.jar, so this pyspark is incomplete. Reinstall pyspark.")
    settings, module = into / "ivysettings.xml", into / "ivy.xml"
    ivy_settings().write(settings)
    # Delta's own modules are wanted even where an older set of them lies in the folder.
    shipped = sorted({module_of(jar) for jar in jars.glob("*.jar") if not jar.name.startswith("delta-")})
    ivy_module(wish, shipped).write(module)
    command = [java, "-jar", str(ivy[-1]), "-settings", str(settings), "-cache", str(IVY_HOME), "-ivy", str(module)]
    command += ["-confs", "default", "-retrieve", f"{into}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(into.glob("*.jar"))
    if done.returncode != 0 or not found:
        log = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise JarsNotFetchedError(
            f"Ivy could not resolve {wish} (exit status {done.returncode}):\n{log}\n"
            "Check that Maven Central can be reached and that this release exists; "
            f"if {IVY_HOME} holds a broken download, remove that folder. Then run this again."
        )
    return found


def install(found: list[Path], jars: Path) -> None:
    """Copy ``found`` into ``jars``; each file appears there whole or not at all."""
    for jar in found:
        part = jars / f".{jar.name}.part"
        shutil.copyfile(jar, part)
        part.replace(jars / jar.name)
    kept = {jar.name for jar in found}
    for old in jars.glob("delta-*.jar"):
        # Two Delta releases on one class path fail in ways that name neither.
        if old.name not in kept:
            old.unlink()


def main() -> int:
    """Fetch what is missing; with ``--check`` only tell."""
    parser = argparse.ArgumentParser(description="Put Delta's jars into the environment's pyspark.")
    parser.add_argument("--check", action="store_true", help="fetch nothing, exit with 1 when the jars are missing")
    options = parser.parse_args()
    try:
        jars = pyspark_jars()
        artifact, version = delta_artifact()
        if has_delta(jars, version):
            print(f"delta jars: {version} already in place")
            return 0
        if options.check:
            raise JarsNotFetchedError(f"{jars} has no Delta {version} jars. Run this without --check.")
        with tempfile.TemporaryDirectory() as folder:
            found = resolve(Wish("io.delta", artifact, version), jars, Path(folder))
            if not has_delta(Path(folder), version):
                raise JarsNotFetchedError(f"Ivy resolved {artifact} {version} without its own jars: {found}.")
            install(found, jars)
        print(f"delta jars: {len(found)} files of {artifact} {version} added to pyspark")
        return 0
    except JarsNotFetchedError as error:
        print(f"fetch_jars: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
