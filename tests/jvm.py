"""JVMs that live for seconds: the compiler that makes code fast would cost more than the code."""

from __future__ import annotations

import os

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def let_java_start_quickly() -> None:
    """For every ``java`` that this process and its children start: an application takes half of the CPU time."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", OPTIONS)
