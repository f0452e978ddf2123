"""``python -m tests.spark.differential --scenarios 2000 --seed 1``: play random worlds and judge every run.

On a fault the story is printed, and a script of it, cut down, is kept in ``build/differential``; ``--replay FILE``
plays it again. Exit status 1 when there was one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.spark.differential.found import shown
from tests.spark.differential.many import Told, explore, own_stage
from tests.spark.differential.script import Script
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import FLOWS, STEPS


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

    started = time.monotonic()

    def on_world(told: Told, tally: Tally) -> None:
        spent = time.monotonic() - started
        print(f"world {told.number}: {tally.scenarios} scenarios, {tally.wrong} mismatches, {spent:.0f} s", flush=True)
        for story in told.stories:
            print(f"\n{story}\n", flush=True)

    print(
        f"seed {options.seed}: worlds of {FLOWS} flows and {STEPS} steps, {options.processes} processes, "
        f"{os.cpu_count()} cores",
        flush=True,
    )
    tally = explore(
        options.seed,
        options.scenarios,
        processes=options.processes,
        numbers=options.world,
        seconds_to_shrink=options.shrink,
        most_faults=options.faults,
        on_world=on_world,
    )
    print("\n".join(tally.lines()))
    spent = time.monotonic() - started
    print(f"{spent:.0f} s, {spent / max(1, tally.scenarios):.2f} s a scenario")
    return 1 if tally.wrong else 0


def _replay(script: Script) -> int:
    played = own_stage().play(script)
    for wrong in played.wrong:
        print(shown(script, wrong))
    tally = Tally()
    tally.add(played)
    print("\n".join(tally.lines()))
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
