"""Which Airflow this is, for the few things that its lines do differently."""

from __future__ import annotations


def airflow_line() -> str:
    """``2``, ``3.0``, ``3.1`` and so on."""
    # Imported here because whoever imports this module has no need of it yet.
    from airflow import __version__

    return "2" if __version__.startswith("2.") else ".".join(__version__.split(".")[:2])
