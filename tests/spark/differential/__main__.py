"""``python -m tests.spark.differential --scenarios 2000 --seed 1``: play random worlds and judge every run.

On a fault the story is printed, and a script of it, cut down, is kept in ``build/differential``; ``--replay FILE``
plays it again. Exit status 1 when there was one.
"""

from __future__ import annotations

import argparse
import atexit
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_replacewhere.local import create_spark_session
from tests.spark.differential.found import shown
from tests.spark.differential.play import SETTINGS, Played, Scenario, Stage
from tests.spark.differential.script import Script
from tests.spark.differential.shrink import shrink
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import FLOWS, STEPS, world

KEPT = Path("build/differential")

_open = ExitStack()
_stage: list[Stage] = []


def prepare() -> Stage:
    """This process's stage, made on first use."""
    if not _stage:
        spark = create_spark_session(**SETTINGS)
        spark.sparkContext.setLogLevel("OFF")
        _stage.append(_open.enter_context(Stage.at(spark)))
        atexit.register(_open.close)
    return _stage[0]


def play(seed: int, number: int, shrink_for: float) -> tuple[int, Played, list[str]]:
    """Play one world; its faults as text, the first of them cut down as well."""
    stage, script = prepare(), world(seed, number)
    played = stage.play(script)
    stories = [f"seed {seed}, world {number}\n{shown(script, wrong)}" for wrong in played.wrong]
    if played.wrong and shrink_for:
        stories.append(_cut_down(stage, script, played.wrong[0], f"seed-{seed}-world-{number}", shrink_for))
    # The rows of a fault have been told; sessions do not travel between processes.
    told = [Scenario(s.flow, s.step, s.label, s.outcome, s.first, s.faults, s.rows) for s in played.scenarios]
    return number, Played(told, played.skipped, played.applied), stories


def _cut_down(stage: Stage, script: Script, wrong: Scenario, name: str, seconds: float) -> str:
    smaller, still = shrink(stage, script, wrong, seconds)
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{name}.json"
    file.write_text(smaller.to_json(), encoding="utf-8")
    return f"CUT DOWN, kept in {file}\n{shown(smaller, still)}"


def _worlds(options: argparse.Namespace) -> Iterator[tuple[int, Played, list[str]]]:
    numbers = iter(options.world or range(options.scenarios))  # each world has some scenarios
    if options.processes == 1:
        for number in numbers:
            yield play(options.seed, number, options.shrink)
        return
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:

        def start() -> set[Future[tuple[int, Played, list[str]]]]:
            number = next(numbers, None)
            return set() if number is None else {pool.submit(play, options.seed, number, options.shrink)}

        running = {future for _ in range(options.processes) for future in start()}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                running |= start()
                try:
                    yield future.result()
                except GeneratorExit:
                    for other in running:
                        other.cancel()
                    raise


def main() -> int:
    """Play until enough scenarios were seen; print the totals."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.differential", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=200, help="at least so many; worlds are played to their end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", type=int, action="append", help="only this world; may be given several times")
    parser.add_argument("--processes", type=int, default=1, help="Spark sessions side by side")
    parser.add_argument(
        "--shrink", type=float, default=180, metavar="SECONDS", help="time to cut a fault down; 0: none"
    )
    parser.add_argument("--faults", type=int, default=5, help="stop after so many worlds with a fault")
    parser.add_argument("--replay", type=Path, help="play the script in this file instead")
    options = parser.parse_args()
    if options.replay:
        return _replay(Script.from_json(options.replay.read_text(encoding="utf-8")))

    tally, started, bad = Tally(), time.monotonic(), []
    print(f"seed {options.seed}: worlds of {FLOWS} flows and {STEPS} steps, on {options.processes} of {os.cpu_count()}")
    worlds = _worlds(options)
    for number, played, stories in worlds:
        tally.add(played)
        spent = time.monotonic() - started
        print(f"world {number}: {tally.scenarios} scenarios, {tally.wrong} mismatches, {spent:.0f} s", flush=True)
        print("\n\n".join(stories), end="\n" if stories else "", flush=True)
        bad += [number] if stories else []
        if (tally.scenarios >= options.scenarios and not options.world) or len(bad) >= options.faults:
            worlds.close()  # type: ignore[attr-defined]
            break
    print("\n".join(tally.lines()))
    spent = time.monotonic() - started
    print(f"{spent:.0f} s, {spent / max(1, tally.scenarios):.2f} s a scenario; worlds with a fault: {bad or 'none'}")
    return 1 if bad else 0


def _replay(script: Script) -> int:
    played = prepare().play(script)
    for wrong in played.wrong:
        print(shown(script, wrong))
    tally = Tally()
    tally.add(played)
    print("\n".join(tally.lines()))
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
