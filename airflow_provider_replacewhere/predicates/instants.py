"""Dates and instants as whole numbers, with the arithmetic of Java's ``java.time`` that Spark uses.

A date is days since 1970-01-01; an instant is microseconds since the epoch in UTC; a wall time is microseconds since
1970-01-01 00:00 of an unnamed clock. Years 1 to 9999: what lies outside raises :class:`OverflowError`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MICROS_PER_DAY = 86_400_000_000
MICROS_PER_SECOND = 1_000_000
MIN_DAY = date.min.toordinal() - date(1970, 1, 1).toordinal()
MAX_DAY = date.max.toordinal() - date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_MICRO = timedelta(microseconds=1)

_MONTHS_OF_LEVEL = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), 12),
    "QUARTER": 3,
    **dict.fromkeys(("MONTH", "MM", "MON"), 1),
}
_MICROS_OF_LEVEL = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": MICROS_PER_SECOND}
_WALL_LEVELS = {
    "MINUTE": 60 * MICROS_PER_SECOND,
    "HOUR": 3600 * MICROS_PER_SECOND,
    "DAY": MICROS_PER_DAY,
    "DD": MICROS_PER_DAY,
}

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?\s*([A-Za-z+-].*)?"
_TIMESTAMP = re.compile(rf"(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_CLOCK}|T)?)?)?")
_SPECIAL = ("epoch", "now", "today", "tomorrow", "yesterday")


def zone(name: str) -> tzinfo:
    """The zone of an IANA name or a fixed offset such as ``+02:00``.

    :raises ValueError: there is no such zone
    """
    if name in ("Z", "UTC", "GMT"):
        return UTC
    if found := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", name):
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        if minutes > 18 * 60:
            raise ValueError(f"{name} is no time zone: offsets go up to 18 hours.")
        return timezone(timedelta(minutes=minutes if found[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone: give an IANA name such as Europe/Berlin.") from None


# -- between numbers and the calendar


def days_of(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def date_of(days: int) -> date:
    """The date that many days after 1970-01-01."""
    if not MIN_DAY <= days <= MAX_DAY:
        raise OverflowError("the date lies outside the years 1 to 9999")
    return date.fromordinal(days + _EPOCH_ORDINAL)


def wall_of(value: datetime) -> int:
    """Microseconds of a naive wall time."""
    return (value.replace(tzinfo=None) - _EPOCH) // _MICRO


def datetime_of(wall: int) -> datetime:
    """The naive wall time of microseconds."""
    try:
        return _EPOCH + timedelta(microseconds=wall)
    except OverflowError:
        raise OverflowError("the time lies outside the years 1 to 9999") from None


def instant_of(value: datetime) -> int:
    """Microseconds since the epoch of an aware time."""
    return (value.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // _MICRO


def offset_at(instant: int, tz: tzinfo) -> int:
    """What the zone's clocks are ahead of UTC at an instant, in microseconds."""
    utc = datetime_of(instant).replace(tzinfo=UTC)
    try:
        return (utc.astimezone(tz).utcoffset() or timedelta()) // _MICRO
    except OverflowError:
        raise OverflowError("the time lies outside the years 1 to 9999") from None


def to_wall(instant: int, tz: tzinfo) -> int:
    """What the zone's clocks show at an instant."""
    return instant + offset_at(instant, tz)


def from_wall(wall: int, tz: tzinfo, preferred_offset: int | None = None) -> int:
    """The instant of a wall time.

    In an hour that clocks skip, the time is moved on by the gap. In an hour that they show twice, it is the one at
    ``preferred_offset`` (microseconds) if that is one of the two, else the first.
    """
    local = datetime_of(wall).replace(tzinfo=tz)
    first = (local.replace(fold=0).utcoffset() or timedelta()) // _MICRO
    second = (local.replace(fold=1).utcoffset() or timedelta()) // _MICRO
    twice = first > second
    return wall - (second if twice and preferred_offset == second else first)


def start_of_day(days: int, tz: tzinfo) -> int:
    """The first instant of a date."""
    date_of(days)
    return from_wall(days * MICROS_PER_DAY, tz)


def day_of(instant: int, tz: tzinfo) -> int:
    """The date that an instant falls on."""
    return to_wall(instant, tz) // MICROS_PER_DAY


# -- arithmetic


def add_months(days: int, months: int) -> int:
    """Months later on the same day, or on the month's last if it is shorter."""
    start = date_of(days)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError("the date lies outside the years 1 to 9999")
    return days_of(date(year, month + 1, min(start.day, monthrange(year, month + 1)[1])))


def shift_wall(wall: int, months: int = 0, days: int = 0, micros: int = 0) -> int:
    """A wall time moved by months, then days, then microseconds."""
    day, rest = divmod(wall, MICROS_PER_DAY)
    moved = (add_months(day, months) + days) * MICROS_PER_DAY + rest + micros
    datetime_of(moved)
    return moved


def shift_instant(instant: int, tz: tzinfo, months: int = 0, days: int = 0, micros: int = 0) -> int:
    """An instant moved by months and days of the zone's calendar, then by microseconds that really pass."""
    if months or days:
        offset = offset_at(instant, tz)
        instant = from_wall(shift_wall(instant + offset, months, days), tz, offset)
    datetime_of(instant + micros)
    return instant + micros


def split_days(micros: int) -> tuple[int, int]:
    """A day-time interval as whole days and the rest, both of the interval's sign, as Spark splits it."""
    days = abs(micros) // MICROS_PER_DAY * (1 if micros >= 0 else -1)
    return days, micros - days * MICROS_PER_DAY


def truncate_date(days: int, level: str) -> int | None:
    """The first day of the year, quarter, month or week; None for another level."""
    level = level.upper()
    day = date_of(days)
    if level == "WEEK":
        return days - day.weekday()
    months = _MONTHS_OF_LEVEL.get(level)
    return days_of(date(day.year, (day.month - 1) // months * months + 1, 1)) if months else None


def truncate_instant(instant: int, level: str, tz: tzinfo) -> int | None:
    """The start of the zone's year, …, second or microsecond that holds an instant; None for another level."""
    level = level.upper()
    if unit := _MICROS_OF_LEVEL.get(level):
        return instant // unit * unit
    if unit := _WALL_LEVELS.get(level):
        offset = offset_at(instant, tz)
        return from_wall((instant + offset) // unit * unit, tz, offset)
    days = truncate_date(day_of(instant, tz), level)
    return None if days is None else start_of_day(days, tz)


# -- text


def read_date(text: str, as_of: int, tz: tzinfo) -> int:
    """The date that Spark's cast of a string gives; ``today`` and its like count from ``as_of``.

    :raises ValueError: the text is no date
    """
    text = text.strip()
    if (special := _special(text, as_of, tz)) is not None:
        return day_of(special, tz)
    found = _DATE.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no date: write it like 2026-03-10")
    try:
        return days_of(date(int(found[1]), int(found[2] or 1), int(found[3] or 1)))
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: {error}") from None


def read_timestamp(text: str, as_of: int, tz: tzinfo) -> tuple[int, bool] | None:
    """The wall time in a string and False, or the instant and True where the string names its own zone.

    None where the form is one that only Spark knows.

    :raises ValueError: the text is no timestamp
    """
    text = text.strip()
    if (special := _special(text, as_of, tz)) is not None:
        return special, True
    if not text[:1].isdigit():
        raise ValueError(f"{text!r} is no timestamp: write it like 2026-03-10 08:00:00")
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, suffix = found.groups()
    try:
        local = datetime.combine(
            date(int(year), int(month or 1), int(day or 1)), time(int(hour or 0), int(minute or 0), int(second or 0))
        )
    except ValueError as error:
        raise ValueError(f"{text!r} is no timestamp: {error}") from None
    wall = wall_of(local) + int(f"{fraction or ''}000000"[:6])
    if not suffix:
        return wall, False
    try:
        return from_wall(wall, zone(suffix.strip())), True
    except ValueError:
        return None


def _special(text: str, as_of: int, tz: tzinfo) -> int | None:
    """Spark's words for instants, which stand for a date as well as for a timestamp."""
    word, _, rest = text.lower().partition(" ")
    if word not in _SPECIAL:
        return None
    if rest:
        raise ValueError(f"{text!r}: a word such as today takes no time zone here")
    if word in ("epoch", "now"):
        return 0 if word == "epoch" else as_of
    return start_of_day(day_of(as_of, tz) + {"today": 0, "tomorrow": 1, "yesterday": -1}[word], tz)


def is_moving(text: str) -> bool:
    """Whether Spark would read a string as a time that depends on the clock (``today``, ``now``, …)."""
    return text.strip().lower().partition(" ")[0] in _SPECIAL


def date_text(days: int) -> str:
    """A date like ``2026-03-10``."""
    return date_of(days).isoformat()


def wall_text(wall: int, separator: str = " ") -> str:
    """``2026-03-10 08:00:00``, with a fraction only where there is one."""
    value = datetime_of(wall)
    whole = value.replace(microsecond=0).isoformat(sep=separator)
    return whole + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
