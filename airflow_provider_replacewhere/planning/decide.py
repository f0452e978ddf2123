"""How much a run replaces, and the reasons that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_replacewhere.planning.report import Mode


@dataclass(frozen=True)
class Facts:
    """What the driver knows of one run before it decides.

    :param source_versions: by name, the version read; None where it has none
    :param target_exists: whether there is a target already
    :param override: the predicate that stands in for the flow's own, as written
    :param evaluated: non-deterministic parts of the predicate, with this run's values
    """

    window: str
    definition_hash: str
    source_versions: Mapping[str, int | None]
    target_exists: bool
    target_version: int | None
    override: str | None = None
    evaluated: Mapping[str, str] = field(default_factory=dict)
    full_refresh: bool = False


@dataclass(frozen=True)
class Decision:
    """The mode of a run and why, each reason with the data behind it."""

    mode: Mode
    reasons: tuple[Mapping[str, Any], ...]


def decide(facts: Facts, previous: Mapping[str, Any] | None) -> Decision:
    """What a run does, given what the last successful one did.

    The whole window is recomputed, always; the reasons say what has changed since.

    :param previous: the last successful run's report as JSON, or None
    """
    mode = Mode.FULL_REFRESH if facts.full_refresh else Mode.FULL_RECOMPUTE
    return Decision(mode, tuple(_reasons(facts, previous)) or ({"reason": "WINDOW_ALWAYS_RECOMPUTED"},))


def _reasons(facts: Facts, previous: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = []
    if facts.full_refresh:
        reasons.append({"reason": "FULL_REFRESH_REQUESTED"})
    if facts.override is not None:
        reasons.append({"reason": "PREDICATE_OVERRIDE", "predicate": facts.override})
    if facts.evaluated:
        reasons.append({"reason": "REPLACE_WHERE_NOT_DETERMINISTIC", "evaluated": dict(facts.evaluated)})
    reasons += [
        {"reason": "SOURCE_NOT_VERSIONED", "table": name}
        for name, version in facts.source_versions.items()
        if version is None
    ]
    if previous is None or not facts.target_exists:
        return [{"reason": "FIRST_REFRESH"}, *reasons]
    if previous["definition_hash"] != facts.definition_hash:
        reasons.append({"reason": "QUERY_FINGERPRINT_CHANGED", "previous": previous["definition_hash"]})
    if previous["evaluated"]:
        reasons.append({"reason": "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC", "evaluated": dict(previous["evaluated"])})
    before = previous["source_versions"]
    reasons += [
        {"reason": "SOURCE_CHANGED", "table": name, "from_version": before.get(name), "to_version": version}
        for name, version in facts.source_versions.items()
        if version is not None and before.get(name) != version
    ]
    if previous["window"] != facts.window and facts.override is None:
        reasons.append({"reason": "WINDOW_MOVED", "previous_window": previous["window"]})
    return reasons


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
