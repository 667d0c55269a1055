"""Make text that came from a document harmless to a terminal, a log and a table.

Names, versions and variants are written by strangers. Control characters could move the
cursor or recolour the screen, and bidirectional overrides could make one name look like
another; all of them are shown as what they are.
"""

import re

# C0 and C1 controls, line and paragraph separators, zero-width and bidirectional marks,
# the byte order mark, and halves of characters.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff]"
)


def safe(text: str) -> str:
    """Return `text` with everything that is not plainly visible written as an escape."""
    return _UNSAFE.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def safe_lines(text: str) -> str:
    """Return `text` of several lines, each of them safe."""
    return "\n".join(map(safe, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
