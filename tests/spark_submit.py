"""A program called ``spark-submit`` that starts no Spark: it notes its call and leaves the outcome a test wants."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, RunReport

_PROGRAM = """\
#!{python}
import json, os, signal, sys, time
from pathlib import Path

folder = Path(__file__).parent
files = sys.argv[sys.argv.index("--files") + 1].split(",")
request = json.loads(Path(files[-1]).read_text())
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({{"arguments": sys.argv[1:], "request": request}}) + "\\n")
answer = json.loads((folder / "answer.json").read_text())
print("stand-in for spark-submit", flush=True)
(folder / "pid").write_text(str(os.getpid()))
for name, text in answer["letters"].items():
    place = Path(request["questions_uri"])
    place.mkdir(exist_ok=True)
    (place / ("." + name)).write_text(text)
    (place / ("." + name)).rename(place / name)
time.sleep(answer["sleep"])
if answer["outcome"] is not None:
    text = answer["outcome"].replace("{{run_id}}", request["run_id"])
    Path(request["report_uri"]).write_text(text)
if answer["signal"]:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(answer["status"])
"""


@dataclass(frozen=True)
class Call:
    """One call: the words of the command line, and the request that it sent."""

    arguments: list[str]
    request: dict[str, Any]

    def value(self, option: str) -> str:
        return self.arguments[self.arguments.index(option) + 1]

    @property
    def conf(self) -> dict[str, str]:
        words = zip(self.arguments, self.arguments[1:], strict=False)
        return dict(after.split("=", 1) for word, after in words if word == "--conf")


@dataclass(frozen=True)
class SparkSubmitStandIn:
    folder: Path

    @classmethod
    def install(cls, folder: Path) -> SparkSubmitStandIn:
        folder.mkdir()
        program = folder / "spark-submit"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        stand_in = cls(folder)
        stand_in.answer()
        return stand_in

    def answer(
        self,
        *reports: RunReport,
        failures: tuple[Failure, ...] = (),
        error: dict[str, Any] | None = None,
        status: int | None = None,
    ) -> None:
        """End with this outcome; ``{run_id}`` in it becomes the application's id."""
        outcome = JobOutcome("{run_id}", reports, failures, error)
        failed = bool(failures or error)
        self.leave(outcome.to_json(), status=int(failed) if status is None else status)

    def leave(
        self,
        outcome: str | None,
        status: int = 0,
        *,
        killed: bool = False,
        seconds: float = 0,
        letters: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """After so many seconds end with this text as outcome, or with none, and this exit status or by SIGKILL.

        :param letters: to the worker, by file name, written in this order before anything else
        """
        answer = {"outcome": outcome, "status": status, "signal": killed, "sleep": seconds, "letters": dict(letters)}
        (self.folder / "answer.json").write_text(json.dumps(answer))

    @property
    def is_running(self) -> bool:
        """Whether the process of the last call is still there."""
        process = Path("/proc", (self.folder / "pid").read_text(), "stat")
        return process.exists() and process.read_text().rpartition(")")[2].split()[0] != "Z"

    @property
    def calls(self) -> list[Call]:
        log = self.folder / "calls.jsonl"
        return [Call(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
