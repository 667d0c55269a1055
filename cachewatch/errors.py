"""All exceptions of cachewatch, each with the exit code of a command that it ends.

A message names the place, the problem and the remedy.
"""


class CachewatchError(Exception):
    """The base class of all errors that are reported to the user as one sentence."""

    exit_code = 3


class UsageError(CachewatchError):
    """The command line or the configuration is invalid."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration file has mistakes; the message lists all of them."""


class UnknownRevision(UsageError):
    """A name that is not a known commit, date or tag."""


class RefusedAddress(UsageError):
    """A repository address that could trick git, or that contains a password."""


class NoHistoryIndex(UsageError):
    """There is no complete history index yet; `cachewatch history build` makes one."""


class SourceError(CachewatchError):
    """A source could not be read; the command itself is correct."""

    is_transient = True


class BrokenSource(SourceError):
    """A source that cannot be read until somebody acts: corrects its address, branch, key or owner, or frees disk space."""

    is_transient = False


class TooLarge(SourceError):
    """A file of a source exceeds its size limit, so a retry cannot succeed."""

    is_transient = False


class HttpError(SourceError):
    """A server did not answer, or sent an unexpected answer."""

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
        """Without a `status`, the server did not answer; if the request `was_sent`, it may have had an effect.

        `retry_after` is the number of seconds that the server asks to wait.
        """
        super().__init__(message)
        self.status = status
        self.is_transient = is_transient
        self.retry_after = retry_after
        self.was_sent = was_sent
        self.is_too_large = is_too_large  # the answer exceeds its size limit


class DocumentError(CachewatchError):
    """One document cannot be used, for the reason in the message."""

    exit_code = 4


class UnreadableDocument(DocumentError):
    """The bytes are damaged, hostile or not a document at all."""


class NotComparableDocument(DocumentError):
    """A document of 2022, which has no hashes, so that its specs cannot be told apart."""


class WorkFailed(CachewatchError):
    """Work on untrusted data exceeded a limit, or crashed the worker process; the message says which."""


class WorkerEnded(WorkFailed):
    """The work ended the worker process, and would end it again."""


class OutOfTime(WorkFailed):
    """Other work on the same source used up the time of this pass; the work itself may be fine."""


class TemplateError(CachewatchError):
    """A template is missing or cannot be rendered."""

    exit_code = 6


class StateError(CachewatchError):
    """The state is damaged, of another version, or in a place that cannot be used."""

    exit_code = 5


class DamagedRow(StateError):
    """One digest or delivery in the state is damaged; all others can be used."""


class DeliveryError(CachewatchError):
    """A delivery failed for good; it is kept and can be retried with `cachewatch deliveries retry`."""

    exit_code = 7


class AnotherInstance(CachewatchError):
    """Another process uses the same state."""

    exit_code = 75
