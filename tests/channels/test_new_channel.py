"""A channel is added in the three steps of CONTRIBUTING.md, which this module takes, and every channel keeps one contract."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT
from outgoing import maildir_config, no_shelf, rendered

from cachewatch.channels import CHANNELS, open_channel
from cachewatch.channels.chats import plain_lines
from cachewatch.config.channels import ChannelConfig, FeedConfig, FileConfig
from cachewatch.report.values import (
    SENT,
    Channel,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)


# Step 1: a class with the methods of `Channel`. This one appends a line for each digest to a file.
class LinesChannel:
    """A line for each digest, in one file."""

    def __init__(self, config: "LinesConfig") -> None:
        self.name = config.name
        self._path = config.path

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return the line."""
        line = plain_lines(f"{rendered.created:%Y-%m-%d} {rendered.title}\n")
        return [
            Message(
                key=rendered.key,
                target=str(self._path),
                payload=line.encode(),
                content_type="text/plain; charset=utf-8",
                created=rendered.created,
            )
        ]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the same line."""
        return original

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """There is nothing to connect."""
        yield self

    def deliver(self, message: Message) -> DeliveryResult:
        """Append the line, and say what became of it."""
        try:
            with Path(message.target).open("ab") as file:
                file.write(message.payload)
        except OSError as error:
            return DeliveryResult(
                outcome=DeliveryOutcome.BLOCKED, detail=f"{message.target}: {error.strerror}", is_channel=True
            )
        return SENT


# Step 2: its configuration.
class LinesConfig(ChannelConfig):
    """Lines in a file."""

    path: Path


# Step 3: its entry in the table of `channels/__init__.py`.
@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANNELS, "lines", f"{__name__}:LinesChannel")


MAKERS: dict[str, Callable[[Path], ChannelConfig]] = {
    "lines": lambda folder: LinesConfig(name="lines", type="lines", path=folder / "digests.txt"),
    "file": lambda folder: FileConfig(name="archive", path=f"{folder}/{{subscription}}-{{period}}.md"),
    "feed": lambda folder: FeedConfig(name="feed", path=f"{folder}/{{subscription}}.xml"),
    "maildir": lambda folder: maildir_config(folder / "inbox"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_channel_keeps_the_contract(tmp_path: Path, kind: str) -> None:
    """Final bytes for each target, and a result of every attempt; a retry hands over the same bytes."""
    config = MAKERS[kind](tmp_path)
    channel: Channel = open_channel(config)
    digest = rendered()
    messages = channel.build_messages(digest)

    assert channel.name == config.name
    assert messages
    assert list(channel.build_messages(digest)) == list(messages)
    assert len({message.target for message in messages}) == len(messages)
    assert {message.key for message in messages} == {digest.key}
    assert [channel.rebuild_message(digest, message).target for message in messages] == [
        message.target for message in messages
    ]
    with channel.open(no_shelf) as transport:
        assert [transport.deliver(message) for message in messages] == [SENT] * len(messages)
    with channel.open(no_shelf) as transport:
        assert [transport.deliver(message) for message in messages] == [SENT] * len(messages)
    assert any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", MAKERS)
def test_every_failure_is_a_result(tmp_path: Path, kind: str) -> None:
    """Nothing is raised where the place of a channel is a file, or gone."""
    (tmp_path / "file").write_text("in the way")
    channel = open_channel(MAKERS[kind](tmp_path / "file"))
    with channel.open(no_shelf) as transport:
        results = [transport.deliver(message) for message in channel.build_messages(rendered())]

    assert results
    assert all(result.outcome is not DeliveryOutcome.SENT and result.detail for result in results)


def test_the_steps_are_those_of_the_guide() -> None:
    """Each file that CONTRIBUTING.md names for the three steps is there."""
    section = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Add a channel in three steps\n")[2].partition("\n## ")[0]
    )

    assert [line[:2] for line in section.splitlines() if line[:1].isdigit()] == ["1.", "2.", "3."]
    for name in (
        "cachewatch/report/values.py",
        "cachewatch/channels/",
        "cachewatch/channels/__init__.py",
        "cachewatch/config/channels.py",
    ):
        assert name in section
        assert (ROOT / name).exists()
    assert Path(__file__).relative_to(ROOT).as_posix() in section
