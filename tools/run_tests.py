"""Run the test suite, one pytest process per folder: ``python -m tools.run_tests --lanes 2 spark e2e unit airflow``.

A folder has a process of its own because Airflow reads its settings, and Spark starts its JVM, once per process. With
several lanes, that many folders run at once, those named first first, and each prints what it said when it has ended.
A folder that lies in another of those named is run by itself, not with it.
The last line adds the processes up. Exit status 1 when a test failed, a process broke, or a folder ran no test at all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree as Xml

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "tests"


def run_folder(python: str, folder: str, pytest_arguments: list[str], *, silent: bool) -> tuple[int, Counter[str]]:
    """Run the tests of one folder; return pytest's exit status and how many passed, failed and were skipped.

    :param silent: whether to print what the tests say when they have ended, not while they run
    """
    started = time.monotonic()
    if not silent:
        print(f"── tests/{folder}", flush=True)
    report = REPORTS / f"{folder.replace('/', '-')}.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", f"tests/{folder}", f"--junitxml={report}", *pytest_arguments]
    log = report.with_suffix(".log")
    if silent:
        with log.open("wb") as file:
            status = subprocess.run(command, cwd=ROOT, check=False, stdout=file, stderr=subprocess.STDOUT).returncode
        print(f"── tests/{folder}\n{log.read_text(errors='replace')}", flush=True)
    else:
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"   {folder}: {time.monotonic() - started:.0f} s", flush=True)
    return status, read_report(report) if report.exists() else Counter()


def read_report(report: Path) -> Counter[str]:
    """Count the outcomes in a JUnit report."""
    counts: Counter[str] = Counter()
    for suite in Xml.parse(report).getroot().iter("testsuite"):
        of = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        counts["failed"] += of["failures"] + of["errors"]
        counts["skipped"] += of["skipped"]
        counts["passed"] += of["tests"] - of["failures"] - of["errors"] - of["skipped"]
    return counts


def main() -> int:
    """Run the folders in the order given and print the totals."""
    parser = argparse.ArgumentParser(description="Run the test suite, one process per folder.")
    parser.add_argument("folders", nargs="+", help="folders of tests/, such as: unit spark airflow e2e")
    parser.add_argument("--lanes", type=int, default=1, help="how many folders run at once (default: 1)")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment to test")
    options, pytest_arguments = parser.parse_known_args()
    REPORTS.mkdir(parents=True, exist_ok=True)

    def run(folder: str) -> tuple[str, int, Counter[str]]:
        own = [f"--ignore=tests/{other}" for other in options.folders if other.startswith(f"{folder}/")]
        return folder, *run_folder(options.python, folder, [*own, *pytest_arguments], silent=options.lanes > 1)

    total: Counter[str] = Counter()
    broken = []
    with ThreadPoolExecutor(options.lanes) as lanes:
        for folder, status, counts in lanes.map(run, options.folders):
            total += counts
            ran = counts["passed"] + counts["failed"]
            if status != 0 or ran == 0:
                broken.append(f"tests/{folder}: " + ("no test ran" if ran == 0 else f"pytest exit status {status}"))

    for line in broken:
        print(line)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
