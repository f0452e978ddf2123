"""What the demo shows of a table before and after a run."""

from __future__ import annotations

import io
import re
from datetime import date, timedelta

import pytest
from rich.console import Console

from tools.demo_table import Cells, Window, comparison

WINDOW = Window.of("((`ride_date` >= DATE '2026-03-04') AND (`ride_date` < DATE '2026-03-08'))")


def shown(before: Cells, after: Cells) -> list[list[str]]:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as printed:
        console.print(comparison(before, after, WINDOW))
    return [re.split(r"  +", line.strip(), maxsplit=1) for line in printed.get().splitlines()[1:]]


def day(number: int) -> date:
    return date(2026, 3, number)


@pytest.mark.parametrize(
    ("sql", "first", "end"),
    [
        ("(`d` >= DATE '2026-03-04')", day(4), date.max),
        ("(`d` < DATE '2026-03-04')", date.min, day(4)),
        ("((`d` >= DATE '2026-03-04') AND (`d` < DATE '2026-03-05'))", day(4), day(5)),
    ],
)
def test_a_window_is_read_from_a_reports_sql(sql: str, first: date, end: date) -> None:
    assert Window.of(sql) == Window(first, end)


def test_each_day_says_what_became_of_it() -> None:
    before = {day(3): {"Bern": 1}, day(4): {"Bern": 2}, day(5): {"Bern": 3}, day(6): {"Bern": 4}}
    after = {day(3): {"Bern": 1}, day(4): {"Bern": 2}, day(5): {"Bern": 9}, day(7): {"Bern": 5}}
    assert shown(before, after) == [
        ["2026-03-03", "1  outside: not touched"],
        ["2026-03-04", "2  as it was"],
        ["2026-03-05", "3 → 9  changed"],
        ["2026-03-06", "4 →  removed"],
        ["2026-03-07", "5  new"],
    ]


def test_a_change_outside_the_window_would_be_shouted() -> None:
    assert "CHANGED OUTSIDE THE WINDOW" in shown({day(1): {"Bern": 1}}, {day(1): {"Bern": 2}})[0][1]


def test_many_days_alike_are_shortened() -> None:
    after = {day(1) - timedelta(days=n): {"Bern": n} for n in range(20)}
    assert [line[0] for line in shown(after, after)] == ["2026-02-10", "…", "2026-03-01"]
