"""Many worlds, in one process or several."""

from __future__ import annotations

import atexit
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from airflow_provider_replacewhere.local import create_spark_session
from tests.spark.differential.found import shown
from tests.spark.differential.play import SETTINGS, Played, Scenario, Stage
from tests.spark.differential.script import Script
from tests.spark.differential.shrink import shrink
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import world

KEPT = Path("build/differential")
"""Where scripts of faults are kept, below the working directory."""

_open = ExitStack()
_stage: list[Stage] = []


@dataclass(frozen=True)
class Told:
    """What one world gave.

    :param stories: its faults as text
    """

    number: int
    played: Played
    stories: tuple[str, ...]


def own_stage() -> Stage:
    """This process's stage, with a Spark session of its own."""
    if not _stage:
        spark = create_spark_session(**SETTINGS)
        spark.sparkContext.setLogLevel("OFF")
        _stage.append(_open.enter_context(Stage.at(spark)))
        atexit.register(_open.close)
    return _stage[0]


def explore(
    seed: int,
    scenarios: int,
    *,
    processes: int = 1,
    numbers: Iterable[int] | None = None,
    seconds_to_shrink: float = 0,
    most_faults: int = 5,
    on_world: Callable[[Told, Tally], None] = lambda told, tally: None,
) -> Tally:
    """Play worlds until enough scenarios were seen, or enough worlds with a fault.

    :param numbers: the worlds to play; by default from 0 on
    :param seconds_to_shrink: time to cut down the first fault of a world; 0: it is not tried
    """
    tally, faulty = Tally(), 0
    with closing(_worlds(seed, numbers, processes, seconds_to_shrink)) as worlds:
        for told in worlds:
            tally.add(told.played)
            faulty += bool(told.stories)
            on_world(told, tally)
            if (numbers is None and tally.scenarios >= scenarios) or faulty >= most_faults:
                break
    return tally


def _worlds(seed: int, chosen: Iterable[int] | None, processes: int, seconds_to_shrink: float) -> Iterator[Told]:
    numbers = iter(chosen if chosen is not None else count())
    if processes == 1:
        for number in numbers:
            yield play(seed, number, seconds_to_shrink)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = set()
        try:
            while True:
                while len(running) < processes and (number := next(numbers, None)) is not None:
                    running.add(pool.submit(play, seed, number, seconds_to_shrink))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def play(seed: int, number: int, seconds_to_shrink: float) -> Told:
    """Play one world on this process's own stage."""
    stage, script = own_stage(), world(seed, number)
    played = stage.play(script)
    stories = [f"seed {seed}, world {number}\n{shown(script, wrong)}" for wrong in played.wrong]
    if played.wrong and seconds_to_shrink:
        name = f"seed-{seed}-world-{number}"
        stories.append(_cut_down(stage, script, played.wrong[0], name, seconds_to_shrink))
    # The rows of a fault have been told; data frames do not travel between processes.
    told = [Scenario(s.flow, s.step, s.label, s.outcome, s.first, s.faults, s.rows) for s in played.scenarios]
    return Told(number, Played(told, played.skipped, played.applied, played.killed), tuple(stories))


def _cut_down(stage: Stage, script: Script, wrong: Scenario, name: str, seconds: float) -> str:
    smaller, still = shrink(stage, script, wrong, seconds)
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{name}.json"
    file.write_text(smaller.to_json(), encoding="utf-8")
    return f"CUT DOWN, kept in {file}\n{shown(smaller, still)}"
