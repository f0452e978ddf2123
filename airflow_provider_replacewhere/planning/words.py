"""Plans and runs in words: what the console command, the task log and the page say of them alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.text import printable


def why(report: RunReport) -> list[str]:
    """The reasons of a run, one a line; of a NO_OP, why there was nothing to do."""
    if report.mode is Mode.NO_OP:
        skipped = [reason(value) for value in report.reasons if str(value["reason"]).endswith("_SKIPPED")]
        return skipped or ["the ledger proves the whole window fresh"]
    return [reason(value) for value in report.reasons] or ["as asked"]


def reason(value: Mapping[str, Any]) -> str:
    """One reason with the data behind it, in a line."""
    name = str(value["reason"])
    match name:
        case "SOURCE_CHANGED":
            was = "" if value["from_version"] is None else f", was {value['from_version']}"
            return f"{name} ({value['table']}: version {value['to_version']}{was})"
        case "EMPTY_RESULT_SKIPPED":
            return f"{name} (the query gives no row, and on_empty is skip)"
        case "UNDO_REQUESTED":
            over = f", over {', '.join(map(str, value['over_versions']))}" if "over_versions" in value else ""
            return f"{name} ({value['run_id']}, version {value['version']}{over})"
        case "WINDOW_WIDENED":
            return f"{name} (newly exposed: {plain(value['newly_exposed'])})"
        case "EXTERNAL_CHANGE_IN_REPLACE_WINDOW" if "version" in value:
            return f"{name} ({value['operation']} at version {value['version']}: {plain(value['region'])})"
        case "EXTERNAL_CHANGE_IN_REPLACE_WINDOW":
            return f"{name} ({value['cause']})"
        case "PREDICATE_OVERRIDE" | "QUERY_FINGERPRINT_CHANGED" | "UNSUPPORTED_REPLACE_WHERE_PREDICATE":
            return name  # what is behind it is shown beside it, or is a hash
    data = [str(text) for key, text in value.items() if key not in ("reason", "region")]
    return f"{name} ({', '.join(data)})" if data else name


def impact(report: RunReport) -> str | None:
    """What a plan would touch of the target, at most; None where that is not known, or nothing would be replaced."""
    found = report.estimate
    if not found or report.replaced is None:
        return None
    if found["files"] == 0:
        return "no row that is there"
    if found["files"] is None:
        return None
    rows = "an unknown number of rows" if found["rows"] is None else f"{found['rows']:,} rows"
    size = "" if found["bytes"] is None else f", {found['bytes']:,} bytes"
    return f"at most {rows} in {found['files']:,} files{size}"


def plain(sql: str) -> str:
    """Canonical SQL for the eye: without its outermost parentheses, and with backticks only where they are needed."""
    # Parentheses in strings and names are no parentheses.
    bare = re.sub(r"'(\\.|[^'\\])*'|`[^`]*`", lambda quoted: "-" * len(quoted[0]), sql)
    depths = list(accumulate((c == "(") - (c == ")") for c in bare))
    inner = sql[1:-1] if sql.startswith("(") and 0 not in depths[:-1] else sql
    return printable(re.sub(r"`([^\W\d]\w*)`", r"\1", inner))
