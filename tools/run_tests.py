"""Run the test suite, one pytest process per folder: ``python -m tools.run_tests unit spark airflow e2e``.

A folder has a process of its own because Airflow reads its settings, and Spark starts its JVM, once per process. The
last line adds the processes up. Exit status 1 when a test failed, a process broke, or a folder ran no test at all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as Xml

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "tests"


def run_folder(python: str, folder: str, pytest_arguments: list[str]) -> tuple[int, Counter[str]]:
    """Run the tests of one folder; return pytest's exit status and how many passed, failed and were skipped."""
    report = REPORTS / f"{folder}.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", f"tests/{folder}", f"--junitxml={report}", *pytest_arguments]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
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
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment to test")
    options, pytest_arguments = parser.parse_known_args()
    REPORTS.mkdir(parents=True, exist_ok=True)

    total: Counter[str] = Counter()
    broken = []
    for folder in options.folders:
        print(f"── tests/{folder}", flush=True)
        started = time.monotonic()
        status, counts = run_folder(options.python, folder, pytest_arguments)
        total += counts
        ran = counts["passed"] + counts["failed"]
        if status != 0 or ran == 0:
            broken.append(f"tests/{folder}: " + ("no test ran" if ran == 0 else f"pytest exit status {status}"))
        print(f"   {time.monotonic() - started:.0f} s", flush=True)

    for line in broken:
        print(line)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
