"""Where benchmarks keep what they make."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
DATA = BUILD / "data"
WORK = BUILD / "work"
MEASURED = ROOT / "benchmarks" / "measured"
"""The results behind the page; kept with the code."""
