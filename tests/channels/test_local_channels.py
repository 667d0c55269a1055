"""Digests that stay on this machine: files, feeds, Maildirs, and the sendmail program."""

import errno
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import feedparser  # type: ignore[import-untyped]
import pytest
from mailservers import header
from outgoing import SENDER, Shelves, deliver, maildir_config, no_shelf, rendered, send
from tools import program

from cachewatch.config.sources_and_channels import ChannelConfig, FeedConfig, FileConfig, SendmailConfig
from cachewatch.report.digest_and_message_values import SENT, DeliveryOutcome, open_channel

HOSTILE = [
    *("../../etc/passwd", "a\r\n\x00\x1b[31m\x9b\u202e\ufffe\ud800]]>", "<script>&amp;</script>"),
    *("x" * 10_000, "ü" * 300, "", ".."),
]


def files(path: Path, place: str = "", **values: Any) -> FileConfig:
    place = place or str(path / "www/{subscription}/{period}.{ext}")
    overwrite = not {"{period}", "{key}"} & {*re.findall("{.*?}", place)}
    everything: dict[str, Any] = {"name": "archive", "path": place, "overwrite": overwrite}
    return FileConfig(**(everything | values))


def feed(path: Path, **values: Any) -> FeedConfig:
    everything: dict[str, Any] = {"name": "feed", "path": str(path / "www/{subscription}.atom")}
    return FeedConfig(**(everything | values))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_an_archive_by_period(tmp_path: Path) -> None:
    """Each format in a file of its own, readable for a web server whatever the umask is."""
    before = os.umask(0o077)
    try:
        answers = send(files(tmp_path, formats=("md", "html", "json", "txt")), rendered(), rendered())
    finally:
        os.umask(before)

    assert answers == [SENT] * 8
    period = "ml-team/2026-07-27..2026-08-03"
    assert names(tmp_path / "www") == [f"{period}.{ext}" for ext in ("html", "json", "md", "txt")]
    page = tmp_path / "www" / f"{period}.html"
    assert page.read_text() == rendered().html
    assert page.stat().st_mode & 0o777 == 0o644
    assert page.parent.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "www" / f"{period}.json").read_bytes() == rendered().json
    assert (tmp_path / "www" / f"{period}.txt").read_text().startswith(f"{rendered().title}\n\n")


def test_two_digests_of_one_period_are_both_kept(tmp_path: Path) -> None:
    first, second = rendered(1, period="2026-08-03"), rendered(2, period="2026-08-03")
    for _ in range(2):
        assert send(files(tmp_path), first, second) == [SENT, SENT]

    found = names(tmp_path / "www")
    assert found[1] == "ml-team/2026-08-03.md"
    assert re.fullmatch(r"ml-team/2026-08-03-[0-9a-f]{8}\.md", found[0])
    assert len(found) == 2
    assert {(tmp_path / "www" / name).read_text() for name in found} == {first.markdown, second.markdown}


def test_the_latest_digest_stays_the_latest(tmp_path: Path) -> None:
    """A path without a period is written over, but never by an older digest that was late."""
    config, sent_history = files(tmp_path, place=str(tmp_path / "{subscription}.md")), Shelves()

    assert deliver(config, sent_history, rendered(1), rendered(2), rendered(1)) == [SENT] * 3
    assert (tmp_path / "ml-team.md").read_text() == rendered(2).markdown


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:15])
@pytest.mark.parametrize("make", [files, feed])
def test_names_lead_nowhere(make: Callable[..., ChannelConfig], text: str, tmp_path: Path) -> None:
    """Whatever a name holds, the file lies where the operator said, under a name of its own."""
    config = make(tmp_path / "base")
    (tmp_path / "base/www").mkdir(parents=True)
    one, other = rendered(subscription=text, period=text, key=text), rendered(subscription=f"{text}x", period=text)

    assert set(send(config, one, other)) == {SENT}
    assert len(names(tmp_path)) == 2
    assert all(name.startswith("base/www/") for name in names(tmp_path))


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A planted link is replaced if it stands for the file, and refused if it stands for a folder."""
    (tmp_path / "www/ml-team").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "www/ml-team/2026-07-27..2026-08-03.md").symlink_to(victim)
    assert send(files(tmp_path), rendered()) == [SENT]
    assert victim.read_text() == "precious"

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "www/other").symlink_to(tmp_path / "elsewhere")
    (answer,) = send(files(tmp_path), rendered(subscription="other"))
    assert answer.outcome is DeliveryOutcome.BLOCKED
    assert names(tmp_path / "elsewhere") == []


def test_folders_that_everybody_may_write_in(tmp_path: Path) -> None:
    """Somebody could change what is published: the operator is told what to run."""
    (tmp_path / "www/ml-team").mkdir(parents=True)
    (tmp_path / "www/ml-team").chmod(0o777)
    (answer,) = send(files(tmp_path), rendered())

    assert answer.outcome is DeliveryOutcome.BLOCKED
    assert "chmod o-w" in answer.detail


@pytest.mark.parametrize(
    ("call", "code", "verdict"),
    [("write", errno.ENOSPC, "deferred"), ("fsync", errno.EIO, "deferred"), ("rename", errno.EROFS, "blocked")],
)
@pytest.mark.parametrize("make", [files, feed, lambda path: maildir_config(path / "www/inbox")])
def test_disks_fail(make: Callable[[Path], ChannelConfig], call: str, code: int, verdict: str, tmp_path: Path) -> None:
    """No room, a bad disk, a read-only one: an answer, nothing half-written, and the next attempt succeeds."""
    (tmp_path / "www").mkdir()

    def fail(*args: Any, **values: Any) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        real = os.fdopen
        patch.setattr(os, "fdopen", lambda handle, mode: _Full(handle, fail) if call == "write" else real(handle, mode))
        if call != "write":
            patch.setattr(os, call, fail)
        (failed,) = send(make(tmp_path), rendered())
    assert failed.outcome == verdict
    assert os.strerror(code) in failed.detail
    assert names(tmp_path) == []

    assert send(make(tmp_path), rendered()) == [SENT]
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("make", [files, feed, lambda path: maildir_config(path / "www/inbox")])
def test_a_power_cut(make: Callable[[Path], ChannelConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content is on the disk before the name is, and the name before anybody says that it was sent."""
    (tmp_path / "www").mkdir()
    assert send(make(tmp_path), rendered(subscription="ml-team")) == [SENT]  # makes the folders
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def sync(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def move(*args: Any, **values: Any) -> None:
        calls.append("rename")
        rename(*args, **values)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", move)
    assert send(make(tmp_path), rendered(1)) == [SENT]

    assert calls == ["file", "rename", "folder"]


class _Full:
    def __init__(self, handle: int, fail: Callable[..., None]) -> None:
        self._handle = handle
        self.write = fail

    def __enter__(self) -> "_Full":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def test_the_folder_is_missing(tmp_path: Path) -> None:
    """The operator's own folder is made, but not what it lies in: it may be a disk that is not mounted."""
    (answer,) = send(files(tmp_path / "not-mounted/srv"), rendered())

    assert answer.outcome is DeliveryOutcome.BLOCKED
    assert "create the folder" in answer.detail


def test_old_files_are_removed(tmp_path: Path) -> None:
    """Those that this channel has written, and only those: not an index, not what links point at."""
    config = files(tmp_path, keep=timedelta(days=30), formats=("md", "html"))
    send(config, rendered())
    folder = tmp_path / "www/ml-team"
    mine = ["2019-01-07-meeting.md", "index.html"]
    for name in mine:
        (folder / name).write_text("mine")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 31 * 86400,) * 2)
    send(config, rendered(1))

    assert names(folder) == sorted([*mine, "2026-08-03..2026-08-10.html", "2026-08-03..2026-08-10.md"])


def test_a_feed_for_readers(tmp_path: Path) -> None:
    """Feedparser and xmllint read it; entries keep their ids, newest first, and there are so many at most."""
    config, sent_history = feed(tmp_path, entries=3, url="https://hpc.example.org/{subscription}.atom"), Shelves()
    for number in range(5):
        one = rendered(number, archive_url=f"https://hpc.example.org/{number}")
        assert deliver(config, sent_history, one) == [SENT]
    path = tmp_path / "www/ml-team.atom"
    before = path.read_bytes()
    deliver(config, sent_history, rendered(4, archive_url="https://hpc.example.org/4"))

    assert path.read_bytes() == before
    parsed = feedparser.parse(before)
    assert not parsed.bozo
    assert parsed.version == "atom10"
    assert parsed.feed.id == parsed.feed.links[0].href == "https://hpc.example.org/ml-team.atom"
    assert parsed.feed.updated == "2026-08-31T05:30:00Z"
    assert [entry.link for entry in parsed.entries] == [f"https://hpc.example.org/{n}" for n in (4, 3, 2)]
    assert len({entry.id for entry in parsed.entries}) == 3
    assert parsed.entries[0].content[0].value == "<p>Digest 4: gcc@12 &#8594; ü</p>"
    subprocess.run([program("xmllint"), "--noout", str(path)], check=True)


def test_a_feed_never_goes_back_in_time(tmp_path: Path) -> None:
    """An entry that was late is added where it belongs; `updated` only grows."""
    config, sent_history = feed(tmp_path), Shelves()
    deliver(config, sent_history, rendered(0), rendered(5))
    deliver(config, sent_history, rendered(2))
    root = ET.fromstring((tmp_path / "www/ml-team.atom").read_bytes())
    atom = "{http://www.w3.org/2005/Atom}"

    assert root.findtext(f"{atom}updated") == "2026-09-07T05:30:00Z"
    updated = [entry.findtext(f"{atom}updated") for entry in root.iter(f"{atom}entry")]
    assert updated == [f"2026-{day}T05:30:00Z" for day in ("09-07", "08-17", "08-03")]


def test_a_feed_stays_of_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers fetch it again and again: large entries push out old ones, and the new one is always there."""
    monkeypatch.setattr("cachewatch.channels.files_and_feeds._MOST_BYTES", 40_000)
    config, sent_history = feed(tmp_path), Shelves()
    deliver(config, sent_history, *(rendered(n, feed=f"<p>{n}</p>" + "x" * 10_000) for n in range(6)))
    parsed = feedparser.parse((tmp_path / "www/ml-team.atom").read_bytes())

    assert 1 <= len(parsed.entries) <= 4
    assert parsed.entries[0].content[0].value.startswith("<p>5</p>")


def test_a_damaged_entry_is_left_out(tmp_path: Path) -> None:
    """One that cannot be read takes no other along; a new one that cannot be read is dead."""
    config, sent_history = feed(tmp_path), Shelves()
    deliver(config, sent_history, rendered(0), rendered(1))
    channel = open_channel(config)
    fields = {name: getattr(sent_history.sent[0], name) for name in sent_history.sent[0].__struct_fields__}
    sent_history.sent[0] = type(sent_history.sent[0])(**(fields | {"payload": b"<entry"}))

    assert deliver(config, sent_history, rendered(2)) == [SENT]
    assert len(feedparser.parse((tmp_path / "www/ml-team.atom").read_bytes()).entries) == 2
    with channel.open(sent_history) as transport:
        assert transport.deliver(sent_history.sent[0]).outcome is DeliveryOutcome.DEAD


def test_a_maildir_gets_each_mail_once(tmp_path: Path) -> None:
    """A retry adds nothing, whether the mail was read in the meantime or not; formail can read it."""
    config = maildir_config(tmp_path / "inbox")
    assert send(config, rendered(), rendered()) == [SENT, SENT]
    (path,) = (tmp_path / "inbox/new").iterdir()
    assert header(path.read_bytes(), "Subject").startswith("[ml-team] 3 removed")
    assert path.stat().st_mode & 0o777 == 0o600
    path.rename(tmp_path / "inbox/cur" / f"{path.name}:2,S")

    assert send(config, rendered()) == [SENT]
    assert len(names(tmp_path / "inbox")) == 1
    channel = open_channel(config)
    (message,) = channel.build_messages(rendered())
    with channel.open(no_shelf) as transport:
        assert transport.deliver(channel.rebuild_message(rendered(), message)) == SENT
    assert len(names(tmp_path / "inbox")) == 2


def sendmail(folder: Path, script: str, **values: Any) -> SendmailConfig:
    """Return the configuration of a sendmail program that does what `script` says."""
    path = folder / "sendmail"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return SendmailConfig(name="local", sender=SENDER, command=(str(path), "-i"), **values)


def test_sendmail_gets_the_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sender and recipient as arguments, behind which no option can hide; and none of our secrets."""
    monkeypatch.setenv("CACHEWATCH_SMTP_PASSWORD", "s3cr3t")
    script = f'printf "%s\\n" "$@" > {tmp_path}/arguments; cat > {tmp_path}/mail; env > {tmp_path}/environment'
    config = sendmail(tmp_path, script, bounces="bounces@example.org")

    assert send(config, rendered()) == [SENT]
    assert (tmp_path / "arguments").read_text().split() == ["-i", "-f", "bounces@example.org", "--", "kim@example.org"]
    assert (tmp_path / "mail").read_bytes() == open_channel(config).build_messages(rendered())[0].payload
    assert b"\r" not in (tmp_path / "mail").read_bytes()
    assert "s3cr3t" not in (tmp_path / "environment").read_text()


@pytest.mark.parametrize(
    ("code", "verdict", "is_address"),
    [
        (64, "blocked", False),
        (65, "dead", False),
        (67, "dead", True),
        (75, "deferred", False),
        (77, "blocked", False),
        (1, "deferred", False),
    ],
)
def test_what_exit_codes_mean(code: int, verdict: str, is_address: bool, tmp_path: Path) -> None:
    """As sysexits.h has it, with the program's words; what it does not name may work later."""
    (answer,) = send(sendmail(tmp_path, f"echo 'cannot \033[31mdo it' >&2; exit {code}"), rendered())

    assert (answer.outcome, answer.is_address, answer.may_have_arrived) == (verdict, is_address, False)
    assert "cannot \\x1b[31mdo it" in answer.detail
    assert str(code) in answer.detail


def test_sendmail_hangs_dies_or_is_not_there(tmp_path: Path) -> None:
    """It is stopped; a mail may have gone all the same."""
    began = time.monotonic()
    (slow,) = send(sendmail(tmp_path, "sleep 60 & sleep 60", timeout=timedelta(seconds=0.3)), rendered())
    (killed,) = send(sendmail(tmp_path, "kill -9 $$"), rendered())
    (missing,) = send(SendmailConfig(name="local", sender=SENDER, command=(str(tmp_path / "nowhere"),)), rendered())

    assert time.monotonic() - began < 50
    assert (slow.outcome, slow.may_have_arrived) == (DeliveryOutcome.DEFERRED, True)
    assert (killed.outcome, killed.may_have_arrived) == (DeliveryOutcome.DEFERRED, True)
    assert missing.outcome is DeliveryOutcome.BLOCKED
    assert "nowhere" in missing.detail


def test_sendmail_wants_an_address(tmp_path: Path) -> None:
    (answer,) = send(sendmail(tmp_path, f"touch {tmp_path}/called"), rendered(to=("-oQ/tmp root",)))

    assert (answer.outcome, answer.is_address) == (DeliveryOutcome.DEAD, True)
    assert not (tmp_path / "called").exists()
