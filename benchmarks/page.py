"""``docs/benchmarks.md`` and its pictures, from ``benchmarks/measured``: ``python -m benchmarks.page``."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.places import ROOT
from benchmarks.results import BY_HAND, OURS, Case, median_of, read
from benchmarks.sales import DAYS, SHAPES, WINDOW_DAYS
from benchmarks.warehouse_tables import FLOWS, HISTORY_DAYS, LATE_DAYS, LATE_SHARE

PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"

LAYOUTS_IN_WORDS = {
    "partitioned": "*Partitioned* sources are so by day.",
    "ordered": "*Ordered* ones are not partitioned: their files are in the order of days, two to three days in each.",
}

Document = dict[str, Any]


def main() -> None:
    PAGE.write_text(page(IMAGES))
    print(PAGE.relative_to(ROOT))


def page(images: Path) -> str:
    """The page as Markdown.

    :param images: the folder that its pictures are written to
    """
    documents = {name: read(name) for name in SECTIONS}
    present = [document for found in documents.values() for document in found]
    if not present:
        raise SystemExit("There are no results in benchmarks/measured yet: run `make bench` first.")
    parts = [head(present)]
    parts += [section(documents[name], images) for name, section in SECTIONS.items() if documents[name]]
    parts.append(losses(documents["incremental"], documents["submit"]))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


# -- sections ----------------------------------------------------------------------------------------------------------


def head(documents: Sequence[Document]) -> str:
    newest = max(documents, key=lambda document: str(document["finished_at"]))
    machine, versions = newest["machine"], newest["versions"]
    if any(document["machine"] != machine for document in documents):
        raise SystemExit("The results in benchmarks/measured are from different machines: measure all on one.")
    return f"""
# Benchmarks

How a flow compares to overwriting its whole window by hand:

```python
rows = spark.sql(query).where(window)
rows.write.format("delta").mode("overwrite").option("replaceWhere", window).save(target)
```

Measured on {machine["cores"]} cores ({machine["processor"]}) with {machine["memory_gib"]} GiB of memory and a local
disk, with Spark {versions["pyspark"]} and Delta {versions["delta-spark"]}, {newest["finished_at"][:10]}. This page and
its pictures are written by the command that measures, from the results in `benchmarks/measured`:

```bash
make bench                  # everything at one small size
make bench ROWS=20000000    # at another, TURNS=2 turns of each case; the page shows the results of all sizes
make bench-page             # the page alone, from the results that are there

# A part of it: some layouts and cases, so many turns of each.
python -m benchmarks.incremental --rows 1000000 10000000 20000000 --turns 2 --layouts partitioned
python -m benchmarks.incremental --rows 100000000 --turns 1 --layouts partitioned \\
  --cases nothing "1 of 30 days" "30 of 30 days"
python -m benchmarks.submit --rows 1000000 --turns 1
python -m benchmarks.warehouse --rows 40000000 100000000 --batches 3 --cases "few change" --days 90
python -m benchmarks.alternatives --rows 1000000 --turns 2
```

Both sides are measured in turn, in one Spark session (or process by process, where that is said), over the same source
tables, each with a target of its own. Seconds and bytes are the median of all turns; "faster" is the median of the
turns' ratios, so it may differ a little from the ratio of the medians. After each turn the two targets are compared,
and a difference ends the benchmark. *Task time* is the time that Spark's tasks ran, over all cores: what a cluster
bills.
"""


def incremental(documents: Sequence[Document], images: Path) -> str:
    names = list(dict.fromkeys(case.name for document in documents for case in _cases(document)))
    by_size: dict[str, list[float | None]] = {}
    for document in documents:
        found = {
            case.name: _ratio(case, "seconds")
            for case in _cases(document)
            if case.settings["layout"] == "partitioned" and case.settings["target"] == SHAPES["totals"].target
        }
        by_size[_rows(document)] = [found.get(name) for name in names]
    title = "Times faster in Spark than overwriting the window by hand, sources partitioned"
    plots.ratios(images / "benchmarks-window.svg", title, names, by_size)
    parts = [
        f"""
## A part of the window changed

{DAYS} days of sales; the window is the last {WINDOW_DAYS}. The flow joins the products, and counts for each day and
category the sales, the revenue and the distinct customers. Late sales come, or a product changes, and then each side
brings its target up to date; what the flow spends on finding out what changed is in its time.
{_about_layouts(documents)}

![{title}](images/benchmarks-window.svg)

- *n of {WINDOW_DAYS} days*: one commit appends sales to n days of the window, drawn by chance.
- *a seasonal product* is sold on three days, *a lasting product* on all; its category changes.
- *1 % of all rows*: one commit appends sales to all {DAYS} days.
"""
    ]
    for document in documents:
        for target, layout in dict.fromkeys((c.settings["target"], c.settings["layout"]) for c in _cases(document)):
            about = "" if target == SHAPES["totals"].target else ", a row for each sale"
            parts.append(f"### {_rows(document)}, {layout}{about}")
            parts.append(
                _table(
                    ["changed", "faster", "time", "task time", "read", "written", "rows written", "the flow did"],
                    [
                        [
                            case.name,
                            f"**{_ratio(case, 'seconds'):.2f} x**",
                            _pair(case, "seconds", _seconds),
                            _pair(case, "task_seconds", _seconds),
                            _pair(case, "bytes_read", _bytes),
                            _pair(case, "bytes_written", _bytes),
                            _pair(case, "rows_written", _count),
                            _modes(case),
                        ]
                        for case in _cases(document)
                        if (case.settings["target"], case.settings["layout"]) == (target, layout)
                    ],
                )
            )
    parts.append(f"Each figure: the flow / by hand. {_turns(documents)}")
    return "\n\n".join(part.strip() for part in parts)


def submit(documents: Sequence[Document], _images: Path) -> str:
    rows = [
        [
            _rows(document),
            case.name,
            f"**{_ratio(case, 'seconds'):.2f} x**",
            _pair(case, "seconds", _seconds),
            _pair(case, "cpu_seconds", _seconds),
            f"{(statistics.median(_quotients(case, OURS, BY_HAND, 'seconds')) - 1) * 100:+.0f} %",
            _modes(case),
        ]
        for document in documents
        for case in _cases(document)
    ]
    return f"""
## Whole runs

The application as Airflow's operator submits it, against a script of six lines submitted with the same settings: from
the start of `spark-submit` to its end. The operator first looks whether the tables' logs alone prove everything fresh;
that look is in its time, and where it succeeds Spark is not started. *The same window*: `refresh_policy="full"`, so
that both do the same work.

{_table(["source rows", "changed", "faster", "time", "CPU time", "more or less time", "the flow did"], rows)}

{_turns(documents)}
"""


def warehouse(documents: Sequence[Document], images: Path) -> str:
    newest = documents[-1]
    title = f"Loading {len(_cases(newest)[0].turns)} batches, {_rows(newest)} of trades"
    lines = {
        case.name: {
            name: [turn[side].seconds for turn in case.turns] for name, side in (("flows", OURS), ("by hand", BY_HAND))
        }
        for case in _cases(newest)
    }
    plots.running_total(images / "benchmarks-warehouse.svg", title, lines)
    totals = [
        [
            _rows(document),
            case.name,
            f"**{_total(case, BY_HAND, 'seconds') / _total(case, OURS, 'seconds'):.2f} x**",
            f"**{_total(case, BY_HAND, 'task_seconds') / _total(case, OURS, 'task_seconds'):.2f} x**",
            _sums(case, "seconds", _seconds),
            _sums(case, "task_seconds", _seconds),
            _sums(case, "bytes_read", _bytes),
            _sums(case, "bytes_written", _bytes),
        ]
        for document in documents
        for case in _cases(document)
    ]
    return f"""
## A warehouse, loaded in batches

In the style of TPC-DI: a brokerage with {HISTORY_DAYS} days of history, then a batch each morning with the day's
trades, cash movements and prices, {LATE_SHARE:.1%} late ones of the {LATE_DAYS} days before, corrected prices, new
customers and accounts, and some that change. {len(FLOWS)} flows, one of which reads another's target, with windows of
so many days; what a batch changes lies in its last four, for the most part. Most customers seldom trade; one in twenty
makes 95 of 100 trades. *few change*: three customers and three accounts in each batch; *many change*: as many of both
as a thousandth of the customers, which reaches every day. Customers and accounts have a change data feed.

![{title}](images/benchmarks-warehouse.svg)

{_table(["trades", "case", "faster", "less task time", "time", "task time", "read", "written"], totals)}

All batches added up: the flows / by hand. By flow, at {_rows(newest)} of trades:

{_by_flow(newest)}
"""


def _by_flow(document: Document) -> str:
    rows = []
    for case, target in dict.fromkeys((flow["case"], flow["target"]) for flow in document["flows"]):
        of_flow = [flow for flow in document["flows"] if (flow["case"], flow["target"]) == (case, target)]
        seconds = {side: sum(float(flow[side]) for flow in of_flow) for side in (OURS, BY_HAND)}
        modes = _counted(str(flow["mode"]) for flow in of_flow)
        rows.append(
            [
                case,
                f"`{target}`",
                f"{seconds[BY_HAND] / seconds[OURS]:.2f} x",
                f"{_seconds(seconds[OURS])} / {_seconds(seconds[BY_HAND])}",
                modes,
            ]
        )
    return _table(["case", "target", "faster", "time", "the flow did"], rows)


def alternatives(documents: Sequence[Document], _images: Path) -> str:
    parts = [
        f"""
## Other ways to do it

The totals of the first section, in a target partitioned by day, over partitioned sources. Sales come late for one of
the {WINDOW_DAYS} days, then the last {WINDOW_DAYS} days are brought up to date. Each contender runs in a process of its
own, in turn with `replaceWhere` over the window by hand, and stands here in relation to that: so figures of different
processes can be compared. dbt's and SQLMesh's own work between their statements is in their time; starting Spark or
Python is not.
"""
    ]
    for document in documents:
        rows = [
            [
                ", ".join([case.name, *(f"`{package}`" for package in case.settings["packages"])]),
                f"**{_ratio(case, 'seconds', case.name):.2f} x**",
                _pair(case, "seconds", _seconds, case.name),
                _pair(case, "task_seconds", _seconds, case.name),
                _pair(case, "bytes_read", _bytes, case.name),
                case.turns[-1][case.name].mode,
            ]
            for case in sorted(_cases(document), key=lambda case: -_ratio(case, "seconds", case.name))
        ]
        parts.append(f"### {_rows(document)}")
        parts.append(
            _table(["", "faster than by hand", "time: it / by hand", "task time", "read", "it recomputed"], rows)
        )
        parts += [f"Left out: {name}. {reason.splitlines()[-1]}" for name, reason in document["left_out"].items()]
    parts.append("""
What the table does not show: dynamic partition overwrite keeps a day that the query no longer gives; `MERGE` needs a
key; dbt and SQLMesh recompute what they are told to, and do not look for late rows by themselves.
""")
    return "\n\n".join(part.strip() for part in parts)


def losses(window: Sequence[Document], whole: Sequence[Document]) -> str:
    """The cases in which overwriting by hand was quicker, however little."""
    rows = [
        [_rows(document), about, case.name, f"{1 / _ratio(case, 'seconds'):.2f} x", _pair(case, "seconds", _seconds)]
        for documents, about_of in ((window, _layout), (whole, lambda _: "whole run"))
        for document in documents
        for case in _cases(document)
        for about in [about_of(case)]
        if _ratio(case, "seconds") < 1
    ]
    slower = (
        _table(["source rows", "", "changed", "times as long", "time: the flow / by hand"], rows)
        if rows
        else "In none of the cases above was the flow slower."
    )
    return f"""
## Where it does not pay

Finding out what changed takes time, whatever comes of it. When all days changed, the flow recomputes the window like
everybody else, and what it has spent on finding that out is lost. On small tables most of a run is Spark's and Delta's
fixed cost, which is there for one day as for thirty. The cases above in which the flow took longer:

{slower}
"""


SECTIONS: dict[str, Callable[[Sequence[Document], Path], str]] = {
    "incremental": incremental,
    "submit": submit,
    "warehouse": warehouse,
    "alternatives": alternatives,
}

# -- figures -----------------------------------------------------------------------------------------------------------


def _cases(document: Document) -> list[Case]:
    return [Case.from_json(value) for value in document["cases"]]


def _quotients(case: Case, over: str, under: str, figure: str) -> list[float]:
    return [getattr(turn[over], figure) / getattr(turn[under], figure) for turn in case.turns]


def _ratio(case: Case, figure: str, side: str = OURS) -> float:
    return statistics.median(_quotients(case, BY_HAND, side, figure))


def _pair(case: Case, figure: str, form: Callable[[float], str], side: str = OURS) -> str:
    return " / ".join(form(median_of(case.turns, each, figure)) for each in (side, BY_HAND))


def _total(case: Case, side: str, figure: str) -> float:
    return float(sum(getattr(turn[side], figure) for turn in case.turns))


def _sums(case: Case, figure: str, form: Callable[[float], str]) -> str:
    return " / ".join(form(_total(case, side, figure)) for side in (OURS, BY_HAND))


def _modes(case: Case) -> str:
    return _counted(turn[OURS].mode for turn in case.turns)


def _counted(modes: Iterable[str]) -> str:
    found = list(modes)
    kinds = sorted(set(found), key=found.count, reverse=True)
    return ", ".join(f"`{kind}`" if len(kinds) == 1 else f"`{kind}` {found.count(kind)} times" for kind in kinds)


def _layout(case: Case) -> str:
    return str(case.settings["layout"])


def _about_layouts(documents: Sequence[Document]) -> str:
    present = {_layout(case) for document in documents for case in _cases(document)}
    return " ".join(text for layout, text in LAYOUTS_IN_WORDS.items() if layout in present)


def _turns(documents: Sequence[Document]) -> str:
    counts = sorted({len(case.turns) for document in documents for case in _cases(document)})
    return f"Turns of each case: {' or '.join(str(count) for count in counts)}."


def _rows(document: Document) -> str:
    rows = int(document["rows"])
    return f"{rows / 1e6:g} M rows" if rows >= 1_000_000 else f"{rows / 1e3:g} k rows"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
