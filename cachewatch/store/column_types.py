"""The types of columns, and how each database keeps them."""

from datetime import datetime
from typing import Any

from sqlalchemy import TIMESTAMP, Dialect, String, TypeDecorator
from sqlalchemy import Text as AnyText
from sqlalchemy.types import TypeEngine

from cachewatch.store.timestamps import to_datetime, to_text

_POSTGRESQL = "postgresql"
_NUL, _INSTEAD = "\0", "\ufffd"


class Moment(TypeDecorator[datetime]):
    """A moment: `timestamptz` in PostgreSQL; in SQLite, UTC text of one width, which sorts as time does."""

    impl = AnyText
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type that the database knows."""
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if dialect.name == _POSTGRESQL else AnyText())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Return a moment as the database takes it."""
        return value if value is None or dialect.name == _POSTGRESQL else to_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return a moment of the database; one that is damaged was long ago."""
        return value if value is None or dialect.name == _POSTGRESQL else to_datetime(value)


class _PostgresText(TypeDecorator[str]):
    """Text that PostgreSQL takes: it has no place for NUL."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the contract
        """Return text without NUL."""
        return None if value is None else str(value).replace(_NUL, _INSTEAD)


# Text that sorts by its bytes in every database, whatever the locale of a server is.
Text = AnyText().with_variant(_PostgresText(collation="C"), _POSTGRESQL)
