"""What the messages of one digest have in common is stored once, and every message is read as it was stored."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, func, select, update
from stored import NOW, stored

from cachewatch.errors import DamagedRow
from cachewatch.report.values import Message
from cachewatch.store import digests, outbox
from cachewatch.store import messages as message_bytes
from cachewatch.store.database import Database
from cachewatch.store.opening import open_database
from cachewatch.store.outbox import State
from cachewatch.store.schema import bodies, deliveries

DAY = timedelta(days=1)
READERS = ("a@example.org", "b@example.org", "c@example.org")
TEXT = b"What changed, in many words. " * 400


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Each of the databases, which are alike."""
    state = tmp_path / "state" if request.param == "sqlite" else request.getfixturevalue("address")
    with closing(open_database(state, is_checked=True)) as opened:
        yield opened


def mail(reader: str, end: bytes = b"\r\n", text: bytes = TEXT) -> Message:
    """Return a mail to a reader, whose headers are no other's."""
    payload = b"To: " + reader.encode() + end + b"Subject: news" + end + end + text + end
    return Message(key="one", target=reader, payload=payload, content_type="message/rfc822", created=NOW)


def chat(room: str) -> Message:
    """Return what a room gets, which is what all rooms get."""
    return Message(key="one", target=room, payload=TEXT, content_type="application/json", created=NOW)


def store(connection: Connection, messages: Sequence[Message]) -> None:
    digests.add(connection, stored("one"))
    outbox.add_all(connection, "mail", messages, state=State.QUEUED, lasting=5 * DAY)


def read(database: Database) -> list[Message]:
    with database.read() as connection:
        numbers = sorted(each.id for each in outbox.find(connection))
        return [outbox.message(connection, number) for number in numbers]


def rows(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(bodies)).scalar_one())


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_mails_to_many_readers(database: Database, end: bytes) -> None:
    """Only their headers are stored for each of them."""
    mails = [mail(reader, end) for reader in READERS]
    with database.write() as connection:
        store(connection, mails)
        sizes = connection.execute(select(func.length(deliveries.c.payload))).scalars().all()

    assert read(database) == mails
    assert rows(database) == 1
    assert max(sizes) < 100


def test_chat_messages_to_many_rooms(database: Database) -> None:
    messages = [chat(room) for room in READERS]
    with database.write() as connection:
        store(connection, messages)

    assert read(database) == messages
    assert rows(database) == 1


def test_what_was_sent_before_is_read_with_its_body(database: Database) -> None:
    """As a feed does that is written anew."""
    mails = [mail(reader) for reader in READERS]
    with database.write() as connection:
        store(connection, mails)
        connection.execute(update(deliveries).values(state=State.SENT))
        found = outbox.sent_history(connection, "mail", READERS[1], 5)

    assert found == [mails[1]]


def test_a_body_is_kept_as_long_as_somebody_has_it(database: Database) -> None:
    with database.write() as connection:
        store(connection, [mail(reader) for reader in READERS])
        connection.execute(update(deliveries).values(state=State.SENT, settled_at=NOW))
        waiting = select(func.max(deliveries.c.id)).scalar_subquery()
        connection.execute(update(deliveries).where(deliveries.c.id == waiting).values(state=State.DEFERRED))
        outbox.delete_payloads(connection, NOW + DAY, kept_channels=())
        message_bytes.delete_unused(connection)
    assert [len(each.payload) > len(TEXT) for each in read(database)] == [False, False, True]

    with database.write() as connection:
        connection.execute(update(deliveries).values(state=State.SENT, settled_at=NOW))
        outbox.delete_payloads(connection, NOW + DAY, kept_channels=())
        message_bytes.delete_unused(connection)
    assert rows(database) == 0


@pytest.mark.parametrize("content", [b"", b"other bytes", None])
def test_a_body_that_is_damaged_or_lost(database: Database, content: bytes | None) -> None:
    """No reader gets half a message."""
    with database.write() as connection:
        store(connection, [mail(reader) for reader in READERS])
        if content is None:
            connection.execute(bodies.delete())
        else:
            connection.execute(update(bodies).values(content=content))
    with database.read() as connection:
        for each in outbox.find(connection):
            with pytest.raises(DamagedRow, match=f"delivery {each.id}: its stored bytes are damaged"):
                outbox.message(connection, each.id)


def test_a_damaged_body_is_repaired_by_the_next_digest_that_has_it(database: Database) -> None:
    with database.write() as connection:
        store(connection, [chat(room) for room in READERS])
        connection.execute(update(bodies).values(content=b"other bytes"))
        digests.add(connection, stored("two"))
        again = [replace(chat(room), key="two") for room in READERS]
        outbox.add_all(connection, "mail", again, state=State.QUEUED, lasting=5 * DAY)

    assert read(database) == [*map(chat, READERS), *again]
