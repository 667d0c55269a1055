"""Write digests to files: an archive by period, or the latest digest of each subscription."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS
from hashlib import sha256
from pathlib import Path

from cachewatch.channels import OneByOne
from cachewatch.config.channels import FeedConfig, FileConfig
from cachewatch.core.escaping_and_mentions import file_name, markup, one_line, plain_lines
from cachewatch.report.digest_and_message_values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)
from cachewatch.runtime.files_and_locks import publish, read

_FIELD = re.compile(r"\{([^{}]*)\}")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# One day, perhaps with a time, or two days; then a suffix that distinguishes digests of the same period.
_SHAPES = {"period": rf"{_DAY}(?:T[0-9]{{4,6}}Z?|\.\.{_DAY})?(?:-urgent)?(?:-[0-9a-f]{{8}})?"}
_PART = r"[A-Za-z0-9._+~-]+"


class OutputPlace:
    """A template of paths, such as /srv/www/{subscription}/{period}.{ext}."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = frozenset(_FIELD.findall(template))
        constant = Path(template.partition("{")[0] + "x" if self.fields else template)
        self.base = constant.absolute().parent  # everything up to the first folder that has a field

    def path(self, **values: str) -> Path:
        """Return the path with the values of all fields filled in; no value can lead out of its folder."""
        safe = {name: file_name(value) for name, value in values.items()}
        parts = [_FIELD.sub(lambda found: safe[found[1]], part) for part in Path(self.template).parts]
        return Path(*parts).absolute()

    def base_of(self, path: Path) -> Path:
        """Return the configured folder that contains `path`; for a path of an old configuration, its own folder."""
        return self.base if path.is_relative_to(self.base) else path.parent

    def made(self) -> Iterator[Path]:
        """Yield the existing files whose paths fit the template, whoever wrote them."""
        template = str(Path(self.template).absolute())
        pieces = [piece for piece in re.split(r"(\{[^{}]*\})", template) if piece]
        shapes = (_SHAPES.get(each[1:-1], _PART) if each.startswith("{") else re.escape(each) for each in pieces)
        shape = re.compile("".join(shapes))
        steps = _FIELD.sub("*", str(Path(template).relative_to(self.base)))
        for path in self.base.glob(steps):
            if shape.fullmatch(str(path)) and path.parent.resolve().is_relative_to(self.base.resolve()):
                yield path


# Errors that somebody has to repair, so that waiting does not help.
_OURS = {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, ELOOP, EISDIR, ENAMETOOLONG}


def of_error(error: OSError, path: Path) -> DeliveryResult:
    """Return the result of a delivery whose file `path` cannot be written."""
    message = one_line(f"{path}: {error.strerror or error}", 300)
    if error.errno in _OURS:
        return DeliveryResult(DeliveryOutcome.BLOCKED, f"{message}; create the folder and give cachewatch write access")
    return DeliveryResult(DeliveryOutcome.DEFERRED, message)


# The type and the content of a file, by its ending.
_FORMS: Mapping[str, tuple[str, Callable[[RenderedDigest], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", lambda rendered: markup(rendered.markdown).encode()),
    "html": ("text/html; charset=utf-8", lambda rendered: markup(rendered.page or rendered.html).encode()),
    "json": ("application/json", lambda rendered: rendered.json),
    "txt": ("text/plain; charset=utf-8", lambda rendered: plain_lines(rendered.text).encode()),
}


class PublishedChannel(OneByOne):
    """A base class for channels that write files for others to read."""

    def __init__(self, config: FileConfig | FeedConfig) -> None:
        self.name = config.name
        self._place = OutputPlace(config.path)

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:  # noqa: ARG002  the contract of a channel
        """Return the same message, so that its file is written again."""
        return original


class FileChannel(PublishedChannel):
    """Writes digests to files."""

    def __init__(self, config: FileConfig) -> None:
        super().__init__(config)
        self._config = config

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one file for each configured format."""
        values = {"subscription": rendered.subscription, "period": rendered.period, "key": rendered.key}
        return [
            rendered.message(str(self._place.path(ext=ext, **values)), content(rendered), content_type)
            for ext in self._config.formats
            for content_type, content in [_FORMS[ext]]
        ]

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """Begin a run of deliveries; at its end, files older than `keep` are removed."""
        with super().open(sent_history) as transport:
            yield transport
        if self._config.keep is not None:
            oldest = time.time() - self._config.keep.total_seconds()
            with suppress(OSError):  # the next run tries again
                for path in self._place.made():
                    if path.lstat().st_mtime < oldest and not path.is_symlink():
                        path.unlink()

    def deliver(self, message: Message) -> DeliveryResult:
        """Write one file, unless it exists with the same content."""
        path, content, fields = Path(message.target), message.payload, self._place.fields & {"period", "key"}
        try:
            if read(path) == content:
                return SENT
            # Without these fields, the file holds only the latest digest, and a later one may already be written.
            if not fields and any(sent.created > message.created for sent in self._sent_history(message.target, 1)):
                return SENT
            # In an archive, no other digest of the same period is overwritten.
            if fields == {"period"} and read(path) is not None:
                digits = sha256(message.key.encode()).hexdigest()[:8]
                path = path.with_name(f"{path.stem}-{digits}{path.suffix}")
            publish(path, content, base=self._place.base_of(path), mode=self._config.mode)
        except OSError as error:
            return of_error(error, path)
        return SENT
