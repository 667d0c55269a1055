"""Short sentences that digests and notices share."""

from pathlib import Path

import pytest

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.core.kinds_and_specs import Side
from cachewatch.report.digest_and_message_values import Span
from cachewatch.service.streams_starts_silences import command, commands, streams_of, why
from cachewatch.store.cursors_and_remembered import Unread

CONFIG = """\
version: 1
sources: {{s: {{git: "{address}"}}}}
channels: {{files: {{type: file, path: "{{subscription}}/{{key}}"}}}}
subscriptions: {{all: {{channels: files, match: {{{match}}}}}}}
"""


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
    span = Span(source="s", address=address, before=before, after=after)
    whole, single = commands(stream, [span], {"develop": (repaired,)})

    assert whole.startswith(f"cachewatch diff {'a' * 12} {'b' * 12} --repo {address} '--package=p*'")
    assert single.startswith(f"cachewatch diff {'c' * 12} {'b' * 12} --repo {address} ")
    assert " --package=pa " in single
    assert " --tag=develop " in single
