"""What is fuzzed: a function of bytes for each reader, which may refuse them in a sentence and must do nothing else."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.schedules_and_quiet_times import as_datetime, parse_days, parse_when, quiet_until
from cachewatch.config.settings_and_subscriptions import QuietTime
from cachewatch.core.comparison.package_changes import compare
from cachewatch.documents.recognition_and_front_matter import read_tags_file
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import read_lock, read_manifest
from cachewatch.errors import CachewatchError
from cachewatch.extensions.buildcaches.indexes_and_published_tags import read_index

Target = Callable[[bytes], None]
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def document(data: bytes) -> None:
    """A document, which is compared with itself and with nothing; nothing happened to it, and all of it is new."""
    found = parse(data, "specs.md")
    assert compare("zlib", found, found) is None
    change = compare("zlib", None, found)
    assert change is not None
    assert change.counts.added == len(found.specs)


def index(data: bytes) -> None:
    """The index of a build cache."""
    read_index(data, "index.json")


def lock(data: bytes) -> None:
    """A lock file, and the manifest of an environment."""
    for read in (read_lock, read_manifest):
        with suppress(CachewatchError):
            read(data, "environment")


def tags(data: bytes) -> None:
    """The list of tags and stacks of a catalogue."""
    read_tags_file(data)


def revision(data: bytes) -> None:
    """A date as people write it where a revision is asked for."""
    as_datetime(data.decode(errors="replace"), NOW)


def schedule(data: bytes) -> None:
    """When a digest is due, and days on which nothing is sent."""
    text = data.decode(errors="replace")
    with suppress(CachewatchError, ValueError):
        found = parse_when(text)
        slot = found.next_after(NOW)
        assert slot is None or slot > NOW
    with suppress(CachewatchError, ValueError):
        days = parse_days(text)
        quiet_until([QuietTime(days=days)], NOW, "UTC")


def configuration(data: bytes) -> None:
    """A configuration file."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "cachewatch.yaml"
        path.write_bytes(data)
        path.chmod(0o600)
        read_config(path, with_secrets=False)


_ALL: tuple[Target, ...] = (document, index, lock, tags, revision, schedule, configuration)
TARGETS: Mapping[str, Target] = {each.__name__: each for each in _ALL}


def attempt(target: Target, data: bytes) -> str:
    """Give `data` to `target`, and return why it is refused: one short paragraph; empty if it is taken."""
    try:
        target(data)
    except CachewatchError as error:
        if not str(error):
            raise AssertionError("a refusal says why") from error
        return str(error)
    return ""
