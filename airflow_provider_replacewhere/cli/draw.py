"""The verb ``coverage``: the map that the page shows, for terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.cli.show import table
from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.seen import ended, writing
from airflow_provider_replacewhere.planning.document import map_as_json
from airflow_provider_replacewhere.planning.drawing import drawn
from airflow_provider_replacewhere.planning.overview import overview
from airflow_provider_replacewhere.text import printable

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.view import HistoryView

_MOST_GAPS = 30


def coverage_of(
    view: HistoryView, target: str | None, column: str | None, unit: str | None, first: str | None, end: str | None
) -> dict[str, Any]:
    """What is known of a table, as JSON.

    :raises RequestError: the history does not know the table, or knows several and none was named; the unit or one of
        the days is none
    """
    targets = [] if view.is_empty else view.targets()
    names = ", ".join(each.name for each in targets[:20])
    if target is None:
        if len(targets) != 1:
            raise RequestError(
                f"The history at {view.url} knows {len(targets) or 'no'} tables.",
                hint=f"Name one of them with --target: {names}." if targets else "Nothing has been run yet.",
            )
        target = targets[0].name
    known = None if view.is_empty else view.look(target)
    if known is None or not known.runs:
        raise RequestError(
            f"The history at {view.url} does not know the table {target}.",
            hint=f"It knows {names}." if names else "Nothing has been run yet.",
        )
    leases = view.leases(target)
    return map_as_json(target, overview(known.coverage, ended(known.runs), writing(leases), column), unit, first, end)


def coverage_as_text(found: Mapping[str, Any]) -> list[str]:
    """The same to read."""
    looked = found["looked"]
    lines = [printable(str(found["target"]))]
    if looked is None:
        lines.append("No run that ended well is known, so nothing is proven.")
    else:
        sources = ", ".join(f"{name} at version {version}" for name, version in found["sources"].items()) or "no table"
        lines += [
            f"as run {looked['run']} saw it at {looked['at']}, over {sources}.",
            f"Its window: {looked['window']}{' (override)' if looked['override'] else ''}",
        ]
    along = "" if found["column"] is None else f" of {found['column']} ({found['time_zone']})"
    lines += ["", f"{found['unit'].capitalize()}s{along}:", "", *drawn(found)] if found["rows"] else []
    if found["gaps"]:
        rows = [
            [
                *([gap["row"]] if found["rows_by"] else []),
                gap["label"],
                gap["state"],
                _facts(found, gap["facts"]),
            ]
            for gap in found["gaps"][:_MOST_GAPS]
        ]
        lines += ["", *table([*([found["rows_by"]] if found["rows_by"] else []), "not fresh", "is", "why"], rows)]
        more = len(found["gaps"]) - _MOST_GAPS
        lines += [f"… and {more} more; --format json has all."] if more > 0 else []
    lines += [f"failed, its window is not known: run {each['run']}: {each['why']}" for each in found["failures"]]
    return [*lines, *found["notes"]]


def _facts(found: Mapping[str, Any], numbers: list[int]) -> str:
    facts = [found["facts"][number] for number in numbers[:2]]
    return "\n".join(f"{f['why']}" + (f" (run {f['run']})" if f["run"] else "") for f in facts)
