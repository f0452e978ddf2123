"""What the ledger's runs say of a target's rows, in layers: wherever one says something, those below are not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.planning.axes import of_one_kind
from airflow_provider_replacewhere.planning.coverage import MOST_FRAGMENTS, Coverage, Entry, Fragment, Pin
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.states import Ended, Fact, State, Writing
from airflow_provider_replacewhere.planning.words import reason, why
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.region import Region

# Beyond so many ranges, what older runs did is not taken apart any more: it is called stale at most.
MOST_RANGES = 1_000


@dataclass(frozen=True)
class Layer:
    """A fact and where it holds: wherever no layer before it has said something.

    :param proves: whether it says more of rows than that they are not proven, and so has to hold for all of them
    """

    fact: Fact
    region: Region
    proves: bool = False


def layers_of(
    coverage: Coverage, runs: Sequence[Ended], writing: Sequence[Writing], looked: Ended | None
) -> tuple[list[Layer], list[Fact], list[str]]:
    """The layers, failures whose window is not known, and what limits the picture, in words.

    :param runs: the newest end first
    :param looked: the last of them that looked at the target and ended well
    """
    notes: list[str] = []
    if len(coverage.fragments) >= MOST_FRAGMENTS:
        notes.append(
            f"The ledger keeps what {MOST_FRAGMENTS} ranges prove, the newest; it has forgotten older ones, and would "
            "recompute them. One backfill over them makes them one range."
        )
    unplaced: list[Fact] = []
    layers = [Layer(Fact(State.RUNNING, w.words, w.run_id, at=w.since), w.region) for w in writing]
    since = Region.empty()  # what runs that ended well have written later than the one that is looked at
    last_told = max((n for n, run in enumerate(runs) if _tells(run)), default=-1)
    for run in runs[: last_told + 1]:
        if run.report is None:
            fact = _fact(State.FAILED, run, run.error or "it failed")
            if run.window is None:
                unplaced += [fact] if not since.is_everything else []
            elif run.window.has_types_of(since):
                layers.append(Layer(fact, run.window.subtract(since)))
            continue
        written = written_by(run)
        told = list(_told(run, written))
        if not all(of_one_kind([since, written, *(region for _, region in told)])):
            notes.append(f"What happened before run {run.number} speaks of columns that had other types then.")
            break
        layers += [Layer(fact, region.subtract(since)) for fact, region in told]
        since = since.union(Region.everything() if run.entry is None or run.entry.whole else written)
        if since.is_everything:
            break
        if since.size > MOST_RANGES:
            notes.append(f"What happened before run {run.number} is not taken apart: it is in too many pieces.")
            break
    layers = [layer for layer in layers if not layer.region.is_empty]
    return [*layers, *proven(coverage, runs, looked)], unplaced, notes


def _tells(run: Ended) -> bool:
    """Whether a run says more than the coverage does."""
    if run.report is None or run.entry is None:
        return True
    return bool(run.entry.foreign or run.entry.whole or not run.entry.proves or _is_skipped(run.report))


def _told(run: Ended, written: Region) -> Iterator[tuple[Fact, Region]]:
    """What one run that ended well says besides what it proves."""
    report, entry = run.report, run.entry
    assert report is not None
    if entry is None:
        yield _fact(State.STALE, run, "its report does not say what it proves"), Region.everything()
        return
    for change in entry.foreign:
        region = Region.everything() if change is None else change
        rest = region.subtract(written) if region.has_types_of(written) else region
        yield _fact(State.FOREIGN, run, f"{_others(report)}, by somebody else"), rest
    if report.mode is Mode.UNDO:
        yield _fact(State.STALE, run, "; ".join(why(report))), written
    elif not entry.proves:
        yield _fact(State.STALE, run, f"recomputed, but nothing proves it: {'; '.join(why(report))}"), written
    elif _is_skipped(report):
        yield _fact(State.STALE, run, f"left alone by run {run.number}: {'; '.join(why(report))}"), _skipped(run, entry)
    if entry.whole:
        emptied = Region.everything().subtract(written)
        yield _fact(State.MISSING, run, f"emptied by the full refresh of run {run.number}"), emptied


def written_by(run: Ended) -> Region:
    """What a run left equal to its query or may have touched."""
    entry = run.entry
    if entry is None:
        return Region.everything()
    found = entry.bound if entry.region is None else entry.region
    return Region.everything() if found is None else found


def _is_skipped(report: RunReport) -> bool:
    return report.mode is Mode.NO_OP and any(str(r["reason"]).endswith("_SKIPPED") for r in report.reasons)


def _skipped(run: Ended, entry: Entry) -> Region:
    """What a run knew to be stale and left alone."""
    report = run.report
    assert report is not None
    try:
        window = parse_predicate(report.window, dict(report.window_types), report.time_zone)
    except PredicateError:
        return Region.empty()
    if entry.region is None or not window.has_types_of(entry.region):
        return window
    return window.subtract(entry.region)


def _others(report: RunReport) -> str:
    named = [reason(r) for r in report.reasons if r["reason"] == "EXTERNAL_CHANGE_IN_REPLACE_WINDOW"]
    commits = (report.planning_information.get("target_table_information") or {}).get("commits_of_others") or ()
    named += [f"{commit['operation']} at version {commit['version']}" for commit in commits if not named]
    return ", ".join(named) or "a commit"


# -- what is proven


def proven(coverage: Coverage, runs: Sequence[Ended], looked: Ended | None) -> Iterator[Layer]:
    """The coverage's fragments as layers: whatever is not proven for the newest state that is known comes first."""
    newest = newest_pins(coverage, runs, looked)
    definition = definition_of(looked)
    by_run = {run.run_id: run for run in runs}
    unchecked: list[Layer] = []
    fresh: list[Layer] = []
    # The newest first: what came last is said first where a projection lets two fragments meet.
    for fragment in reversed(coverage.fragments):
        run = by_run.get(fragment.run_id)
        if definition is None or fragment.definition_hash != definition:
            text = "computed by another definition than that of the last run that looked"
            yield Layer(_of_fragment(State.STALE, fragment, run, text), fragment.region)
        elif dict(fragment.sources) != newest:
            text = f"since then seen: {_seen_since(fragment, newest)}"
            unchecked.append(Layer(_of_fragment(State.UNCHECKED, fragment, run, text), fragment.region, True))
        else:
            text = "equal to the query over these versions of its sources"
            fresh.append(Layer(_of_fragment(State.FRESH, fragment, run, text), fragment.region, True))
    yield from unchecked
    yield from fresh


def newest_pins(coverage: Coverage, runs: Sequence[Ended], looked: Ended | None) -> dict[str, Pin]:
    """By source of the last run that looked, the newest version that anybody has seen.

    A run that was recorded late, or looked at another part, may have seen more than the last one: then nothing that
    was computed from less is called fresh.
    """
    entry = looked.entry if looked else None
    if entry is None:
        return {}
    newest = dict(entry.sources)
    seen = [fragment.sources for fragment in coverage.fragments]
    seen += [run.entry.sources for run in runs if run.entry is not None]
    for sources in seen:
        for name, pin in sources.items():
            known = newest.get(name)
            if known is not None and known.table_id == pin.table_id and pin.version > known.version:
                newest[name] = pin
    return newest


def definition_of(looked: Ended | None) -> str | None:
    """The newest definition that is known, as the coverage names it."""
    if looked is None or looked.report is None:
        return None
    return looked.report.definition_hash if looked.entry is None else looked.entry.definition_hash


def _seen_since(fragment: Fragment, newest: Mapping[str, Pin]) -> str:
    parts = []
    for name in sorted({*fragment.sources, *newest}):
        before, now = fragment.sources.get(name), newest.get(name)
        if before == now:
            continue
        if now is None:
            parts.append(f"{name} is not read any more")
        elif before is None:
            parts.append(f"{name} is read too")
        elif before.table_id != now.table_id:
            parts.append(f"{name} is another table")
        else:
            parts.append(f"{name} at version {now.version}")
    return ", ".join(parts)


def _fact(state: State, run: Ended, text: str) -> Fact:
    sources = {} if run.entry is None else {name: pin.version for name, pin in run.entry.sources.items()}
    return Fact(state, text, run.run_id, run.number, run.at, sources)


def _of_fragment(state: State, fragment: Fragment, run: Ended | None, text: str) -> Fact:
    sources = {name: pin.version for name, pin in fragment.sources.items()}
    return Fact(state, text, fragment.run_id, run.number if run else None, run.at if run else None, sources)
