"""Run by Alembic for each command; the caller has opened the connection, begun its transaction and taken the lock.

There is no ini file, and logging is left as the process has it: this runs inside Airflow's own processes.
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    version_table=context.config.attributes["version_table"],
)
with context.begin_transaction():
    context.run_migrations()
