"""Fetch from remote repositories, also into clones for commands, which fetch contents when they are needed.

Secrets stay in files that git, ssh or a credential helper opens: cachewatch never reads them, nor puts them into an
argument, the environment, the configuration of a clone or a message.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.names_and_layouts import ANYWHERE, Layout, similar
from cachewatch.errors import BrokenSource, RefusedAddress, SourceError, explained
from cachewatch.git import clone_locks_and_disk_space as upkeep
from cachewatch.git.git_processes import ENDED, SSH, Git, GitResult, Report, Settings, clone, explain
from cachewatch.git.local_repository import FULL_ID, Repository
from cachewatch.runtime.files_and_locks import cache_path

_HIDDEN = "..."
# The user and password after "://", up to a character that no address has, because a server may have written the text.
_USERINFO = re.compile(r"(://)[^\s/@'\"]*@")
_QUERY = re.compile(r"(://[^\s?'\"]{0,2000}\?)[^\s'\"]+")


class Access(Struct, frozen=True, kw_only=True):
    """The credentials for one source, as names of files with the secrets, which only git and ssh read."""

    ssh_key: str | None = None
    known_hosts: str | None = None
    store: str | None = None  # in the form of git-credential-store
    helper: str | None = None  # any other helper, as in git's own credential.helper

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The git configuration, as pairs of key and value, that makes git use these credentials."""
        helpers = [self.helper] if self.helper else []
        if self.store is not None:
            # Only `get` is passed on: git's own helper would erase a password for good after the server refused it.
            ask = f"git credential-store --file={shlex.quote(self.store)} get"
            helpers.append(f'!f() {{ test "$1" != get || {ask}; }}; f')
        return [("credential.helper", helper) for helper in helpers]

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables for git. Raises BrokenSource if a file of the credentials is unreadable."""
        for path in filter(None, (self.ssh_key, self.known_hosts, self.store)):
            with explained(BrokenSource, path, "this file is named in the credentials of a source"):
                Path(path).open("rb").close()
        options = [f"-oIdentityFile={self.ssh_key}", "-oIdentitiesOnly=yes"] if self.ssh_key else []
        options += [f"-oUserKnownHostsFile={self.known_hosts}"] if self.known_hosts else []
        return {"GIT_SSH_COMMAND": shlex.join([*shlex.split(SSH), *options])}


def redact(text: str, address: str = "") -> str:
    """Return `text` with "..." for user, password and query of each URL; those of `address` are replaced everywhere."""
    words: list[str] = []
    with suppress(ValueError):
        parts = urlsplit(address)
        words = [parts.password or "", *(item.partition("=")[2] for item in parts.query.split("&"))]
        words += [parts.username or ""] if parts.scheme.startswith("http") else []
    secrets = {form for word in words for form in (word, unquote(word)) if len(form) > 2}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return safe(_QUERY.sub(rf"\1{_HIDDEN}", _USERINFO.sub(rf"\1{_HIDDEN}@", text)))


NAME = "up"  # the name of the remote in git's configuration, which is passed to git and never written to a file
_BRANCHES = "refs/heads/"
_LIST_SECONDS = 120.0
_MOST = 20_000  # how many objects are fetched at a time; a fetch that is interrupted loses no more than these
_LARGEST_LIST = 16 * 2**20  # of 200,000 branches
# A name that is valid in a refspec: git's own rules, and no glob.
_BRANCH = re.compile(r"(?![/.@-])(?!.*(?:\.\.|//|@\{|\.lock$|[/.]$))[^\x00-\x20\x7f~^:?*\[\\]{1,200}")

# Advice for errors that only a person can repair, by patterns of messages of git, ssh or the kernel. A server may write
# most of such a message, so each pattern looks at a bounded number of characters.
_FOR_THE_ADMINISTRATOR = {
    r"could not read (Username|Password)|Authentication failed|terminal prompts disabled|returned error: 40[13]": (
        "the server requires authentication; configure valid credentials for this source"
    ),
    r"Permission denied \(|Too many authentication failures": (
        "the server rejects our ssh key; configure one that has read access to the repository"
    ),
    r"Host key verification failed|No .{1,100} host key is known": (
        "the host key of the server is not known or has changed; check it and add it to known_hosts"
    ),
    r"returned error: 30\d|unable to update url base from redirection": (
        "the repository has moved and git may not follow; configure its new address"
    ),
    r"returned error: 404|[Rr]epository .{0,1000}not found|does not appear to be a git repository|not exported": (
        "there is no such repository, or we have no access to it; check the address"
    ),
    r"certificate|SSL_CERT|CAfile": "the certificate of the server cannot be verified",
    r"dubious ownership|unsafe repository": "the repository belongs to another user; serve it with git daemon",
    r"No space left on device|[Qq]uota exceeded|File too large|signal 25|code 153": "there is no room for what it sends",
    r"Read-only file system|unable to create .{0,1000}Permission denied|insufficient permission": (
        "the clone cannot be written; give its folder to the user that runs cachewatch"
    ),
    r"fsck error|fsckObjects": "it has objects that git refuses, because they are malformed or malicious",
    r"transport '.{0,100}' not allowed": "git may not use this transport",
}
# Network errors, after which our clone is as it was.
_OF_THE_WAY = re.compile(
    r"Could not resolve|unable to look up|[Cc]onnection (refused|reset|timed out)|Failed to connect|unable to connect"
    r"|early EOF|hung up|unexpected disconnect|RPC failed|transfer closed|Operation (too slow|timed out)|returned error: "
    r"|[Nn]o route to host|Network is unreachable|Could not read from remote|unable to access|bytes of body"
)


class Tip(Struct, frozen=True):
    """The newest commit of a branch."""

    branch: str
    commit: str


class Remote:
    """A repository to fetch from, given by path or URL."""

    def __init__(
        self,
        address: str,
        access: Access | None = None,
        *,
        seconds: float = 600.0,  # that each git command may take, and all of them together after `begin`
        silence: float | None = None,  # seconds without data after which a fetch ends
        report: Report | None = None,  # gets each line of git's messages
    ) -> None:
        """Prepare to fetch. Raises RefusedAddress if `address` has a password or could make git run a command."""
        self.is_path = not is_url(address)
        if not self.is_path:
            check_url(address)
        self.name = redact(address, address)
        self.seconds = seconds
        self._silence, self._report = silence, report
        self._deadline = float("inf")
        self._address = str(Path(address).absolute()) if self.is_path else address
        self._access = access or Access()

    def begin(self) -> None:
        """Start the time limit that all following git commands share."""
        self._deadline = time.monotonic() + self.seconds

    def tip(self, branch: str | None) -> Tip:
        """Return the newest commit of `branch` (None: the default one). Raises BrokenSource if it does not exist."""
        if branch is None:
            listed = self._list("--symref", NAME, "HEAD")
            named = re.search(rf"^ref: {_BRANCHES}(\S+)\tHEAD$", listed, re.MULTILINE)
            match = re.search(rf"^({FULL_ID.pattern})\tHEAD$", listed, re.MULTILINE)
            if named and match and _BRANCH.fullmatch(named[1]):
                return Tip(named[1], match[1])
            raise BrokenSource(f"{self.name}: it has no default branch; configure the branch to watch")
        if not _BRANCH.fullmatch(branch):
            raise BrokenSource(f"{self.name}: {redact(repr(branch))} cannot be the name of a branch")
        ref = f"{_BRANCHES}{branch}"
        if match := re.search(rf"^({FULL_ID.pattern})\t{re.escape(ref)}$", self._list(NAME, ref), re.MULTILINE):
            return Tip(branch, match[1])
        branches = re.findall(rf"\t{_BRANCHES}(\S+)$", self._list("--heads", NAME), re.MULTILINE)
        if not branches:
            raise SourceError(f"{self.name}: the repository has no commits yet")
        near = similar(branch, branches) or sorted(branches)[:3]
        others = f"{', '.join(near)}{', ...' if len(branches) > len(near) else ''}"
        raise BrokenSource(
            f"{self.name}: the branch {branch!r} is not there (any more); there are {redact(others)}. "
            f"Nothing is reported until it is back or another branch is named"
        )

    def has_tag(self, name: str) -> bool:
        """Tell whether the remote repository has a git tag of this name."""
        return _BRANCH.fullmatch(name) is not None and self._list(NAME, f"refs/tags/{name}") != ""

    def fetch(self, folder: Path, *what: str, ids: Sequence[str] = (), is_partial: bool = False) -> None:
        """Fetch `what` (refspecs, commits) with history, or only objects `ids`; `is_partial`: without file contents."""
        options = ["--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance", "--prune"]
        options += ["--update-shallow", "--progress" if self._silence or self._report else "--quiet"]
        # With several refspecs, git would fail for ever where a branch gave way to one below it, as in topic and topic/x.
        options += ["--atomic"] if len(what) == 1 else []
        options += ["--filter=blob:none"] if is_partial or ids else []
        options += ["--stdin"] if ids else []
        settings = [("core.fsync", "committed,reference")]
        settings += [("fetch.negotiationAlgorithm", "noop")] if ids else []  # as git itself fetches absent objects
        self._ask(["fetch", *options, NAME, *what], ids, folder=folder, settings=settings)

    def fetch_absent(
        self,
        folder: Path,
        ids: Iterable[str],
        tell: Callable[[int], None] = lambda _: None,  # called first, with the number of missing objects
        *,
        hold: Callable[[], AbstractContextManager[Any]] = nullcontext,  # makes a context in which a group is fetched
    ) -> None:
        """Fetch those of the objects `ids` that the partial clone `folder` lacks, each group in a `hold()` block."""
        # Each once, and in order, since versions of one document compress well together.
        wanted = dict.fromkeys(ids) if upkeep.is_partial(folder) else {}
        listing = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"]
        here = set(upkeep.read(folder, listing).output.decode().split()) if wanted else set()
        absent = [each for each in wanted if each not in here]
        if absent:
            tell(len(absent))
        for start in range(0, len(absent), _MOST):
            with hold():
                self.fetch(folder, ids=absent[start : start + _MOST])

    def _list(self, *arguments: str) -> str:
        return self._ask(["ls-remote", *arguments]).output.decode("utf-8", "replace")

    def _ask(
        self, arguments: list[str], lines: Iterable[str] = (), *, folder: Path | None = None, settings: Settings = ()
    ) -> GitResult:
        seconds, left = min(self.seconds, _LIST_SECONDS if folder is None else inf), self._deadline - time.monotonic()
        if left <= 0:
            raise self._no_answer(self.seconds)
        git = Git(
            # A listing needs no repository; in the root folder, no repository's configuration applies.
            "/" if folder is None else None,
            git_dir=folder or "",
            settings=[(f"remote.{NAME}.url", self._address), *self._access.settings, *settings],
            seconds=min(seconds, left),
            largest_file=None if folder is None else upkeep.usable_bytes(folder),
        )
        # The repository of another user may configure helpers; they may not use any other protocol.
        only = {"GIT_ALLOW_PROTOCOL": "file"} if self.is_path else {}
        git.update_environment(**self._access.environment(), **only)
        answer = git.ask(arguments, lines, silence=self._silence or inf, most=_LARGEST_LIST, report=self._report)
        if answer.code in ENDED and "fatal:" not in answer.error:
            raise self._no_answer(self._silence or (seconds if seconds < left else self.seconds))
        if answer.code:
            raise self._failure(answer)
        return answer

    def _failure(self, answer: GitResult) -> SourceError:
        messages = answer.error
        reason = redact(explain(messages) if messages.strip() else f"git ended with code {answer.code}", self._address)
        for pattern, advice in _FOR_THE_ADMINISTRATOR.items():
            if re.search(pattern, f"{messages} code {answer.code}"):
                return BrokenSource(f"{self.name}: {advice} (git: {reason})")
        kind = Unreachable if _OF_THE_WAY.search(messages) else SourceError
        return kind(f"{self.name}: {reason}")

    def _no_answer(self, seconds: float) -> SourceError:
        return Unreachable(f"{self.name}: no answer within {seconds:,.0f} s, or git was ended; tried again later")


class Unreachable(SourceError):
    """The connection to a source failed; the source and the local clone of it may be intact."""


_SCP_LIKE = re.compile(r"(?P<user>[\w.-]+@)?(?P<host>[\w.-]+):(?!//)(?P<path>.+)")


def is_url(address: str) -> bool:
    """Tell whether `address` is a URL or an ssh address, not a path on this machine."""
    if os.path.exists(address):  # noqa: PTH110  one that may not be looked at is no error here
        return False
    return "://" in address or "::" in address or address.startswith("-") or _SCP_LIKE.fullmatch(address) is not None


def clone_folder(url: str) -> Path:
    """Return the folder in which commands keep their clone of `url`; it need not exist."""
    return cache_path("clones", url, ".git")


_SCHEMES = ("https", "http", "ssh", "git", "file")
_SECRET = re.compile(r"token|passw|secret|key|auth|sig", re.IGNORECASE)
_COMMAND_SECONDS = 3600.0
_REFSPECS = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]


def open_clone(address: str, layout: Layout = ANYWHERE, report: Report | None = None) -> Repository:
    """Open the clone of `address` that commands keep; reads fetch missing contents. `report` gets git's messages."""
    remote, folder = Remote(address, seconds=_COMMAND_SECONDS, report=report), clone_folder(address)
    return Repository(folder, layout, is_ours=True, obtain=partial(remote.fetch_absent, folder))


def open_repository(address: str, *, report: Report | None = None, layout: Layout = ANYWHERE) -> Repository:
    """Open the repository at `address`; for a URL, first make or update a clone. `report` gets git's messages."""
    if not is_url(address):
        return Repository(Path(address), layout)
    remote, folder = Remote(address, seconds=_COMMAND_SECONDS, report=report), clone_folder(address)
    with upkeep.locked(folder, advice="set XDG_CACHE_HOME to a folder that can be written"):
        if folder.exists():
            remote.fetch(folder, *_REFSPECS, is_partial=upkeep.is_partial(folder))
        else:
            with TemporaryDirectory(dir=folder.parent, prefix="new-") as new:
                clone(address, Path(new, "clone"), report)
                Path(new, "clone").rename(folder)
    return open_clone(address, layout, report)


def check_url(url: str) -> None:
    """Raise RefusedAddress if `url` must not be given to git: if it is an option, runs a helper or has a password."""
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
