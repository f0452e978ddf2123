"""Programs that run beside tests and end with them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

STOP_LIMIT = 20.0


@contextlib.contextmanager
def daemon(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run one program in a process group of its own, and end exactly that group."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=dict(environment), stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        for kill in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, kill)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_LIMIT)
                break
