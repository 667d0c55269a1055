"""How upstream lays out a revision: `_cache/<tag>/<package>/specs.md`, and nothing else counts."""

import re
from collections.abc import Callable

CATALOGUE = "_cache"
DOCUMENT = "specs.md"
TAGS_FILE = "_data/tags.yaml"

# Chooses packages by name.
Wanted = Callable[[str], bool]

_NAME = re.compile(rb"[A-Za-z0-9._+@-]{1,128}")


def is_name(name: bytes) -> bool:
    """Tell whether a tag or a package can be called `name`."""
    return _NAME.fullmatch(name) is not None and name.strip(b".") != b"" and name.lower() != b".git"
