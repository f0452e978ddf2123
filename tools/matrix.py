"""Run the Airflow-side tests in the environment of one Airflow line: ``python -m tools.matrix 2.11``.

The environment lies below ``build/matrix/``. It holds exactly the versions of ``constraints/airflow-<line>.txt`` and
the wheel of this checkout, and the tests run in a copy of the checkout without the package, so that they can only meet
the wheel. ``--resolve`` resolves the line anew and writes its constraints; ``--no-tests`` only builds the environment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.run_tests import ROOT

EXTRAS = "spark,fast,postgres"
TEST_TOOLS = ("hypothesis", "pandas<3", "pytest", "pytest-cov", "statsd")
SPARK = ("pyspark==4.2.0", "pyspark-client==4.2.0", "delta-spark==4.4.0")
"""One version of both pysparks, as they share files, and the Delta release made for it: resolvers pick a wrong pair."""
PROVIDERS = ("apache-airflow-providers-apache-spark==6.3.4", "apache-airflow-providers-common-compat==1.23.0")
OLDEST = (
    "apache-airflow-providers-apache-spark==6.0.0",
    "apache-airflow-providers-common-compat==1.12.0",
    "alembic==1.13.1",
    "sqlglot==27.0.0",
)
"""The floors of pyproject.toml."""


@dataclass(frozen=True)
class Line:
    """One Airflow line of the matrix.

    :param airflow: the release that stands for the line
    :param holds: requirements without which a plain resolution of this release cannot run a Dag
    :param libraries: versions of what we depend on besides Airflow
    """

    airflow: str
    holds: tuple[str, ...] = ()
    libraries: tuple[str, ...] = PROVIDERS


LINES = {
    "oldest": Line("2.11.0", libraries=OLDEST),
    "2.11": Line("2.11.2"),
    # Newer FastAPI answers the task's own requests with "Remote server returned validation error".
    "3.0": Line("3.0.6", ("fastapi<0.118", "starlette<0.48", "cadwyn<6")),
    "3.1": Line("3.1.8"),
    "3.2": Line("3.2.2", ("fastapi>=0.129,<0.137", "starlette>=1.0.1", "cadwyn<8")),
    "3.3": Line("3.3.2"),
}
NOT_PINNED = ("pip==", "setuptools==", "wheel==", "uv==", "airflow-provider-replacewhere")
COPIED = (
    "tests",
    "dags",
    "tools",
    "docs",
    "constraints",
    "docker",
    "docker-compose.yaml",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "mkdocs.yml",
)


@dataclass(frozen=True)
class Environment:
    """The places of one line's environment."""

    line: str

    @property
    def home(self) -> Path:
        """The folder that holds everything of the line."""
        return ROOT / "build" / "matrix" / self.line

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.home / "venv" / "bin" / "python"

    @property
    def constraints(self) -> Path:
        """The pinned versions of the line."""
        return ROOT / "constraints" / f"airflow-{self.line}.txt"

    def run(self, *arguments: str, cwd: Path = ROOT, check: bool = True) -> int:
        """Run the environment's interpreter with its programs first on PATH."""
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run([str(self.python), *arguments], cwd=cwd, env=os.environ | {"PATH": path}, check=check)
        return done.returncode

    def pip(self, *arguments: str) -> None:
        """Run the environment's pip."""
        self.run("-m", "pip", "--disable-pip-version-check", "-q", *arguments)


def build_wheel() -> Path:
    """Build the wheel of this checkout."""
    dist = ROOT / "build" / "matrix" / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"matrix: the wheel cannot be built:\n{done.stdout}{done.stderr}")
    (wheel,) = dist.glob("*.whl")
    return wheel


def requirements(line: str, wheel: Path) -> list[str]:
    """Return what a line's environment is asked to hold."""
    spec = LINES[line]
    return [f"apache-airflow=={spec.airflow}", f"{wheel}[{EXTRAS}]", *spec.libraries, *SPARK, *spec.holds, *TEST_TOOLS]


def install(environment: Environment, wheel: Path, *, resolve: bool) -> None:
    """Bring the environment to the pinned versions, or with ``resolve`` to new ones, and to this wheel."""
    if resolve:
        shutil.rmtree(environment.home / "venv", ignore_errors=True)
    if not environment.python.exists():
        print(f"matrix {environment.line}: creating the environment", flush=True)
        venv.create(environment.home / "venv", with_pip=True)
    wanted = requirements(environment.line, wheel)
    pins = [] if resolve else ["-c", str(environment.constraints)]
    stamp = environment.home / "installed"
    content = "\n".join(wanted) + ("" if resolve else environment.constraints.read_text())
    key = hashlib.sha256(content.encode()).hexdigest()
    if resolve or not stamp.exists() or stamp.read_text() != key:
        print(f"matrix {environment.line}: installing Airflow {LINES[environment.line].airflow}", flush=True)
        environment.pip("install", *pins, *wanted)
        stamp.write_text(key)
    environment.pip("install", "--force-reinstall", "--no-deps", str(wheel))
    environment.run("tools/fetch_jars.py")


def freeze(environment: Environment) -> None:
    """Write the versions that the environment holds as the line's constraints."""
    command = [str(environment.python), "-m", "pip", "freeze", "--all"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    kept = [line for line in lines if not line.startswith(NOT_PINNED)]
    environment.constraints.write_text("\n".join(kept) + "\n")
    print(f"matrix {environment.line}: {len(kept)} versions written to {environment.constraints.relative_to(ROOT)}")


def copy_checkout(environment: Environment) -> Path:
    """Copy what the tests need, without the package, and return the copy."""
    copy = environment.home / "checkout"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    return copy


def run_tests(environment: Environment, pytest_arguments: Sequence[str]) -> int:
    """Run tests/airflow, and of tests/e2e what is marked ``matrix``."""
    checkout = copy_checkout(environment)
    # Warnings of an older line's own dependencies are not ours to repair. With lanes each speaks when it has ended.
    common = ["--lanes", "2", "-W", "default", *pytest_arguments]

    def run(chosen: Sequence[str]) -> int:
        return environment.run("-m", "tools.run_tests", *chosen, *common, cwd=checkout, check=False)

    with ThreadPoolExecutor(2) as lanes:
        return max(lanes.map(run, (["airflow"], ["e2e", "-m", "matrix"])))


def main() -> int:
    """Build the environment and test in it."""
    parser = argparse.ArgumentParser(description="Run the Airflow-side tests on one Airflow line.")
    parser.add_argument("line", choices=list(LINES))
    parser.add_argument("--resolve", action="store_true", help="resolve anew and write the line's constraints")
    parser.add_argument("--no-tests", action="store_true", help="only build the environment")
    options, pytest_arguments = parser.parse_known_args()
    environment = Environment(options.line)
    install(environment, build_wheel(), resolve=options.resolve)
    if options.resolve:
        freeze(environment)
    return 0 if options.no_tests else run_tests(environment, pytest_arguments)


if __name__ == "__main__":
    sys.exit(main())
