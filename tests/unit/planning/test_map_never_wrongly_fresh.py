"""Random histories of one target: whatever the map calls fresh is what the query gave where the last run looked.

The machine is that of :mod:`.test_never_wrongly_fresh`, with a look at the map after each step; and it is shown to find
ways of drawing the map wrongly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from airflow_provider_replacewhere.planning import layers
from airflow_provider_replacewhere.planning import overview as module
from airflow_provider_replacewhere.planning.axes import touched
from airflow_provider_replacewhere.planning.overview import overview
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.states import Ended, State
from airflow_provider_replacewhere.predicates.values import Values
from tests.unit.planning.test_never_wrongly_fresh import Histories, logs_in_memory  # noqa: F401 (a fixture)
from tests.unit.planning.warehouse import CELLS, day


class Maps(Histories):
    """The same histories, as the page shows them."""

    @invariant()
    def what_the_map_calls_fresh_is_fresh(self) -> None:
        if not hasattr(self, "house"):
            return
        house, runs = self.house, []
        for number, value in enumerate(house.ledger.values(), start=1):
            at = f"2026-03-10T00:00:{number:06d}+00:00"
            runs.append(Ended(value["run_id"], number, number, at, RunReport.from_json(value)))
        known = overview(house.coverage, runs, column="day")
        target = house.target
        if known.column is None or known.column.name != "day" or known.looked is None or target is None:
            return
        coverage = house.coverage
        if coverage.target_id != target.table_id or coverage.target_version is None:
            return
        entry = known.looked.entry
        if entry is None or "s" not in entry.sources or entry.sources["s"].table_id != house.source.table_id:
            return
        definition = int(entry.definition_hash.removeprefix("definition "))
        wanted = house.answer(definition, house.source.contents[known.sources["s"]])
        held = target.contents[coverage.target_version]
        for row in known.rows:
            for number, region in CELLS:
                if row.row.values is not None and region not in row.row.values:
                    continue
                if _state(known, row, number) is State.FRESH:
                    cell = number, region
                    assert held.get(cell) == wanted.get(cell), f"the map calls {cell} fresh, and it is not"


def _state(known: Any, row: Any, number: int) -> State:
    key = known.column.domain.key(day(number))
    (piece,) = [p for p in row.pieces if (p.low is None or p.low <= key) and (p.high is None or key < p.high)]
    found: State = known.facts[piece.fact].state
    return found


def search(examples: int, phases: tuple[Phase, ...] = (Phase.explicit, Phase.generate)) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Maps,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            phases=phases,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_map_calls_nothing_fresh_that_is_not() -> None:
    search(40, phases=(Phase.generate, Phase.shrink))


# -- the machine finds what it is there to find --


def every_version_is_the_newest(patch: pytest.MonkeyPatch) -> None:
    def proven(coverage: Any, *rest: Any) -> Any:
        last = coverage.fragments[-1].sources if coverage.fragments else {}
        fragments = tuple(replace(fragment, sources=last) for fragment in coverage.fragments)
        return original(replace(coverage, fragments=fragments), *rest)

    original = layers.proven
    patch.setattr(layers, "proven", proven)


def every_definition_is_the_newest(patch: pytest.MonkeyPatch) -> None:
    def proven(coverage: Any, runs: Any, looked: Any) -> Any:
        newest = looked.entry.definition_hash if looked and looked.entry else ""
        fragments = tuple(replace(fragment, definition_hash=newest) for fragment in coverage.fragments)
        return original(replace(coverage, fragments=fragments), runs, looked)

    original = layers.proven
    patch.setattr(layers, "proven", proven)


def some_rows_are_all_rows(patch: pytest.MonkeyPatch) -> None:
    def filled(region: Any, _slab: Any, axis: Any) -> Values:
        return touched(region, axis)

    patch.setattr(module, "filled", filled)
    patch.setattr(module, "rows_of", lambda *_: (module.Row("all"),))


@pytest.mark.parametrize(
    "broken", [every_version_is_the_newest, every_definition_is_the_newest, some_rows_are_all_rows]
)
def test_a_map_that_is_drawn_wrongly_is_found_out(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError, match="the map calls"):
        search(300)
