"""How a fault is shown to a person."""

from __future__ import annotations

from collections import Counter

from tests.spark.differential.by_hand import Evidence, must_be
from tests.spark.differential.play import Scenario
from tests.spark.differential.script import Script, described


def shown(script: Script, wrong: Scenario) -> str:
    """The whole story of a fault: tables, changes, query, predicate, both row sets and the run's reasons."""
    case = wrong.case
    assert case is not None
    lines = [
        described(script, wrong.step),
        f"-- flow {case.flow.target} ({wrong.label}) at step {wrong.step}: {wrong.outcome}",
        f"query     {case.form.query}",
        f"predicate {case.where} (null_keys = {case.flow.null_keys})",
    ]
    if case.report is not None:
        lines += [f"window    {case.report.window}", f"replaced  {case.report.replaced}"]
        lines += [f"reason    {dict(reason)}" for reason in case.report.reasons]
    lines += [f"FAULT     {fault}" for fault in wrong.faults]
    if isinstance(wrong.found, Evidence) and case.report is not None:
        have, must = Counter(row.values for row in wrong.found.after), must_be(case, wrong.found)
        lines.append(f"columns   {', '.join(wrong.found.columns)}")
        for title, rows in (("must hold", must), ("holds", have)):
            lines.append(f"the target {title} {sum(rows.values())} rows:")
            lines += [f"  {values} x {count}" for values, count in sorted(rows.items(), key=str)]
    return "\n".join(lines)
