"""A scenario as data: tables, flows, and what happens to them, step by step; it can be printed, cut down and replayed.

In statements and queries ``{name}`` stands for the table of that name, ``{today}`` and ``{now}`` for the run's clock.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

POINTS = ("before_write", "committed", "unrecorded")
"""Where a run can die: it has written nothing yet, its commit is there and nobody knows, its report never arrives."""

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Form:
    """One definition that a flow has at some time.

    :param keys: the columns that the predicate is about
    """

    query: str
    where: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Flow:
    """A target and the definitions it takes turns with.

    :param clauses: ``PARTITIONED BY`` and the like, without the table's properties
    :param expectation: condition and what its violation does: ``DROP ROW``, ``FAIL UPDATE`` or nothing
    :param label: the shape of the query, for the totals
    """

    target: str
    forms: tuple[Form, ...]
    clauses: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    null_keys: str = "fail"
    expectation: tuple[str, str] | None = None
    label: str = ""

    def declaration(self, form: int) -> str:
        """The statement that declares the flow, in the pipeline's language."""
        chosen = self.forms[form]
        properties = {**self.properties, "replacewhere.nullKeys": self.null_keys}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        constraint = ""
        if self.expectation is not None:
            condition, action = self.expectation
            constraint = f"(CONSTRAINT sane EXPECT ({condition}){f' ON VIOLATION {action}' if action else ''})"
        return (
            f"CREATE STREAMING TABLE {self.target} {constraint} {self.clauses} TBLPROPERTIES ({listed}) "
            f"FLOW REPLACE WHERE {in_pipeline(chosen.where)} BY NAME {in_pipeline(chosen.query)}"
        )


@dataclass(frozen=True)
class Step:
    """Changes to tables, then one run of the flows.

    :param changes: statements; besides Spark's, see :func:`~.play.apply`
    :param day: the day of March 2026 at whose noon, in UTC, the run's clock stands
    :param forms: by flow, which of its definitions is in force
    :param overrides: by target, predicate and its columns
    :param select: targets to run; empty: all
    :param dies: where the run dies, and at which of its writes: a name of :data:`POINTS` and a number; empty: it
        lives
    """

    changes: tuple[str, ...] = ()
    day: int = 10
    policy: str = "incremental"
    forms: tuple[int, ...] = ()
    overrides: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    full_refresh: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    dies: str = ""

    @property
    def as_of(self) -> datetime.datetime:
        return datetime.datetime(2026, 3, self.day, 12, tzinfo=datetime.UTC)

    def form(self, flow: int) -> int:
        """Which definition of a flow is in force."""
        return self.forms[flow] if flow < len(self.forms) else 0


@dataclass(frozen=True)
class Script:
    """A small world and its history.

    :param tables: by name, the ``CREATE`` statement of each source
    :param views: declarations that stand before the flows in the pipeline
    """

    tables: Mapping[str, str]
    flows: tuple[Flow, ...]
    steps: tuple[Step, ...]
    time_zone: str = "UTC"
    views: Mapping[str, str] = field(default_factory=dict)

    def pipeline(self, step: Step) -> str:
        """The pipeline's text as it is at a step."""
        views = [f"CREATE TEMPORARY VIEW {name} AS {in_pipeline(query)}" for name, query in self.views.items()]
        flows = [flow.declaration(step.form(number)) for number, flow in enumerate(self.flows)]
        return ";\n".join([*views, *flows])

    def to_json(self) -> str:
        """The script as text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Script:
        """The script that :meth:`to_json` wrote."""
        value = json.loads(text)
        flows = tuple(
            Flow(
                **{
                    **flow,
                    "forms": tuple(Form(f["query"], f["where"], tuple(f["keys"])) for f in flow["forms"]),
                    "expectation": tuple(flow["expectation"]) if flow["expectation"] else None,
                }
            )
            for flow in value["flows"]
        )
        steps = tuple(
            Step(
                **{
                    **step,
                    **{name: tuple(step[name]) for name in ("changes", "forms", "full_refresh", "select")},
                    "overrides": {t: (where, tuple(keys)) for t, (where, keys) in step["overrides"].items()},
                }
            )
            for step in value["steps"]
        )
        return cls(value["tables"], flows, steps, value["time_zone"], value["views"])


def in_pipeline(text: str) -> str:
    """A template as a user writes it."""
    return filled(text, lambda name: {"today": "current_date()", "now": "current_timestamp()"}.get(name, name))


def by_hand(text: str, script: Script, step: Step) -> str:
    """A template with the clock's values in place of its functions, and queries in place of views."""

    def value(name: str) -> str:
        if name == "today":
            return f"DATE '{step.as_of.astimezone(ZoneInfo(script.time_zone)).date()}'"
        if name == "now":
            return f"TIMESTAMP '{step.as_of.isoformat()}'"
        if name in script.views:
            return f"({by_hand(script.views[name], script, step)})"
        return name

    return filled(text, value)


def places(text: str) -> list[str]:
    """The names that a template has places for."""
    return _PLACE.findall(text)


def filled(text: str, value: Callable[[str], str]) -> str:
    """A template with a value for each of its places."""
    return _PLACE.sub(lambda match: value(match[1]), text)


def described(script: Script, upto: int) -> str:
    """The script as a person reads it, to the step in question."""
    lines: list[Any] = [f"time zone {script.time_zone}", *script.tables.values()]
    for number, step in enumerate(script.steps[: upto + 1]):
        lines += [f"-- step {number}", *step.changes]
        details = {"as_of": step.as_of.isoformat(), "policy": step.policy}
        for name in ("overrides", "full_refresh", "select", "dies"):
            if getattr(step, name):
                details[name] = str(getattr(step, name))
        lines.append("-- run " + ", ".join(f"{key}={value}" for key, value in details.items()))
        if number == 0 or script.pipeline(step) != script.pipeline(script.steps[number - 1]):
            lines.append(script.pipeline(step))
    return "\n".join(map(str, lines))
