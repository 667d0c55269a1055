"""Make untrusted text harmless to a terminal, a log and a table.

Names, versions and variants are written by strangers. Control characters could move the
cursor or recolour the screen, bidirectional overrides and characters that nobody sees could
make one name look like another; all of them are shown as what they are. So are letters
outside ASCII where names are shown: no name in a build cache has any, and many look like
those that it has.
"""

import re

# Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 16.0.0, with the unassigned ones.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The rest of the category Cf: marks that enclose or annotate what follows.
_FORMATS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
# C0 and C1 controls, separators of lines and paragraphs, halves of
# characters, and what is no character.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_HALVES = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
)

# What turns the text around it.
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

# What HTML and XML may not hold, or must not: signs of emoji may stand in the templates of users. Tab and newline stay.
UNFIT = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\U000e0000-\U000e007f" + _TURNING + _HALVES
# What is not plainly visible. Both are insides of classes of regular expressions.
UNSEEN = _CONTROLS + IGNORABLE + _FORMATS + _HALVES
_UNSEEN = re.compile(f"[{UNSEEN}]")
_NOT_ASCII = re.compile(r"[^ -~]")


def safe(text: str) -> str:
    """Return `text` with everything that is not plainly visible written as an escape."""
    return _UNSEEN.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def safe_name(text: str) -> str:
    """Return a name of strangers' as it can be shown: in ASCII, so that none looks like another."""
    return _NOT_ASCII.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def safe_lines(text: str) -> str:
    """Return `text` of several lines, each of them safe."""
    return "\n".join(map(safe, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
