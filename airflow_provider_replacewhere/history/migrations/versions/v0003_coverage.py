"""The coverage of each target as folded so far: 100 000 runs are not read again for every plan."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

# One dialect a call: SQLAlchemy 1.4, which Airflow 2 brings, takes no more.
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")


def upgrade() -> None:
    """Called by Alembic."""
    # MySQL commits each statement, so a migration that was cut off there goes on where it stopped.
    if "replacewhere_coverage" in sa.inspect(op.get_bind()).get_table_names():
        return
    op.create_table(
        "replacewhere_coverage",
        sa.Column("target_key", sa.String(64), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("document", LongText, nullable=False),
    )
