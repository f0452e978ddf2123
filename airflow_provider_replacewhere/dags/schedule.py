"""The schedule that a pipeline declares, as Airflow's."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import DefinitionError

if TYPE_CHECKING:
    from airflow_provider_replacewhere.dags.outline import Outline
    from airflow_provider_replacewhere.flows.model import Schedule

_QUARTZ_DAYS = {"1": "0", "2": "1", "3": "2", "4": "3", "5": "4", "6": "5", "7": "6"}


def declared(outline: Outline) -> Schedule | None:
    """The one schedule of all the flows that declare one; None where none does.

    :raises DefinitionError: they declare several
    """
    found = {flow.schedule: flow.target for flow in outline.flows if flow.schedule is not None}
    if len(found) > 1:
        listed = ", ".join(f"{target}: {in_words(schedule)}" for schedule, target in found.items())
        raise DefinitionError(
            f"The tables of the pipeline have different schedules: {listed}.",
            hint="Give the Dag a schedule of its own, or make a Dag for each with refresh_selection.",
        )
    return next(iter(found), None)


def airflow_schedule(schedule: Schedule | None) -> Any:
    """A ``schedule`` argument for a Dag.

    :raises DefinitionError: the cron expression cannot be kept by Airflow
    """
    if schedule is None:
        return None
    if schedule.cron is None:
        assert schedule.every is not None
        assert schedule.unit is not None
        return timedelta(**{schedule.unit.lower(): schedule.every})
    # Imported here because only Dag files with such a schedule need it.
    from airflow.timetables.interval import CronDataIntervalTimetable

    return CronDataIntervalTimetable(unix_cron(schedule.cron), timezone=schedule.time_zone or "UTC")


def unix_cron(text: str) -> str:
    """A cron expression of five fields from one of five, or of six or seven as Quartz and Databricks write it.

    :raises DefinitionError: it has a part that cron does not have
    """
    fields = text.split()
    if len(fields) == 5:
        return text
    if len(fields) not in (6, 7) or not fields[0].isdecimal() or fields[6:] not in ([], ["*"]):
        raise DefinitionError(
            f"The schedule {text!r} is no cron expression that Airflow can keep.",
            hint="Write five fields (minute hour day month weekday), or six with one number of seconds before them.",
        )
    minute, hour, day, month, weekday = ("*" if field == "?" else field for field in fields[1:6])
    # Quartz counts the days of the week from Sunday, which is 1. Behind a slash or a hash stands no day.
    weekday = re.sub(r"(?<![/#\d])[1-7]\b", lambda match: _QUARTZ_DAYS[match[0]], weekday)
    return f"{minute} {hour} {day} {month} {weekday}"


def in_words(schedule: Schedule) -> str:
    """As one writes it."""
    if schedule.cron is not None:
        return f"CRON '{schedule.cron}'" + (f" AT TIME ZONE '{schedule.time_zone}'" if schedule.time_zone else "")
    return f"EVERY {schedule.every} {schedule.unit}"
