"""Form 1: all tables."""

from alembic import op

from cachewatch.store.schema import make_tables

revision = "1"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    make_tables(op.get_bind())
