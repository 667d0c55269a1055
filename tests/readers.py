"""Readers of digests: a site with a subscription, whose upstream publishes one state after the other."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import Packages, records
from station import DAY, Site, config

from cachewatch.core.advice.waits_and_reminders import Departure
from cachewatch.core.statement_kinds import Statement
from cachewatch.report.digest_and_message_values import Digest
from cachewatch.service import deciding_and_storing, digest_assembly_and_hold_times
from cachewatch.service.passes_and_leadership import run_pass
from cachewatch.store import cursors_and_remembered as cursors

CONFIG = config("""\
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [desk]}
subscriptions:
  ml: {when: each revision, changes: [all], channels: [files]}
""").replace("4000d", "400d")


class Readers:
    """A site, and the digests that it made, as values."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, *states: dict[str, bytes], config: str = CONFIG
    ) -> None:
        self.site = Site(folder, states, config)
        self.made: list[Digest] = []
        self.number = 0
        real = digest_assembly_and_hold_times.pack_messages

        def look(config: Any, stream: Any, digest: Digest, *others: Any) -> Any:
            self.made.append(digest)
            return real(config, stream, digest, *others)

        monkeypatch.setattr(deciding_and_storing, "pack_messages", look)
        self.site.run()

    def go_on(self, later: timedelta = DAY, steps: int = 1) -> list[Statement]:
        """Let the next revision be published, and return what its digest says."""
        self.number += steps
        self.site.publish(self.number)
        self.site.now += later
        self.made.clear()
        run_pass(self.site.open())
        return [one for digest in self.made for tag in digest.tags for one in tag.statements]

    def mail(self, later: timedelta = DAY, steps: int = 1) -> str:
        """Let the next revision be published, and return what the newest digest says above its footer, in one line."""
        self.go_on(later, steps)
        return body(self.site.told()[-1])

    def remembered(self, subscription: str = "ml") -> list[tuple[str, str, str, int]]:
        """Return what a subscription remembers as gone."""
        with self.site.open().database.read() as connection:
            facts = cursors.remembered_by(connection, subscription).facts
        gone = [one for one in facts if isinstance(one, Departure)]
        return [(one.kind, one.name, one.last.revision, len(one.missing("regular"))) for one in gone]


Made = Callable[..., Readers]


def many(count: int, version: str = "1.0", *, first: int = 0, salt: int = 0) -> Packages:
    """Return so many packages of one spec each."""
    numbers = range(first, first + count)
    return {f"p{number:03}": records([1000 * (salt + 1) + number], versions=[version]) for number in numbers}


def body(text: str) -> str:
    """Return what a digest says above its footer, in one line."""
    return " ".join(text.partition("\n-----")[0].split())


WAITING = CONFIG.replace("changes: [all]", "changes: [all], limit: {hold_for: 1h}")


def wait(readers: Readers) -> str:
    """Let the next revision be published, and the time of the operators pass; return what the newest digest says."""
    readers.go_on()
    for _ in range(4):
        readers.site.run(later=DAY / 24)
    return body(readers.site.told()[-1])
