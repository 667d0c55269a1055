"""Every way in which cachewatch fails, on one screen.

    CachewatchError
    ├── UsageError             2   the command or the configuration must be mended
    │   ├── UnknownRevision    2   no such revision, date or tag
    │   └── RefusedAddress     2   a URL that could run a command or leak a password
    ├── SourceError            3   a source could not be read; the next run may succeed
    ├── DocumentError          4   one document cannot be used; the others can
    │   ├── UnreadableDocument
    │   └── NotComparableDocument
    └── TemplateError          6   a template is missing or wrong

The number is the exit code. A message says where, what, and what to do about it.
"""


class CachewatchError(Exception):
    """The root of all failures that a user is told about in a sentence."""

    exit_code = 3


class UsageError(CachewatchError):
    """The command line or the configuration asks for something that cannot be done."""

    exit_code = 2


class UnknownRevision(UsageError):
    """A name resolves to no commit, no date and no tag."""


class RefusedAddress(UsageError):
    """A repository address that git could be tricked with, or that carries a password."""


class SourceError(CachewatchError):
    """A source could not be read; nothing is wrong with the command."""


class DocumentError(CachewatchError):
    """One document cannot be used, for the reason in the message."""

    exit_code = 4


class UnreadableDocument(DocumentError):
    """The bytes are damaged, hostile or not a document at all."""


class NotComparableDocument(DocumentError):
    """A document of 2022, which names no hashes and so says nothing about single specs."""


class TemplateError(CachewatchError):
    """A template is missing or cannot be rendered."""

    exit_code = 6
