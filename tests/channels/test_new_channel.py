"""Every channel keeps one contract: the same bytes each time, and a result for every attempt."""

from collections.abc import Callable
from pathlib import Path

import pytest
from outgoing import maildir_config, no_shelf, rendered

from cachewatch.config.sources_and_channels import ChannelConfig, FeedConfig, FileConfig
from cachewatch.report.digest_and_message_values import SENT, Channel, DeliveryOutcome, open_channel

MAKERS: dict[str, Callable[[Path], ChannelConfig]] = {
    "file": lambda folder: FileConfig(name="archive", path=f"{folder}/{{subscription}}-{{period}}.md"),
    "feed": lambda folder: FeedConfig(name="feed", path=f"{folder}/{{subscription}}.xml"),
    "maildir": lambda folder: maildir_config(folder / "inbox"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_channel_keeps_the_contract(tmp_path: Path, kind: str) -> None:
    config = MAKERS[kind](tmp_path)
    channel: Channel = open_channel(config)
    digest = rendered()
    messages = channel.build_messages(digest)

    assert channel.name == config.name
    assert messages
    assert list(channel.build_messages(digest)) == list(messages)
    assert len({message.target for message in messages}) == len(messages)
    assert {message.key for message in messages} == {digest.key}
    targets = [channel.rebuild_message(digest, message).target for message in messages]
    assert targets == [message.target for message in messages]
    with channel.open(no_shelf) as transport:
        assert [transport.deliver(message) for message in messages] == [SENT] * len(messages)
    with channel.open(no_shelf) as transport:
        assert [transport.deliver(message) for message in messages] == [SENT] * len(messages)
    assert any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", MAKERS)
def test_every_failure_is_a_result(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("in the way")
    channel = open_channel(MAKERS[kind](tmp_path / "file"))
    with channel.open(no_shelf) as transport:
        results = [transport.deliver(message) for message in channel.build_messages(rendered())]

    assert results
    assert all(result.outcome is not DeliveryOutcome.SENT and result.detail for result in results)
