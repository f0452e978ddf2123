"""The runs' events, and the counter that numbers them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")


def upgrade() -> None:
    """Called by Alembic."""
    op.create_table(
        "replacewhere_events",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("recorded_at", sa.String(32), nullable=False),
        sa.Column("run_key", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("run_id", LongText, nullable=False),
        sa.Column("flow", LongText, nullable=False),
        sa.Column("target", LongText, nullable=False),
        sa.Column("dag_id", sa.String(250)),
        sa.Column("dag_run_id", sa.String(250)),
        sa.Column("task_id", sa.String(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("try_number", sa.Integer),
        sa.Column("mode", sa.String(32)),
        sa.Column("window_sql", LongText),
        sa.Column("replaced_sql", LongText),
        sa.Column("predicate", LongText),
        sa.Column("is_override", sa.Boolean),
        sa.Column("as_of", sa.String(40)),
        sa.Column("definition_hash", sa.String(128)),
        sa.Column("token", sa.String(128)),
        sa.Column("target_version", sa.BigInteger),
        sa.Column("error", LongText),
        sa.Column("report", LongText),
        sa.UniqueConstraint("run_key", "kind", name="replacewhere_events_run_kind"),
    )
    counter = op.create_table(
        "replacewhere_counter",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(counter, [{"id": 1, "last": 0}])
