"""Which Dag file calls."""

from __future__ import annotations

import inspect


def calling_file() -> str:
    """The file that called the function which calls this; Airflow would take that function's own for the Dag's."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    assert frame is not None
    return frame.f_code.co_filename
