"""Whether a query can give rows without a key, told from what is NULL in its sources.

Catalyst says what would have to be there (:mod:`..spark.nulls`): the query, filtered by "a key is NULL", gives no row
if this column of that source has no NULL, or that one of another. This is asked once per definition; what the sources
hold is known from their logs, commit by commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_replacewhere.planning.coverage import Pin

NULLS_VERSION = 1

Formula = Mapping[str, Any]
"""``{"all": […]}``, ``{"any": […]}``, or ``{"source": name, "column": name}``: that column holds no NULL."""

ALWAYS: Formula = {"all": []}
NEVER: Formula = {"any": []}


def all_of(*parts: Formula) -> Formula:
    """That all of it holds."""
    flat = [each for part in parts for each in part.get("all", [part])]
    if NEVER in flat:
        return NEVER
    return flat[0] if len(flat) == 1 else {"all": flat}


def any_of(*parts: Formula) -> Formula:
    """That one of it holds, at least."""
    flat = [each for part in parts for each in part.get("any", [part])]
    if ALWAYS in flat:
        return ALWAYS
    return flat[0] if len(flat) == 1 else {"any": flat}


def no_nulls_in(source: str, column: str) -> Formula:
    """That a column of a source holds no NULL."""
    return {"source": source, "column": column}


def holds(formula: Formula, has_no_nulls: Callable[[str, str], bool]) -> bool:
    """Whether a formula holds; columns are asked about only as far as needed.

    :param has_no_nulls: of a source's column; False where that is not known
    """
    if "all" in formula:
        return all(holds(part, has_no_nulls) for part in formula["all"])
    if "any" in formula:
        return any(holds(part, has_no_nulls) for part in formula["any"])
    return has_no_nulls(formula["source"], formula["column"])


@dataclass(frozen=True)
class NullsKnown:
    """What is known of the NULLs behind a definition's keys, as the ledger keeps it.

    :param key: of the definition and its keys
    :param formula: where it holds, no row without a key is given
    :param proven: by source and column, the version up to which the column is known to hold no NULL
    """

    key: str
    formula: Formula
    proven: Mapping[tuple[str, str], Pin] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": NULLS_VERSION,
            "key": self.key,
            "formula": self.formula,
            "proven": [
                {"source": source, "column": column, "pin": pin.to_json()}
                for (source, column), pin in self.proven.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None, key: str) -> NullsKnown | None:
        """None where the document is about other keys, or of another version."""
        try:
            if value is None or (value["version"], value["key"]) != (NULLS_VERSION, key):
                return None
            proven = {(each["source"], each["column"]): Pin.from_json(each["pin"]) for each in value["proven"]}
            return cls(key, dict(value["formula"]), proven)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
