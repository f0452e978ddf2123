"""What of a run is worth telling a person at once, beside its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_replacewhere.planning.decide import Reason
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.words import reason as in_words


class EventKind(StrEnum):
    """What happened."""

    WINDOW_WIDENED = "window_widened"
    FOREIGN_CHANGE = "foreign_change"
    FELL_BACK_TO_FULL = "fell_back_to_full"
    RUN_ADOPTED = "run_adopted"
    SKIPPED_REGION_HELD = "skipped_region_held"
    SKIPPED_EMPTY_RESULT = "skipped_empty_result"


_BY_REASON = {
    Reason.WINDOW_WIDENED: EventKind.WINDOW_WIDENED,
    Reason.EXTERNAL_CHANGE_IN_REPLACE_WINDOW: EventKind.FOREIGN_CHANGE,
    Reason.REGION_HELD_SKIPPED: EventKind.SKIPPED_REGION_HELD,
    Reason.EMPTY_RESULT_SKIPPED: EventKind.SKIPPED_EMPTY_RESULT,
}

# Somebody wanted the whole window.
_ASKED = (Reason.FIRST_REFRESH, Reason.FULL_RECOMPUTE_REQUESTED, Reason.PREDICATE_OVERRIDE)

# Nothing is known to be stale, but what is fresh cannot be told. Those of sources, and of others' changes, say so by
# a cause: for some of them a part of the window was found all the same, and then it says by what.
_NOT_TOLD = (
    Reason.REPLACE_WHERE_NOT_DETERMINISTIC,
    Reason.PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC,
    Reason.UNSUPPORTED_REPLACE_WHERE_PREDICATE,
    Reason.QUERY_NOT_DETERMINISTIC,
    Reason.SOURCE_NOT_VERSIONED,
    Reason.SOURCE_REPLACED,
    Reason.SOURCE_HISTORY_UNAVAILABLE,
    Reason.TOO_MANY_CHANGES,
)


@dataclass(frozen=True)
class Event:
    """Something that happened in the runs of one flow: of a backfill in chunks one for all of them.

    :param run_id: of the first run that it happened in
    :param runs: in how many it happened
    :param reasons: what is behind it, as in the reports
    """

    kind: EventKind
    flow: str
    target: str
    run_id: str
    mode: Mode
    window: str
    replaced: str | None
    runs: int
    reasons: tuple[Mapping[str, Any], ...]
    message: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values only."""
        return {
            "event": str(self.kind),
            "flow": self.flow,
            "target": self.target,
            "run_id": self.run_id,
            "mode": str(self.mode),
            "window": self.window,
            "replaced": self.replaced,
            "runs": self.runs,
            "reasons": [dict(reason) for reason in self.reasons],
            "message": self.message,
        }


def events(reports: Iterable[RunReport]) -> list[Event]:
    """What happened in the runs of one application, in their order. A plan does nothing, so nothing happens in it."""
    happened: dict[tuple[str, EventKind], list[tuple[RunReport, Sequence[Mapping[str, Any]]]]] = {}
    for report in reports:
        if not report.dry_run:
            for kind, reasons in _kinds(report).items():
                happened.setdefault((report.flow, kind), []).append((report, reasons))
    return [_event(kind, runs) for (_, kind), runs in happened.items()]


def fell_back(report: RunReport) -> Sequence[Mapping[str, Any]]:
    """The reasons for which a run recomputed a whole window that nobody had asked for, and that may be fresh in part.

    Empty where it did not. A run with another definition recomputes all of its window too, but has to.
    """
    if report.mode is not Mode.FULL_RECOMPUTE or any(reason["reason"] in _ASKED for reason in report.reasons):
        return ()
    return [
        reason
        for reason in report.reasons
        if reason["reason"] in _NOT_TOLD or ("cause" in reason and "found_by" not in reason)
    ]


def _kinds(report: RunReport) -> dict[EventKind, list[Mapping[str, Any]]]:
    found: dict[EventKind, list[Mapping[str, Any]]] = {}
    for reason in report.reasons:
        kind = _BY_REASON.get(reason["reason"])
        if kind is not None:
            found.setdefault(kind, []).append(reason)
    if fallback := fell_back(report):
        found[EventKind.FELL_BACK_TO_FULL] = list(fallback)
    if report.adopted is not None:
        found[EventKind.RUN_ADOPTED] = []
    return found


def _event(kind: EventKind, runs: Sequence[tuple[RunReport, Sequence[Mapping[str, Any]]]]) -> Event:
    first = runs[0][0]
    reasons = tuple(_once(reason for _, of_run in runs for reason in of_run))
    return Event(
        kind=kind,
        flow=first.flow,
        target=first.target,
        run_id=first.run_id,
        mode=first.mode,
        window=first.window,
        replaced=first.replaced,
        runs=len(runs),
        reasons=reasons,
        message=_message(kind, first, reasons),
    )


def _once(reasons: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    seen: list[Mapping[str, Any]] = []
    for reason in reasons:
        if reason not in seen:
            seen.append(reason)
            yield reason


def _message(kind: EventKind, report: RunReport, reasons: Sequence[Mapping[str, Any]]) -> str:
    why = "; ".join(in_words(reason) for reason in reasons)
    match kind:
        case EventKind.WINDOW_WIDENED:
            return f"The window of {report.target} has become wider: {why}"
        case EventKind.FOREIGN_CHANGE:
            return f"Somebody else has changed {report.target} inside the window: {why}"
        case EventKind.FELL_BACK_TO_FULL:
            return f"The whole window of {report.target} was recomputed, for it cannot be told what is fresh: {why}"
        case EventKind.RUN_ADOPTED:
            return f"{report.target} was written by an earlier try, {report.adopted}: nothing was written again"
        case EventKind.SKIPPED_REGION_HELD:
            return f"{report.target} was left alone, because another run writes a part of the window: {why}"
        case EventKind.SKIPPED_EMPTY_RESULT:
            return f"{report.target} was left alone, because the query gives no row for the window"
