"""Every way in which cachewatch fails, on one screen.

    CachewatchError
    ├── UsageError             2   the command or the configuration must be mended
    │   ├── ConfigError        2   the configuration file has mistakes
    │   ├── UnknownRevision    2   no such revision, date or tag
    │   └── RefusedAddress     2   a URL that could run a command or leak a password
    ├── SourceError            3   a source could not be read; the next run may succeed
    │   ├── HttpError          3   a server did not answer, or not with what was asked for
    │   ├── TooLarge           3   a file of a source is larger than it may be
    │   └── BrokenSource       3   a source that stays unreadable until somebody mends it
    ├── DocumentError          4   one document cannot be used; the others can
    │   ├── UnreadableDocument
    │   └── NotComparableDocument
    ├── WorkFailed             3   a process of ours took too much for one document, or ended over it
    ├── StateError             5   the state cannot be used
    │   └── DamagedRow         5   one digest or delivery in it cannot; all others can
    ├── TemplateError          6   a template is missing or wrong
    ├── DeliveryError          7   something could not be delivered, for good
    └── AnotherInstance       75   another cachewatch works on the same state

The number is the exit code. A message says where, what, and what to do about it.
"""


class CachewatchError(Exception):
    """The root of all failures that a user is told about in a sentence."""

    exit_code = 3


class UsageError(CachewatchError):
    """The command line or the configuration asks for something that cannot be done."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration file has mistakes, all of which the message lists."""


class UnknownRevision(UsageError):
    """A name resolves to no commit, no date and no tag."""


class RefusedAddress(UsageError):
    """A repository address that git could be tricked with, or that carries a password."""


class SourceError(CachewatchError):
    """A source could not be read; nothing is wrong with the command."""

    is_transient = True


class BrokenSource(SourceError):
    """A source that cannot be read until somebody mends an address, a branch, a key, an owner or a full disk."""

    is_transient = False


class TooLarge(SourceError):
    """A file of a source is larger than it may be, and stays so."""

    is_transient = False


class HttpError(SourceError):
    """A server did not answer, or not with what was asked for."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_after: float | None = None,
        was_sent: bool = False,
        is_too_large: bool = False,
    ) -> None:
        """Say what happened; without a `status` nothing was answered, but where it `was_sent` the server may have acted.

        `retry_after` is in seconds.
        """
        super().__init__(message)
        self.status = status
        self.is_transient = is_transient
        self.retry_after = retry_after
        self.was_sent = was_sent
        self.is_too_large = is_too_large  # what would have been answered


class DocumentError(CachewatchError):
    """One document cannot be used, for the reason in the message."""

    exit_code = 4


class UnreadableDocument(DocumentError):
    """The bytes are damaged, hostile or not a document at all."""


class NotComparableDocument(DocumentError):
    """A document of 2022, which names no hashes and so says nothing about single specs."""


class WorkFailed(CachewatchError):
    """Work on what strangers wrote took more than it may, or ended the process that did it; the message says which."""


class TemplateError(CachewatchError):
    """A template is missing or cannot be rendered."""

    exit_code = 6


class StateError(CachewatchError):
    """The state is damaged, of a newer version, or in a place that cannot be used."""

    exit_code = 5


class OlderState(StateError):
    """An older version wrote the state, and it has to be upgraded before this one reads it."""


class DamagedRow(StateError):
    """One digest or delivery in the state is damaged; all others can be used."""


class DeliveryError(CachewatchError):
    """A delivery failed for good; it is kept and can be retried by hand."""

    exit_code = 7


class AnotherInstance(CachewatchError):
    """Another process works on the same state."""

    exit_code = 75
