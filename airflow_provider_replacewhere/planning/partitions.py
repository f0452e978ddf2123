"""The days, weeks, months or years that runs replaced, as keys of Airflow's asset partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.errors import PredicateError, RequestError
from airflow_provider_replacewhere.planning.axes import TIMES, Axis, touched
from airflow_provider_replacewhere.planning.calendar import UNITS, day_of, next_start
from airflow_provider_replacewhere.planning.words import plain
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow_provider_replacewhere.planning.report import RunReport
    from airflow_provider_replacewhere.predicates.domains import Domain, Key
    from airflow_provider_replacewhere.predicates.region import Region

FORMAT = "%Y-%m-%dT%H:%M:%S"
"""As Airflow's own ``CronPartitionTimetable`` writes a key and its mappers of times read one."""
MOST_KEYS = 1_000
"""Airflow makes an event, and may make a Dag run, for each."""


def check_partition_keys(unit: str) -> None:
    """:raises RequestError: it is no unit of the calendar that partitions can be named by"""
    if unit not in UNITS:
        raise RequestError(
            f"partition_keys is {shown(unit)}; it can be {', '.join(UNITS)}.",
            hint="Leave it out for events without partition keys.",
        )


def keys_of(reports: Sequence[RunReport], unit: str) -> list[str]:
    """The beginnings of all days, weeks, months or years of which a part was replaced, in order.

    They are local times of the flow's own time zone, in :data:`FORMAT`. A range without an end reaches to the day that
    the run was for, since a window is rarely left open for what lies in the future.

    :param reports: of runs that replaced something
    :raises RequestError: what was replaced is no range of a column of times, has no beginning, or has too many keys
    """
    found: set[int] = set()
    for report in reports:
        region = _replaced(report)
        if region.is_empty:
            continue
        zone = instants.zone(report.time_zone)
        domain, ranges = _ranges(region)
        today = instants.day_of(instants.instant_of(datetime.fromisoformat(report.as_of)), zone)
        for low, high in ranges:
            for day in _starts(day_of(low, domain, zone), _last_day(high, domain, zone, today), unit):
                found.add(day)
                if len(found) > MOST_KEYS:
                    raise RequestError(
                        f"More than {MOST_KEYS} {unit}s were replaced.", hint="Name partitions by a longer unit."
                    )
    return [instants.date_of(day).strftime(FORMAT) for day in sorted(found)]


def _replaced(report: RunReport) -> Region:
    try:
        return parse_predicate(str(report.replaced), dict(report.window_types), report.time_zone)
    except PredicateError as error:
        raise _unnamed(str(report.replaced), "is no region of the table") from error


def _ranges(region: Region) -> tuple[Domain, list[tuple[int, Key | None]]]:
    """The ranges of the one column of times that the region bounds."""
    able = [(path, extent.domain) for path, extent in region.extents.items() if extent.domain.name in TIMES]
    if len(able) != 1:
        raise _unnamed(region.to_sql(), f"bounds {'several columns' if able else 'no column'} of dates or timestamps")
    path, domain = able[0]
    found = []
    for low, high in touched(region, Axis(path, domain)).intervals:
        if not isinstance(low, int):
            raise _unnamed(region.to_sql(), "has no beginning")
        found.append((low, high))
    return domain, found


def _starts(first: int, last: int, unit: str) -> Iterator[int]:
    """The beginnings of all units from the one that holds the first day to the last day, as days since 1970."""
    start = first if unit == "day" else instants.truncate_date(first, unit)
    assert start is not None
    while start <= last:
        yield start
        start = next_start(start, unit)


def _last_day(high: Key | None, domain: Domain, zone: tzinfo, today: int) -> int:
    return day_of(high - 1, domain, zone) if isinstance(high, int) else today


def _unnamed(sql: str, problem: str) -> RequestError:
    return RequestError(
        f"{plain(sql)} {problem}, so it cannot be named by partition keys.",
        hint="Leave partition_keys out for tables like this one.",
    )
