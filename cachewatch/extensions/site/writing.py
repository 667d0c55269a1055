"""Write the pages that changed, and remove those that nothing makes any more.

Each page is known by a key: a digest of the templates and of everything that it says. What
has the key of the last build is neither rendered nor touched. Only files that a build
wrote, by its own list of them, are ever replaced or removed.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec
from msgspec import Struct

from cachewatch.core.names import safe
from cachewatch.errors import SourceError, UsageError
from cachewatch.extensions.site.reading import Remembered
from cachewatch.runtime.files import put, read_inside, remove

_OWN = ".cachewatch"
# Of what is remembered; another one is not understood, and everything is built anew.
_EDITION = "cachewatch.site/3"
_LARGEST = 2 * 2**30

Value = TypeVar("Value")


class WrittenPages(Struct, frozen=True):
    """How many pages a build wrote, left as they were, and removed."""

    written: int
    kept: int
    removed: int


class _Manifest(Struct):
    edition: str
    pages: dict[str, str]  # key by path


class Folder:
    """The folder of a site, and what the last build left there."""

    def __init__(self, path: Path) -> None:
        """Take `path` for a site: one of ours, an empty folder, or one that is not there yet."""
        self.path = path
        self._before = self._manifest()
        self._pages: dict[str, str] = {}
        self._written = 0
        try:
            is_foreign = self._before is None and path.exists() and any(path.iterdir())
        except OSError as error:
            raise UsageError(f"{path}: cannot be used: {error.strerror}") from error
        if is_foreign:
            raise UsageError(
                f"{path}: this folder contains something other than a site of cachewatch; choose another one"
            )

    def remembered(self) -> Remembered:
        """Return what the last build read, or nothing."""
        return self._load("history.msgpack", msgspec.msgpack.Decoder(Remembered).decode) or Remembered()

    def remember(self, remembered: Remembered) -> None:
        """Keep what was read for the next build."""
        self._write(f"{_OWN}/history.msgpack", msgspec.msgpack.encode(remembered))

    def offer(self, path: str, key: str) -> bool:
        """Tell whether the page at `path` has to be made, because what it says has another `key`."""
        assert path not in self._pages, path
        self._pages[path] = key
        before = self._before.pages if self._before else {}
        return before.get(path) != key or not (self.path / path).is_file()

    def put(self, path: str, content: bytes) -> None:
        """Write one page."""
        if not self._written:
            # Should this build not come to its end, the next one knows whose folder it is, and trusts no page.
            self._note(dict.fromkeys({**(self._before.pages if self._before else {}), **self._pages}, ""))
        self._write(path, content)
        self._written += 1

    def finish(self) -> WrittenPages:
        """Remove what nothing makes any more, and note what there is."""
        stale = [path for path in (self._before.pages if self._before else {}) if path not in self._pages]
        for path in filter(_is_ours, stale):
            self._remove(path)
        self._note(self._pages)
        return WrittenPages(self._written, len(self._pages) - self._written, len(stale))

    def _note(self, pages: Mapping[str, str]) -> None:
        manifest = _Manifest(_EDITION, dict(sorted(pages.items())))
        self._write(f"{_OWN}/pages.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1))

    def _manifest(self) -> _Manifest | None:
        found = self._load("pages.json", msgspec.json.Decoder(_Manifest).decode)
        if found is not None and found.edition != _EDITION:
            # Still ours: its pages are replaced, and what is remembered of it is not used.
            found = _Manifest(_EDITION, dict.fromkeys(found.pages, ""))
            self._forget()
        return found

    def _forget(self) -> None:
        self._remove(f"{_OWN}/history.msgpack")

    def _remove(self, path: str) -> None:
        try:
            remove(self.path / path, base=self.path)
        except OSError as error:
            raise SourceError(f"{self.path / path}: cannot be removed: {error.strerror}") from error

    def _load(self, name: str, decode: Callable[[bytes], Value]) -> Value | None:
        try:
            return decode(read_inside(self.path, f"{_OWN}/{name}", most=_LARGEST))
        except (OSError, msgspec.MsgspecError):
            return None

    def _write(self, path: str, content: bytes) -> None:
        target = self.path / path
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            put(target, content, base=self.path, mode=0o644)
        except OSError as error:
            raise SourceError(f"{target}: cannot be written: {error.strerror}") from error


def key_of(template: str, values: Mapping[str, object]) -> str:
    """Return what tells a page from every other: `template` is a digest of all templates."""
    said = msgspec.json.encode([template, values])
    return hashlib.sha256(said).hexdigest()[:32]


def _is_ours(path: str) -> bool:
    """Tell whether a path of the list can be one that was written here, whoever wrote the list."""
    parts = PurePosixPath(path).parts
    return 1 <= len(parts) <= 2 and ".." not in parts and not path.startswith("/") and safe(path) == path
