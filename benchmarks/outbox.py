"""What it costs to deliver one digest when many were delivered before: run as a script, it prints the CPU seconds as JSON.

    python benchmarks/outbox.py FOLDER READERS OLD

The state in FOLDER gets OLD settled digests for each of READERS, then a new one, which goes out through a
program that does nothing. Only that is timed; what the program takes is not counted.
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.report.digest_and_message_values import Message, RenderedDigest
from cachewatch.runtime.log import open_log
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.sending_and_channel_faults import deliver
from cachewatch.store import delivery_queue_and_order as outbox
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.digests_and_holds import DigestRecord, DigestState
from cachewatch.store.schema import deliveries
from cachewatch.store.transactions_and_sqlite import Connection, open_database

_CONFIG = """\
version: 1
state: {folder}/state
sources: {{public: {{git: {folder}/upstream.git}}}}
channels: {{mail: {{type: sendmail, from: cachewatch@example.org, command: ["true"]}}}}
subscriptions: {{ml: {{to: [{readers}], channels: [mail]}}}}
"""
_NOW = datetime.now(UTC)


def main() -> None:
    """Fill a state, and deliver one digest."""
    folder, readers, old = Path(sys.argv[1]), *map(int, sys.argv[2:])
    targets = [f"reader-{number}@example.org" for number in range(readers)]
    path = folder / "cachewatch.yaml"
    path.write_text(_CONFIG.format(folder=folder, readers=", ".join(targets)), "utf-8")
    config = read_config(path)
    with (folder / "log").open("w", encoding="utf-8") as log:
        context = Context(config=config, database=open_database(config.state), log=open_log(stream=log))
        with context.database.write() as connection:
            _fill(connection, targets, old)
            _add(connection, targets, old)
        begin = time.process_time()
        deliver(context, "mail")
        seconds = time.process_time() - begin
        with context.database.read() as connection:
            assert outbox.oldest_open(connection) == {}
    print(json.dumps({"seconds": seconds}))


def _fill(connection: Connection, targets: list[str], old: int) -> None:
    for number in range(old):
        _store(connection, number, old)
        connection.execute(deliveries.insert(), [_settled(number, target, old) for target in targets])


def _settled(number: int, target: str, old: int) -> dict[str, object]:
    moment = _NOW - timedelta(hours=old - number)
    return {
        "digest": f"digest-{number}",
        "channel": "mail",
        "target": target,
        "state": DeliveryState.SENT,
        "created": moment,
        "due": moment,
        "give_up": moment,
        "settled_at": moment,
        "attempts": 1,
        "content_type": "message/rfc822",
        "payload": b"x" * 200,
        "checksum": b"",  # nobody reads what is settled
    }


def _add(connection: Connection, targets: list[str], number: int) -> None:
    _store(connection, number, number)
    messages = [
        Message(key=f"digest-{number}", target=target, payload=b"x", content_type="message/rfc822", created=_NOW)
        for target in targets
    ]
    outbox.add(connection, "mail", messages, state=DeliveryState.QUEUED, lasting=timedelta(days=5))


def _store(connection: Connection, number: int, old: int) -> None:
    key, created = f"digest-{number}", _NOW - timedelta(hours=old - number)
    rendered = RenderedDigest(
        key=key, subscription="ml", title=key, period=key, created=created, text="", html="", markdown="", json=b""
    )
    stored = DigestRecord(
        key=key,
        subscription="ml",
        stream="regular",
        state=DigestState.READY,
        title=key,
        period=key,
        created=created,
        reason="",
        advances=(),
        rendered=rendered,
        short=rendered,
    )
    digests.add(connection, stored)


if __name__ == "__main__":
    main()
