"""Clones of repositories on other machines: which addresses are URLs, where their clones are, and how they are updated.

A partial clone lacks objects, which are fetched in groups.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from cachewatch.core.names import ANYWHERE, Layout
from cachewatch.errors import RefusedAddress
from cachewatch.git.gitpython import Git, Report, clone
from cachewatch.git.repository import Repository
from cachewatch.git.upkeep import is_partial, locked

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


# What was fetched stays, so a fetch that is interrupted, or takes too long, loses no more than these.
_MOST = 20_000


LIST_OBJECTS = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered")


def absent_of(ids: Iterable[str], listed: bytes, tell: Callable[[int], None]) -> Iterator[Sequence[str]]:
    """Yield those of `ids` that git has not listed, each once, as many as are fetched at a time; `tell` first how many.

    They stay in their order: what is sent together, as the versions of one document, is small as differences.
    """
    here = set(listed.decode().split())
    absent = [each for each in dict.fromkeys(ids) if each not in here]
    if absent:
        tell(len(absent))
    for start in range(0, len(absent), _MOST):
        yield absent[start : start + _MOST]


_SCHEMES = ("https", "http", "ssh", "git", "file")
_SECRET = re.compile(r"token|passw|secret|key|auth|sig", re.IGNORECASE)
_FETCH = ["fetch", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance"]
_REFSPECS = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]


class Clone(Repository):
    """A clone of ours, which may lack contents that nobody asked for yet."""

    is_ours = True

    def __init__(self, path: Path, report: Report | None = None, layout: Layout = ANYWHERE) -> None:
        super().__init__(path, layout)
        self._report = report

    def obtain(self, ids: Iterable[str], tell: Callable[[int], None] = lambda _: None) -> None:
        """Fetch those of these objects that are not here, as many as possible in one go, and `tell` first how many."""
        if not is_partial(Path(self.git_dir)):
            return
        for some in absent_of(ids, self.run(LIST_OBJECTS), tell):
            # The way in which git itself fetches what a filter left out.
            git = Git(git_dir=self.git_dir, what=str(self.path), settings=[("fetch.negotiationAlgorithm", "noop")])
            options = ["--no-tags", "--filter=blob:none", "--stdin"]
            git.run([*_FETCH, *options, *_progress(self._report), "origin"], some, report=self._report)


def open_repository(address: str, *, report: Report | None = None, layout: Layout = ANYWHERE) -> Repository:
    """Open the repository at `address`, with documents in `layout`: a path as it is, a URL as an up-to-date clone.

    `report` is told git's own progress. Raises RefusedAddress where git could be made to run
    a command or to leak a password.
    """
    if not is_url(address):
        return Repository(Path(address), layout)
    check_url(address)
    folder = clone_folder(address)
    with locked(folder, advice="set XDG_CACHE_HOME to a folder that can be written"):
        if folder.exists():
            fetch = [*_FETCH, "--prune", *_progress(report), "origin", *_REFSPECS]
            Git(git_dir=folder, what=address).run(fetch, report=report)
        else:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as new:
                clone(address, Path(new, "clone"), report)
                Path(new, "clone").rename(folder)
    return Clone(folder, report, layout)


def check_url(url: str) -> None:
    """Raise RefusedAddress unless git can be given `url` without danger."""
    if not url.isprintable():
        raise RefusedAddress(f"{url!a}: an address cannot hold control characters")
    if url.startswith("-") or re.match(r"[A-Za-z0-9.+-]*::", url):
        raise RefusedAddress(f"{url}: this is an option or a helper of git, not the address of a repository")
    if "://" not in url:
        return  # like scp: user@host:path, which the pattern keeps from being an option
    try:
        parts = urlsplit(url)
        host, password = parts.hostname or "", parts.password
    except ValueError as error:
        raise RefusedAddress(f"{url}: {error}") from error
    if parts.scheme not in _SCHEMES:
        raise RefusedAddress(f"{url}: only {', '.join(_SCHEMES)} are supported, not {parts.scheme}")
    if password is not None or (parts.username and parts.scheme.startswith("http")):
        raise RefusedAddress(
            f"{parts.scheme}://...@{host}{parts.path}: remove the password from the address; use ssh keys or an agent"
        )
    if _SECRET.search(parts.query):
        raise RefusedAddress(f"{parts.scheme}://{host}{parts.path}?...: remove secrets from the address")
    if host.startswith("-") or (not host and parts.scheme != "file"):
        raise RefusedAddress(f"{url}: there is not a host in this address")


def _progress(report: Report | None) -> list[str]:
    return ["--progress"] if report else ["--quiet"]
