"""What the events of a task's outlets tell those who wait for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Asset, AssetAlias

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.operators.summary import asset_extra, concerned
from airflow_provider_replacewhere.operators.versions import airflow_line
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_replacewhere.planning.report import RunReport

ASSET_URI = "replacewhere://tables/{table}"
"""Of a table as an asset, where the author says nothing else."""


def uri_of(pattern: str, table: str) -> str:
    """The URI of a table's asset.

    :param pattern: in which ``{table}`` stands for the table's name
    """
    return pattern.format(table=table.replace("`", ""))


def check_asset_uri(pattern: str) -> None:
    """:raises RequestError: no table's URI can be made from it"""
    try:
        uri_of(pattern, "table")
    except (AttributeError, LookupError, ValueError) as error:
        raise RequestError(
            f"asset_uri is {shown(pattern)}, which gives no URI: {error!r}.",
            hint="Write {table} where the table's name belongs, and no other braces.",
        ) from error


def tell_outlets(
    context: Context,
    outlets: Iterable[Any],
    asset_uri: str,
    reports: Sequence[RunReport],
    partition_keys: str | None,
    warn: Callable[..., None],
) -> None:
    """Put what was written into the events that Airflow makes of the outlets when the task ends well.

    An asset gets an event in any case, with what was written as extra, or one for each partition key. An alias gets one
    for each table that was written, and none where nothing was.

    :param partition_keys: the unit that partitions are named by; None: events have no keys
    :param warn: a logger's, to which it is said when there are no keys
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            for target in dict.fromkeys(report.target for report in reports):
                of_target = [report for report in reports if report.target == target]
                extra = asset_extra(target, "", of_target)
                if extra is not None and _is_about(outlet.name, target, reports):
                    asset = Asset(uri_of(asset_uri, target))
                    context["outlet_events"][outlet].add(asset, extra=_of_alias(extra))
        elif isinstance(outlet, Asset):
            name = getattr(outlet, "name", "")
            extra = asset_extra(name, outlet.uri, reports)
            if extra is None:
                continue
            event = context["outlet_events"][outlet]
            event.extra = extra
            if partition_keys is not None:
                _add_partitions(event, concerned(name, outlet.uri, reports), partition_keys, warn)


def _add_partitions(event: Any, reports: Sequence[RunReport], unit: str, warn: Callable[..., None]) -> None:
    # Imported here because no Dag file needs it.
    from airflow_provider_replacewhere.planning.partitions import keys_of

    if not hasattr(event, "add_partitions"):
        warn("  partition_keys: this Airflow's events have none; that takes 3.3")
        return
    try:
        event.add_partitions(keys_of(reports, unit))
    except RequestError as error:
        warn("  partition_keys: the event has none. %s", error)


def _of_alias(extra: dict[str, Any]) -> dict[str, Any]:
    """The extra of an alias' event: up to 3.0, Airflow takes only values for it that have a hash, so a list is text."""
    if airflow_line() not in ("2", "3.0"):
        return extra
    return {key: json.dumps(value) for key, value in extra.items()}


def _is_about(alias: str, target: str, reports: Sequence[RunReport]) -> bool:
    """Whether an alias is about a target: one that is called like a target is about that one only."""
    names = {report.target.replace("`", "").lower() for report in reports}
    return alias.lower() not in names or alias.lower() == target.replace("`", "").lower()
