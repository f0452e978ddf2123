"""Cuts a script down to what still shows the fault."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.spark.differential.play import Scenario, Stage
from tests.spark.differential.script import Script, Step, places

_NEXT_ROW = re.compile(r"\), \((?=CAST\()")


def shrink(stage: Stage, script: Script, wrong: Scenario, seconds: float = 180) -> tuple[Script, Scenario]:
    """A smaller script with a fault of the same kind, as far as the time allows."""
    until = time.monotonic() + seconds
    kind = _kind(wrong)
    best, shown = script, wrong

    def still(candidate: Script) -> bool:
        nonlocal best, shown
        if time.monotonic() > until:
            return False
        try:
            found = [s for s in stage.play(candidate, stop=True).wrong if _kind(s) == kind]
        except Exception:  # a script cut too far need not even run
            return False
        if found:
            best, shown = candidate, found[0]
        return bool(found)

    still(_flows_needed(replace(script, steps=script.steps[: wrong.step + 1]), wrong.flow))
    for reductions in (_without_steps, _without_changes, _plainer, _without_rows):
        _exhaust(lambda: best, reductions, still, until)
    return best, shown


def _exhaust(
    now: Callable[[], Script],
    reductions: Callable[[Script], Iterator[Script]],
    still: Callable[[Script], bool],
    until: float,
) -> None:
    progress = True
    while progress and time.monotonic() < until:
        progress = any(still(candidate) for candidate in reductions(now()))


def _kind(scenario: Scenario) -> str:
    return scenario.faults[0].partition(":")[0]


def _flows_needed(script: Script, flow: int) -> Script:
    """The one flow, and those whose targets it reads."""
    needed, names = {flow}, {f.target: i for i, f in enumerate(script.flows)}
    for index in range(flow, -1, -1):
        if index in needed:
            needed |= {
                names[name] for form in script.flows[index].forms for name in places(form.query) if name in names
            }
    kept = sorted(needed)
    targets = {script.flows[i].target for i in kept}

    def step(old: Step) -> Step:
        return replace(
            old,
            changes=tuple(c for c in old.changes if not (set(places(c)) & set(names)) - targets),
            forms=tuple(old.form(i) for i in kept),
            overrides={t: o for t, o in old.overrides.items() if t in targets},
            full_refresh=tuple(t for t in old.full_refresh if t in targets),
            select=tuple(t for t in old.select if t in targets),
        )

    steps = [step(s) for s in script.steps if not s.select or set(s.select) & targets]
    flows = tuple(script.flows[i] for i in kept)
    used = {name for f in flows for form in f.forms for name in places(form.query)}
    return replace(script, flows=flows, steps=tuple(steps), views={n: q for n, q in script.views.items() if n in used})


def _without_steps(script: Script) -> Iterator[Script]:
    steps = script.steps
    for i in range(len(steps) - 1):
        yield replace(script, steps=(*steps[:i], *steps[i + 1 :]))
        merged = replace(steps[i + 1], changes=(*steps[i].changes, *steps[i + 1].changes))
        if steps[i].changes:
            yield replace(script, steps=(*steps[:i], merged, *steps[i + 2 :]))


def _without_changes(script: Script) -> Iterator[Script]:
    for i, step in enumerate(script.steps):
        for j in range(len(step.changes)):
            fewer = replace(step, changes=(*step.changes[:j], *step.changes[j + 1 :]))
            yield replace(script, steps=(*script.steps[:i], fewer, *script.steps[i + 1 :]))
        if step.dies:
            yield replace(script, steps=(*script.steps[:i], replace(step, dies=""), *script.steps[i + 1 :]))


def _plainer(script: Script) -> Iterator[Script]:
    if script.time_zone != "UTC":
        yield replace(script, time_zone="UTC")
    for i, flow in enumerate(script.flows):
        for plainer in (
            replace(flow, expectation=None),
            replace(flow, clauses=""),
            replace(flow, properties={}),
        ):
            if plainer != flow:
                yield replace(script, flows=(*script.flows[:i], plainer, *script.flows[i + 1 :]))
    used = {name for flow in script.flows for form in flow.forms for name in places(form.query)}
    used |= {name for step in script.steps for change in step.changes for name in places(change)}
    used |= {name for query in script.views.values() for name in places(query)}
    for name in script.tables:
        if name not in used:
            yield replace(script, tables={n: s for n, s in script.tables.items() if n != name})


def _without_rows(script: Script) -> Iterator[Script]:
    for name, statement in script.tables.items():
        head, _, rest = statement.partition("FROM VALUES (")
        values, _, tail = rest.rpartition(") AS t(")
        rows = _NEXT_ROW.split(values)
        size = len(rows) // 2
        while size:
            for start in range(0, len(rows), size):
                kept = rows[:start] + rows[start + size :]
                if kept:
                    text = f"{head}FROM VALUES ({'), ('.join(kept)}) AS t({tail}"
                    yield replace(script, tables={**script.tables, name: text})
            size //= 2 if size > 1 else size + 1
