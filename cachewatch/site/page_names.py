"""What pages are called, whatever the things are called that they are about.

Names come from documents that strangers wrote. A file name is made of few characters, in
one case, so that it means the same on every file system and in every address.
"""

import hashlib
import re
from functools import lru_cache

from cachewatch.core.untrusted_text import safe_name

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._+-]{0,79}")
# What Windows takes for devices, whatever the extension.
_DEVICES = re.compile(r"(aux|con|nul|prn|com\d|lpt\d)(\..*)?")
_LONGEST = 80


def page(folder: str, name: str) -> str:
    """Return the path of the page about `name`, relative to the site."""
    return f"{folder}/{file_name(name)}.html"


def file_name(name: str) -> str:
    """Return a file name for `name`: itself where that is harmless, and another for every other name."""
    if _PLAIN.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name[:_LONGEST].lower()).strip("-")[:40]
    # No plain name holds a ~, so none is taken for another.
    return f"{readable or 'x'}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


@lru_cache(maxsize=65536)
def shown(text: str, most: int = _LONGEST) -> str:
    """Return `text` fit to be read: nothing in it is invisible, and of a very long one the two ends."""
    text = safe_name(text)
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} ... {text[-most // 4 :]} ({len(text):,} characters)"
