"""A disk that takes no more, for the files that this process writes."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(most: int = 0) -> Iterator[None]:
    """Let every write fail that would make a file longer than so many bytes; Python ignores the signal for it.

    The error is EFBIG and not ENOSPC, which only a disk of one's own can give; both are an ``OSError`` of a write.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
