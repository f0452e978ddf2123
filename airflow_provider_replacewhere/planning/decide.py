"""How much of its window a run recomputes, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_replacewhere.errors import PlanRefusedError
from airflow_provider_replacewhere.planning.coverage import Coverage, Fragment, Pin
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.predicates.region import Region

# A condition with more ranges than this costs Catalyst more than it saves.
MOST_RANGES = 200


class Reason(StrEnum):
    """Why a run recomputes what it does, in the words of the original where it has one."""

    REGION_HELD_SKIPPED = "REGION_HELD_SKIPPED"
    EMPTY_RESULT_SKIPPED = "EMPTY_RESULT_SKIPPED"
    FULL_REFRESH_REQUESTED = "FULL_REFRESH_REQUESTED"
    FULL_RECOMPUTE_REQUESTED = "FULL_RECOMPUTE_REQUESTED"
    FIRST_REFRESH = "FIRST_REFRESH"
    PREDICATE_OVERRIDE = "PREDICATE_OVERRIDE"
    REPLACE_WHERE_NOT_DETERMINISTIC = "REPLACE_WHERE_NOT_DETERMINISTIC"
    PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC = "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC"
    UNSUPPORTED_REPLACE_WHERE_PREDICATE = "UNSUPPORTED_REPLACE_WHERE_PREDICATE"
    QUERY_NOT_DETERMINISTIC = "QUERY_NOT_DETERMINISTIC"
    QUERY_FINGERPRINT_CHANGED = "QUERY_FINGERPRINT_CHANGED"
    SOURCE_NOT_VERSIONED = "SOURCE_NOT_VERSIONED"
    SOURCE_CHANGED = "SOURCE_CHANGED"
    SOURCE_REPLACED = "SOURCE_REPLACED"
    SOURCE_HISTORY_UNAVAILABLE = "SOURCE_HISTORY_UNAVAILABLE"
    EXTERNAL_CHANGE_IN_REPLACE_WINDOW = "EXTERNAL_CHANGE_IN_REPLACE_WINDOW"
    WINDOW_WIDENED = "WINDOW_WIDENED"
    TOO_MANY_CHANGES = "TOO_MANY_CHANGES"


# Found in a source, and with a cause for which more may be recomputed than need be.
_OF_SOURCES = (Reason.SOURCE_CHANGED, Reason.SOURCE_HISTORY_UNAVAILABLE)


@dataclass(frozen=True)
class ForeignChange:
    """What someone else did to the target since the last run.

    :param region: the rows that may have changed; None: any
    """

    version: int
    operation: str
    region: Region | None


@dataclass(frozen=True)
class SourceChange:
    """What the commits between two versions of a source did.

    :param data: what else is to be said of it
    :param region: the rows of the window that they may have changed; None: any
    """

    reason: Reason
    data: Mapping[str, Any] = field(default_factory=dict)
    region: Region | None = None


Changes = Callable[[str, Mapping[str, Pin]], SourceChange | None]
"""What changed in a source since a run read all sources at these versions; None where no row did."""


@dataclass(frozen=True)
class Facts:
    """What is known of one run before it decides.

    :param window: the window as SQL
    :param region: the window as a region; with an opaque rest where it is no exact one
    :param pins: by name, the version of each source that is read; None for one that has none
    :param coverage: what the ledger proves, as of its own last look at the target
    :param foreign: what others changed in the target since that look; None: that cannot be told
    :param previous: the last run that ended well, as its report's JSON
    :param override: the predicate that stands in for the flow's own, as written
    :param evaluated: parts of the predicate that are not deterministic, with this run's values
    :param changes: asked for sources that are at another version than they were
    :param only_stale: whether an override recomputes only what is stale, as other runs do
    """

    window: str
    region: Region
    definition_hash: str
    pins: Mapping[str, Pin | None]
    target_exists: bool = True
    target_id: str | None = None
    target_version: int | None = None
    coverage: Coverage = field(default_factory=Coverage)
    foreign: tuple[ForeignChange, ...] | None = ()
    previous: Mapping[str, Any] | None = None
    override: str | None = None
    evaluated: Mapping[str, str] = field(default_factory=dict)
    query_is_deterministic: bool = True
    full_refresh: bool = False
    only_stale: bool = False
    changes: Changes = lambda *_: SourceChange(Reason.SOURCE_CHANGED)


@dataclass(frozen=True)
class Decision:
    """What a run does.

    :param stale: what is recomputed; None where that is the window as it stands, or the whole table
    :param fresh: what of the window is proven fresh
    :param reasons: each ``{"reason": NAME, …the data behind it}``
    """

    mode: Mode
    reasons: tuple[Mapping[str, Any], ...]
    stale: Region | None = None
    fresh: Region = field(default_factory=Region)


def decide(facts: Facts, policy: str = "auto") -> Decision:
    """The mode of a run, the region that it replaces, and the reasons.

    :param policy: ``auto``; ``incremental`` narrows even where that costs more than it saves; ``incremental_strict``
        refuses to recompute what may well be fresh; ``full`` recomputes the whole window
    :raises PlanRefusedError: the policy is ``incremental_strict`` and the whole window would be recomputed because
        something is unknown
    """
    if facts.full_refresh:
        return Decision(Mode.FULL_REFRESH, (_because(Reason.FULL_REFRESH_REQUESTED),))
    doubts = _doubts(facts)
    known = facts.coverage.without(change.region for change in facts.foreign or ())
    if facts.foreign is None or known.target_id != facts.target_id:
        known = Coverage()
    stale, findings = _stale(facts, known)
    fresh = facts.region.subtract(stale) if facts.region.is_exact else Region()
    reasons = (*doubts, *findings)
    unasked = [doubt for doubt in doubts if doubt["reason"] not in (Reason.PREDICATE_OVERRIDE, Reason.FIRST_REFRESH)]
    unasked += [_unknown(facts)] if facts.foreign is None else []
    unasked += [
        found for found in findings if found["reason"] in _OF_SOURCES and {"cause"} == {*found} & {"cause", "found_by"}
    ]
    if policy == "incremental_strict" and unasked:
        raise PlanRefusedError(
            f"The whole of {facts.window} would be recomputed, because {_in_words(unasked)}.",
            hint="Remove the cause, or run it with refresh_policy='auto'.",
        )
    if policy == "full":
        reasons = (_because(Reason.FULL_RECOMPUTE_REQUESTED), *reasons)
    elif not doubts:
        if stale.is_empty:
            return Decision(Mode.NO_OP, (), stale, fresh)
        if not fresh.is_empty and (stale.size <= MOST_RANGES or policy != "auto"):
            return Decision(Mode.INCREMENTAL, reasons, stale, fresh)
        if not fresh.is_empty:
            reasons += (_because(Reason.TOO_MANY_CHANGES, ranges=stale.size, most=MOST_RANGES),)
    return Decision(Mode.FULL_RECOMPUTE, reasons, None, fresh)


def _doubts(facts: Facts) -> list[dict[str, Any]]:
    """Reasons for which the whole window is recomputed, whatever the ledger says."""
    doubts = []
    if _is_first(facts):
        doubts.append(_because(Reason.FIRST_REFRESH))
    if facts.override is not None and not facts.only_stale:
        doubts.append(_because(Reason.PREDICATE_OVERRIDE, predicate=facts.override))
    if facts.evaluated:
        doubts.append(_because(Reason.REPLACE_WHERE_NOT_DETERMINISTIC, evaluated=dict(facts.evaluated)))
    if facts.previous and facts.previous["evaluated"]:
        evaluated = dict(facts.previous["evaluated"])
        doubts.append(_because(Reason.PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC, evaluated=evaluated))
    if not facts.region.is_exact:
        doubts.append(_because(Reason.UNSUPPORTED_REPLACE_WHERE_PREDICATE, predicate=facts.window))
    if not facts.query_is_deterministic:
        doubts.append(_because(Reason.QUERY_NOT_DETERMINISTIC))
    doubts += [_because(Reason.SOURCE_NOT_VERSIONED, table=name) for name, pin in facts.pins.items() if pin is None]
    return doubts


def _stale(facts: Facts, known: Coverage) -> tuple[Region, list[dict[str, Any]]]:
    """What of the window is not proven fresh, and what was found of each part of it."""
    window = facts.region
    stale, findings = window, []
    changed: dict[tuple[str, ...], dict[str, Any]] = {}
    for fragment in known.comparable(window):
        overlap = fragment.region.intersect(window)
        if overlap.is_empty:
            continue
        proven = overlap
        for reason, region in _why_stale(facts, fragment):
            part = overlap if region is None else overlap.intersect(region)
            if part.is_empty:
                continue
            proven = proven.subtract(part)
            key = tuple(str(v) for v in reason.values())
            found = changed.setdefault(key, {**reason, "region": Region()})
            found["region"] = found["region"].union(part)
        stale = stale.subtract(proven)
    findings += [{**found, "region": found["region"].to_sql()} for found in changed.values()]
    for change in facts.foreign or ():
        inside = window if change.region is None else window.intersect(change.region)
        if not inside.is_empty:
            findings.append(
                _because(
                    Reason.EXTERNAL_CHANGE_IN_REPLACE_WINDOW,
                    version=change.version,
                    operation=change.operation,
                    region=inside.to_sql(),
                )
            )
    if facts.target_exists and (facts.foreign is None or facts.coverage.target_id not in (None, facts.target_id)):
        findings.append(_unknown(facts))
    exposed = facts.coverage.gaps(window)
    if not exposed.is_empty and not _is_first(facts):
        findings.append(_because(Reason.WINDOW_WIDENED, newly_exposed=exposed.to_sql()))
    return stale, findings


def _why_stale(facts: Facts, fragment: Fragment) -> Iterator[tuple[dict[str, Any], Region | None]]:
    """What keeps a fragment, or a region of it, from being fresh; None stands for all of it."""
    if fragment.definition_hash != facts.definition_hash or set(fragment.sources) != set(facts.pins):
        yield _because(Reason.QUERY_FINGERPRINT_CHANGED, previous=fragment.definition_hash), None
        return
    for name, now in facts.pins.items():
        before = fragment.sources[name]
        if now is None:
            yield _because(Reason.SOURCE_NOT_VERSIONED, table=name), None
        elif before.table_id != now.table_id:
            yield _because(Reason.SOURCE_REPLACED, table=name, to_version=now.version), None
        elif before != now and (change := facts.changes(name, fragment.sources)) is not None:
            versions = {"from_version": before.version, "to_version": now.version}
            yield _because(change.reason, table=name, **versions, **change.data), change.region


def _unknown(facts: Facts) -> dict[str, Any]:
    return _because(
        Reason.EXTERNAL_CHANGE_IN_REPLACE_WINDOW,
        region=facts.region.to_sql(),
        cause="the target's log does not reach back to the last run, or it is another table by now",
    )


def _is_first(facts: Facts) -> bool:
    return not facts.target_exists or facts.previous is None


def _because(reason: Reason, **data: Any) -> dict[str, Any]:
    return {"reason": str(reason), **data}


def _in_words(reasons: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(str(reason["reason"]) + _data(reason) for reason in reasons)


def _data(reason: Mapping[str, Any]) -> str:
    data = ", ".join(f"{key}={value}" for key, value in reason.items() if key != "reason")
    return f" ({data})" if data else ""


def planning_information(
    decision: Decision,
    sources: Sequence[Mapping[str, Any]],
    target: Mapping[str, Any],
) -> dict[str, Any]:
    """The ``planning_information`` event, in the shape that users of the original know."""
    return {
        "technique_information": [
            {
                "maintenance_type": str(decision.mode),
                "is_chosen": True,
                "is_applicable": True,
                "incrementalization_issues": [
                    {"issue_type": reason["reason"], **{k: v for k, v in reason.items() if k != "reason"}}
                    for reason in decision.reasons
                ],
            }
        ],
        "source_table_information": [dict(source) for source in sources],
        "target_table_information": dict(target),
    }
