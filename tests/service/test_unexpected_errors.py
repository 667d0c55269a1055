"""Whatever one stream, source or channel raises stops only itself: operators hear of it, and the log has its traceback."""

from pathlib import Path
from typing import Any

import pytest
from station import Site, begun, growing

from cachewatch.channels.files_and_feeds import FileChannel
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.service import deciding_and_storing, digest_assembly_and_hold_times, passes_and_leadership
from cachewatch.service.context_and_source_copies import Context, WatchedClone
from cachewatch.service.streams_starts_silences import Stream, StreamState

CONFIG = """\
version: 1
state: {folder}/state
sources:
  first: {git: "{folder}/upstream.git", stale_after: 4000d}
  second: {git: "{folder}/upstream.git", stale_after: 4000d}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [desk], after_failures: 1}
subscriptions:
  a: {match: {sources: [first]}, changes: [all], when: each revision, channels: [files]}
  b: {match: {sources: [second]}, changes: [all], when: each revision, channels: [desk]}
"""
ERRORS = [RecursionError("deep"), ValueError("year 10000 is out of range"), MemoryError(), KeyError("x")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = begun(tmp_path, growing(2), CONFIG)
    made.publish(1)
    return made


def logged(site: Site, name: str) -> dict[str, Any]:
    return next(event for event in site.events() if event["event"] == name)


def kinds(site: Site) -> list[str]:
    return [alert.kind for alert in read_status(site.open()).alerts]


@pytest.mark.slow_cases
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_stream_that_raises_stops_only_itself(site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(context: Context, stream: Stream, state: StreamState, **more: Any) -> Any:
        if stream.subscription.name == "a":
            raise error
        return digest_assembly_and_hold_times.compose(context, stream, state, **more)

    with monkeypatch.context() as patched:
        patched.setattr(deciding_and_storing, "compose", fail)
        assert site.run().failed_digests == 1
    assert (len(site.told("a")), len(site.told("b"))) == (0, 1)
    assert site.notices() == ["digests cannot be created for a/regular"]
    assert "Traceback" in logged(site, "digest.failed")["traceback"]
    assert kinds(site) == ["digest-failed"]
    assert site.run().failed_digests == 0
    assert len(site.told("a")) == 1
    assert site.notices()[1:] == ["digests can be created again for a/regular"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["update", "_succeeded"])
def test_a_source_that_raises_stops_only_itself(site: Site, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be it asked, or its answer stored."""
    place: Any = WatchedClone if where == "update" else passes_and_leadership
    whole = getattr(place, where)

    def fail(*arguments: Any) -> Any:
        name = arguments[0]._folder.stem if where == "update" else arguments[1].name
        if name == "first":
            raise OverflowError("date value out of range")
        return whole(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(place, where, fail)
        assert site.run().failed_sources == 1
    assert (len(site.told("a")), len(site.told("b"))) == (0, 1)
    assert site.notices() == ["the source first cannot be read"]
    assert "Traceback" in logged(site, "source.failed")["traceback"]
    site.run()
    assert len(site.told("a")) == 1


def test_maintenance_that_raises_stops_only_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied = []

    def fail(self: WatchedClone, used: Any) -> None:
        tidied.append(self._folder.stem)
        if self._folder.stem == "first":
            raise IndexError("list index out of range")

    with monkeypatch.context() as patched:
        patched.setattr(WatchedClone, "tidy", fail)
        site.run()
    assert tidied == ["first", "second"]
    assert "Traceback" in logged(site, "work.failed")["traceback"]
    assert kinds(site) == ["work-failed"]
    site.run()
    assert site.notices() == ["maintenance of first fails", "maintenance of first works again"]


def test_a_channel_that_raises_stops_only_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and what goes through other channels is sent."""
    whole = FileChannel.open

    def fail(self: FileChannel, history: Any) -> Any:
        if self.name == "files":
            raise UnicodeError("surrogates not allowed")
        return whole(self, history)

    with monkeypatch.context() as patched:
        patched.setattr(FileChannel, "open", fail)
        site.run()
    states = [(each.channel, each.state) for each in site.deliveries()]
    assert states == [("files", "queued"), ("desk", "sent"), ("desk", "sent")]
    assert site.notices() == ["the channel files does not work"]
    assert "Traceback" in logged(site, "channel.blocked")["traceback"]


def test_a_channel_that_cannot_pack_a_notice_keeps_it_from_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.configure(CONFIG.replace("operators: {channels: [desk]", "operators: {channels: [files, desk]"))
    whole = FileChannel.build_messages

    def fail(self: FileChannel, rendered: Any) -> Any:
        if self.name == "files" and rendered.is_notice:
            raise ZeroDivisionError
        return whole(self, rendered)

    monkeypatch.setattr(FileChannel, "build_messages", fail)
    site.upstream.rename(site.folder / "away.git")
    site.run()
    assert {each.channel for each in site.deliveries()} == {"desk"}
    assert "Traceback" in logged(site, "operators.unreachable")["traceback"]
