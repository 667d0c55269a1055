"""All exceptions of cachewatch, each with the exit code of a command that fails with it.

A message names the place, the problem and the remedy.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class CachewatchError(Exception):
    """The base class of all errors that are reported to the user as one sentence."""

    exit_code = 3


class UsageError(CachewatchError):
    """The command line or the configuration is invalid."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration file has mistakes; the message lists all of them."""


class UnknownRevision(UsageError):
    """A given name is not a known commit, date or tag."""


class RefusedAddress(UsageError):
    """The address of a repository could make git run commands, or contains a password."""


class NoHistoryIndex(UsageError):
    """There is no complete history index yet; `cachewatch history build` makes one."""


class SourceError(CachewatchError):
    """A source could not be read; the command itself is correct."""

    is_transient = True


class BrokenSource(SourceError):
    """A source cannot be read until a person corrects its address, branch, key or owner, or frees disk space."""

    is_transient = False


class TooLarge(SourceError):
    """A file of a source exceeds its size limit, so a retry cannot succeed."""

    is_transient = False


class HttpError(SourceError):
    """A server did not answer, or sent an unexpected answer."""

    def __init__(
        self, message: str, *, is_transient: bool = False, retry_after: float | None = None, was_sent: bool = False
    ) -> None:
        """`is_transient`: a retry may help, after `retry_after` seconds; `was_sent`: the server may have acted."""
        super().__init__(message)
        self.is_transient = is_transient
        self.retry_after = retry_after
        self.was_sent = was_sent


class DocumentError(CachewatchError):
    """One document cannot be used, for the reason in the message."""

    exit_code = 4


class UnreadableDocument(DocumentError):
    """The bytes of a document are damaged or hostile, or no document at all."""


class NotComparableDocument(DocumentError):
    """A document has the format of 2022, without hashes, so its specs cannot be distinguished."""


class WorkFailed(CachewatchError):
    """Work on untrusted data exceeded a limit or failed, or its worker process crashed; the message says which."""


class WorkerEnded(WorkFailed):
    """The work terminated its worker process, and would do so again."""


class OutOfTime(WorkFailed):
    """Work had no time left in this pass, because other work on the same source used it up; it may succeed later."""


class TemplateError(CachewatchError):
    """A template is missing or cannot be rendered."""

    exit_code = 6


class StateError(CachewatchError):
    """The state of the service is damaged, was written by another version, or lies in a place that cannot be used."""

    exit_code = 5


class DamagedRow(StateError):
    """One digest or delivery in the state is damaged; all others can be used."""


class DeliveryError(CachewatchError):
    """A delivery failed for good; it is kept and can be retried with `cachewatch deliveries retry`."""

    exit_code = 7


class AnotherInstance(CachewatchError):
    """Another process uses the same state."""

    exit_code = 75


@contextmanager
def explained(kind: type[CachewatchError], what: str, remedy: str = "") -> Iterator[None]:
    """Turn an OSError of the block into an error of `kind`, whose message is `what`, the reason and the `remedy`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror}{remedy and f'; {remedy}'}") from error
