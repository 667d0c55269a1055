"""Digests and deliveries as tests of the state store them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cachewatch.report.digest_and_message_values import Message, RenderedDigest
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import schema, transactions_and_sqlite
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.digests_and_holds import DigestRecord, DigestState
from cachewatch.store.schema import FORM
from cachewatch.store.transactions_and_sqlite import Connection

NOW = datetime(2026, 7, 27, 7, 30, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
OWNER, OTHER = "here/1/a", "there/1/b"


def rendered(key: str) -> RenderedDigest:
    forms: dict[str, Any] = {"text": "text", "html": "<p>html", "markdown": "md", "json": b"{}"}
    return RenderedDigest(key=key, subscription="ml", title="3 removed", period="2026-07-27", created=NOW, **forms)


def stored(key: str, **changes: object) -> DigestRecord:
    names: dict[str, Any] = {"key": key, "subscription": "ml", "stream": "regular", "title": "3 removed"}
    when: dict[str, Any] = {"period": "2026-07-27", "created": NOW, "state": DigestState.READY, "reason": ""}
    plain = DigestRecord(**names, **when, advances=(), rendered=rendered(key), short=rendered(key))
    return msgspec.structs.replace(plain, **changes)


def message(key: str, target: str = "a@example.org") -> Message:
    payload = b"bytes of " + key.encode()
    return Message(key=key, target=target, payload=payload, content_type="message/rfc822", created=NOW)


def queue(
    connection: Connection, key: str, *targets: str, channel: str = "mail", state: DeliveryState = DeliveryState.QUEUED
) -> None:
    digests.add(connection, stored(key))
    deliveries.add(connection, channel, [message(key, target) for target in targets], state=state, lasting=5 * DAY)


def next_form(folder: Path, monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Be a version with one more form."""
    head = f'from alembic import op\n\nrevision = "{FORM + 1}"\ndown_revision = "{FORM}"\n\n\ndef upgrade():\n'
    (folder / "form_next.py").write_text(head + "".join(f"    {each}\n" for each in statements))
    monkeypatch.setattr(schema, "FORM", FORM + 1)
    monkeypatch.setattr(transactions_and_sqlite, "FOLDERS", [transactions_and_sqlite.FOLDERS[0], folder])
