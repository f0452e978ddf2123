"""The pictures of the page, as SVG; the same results give the same bytes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by those who see colours differently too, and by lightness in print.
COLOURS = ("#9ecae1", "#4292c6", "#08519c", "#08306b")
HAND, FLOW = "#d95f02", "#08519c"
SCHEMES = (
    "text { fill: #24292f } "
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } "
    '[style*="stroke: #000000"], [style*="stroke: #444444"] { stroke: #e6edf3 !important } }'
)
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "benchmarks",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def ratios(path: Path, title: str, names: Sequence[str], by_size: Mapping[str, Sequence[float | None]]) -> None:
    """How many times less than by hand: a group of bars for each case, a bar for each size; 1 is by hand.

    :param by_size: by the size's name, a ratio for each case; None where it was not measured
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 4.2))
        width = 0.8 / len(by_size)
        for index, (size, values) in enumerate(by_size.items()):
            places = [place + (index - (len(by_size) - 1) / 2) * width for place in range(len(names))]
            # Bars grow from 1: up for faster, down for slower.
            heights = [0.0 if value is None else value - 1 for value in values]
            axes.bar(places, heights, width * 0.92, bottom=1, color=COLOURS[index % len(COLOURS)], label=size)
            for place, value in zip(places, values, strict=True):
                if value is not None:
                    _label(axes, place, value)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} x"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(range(len(names)), [textwrap.fill(name, 11) for name in names])
        axes.axhline(1, color="#444444", linewidth=1)
        axes.set_title(title, loc="left")
        axes.margins(y=0.12)
        axes.legend(frameon=False, ncols=len(by_size), loc="upper right")
        _save(figure, path, title)


def _label(axes: Axes, place: float, value: float) -> None:
    if abs(value - 1) < 0.05:
        return  # the line at 1 says it
    up = value >= 1
    text = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    axes.annotate(
        text, (place, value), (0, 2 if up else -2), textcoords="offset points", ha="center",
        va="bottom" if up else "top", fontsize=8,
    )  # fmt: skip


def running_total(path: Path, title: str, lines: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Seconds added up over batches: a panel for each case, in it a line for each side."""
    with mpl.rc_context(STYLE):
        rows = (len(lines) + 1) // 2
        figure, panels = plt.subplots(rows, min(len(lines), 2), figsize=(9, 0.6 + 3 * rows), squeeze=False, sharey=True)
        for axes in panels.flat[len(lines) :]:
            axes.remove()
        for axes, (case, sides) in zip(panels.flat, lines.items(), strict=False):
            for (side, seconds), colour in zip(sides.items(), (FLOW, HAND), strict=True):
                totals = [sum(seconds[: end + 1]) for end in range(len(seconds))]
                batches = range(1, len(totals) + 1)
                axes.plot(batches, totals, marker="o", markersize=4, color=colour)
                axes.annotate(
                    f"{side}\n{totals[-1]:.0f} s", (len(totals), totals[-1]), (6, 0), textcoords="offset points",
                    va="center", color=colour, fontsize=9, annotation_clip=False,
                )  # fmt: skip
            axes.set_xticks(range(1, len(totals) + 1))
            axes.set_xlabel("batch")
            axes.set_title(case, fontsize=10)
        panels[0][0].set_ylim(0, 1.08 * max(sum(seconds) for sides in lines.values() for seconds in sides.values()))
        for row in panels:
            row[0].set_ylabel("seconds, added up")
        figure.suptitle(title, x=0.02, ha="left", fontsize=12)
        figure.subplots_adjust(wspace=0.35, hspace=0.45, top=0.84 if rows == 1 else 0.9)
        _save(figure, path, title)


def _save(figure: Any, path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = path.read_text(encoding="utf-8")
    said = f"<title>{escape(title)}</title>\n <desc>The same figures are in the tables of the page.</desc>"
    head = f"{said}\n <style>{SCHEMES}</style>"
    path.write_text(re.sub(r"(<svg [^>]*>)", rf"\1\n {head}", text, count=1), encoding="utf-8")
