"""What an engineer would use instead, on the same work: ``python -m benchmarks.alternatives [--rows N]``.

Each contender is a process of its own, in which it and the window overwritten by hand take turns; what is compared is
how each stands to the window by hand. Late sales come for one of the window's 30 days before every turn. Those with
packages of their own run in environments below ``build/bench/env``, made on first use; one of these that cannot be
installed or fails, or whose table is not the one made by hand, is left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.places import BUILD, ROOT, WORK
from benchmarks.results import Case, write

SAID = 12
"""Lines of what a contender said last that are kept as the reason."""
SPARK = ("pyspark==4.2.0", "delta-spark==4.4.0")


@dataclass(frozen=True)
class Contender:
    """A program of :mod:`benchmarks.contenders`, and what it needs besides Spark and Delta.

    :param packages: None: it runs in this environment
    """

    name: str
    module: str
    packages: tuple[str, ...] | None = None


CONTENDERS = (
    Contender("a flow", "flow"),
    Contender("dynamic partition overwrite", "dynamic_overwrite"),
    Contender("MERGE", "merge"),
    Contender("dbt microbatch", "dbt", ("dbt-core==1.10.23", "dbt-spark[session]==1.11.0")),
    Contender("SQLMesh", "sqlmesh", ("sqlmesh==0.236.4",)),
)


class LeftOutError(Exception):
    """A contender could not be measured; the message says why."""


def python_of(contender: Contender) -> str:
    """The interpreter of the contender's environment.

    :raises LeftOutError: its packages cannot be installed
    """
    if contender.packages is None:
        return sys.executable
    folder = BUILD / "env" / contender.module
    python, ready = folder / "bin" / "python", folder / "ready"
    wanted = "\n".join((*contender.packages, *SPARK))
    if not ready.exists() or ready.read_text() != wanted:
        print(f"{contender.name}: installing {', '.join(contender.packages)} (minutes)", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *contender.packages, *SPARK])
        _run([str(python), str(ROOT / "tools" / "fetch_jars.py")])
        ready.write_text(wanted)
    return str(python)


def measure(contender: Contender, rows: int, turns: int) -> Case:
    """Run one contender to its end.

    :raises LeftOutError: it could not be measured
    """
    out = WORK / f"{contender.module}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    module = f"benchmarks.contenders.{contender.module}"
    arguments = ["--rows", str(rows), "--turns", str(turns), "--out", str(out)]
    _run([python_of(contender), "-m", module, *arguments])
    case = Case.from_json(json.loads(out.read_text()))
    return replace(case, settings={**case.settings, "packages": list(contender.packages or ())})


def _run(command: list[str]) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise LeftOutError("\n".join(said[-SAID:]))


def main() -> None:
    parser = argparse.ArgumentParser(description="What an engineer would use instead, on the same work.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--turns", type=int, default=3, help="how often each contender is measured")
    parser.add_argument("--contenders", nargs="+", choices=[contender.module for contender in CONTENDERS])
    options = parser.parse_args()
    for rows in options.rows:
        cases, left_out = [], {}
        for contender in CONTENDERS:
            if options.contenders and contender.module not in options.contenders:
                continue
            try:
                cases.append(measure(contender, rows, options.turns))
                print(cases[-1].line(), flush=True)
            except LeftOutError as reason:
                if contender.packages is None:
                    raise
                left_out[contender.name] = str(reason).splitlines()[-1]
                print(f"{contender.name} is left out: {reason}", flush=True)
        print(write("alternatives", rows, cases, left_out=left_out))


if __name__ == "__main__":
    main()
