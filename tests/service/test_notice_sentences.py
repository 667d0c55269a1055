"""Short sentences that digests and notices share."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cachewatch.config.reading import read_config
from cachewatch.core.model import Side
from cachewatch.report.values import Span
from cachewatch.service.streams import command, commands, returned, streams_of, unread, why
from cachewatch.store.cursors import Unread

CONFIG = """\
version: 1
sources: {{s: {{git: "{address}"}}}}
channels: {{files: {{type: file, path: "{{subscription}}/{{key}}"}}}}
subscriptions: {{all: {{channels: files, match: {{{match}}}}}}}
"""


def test_documents_that_cannot_be_read_are_counted_beyond_twenty() -> None:
    """By revision, with the names of the first."""
    left = {"since": "a" * 40, "base": "b" * 40, "base_tag": "develop", "reason": "damaged"}
    found = {"develop": [Unread(package=f"p{n:02}", **left) for n in range(25)]}
    (line,) = unread(found)

    assert line.startswith("documents of develop cannot be read since revision aaaaaaaaaa: p00, p01, ")
    assert "p19 and 5 more; changes in them are reported later" in line
    (line,) = unread({"develop": found["develop"][:2]})
    assert "aaaaaaaaaa: p00, p01; changes in them are reported later" in line


def test_a_tag_that_is_back_says_since_when_it_was_gone() -> None:
    (line,) = returned({"v1.0": datetime(2026, 11, 1, 4, 5, tzinfo=UTC)}, "Europe/Berlin")

    assert line == "v1.0 is back; it was gone since 2026-11-01 05:05 CET, and is compared with its state before that"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("https://git.example.org/catalogue.git", "https://git.example.org/catalogue.git"),
        ("/srv/catalogue.git", ""),
        ("file:///srv/catalogue.git", ""),
        ("git@git.example.org:/srv/catalogue.git", ""),
        ("https://token@git.example.org/catalogue.git", ""),
    ],
)
@pytest.mark.parametrize("match", ["packages: zlib", "environment: spack.lock"])
def test_readers_see_no_path_of_the_server(tmp_path: Path, address: str, public: str, match: str) -> None:
    """A command names the public address of the source, or there is none; an environment is named by its file."""
    (tmp_path / "cachewatch.yaml").write_text(CONFIG.format(address=address, match=match))
    config = read_config(tmp_path / "cachewatch.yaml")
    (stream,) = streams_of(config)
    side = Side(name="x", revision="a" * 40)
    shown = command(stream, Span(source="s", address=config.sources["s"].public_address, before=side, after=side))

    assert (f" --repo {public} " in shown) if public else (shown == "")
    assert str(tmp_path) not in shown + " ".join(why(stream))


def test_a_command_shows_a_repaired_document_as_it_is_compared(tmp_path: Path) -> None:
    """From its last readable version: between the revisions of the digest, nothing of it can be compared."""
    address = "https://git.example.org/catalogue.git"
    (tmp_path / "cachewatch.yaml").write_text(CONFIG.format(address=address, match="packages: p*"))
    (stream,) = streams_of(read_config(tmp_path / "cachewatch.yaml"))
    before, after = (Side(name=name, revision=name * 40) for name in "ab")
    repaired = Unread(package="pa", base="c" * 40, base_tag="develop", since="a" * 40, reason="damaged")
    whole, single = commands(
        stream, [Span(source="s", address=address, before=before, after=after)], {"develop": (repaired,)}
    )

    assert whole.startswith(f"cachewatch diff {'a' * 12} {'b' * 12} --repo {address} '--package=p*'")
    assert single.startswith(f"cachewatch diff {'c' * 12} {'b' * 12} --repo {address} ")
    assert " --package=pa " in single
    assert " --tag=develop " in single
