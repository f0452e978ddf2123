"""JVMs that live for seconds: the compiler that makes code fast would cost more than the code."""

from __future__ import annotations

import os

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def let_java_start_quickly() -> None:
    """For every ``java`` that this process and its children start: a short application takes half of the CPU time.

    Not for the tests that share one session for minutes, whose JVM is better made to run fast.
    """
    os.environ.setdefault("JDK_JAVA_OPTIONS", OPTIONS)
