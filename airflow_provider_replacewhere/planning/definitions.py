"""What changed between the definitions that a target was computed by, as far as the reports of its runs tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.states import Ended


@dataclass(frozen=True)
class Difference:
    """One thing that two definitions do not have in common; None: it is not there.

    :param what: in words
    """

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Definition:
    """Runs, one after the other, that computed a target by one definition.

    :param first: the first of them that is known
    :param last: the last of them
    :param runs: how many there are
    :param differences: from the definition before; None where that is not known
    """

    definition_hash: str
    first: Ended
    last: Ended
    runs: int
    differences: tuple[Difference, ...] | None

    @property
    def hidden(self) -> bool:
        """Whether only the hash tells that it differs from the one before: the text of the query is not recorded."""
        return self.differences is not None and not self.differences


def definitions(ended: Sequence[Ended]) -> tuple[Definition, ...]:
    """The definitions, the newest first.

    :param ended: in any order; runs that did not end well, and those that put back what was there before, say nothing
    """
    runs = [run for run in ended if run.report is not None and run.report.mode is not Mode.UNDO]
    runs.sort(key=lambda run: run.order)
    found: list[Definition] = []
    for group in _groups(runs):
        before = found[-1] if found else None
        differences = None if before is None else tuple(_differences(before.last, group[0]))
        report = group[0].report
        assert report is not None
        found.append(Definition(report.definition_hash, group[0], group[-1], len(group), differences))
    return tuple(reversed(found))


def _groups(runs: Sequence[Ended]) -> Iterator[list[Ended]]:
    group: list[Ended] = []
    for run in runs:
        if group and _hash(group[-1]) != _hash(run):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _hash(run: Ended) -> str | None:
    return run.report.definition_hash if run.report else None


def _differences(before: Ended, after: Ended) -> Iterator[Difference]:
    old, new = before.report, after.report
    assert old is not None
    assert new is not None
    for what, one, other in (
        ("time zone", old.time_zone, new.time_zone),
        ("flow", old.flow, new.flow),
        # An override is no part of the definition.
        *((("predicate", old.predicate, new.predicate),) if not (old.override or new.override) else ()),
    ):
        if one != other:
            yield Difference(what, one, other)
    yield from _by_name("source", _sources(old), _sources(new))
    yield from _by_name("type of column", old.window_types, new.window_types)
    yield from _by_name("expectation", _actions(old), _actions(new))
    for name in new.columns_added:
        yield Difference(f"column {name}", None, "added")
    for name in sorted({*(new.unwatched or ())} - {*(old.unwatched or ())}):
        yield Difference("depends on", None, name)
    for name in sorted({*(old.unwatched or ())} - {*(new.unwatched or ())}):
        yield Difference("depends on", name, None)


def _by_name(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield Difference(f"{what} {name}", old.get(name), new.get(name))


def _sources(report: RunReport) -> dict[str, str]:
    """Whether a source is read; its version changes with its rows and is no part of a definition."""
    return dict.fromkeys(report.source_versions, "read")


def _actions(report: RunReport) -> dict[str, str]:
    return {name: str(found.get("action")) for name, found in report.expectations.items()}


def as_json(found: Sequence[Definition]) -> list[dict[str, Any]]:
    """Plain JSON values."""
    return [
        {
            "definition_hash": each.definition_hash,
            "runs": each.runs,
            "first_run": each.first.number,
            "first_at": each.first.at,
            "last_run": each.last.number,
            "last_at": each.last.at,
            "differences": None
            if each.differences is None
            else [{"what": d.what, "before": d.before, "after": d.after} for d in each.differences],
        }
        for each in found
    ]
