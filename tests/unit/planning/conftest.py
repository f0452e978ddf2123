from __future__ import annotations

from hypothesis import settings

# The machine may be busy with other things, so no example is judged by its time.
settings.register_profile("planning", deadline=None)
settings.load_profile("planning")
