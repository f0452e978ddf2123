"""How runs that write the same target keep out of each other's way, as far as it can be chosen."""

from __future__ import annotations

ON_OVERLAP = ("wait", "fail", "skip")
"""What a run may do where another run holds a part of its region, or waits for it."""

WAIT_SECONDS = 3600.0
"""How long a run waits for others at most."""

LEASE_SECONDS = 120.0
"""How long a lease lasts without being renewed: how long others wait for a run that died."""

COMMIT_SECONDS = 600.0
"""How long a permission lasts: how long others wait for a run that died in the middle of its commit."""
