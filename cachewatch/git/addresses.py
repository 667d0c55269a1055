"""Addresses of repositories: which are URLs, and where their clones lie. Nothing here needs git, which is slow to load."""

import hashlib
import os
import re
from pathlib import Path

_SCP_LIKE = re.compile(r"(?P<user>[\w.-]+@)?(?P<host>[\w.-]+):(?!//)(?P<path>.+)")


def is_url(address: str) -> bool:
    """Tell whether `address` means another machine, or a URL of this one, rather than a path."""
    if os.path.exists(address):  # noqa: PTH110  one that may not be looked at is no error here
        return False
    return "://" in address or "::" in address or address.startswith("-") or _SCP_LIKE.fullmatch(address) is not None


def clone_folder(url: str) -> Path:
    """Return where the clone of `url` lies: below $XDG_CACHE_HOME, or ~/.cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", url.rpartition("://")[2]).strip("-.")[-60:]
    return cache / "cachewatch" / "clones" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
