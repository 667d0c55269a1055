"""`A..B`: two revisions as git writes them, each of which may be left out."""

import os
import re

from cachewatch.errors import UsageError
from cachewatch.sources.folders import is_documents

NEWEST = "HEAD"
_RANGE = re.compile(r"(.*?)(\.{2,})(.*)", re.DOTALL)


def split_range(text: str) -> tuple[str, str] | None:
    """Return the two revisions that `text` names, or None if it is no range: a path, a date or a revision."""
    found = _RANGE.fullmatch(text)
    # Paths and searches for words (:/words) may have dots; names of revisions cannot.
    if found is None or re.search(r"(^|/)\.\.(/|$)", text) or text.startswith(":/") or os.path.exists(text):  # noqa: PTH110  a name that is too long for a file is no error
        return None
    before, dots, after = found.groups()
    if is_documents(before) or is_documents(after):
        raise UsageError(f"{text}: of paths, write `cachewatch diff {before or NEWEST} {after or NEWEST}`")
    if dots != "..":
        raise UsageError(f"{text}: write {before or NEWEST}..{after or NEWEST}, which compares the two themselves")
    return before or NEWEST, after or NEWEST
