"""How the headers of our mail are folded.

The standard library's policy turns a long List-Unsubscribe, References or In-Reply-To into
encoded words, which no mail program reads, and it can make invalid ones of a long subject.
Here headers are folded at their own spaces only, and a subject beyond ASCII is encoded by
the older and sounder `email.header`.
"""

from email.header import Header
from email.headerregistry import HeaderRegistry
from email.policy import EmailPolicy
from functools import cache
from typing import Any

# The headers of addresses, dates and MIME are the standard library's own business.
_THEIRS = frozenset(
    {"from", "to", "reply-to", "date", "mime-version", "content-type", "content-transfer-encoding"}
    | {"content-disposition"}
)
_WIDTH = 78


class _Headers(HeaderRegistry):
    """Makes the class of a header once; the standard library makes it for each header, which takes longer than to parse it."""

    def __init__(self) -> None:
        super().__init__()
        self._class_of = cache(super().__getitem__)

    def __getitem__(self, name: str) -> Any:
        """Return the class of a header."""
        return self._class_of(name.lower())


class MailPolicy(EmailPolicy):
    """Folds every header of ours at its own spaces, and keeps it as the text that it is."""

    def header_store_parse(self, name: str, value: Any) -> tuple[str, Any]:
        """Return a header as a message keeps it."""
        if name.lower() in _THEIRS:
            return super().header_store_parse(name, value)
        text = str(value)
        if len(text.splitlines()) > 1 or "\0" in text:
            raise ValueError(f"{name}: a header is one line of text")
        return name, text

    def fold(self, name: str, value: Any) -> str:
        """Return the header with its line ends."""
        return super().fold(name, value) if name.lower() in _THEIRS else self._folded(name, str(value))

    def fold_binary(self, name: str, value: Any) -> bytes:
        """Return the header with its line ends, as bytes."""
        if name.lower() in _THEIRS:
            return super().fold_binary(name, value)
        return self._folded(name, str(value)).encode("ascii")

    def _folded(self, name: str, text: str) -> str:
        if name.lower() == "subject" and (not text.isascii() or "=?" in text):
            encoded = Header(text, "utf-8", maxlinelen=_WIDTH, header_name=name).encode(linesep="\n")
            return f"{name}: {encoded}".replace("\n", self.linesep) + self.linesep
        lines = [f"{name}:"]
        for word in text.encode("ascii", "backslashreplace").decode().split():
            if len(lines[-1]) + 1 + len(word) <= _WIDTH or lines[-1] == f"{name}:":
                lines[-1] += f" {word}"
            else:
                lines.append(f" {word}")
        return self.linesep.join(lines) + self.linesep


_HEADERS = _Headers()
# For SMTP, and for Maildirs and programs of this machine.
INTERNET, LOCAL = (MailPolicy(linesep=end, max_line_length=_WIDTH, header_factory=_HEADERS) for end in ("\r\n", "\n"))
