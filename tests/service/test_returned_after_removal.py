"""What a stream was told is gone, and is back: since when it was gone, and how much of it is there again."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import Record, catalogue, records
from station import Site

from cachewatch.operators import actions as operator_actions
from cachewatch.report.values import Digest, Return
from cachewatch.service import compose as building_messages
from cachewatch.service import create as creating_digests
from cachewatch.service.passes import run_pass
from cachewatch.store.schema import departures

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Packages = dict[str, list[Record]]
MANY: Packages = {f"package-{number}": records(range(10 * number, 10 * number + 4)) for number in range(8)}
ZLIB: Packages = {"zlib": records(range(900, 905))}
LESS: Packages = {"zlib": records(range(910, 912))}


def in_stack(count: int) -> dict[str, bytes]:
    """Return a catalogue with so many packages in a stack of its own too, which its list of tags declares."""
    packages = {
        name: [record | {"stacks": ["e4s", "ml"] if number < count else ["e4s"]} for record in found]
        for number, (name, found) in enumerate(MANY.items())
    }
    stacks = "".join(f"\n  - {stack}" for stack in ("e4s", *(["ml"] if count else []), "root"))
    return catalogue(packages) | {"_data/tags.yaml": f"- name: develop\n  stacks:{stacks}\n".encode()}


CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: "{folder}/upstream.git", stale_after: 400d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [desk]}
subscriptions:
  ml: {when: each revision, changes: [all], channels: [files]}
"""


class Readers:
    """A site, and the digests that it made, as values."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *states: dict[str, bytes]) -> None:
        self.site = Site(folder, states)
        self.site.configure(CONFIG)
        self.made: list[Digest] = []
        self.number = 0
        real = building_messages.build_messages

        def look(config: Any, stream: Any, digest: Digest, *others: Any) -> Any:
            self.made.append(digest)
            return real(config, stream, digest, *others)

        monkeypatch.setattr(creating_digests, "build_messages", look)
        self.site.run()

    def go_on(self, later: timedelta = DAY) -> tuple[Return, ...]:
        """Let the next revision be published, and return what is back in its digest."""
        self.number += 1
        self.site.publish(self.number)
        self.site.now += later
        run_pass(self.site.open())
        return self.made[-1].returns

    def remembered(self) -> list[tuple[str, str]]:
        """Return what is remembered as gone, for any stream."""
        with self.site.open().database.read() as connection:
            return [(row.kind, row.name) for row in connection.execute(departures.select())]


def told(found: tuple[Return, ...]) -> list[tuple[str, str, datetime, int, int, int, int]]:
    return [
        (
            each.kind,
            each.name,
            each.gone_since,
            each.packages_before,
            each.packages_now,
            each.specs_before,
            each.specs_now,
        )
        for each in found
    ]


def test_a_package_that_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, and when it goes and comes again it is told anew."""
    gone = catalogue(MANY)
    readers = Readers(
        tmp_path, monkeypatch, catalogue(MANY | ZLIB), gone, catalogue(MANY | LESS), gone, catalogue(MANY | ZLIB)
    )
    assert readers.go_on() == ()
    since = readers.site.now
    assert readers.remembered() == [("package", "zlib")]
    (found,) = readers.go_on(3 * DAY)
    assert (found.source, found.tag, found.revision) == ("public", "develop", readers.site.commits[1])
    assert told((found,)) == [("package", "zlib", since, 1, 1, 5, 2)]
    assert readers.remembered() == []
    assert readers.go_on() == ()
    since = readers.site.now
    assert told(readers.go_on()) == [("package", "zlib", since, 1, 1, 2, 5)]


@pytest.mark.slow
def test_a_stack_that_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has again."""
    readers = Readers(tmp_path, monkeypatch, *map(in_stack, (8, 0, 6)))
    assert readers.go_on() == ()
    since = readers.site.now
    assert told(readers.go_on()) == [("stack", "ml", since, 8, 6, 32, 24)]
    assert readers.remembered() == []


@pytest.mark.slow
def test_a_tag_that_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packages went with it and are back with it."""
    develop = catalogue(MANY)
    back = develop | catalogue(ZLIB | {"new": records([990])}, tag="v1.0")
    readers = Readers(tmp_path, monkeypatch, develop | catalogue(ZLIB, tag="v1.0"), develop, back)
    assert readers.go_on() == ()
    since = readers.site.now
    assert readers.remembered() == [("tag", "v1.0")]
    assert told(readers.go_on()) == [("tag", "v1.0", since, 1, 2, 5, 6)]
    assert readers.remembered() == []


@pytest.mark.slow
def test_a_tag_that_is_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    develop, both = catalogue(MANY), catalogue(MANY) | catalogue(ZLIB, tag="v1.0")
    readers = Readers(tmp_path, monkeypatch, both, develop, both)
    readers.go_on()
    since = readers.site.now
    assert told(readers.go_on()) == [("tag", "v1.0", since, 1, 1, 5, 5)]


@pytest.mark.slow
def test_what_was_not_told_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that is held is remembered when it is released, and not if it is dropped."""
    readers = Readers(tmp_path, monkeypatch, catalogue(MANY | ZLIB), catalogue(MANY), catalogue(MANY | LESS))
    other = "  {name}: {when: each revision, changes: [{changes}], channels: [files], limit: {hold_above: 1}}\n"
    more = [("released", "all"), ("dropped", "all"), ("upgrades", "upgraded")]
    text = "".join(other.replace("{name}", name).replace("{changes}", changes) for name, changes in more)
    readers.site.configure(CONFIG + text)
    readers.site.run()
    readers.go_on()
    assert readers.remembered() == [("package", "zlib")]
    operator_actions.release(readers.site.open(), "released")
    operator_actions.drop_digest(readers.site.open(), "dropped", "a test of theirs")
    assert readers.remembered() == [("package", "zlib")] * 2
    readers.go_on()
    assert {digest.subscription: len(digest.returns) for digest in readers.made[-3:]} == {
        "ml": 1,
        "released": 1,
        "dropped": 0,
    }


@pytest.mark.slow
def test_what_is_long_ago_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = Readers(tmp_path, monkeypatch, catalogue(MANY | ZLIB), catalogue(MANY), catalogue(MANY))
    readers.site.configure(CONFIG.replace("version: 1", "version: 1\nretention: {metadata: 60d, payload: 10d}"))
    readers.go_on()
    readers.site.live(59 * DAY)
    readers.site.run()
    assert readers.remembered() == [("package", "zlib")]
    readers.site.live(2 * DAY)
    readers.site.run()
    assert readers.remembered() == []


@pytest.mark.slow
def test_a_subscription_with_another_name_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = Readers(tmp_path, monkeypatch, catalogue(MANY | ZLIB), catalogue(MANY), catalogue(MANY | LESS))
    readers.go_on()
    readers.site.configure(CONFIG.replace("  ml: {", "  hpc: {renamed_from: ml, "))
    assert [each.name for each in readers.go_on()] == ["zlib"]


def test_a_package_that_a_new_snapshot_lacks_is_not_gone_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never in it."""
    first = catalogue(MANY | ZLIB, tag="develop-2025-06-01")
    second = catalogue(MANY, tag="develop-2025-06-08")
    readers = Readers(tmp_path, monkeypatch, first, first | second)
    readers.go_on()
    assert readers.remembered() == []
