"""Where the ledger is kept when nobody says."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_provider_replacewhere.errors import RequestError

FOLDER, FILE = "_replacewhere", "history.db"


def beside(root: str | os.PathLike[str] | None) -> str:
    """URL of an SQLite ledger beside the tables.

    :param root: local folder of the directory catalog
    :raises RequestError: there is none, or it is not on this machine's disk
    """
    if root is None or "://" in os.fspath(root):
        raise RequestError(
            "The history has no place: there is no local root to keep it in.",
            hint="Name its database, such as sqlite:////data/history.db or postgresql://user:password@host/database.",
        )
    return f"sqlite:///{Path(root).resolve() / FOLDER / FILE}"
