"""Form 5: what several messages have in common is stored once."""

from alembic import op
from sqlalchemy import Column, LargeBinary, text

revision = "5"
down_revision = "4"

_HAS_BODY = text("body IS NOT NULL")


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "bodies",
        Column("checksum", LargeBinary, primary_key=True),
        Column("content", LargeBinary, nullable=False),
    )
    op.add_column("deliveries", Column("body", LargeBinary))
    op.create_index("deliveries_by_body", "deliveries", ["body"], sqlite_where=_HAS_BODY, postgresql_where=_HAS_BODY)
