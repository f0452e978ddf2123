"""What decides the meaning of flows besides the rows they read, as one line that is compared with an earlier one.

It names its parts, so that whoever sees a difference can say where. Every part is a hash: settings may hold secrets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# By part: what is said when it differs.
PARTS = {
    "definition": "the definition has changed",
    "spark": "the configuration of Spark has changed",
    "package": "another version of airflow-provider-replacewhere is installed",
}


def fingerprint(parts: Mapping[str, Any]) -> str:
    """The line for the values of all :data:`PARTS`, which are made of what JSON knows."""
    return " ".join(f"{name}:{_hash(parts[name])}" for name in PARTS)


def changed(before: str, now: str) -> str | None:
    """Where two fingerprints differ, in words; None where they are equal."""
    if before == now:
        return None
    old, new = _parts(before), _parts(now)
    return next((words for name, words in PARTS.items() if old.get(name) != new.get(name)), PARTS["definition"])


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _parts(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split() if ":" in part)
