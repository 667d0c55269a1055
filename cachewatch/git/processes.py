"""Start git, with an environment and a configuration that cachewatch controls completely.

No shell, user configuration or repository can make git run a command, ask for a password, follow a redirection or
leave a process behind. Every command is a list, and every name from outside goes through standard input or after
`--end-of-options`. Programs that every Linux has end git with us, in time, and before it uses up the memory.
GitPython could start processes too, but its import takes more than half as long as a small comparison.
"""

import os
import re
import resource
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from shutil import which
from threading import Timer
from time import monotonic
from typing import Any, BinaryIO, cast

from msgspec import Struct

from cachewatch.errors import BrokenSource, SourceError

# What a person's shell may hand on: how to find git, and how to reach the network.
_INHERITED = (
    "PATH",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)

# How ssh is started; a shell reads it.
SSH = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3"

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": SSH,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}

_CONFIG = {
    "protocol.allow": "never",
    "transfer.fsckObjects": "true",
    "transfer.credentialsInUrl": "die",
    "transfer.bundleURI": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "safe.bareRepository": "explicit",
    "credential.helper": "",
}

# What git may speak when it fetches; when it only reads, nothing at all. A variable of the environment counts for more
# than all configuration, so that no repository can allow itself another one, such as `ext`, which runs a command.
_PROTOCOLS = ("https", "http", "ssh", "git", "file")

# Git takes a configuration from its environment, as _CONFIG is given, from 2.31 on; older than this is none that a
# system has which is still looked after.
OLDEST = (2, 34)
# Those that leave out of reach what a partial clone lacks where GIT_NO_LAZY_FETCH says so: 2.45, and older ones that
# were fixed in May 2024, by what their last number has to be.
_NOT_LAZY = {39: 4, 40: 2, 41: 1, 42: 2, 43: 4, 44: 1}

Version = tuple[int, ...]  # of git; nothing where it does not say


class Command(Struct, frozen=True):
    """What is started, and its whole environment, which others cannot read as they can arguments."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def plus(self, *more: str) -> "Command":
        """Return the command with more arguments."""
        return Command((*self.arguments, *more), self.environment)


def git_command(
    *,
    may_fetch: bool = False,
    config: Iterable[tuple[str, str]] = (),
    environment: Mapping[str, str] | None = None,
) -> Command:
    """Return how to start git with an environment of our own making, and what the caller adds to it."""
    settings = list(_CONFIG.items())
    if may_fetch:
        settings += [(f"protocol.{name}.allow", "always") for name in _PROTOCOLS]
    settings += config
    values = {name: os.environ[name] for name in _INHERITED if name in os.environ} | _ENVIRONMENT
    values["GIT_ALLOW_PROTOCOL"] = ":".join(_PROTOCOLS) if may_fetch else ""
    values.update(environment or {})
    values["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        values[f"GIT_CONFIG_KEY_{number}"] = key
        values[f"GIT_CONFIG_VALUE_{number}"] = value
    return Command(("git",), values)


def fetches_by_itself(version: Version) -> bool:
    """Tell whether a git of this version may fetch what a partial clone lacks, without being asked."""
    if version[:2] >= (2, 45):
        return False
    return not version or version[2] < _NOT_LAZY.get(version[1], 1000)


def check_version(version: Version) -> None:
    """Raise BrokenSource where git is too old; one that does not say what it is gets no benefit but that."""
    if version and version < OLDEST:
        raise BrokenSource(
            f"git {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}, which cachewatch requires: "
            "it would ignore security settings; install a newer git"
        )


_VERSION_SECONDS = 10.0
_READING_SECONDS = 120.0
_ENDING_SECONDS = 5.0
# What is kept of messages: the last of them say why git ended.
_LONGEST_WORDS = 65536
_LONGEST_REASON = 1000  # characters
_LARGEST_MESSAGES = 2**24  # bytes of a file
_CHUNK = 65536
# As much as a list of the objects of a repository of 12 million.
_LARGEST_OUTPUT = 2**29
# For each git process, without the files that it maps: more than a clone of millions of objects needs.
MEMORY = 2**30
_NO_GIT = "git is not installed, or not on the PATH"
_GUARDS = ("setpriv:", "prlimit:", "timeout:")
_running: set[int] = set()
# A subprocess.Popen whose pipes are there, which its own type does not say.
Process = Any
_handed_on: ContextVar[tuple[int, ...]] = ContextVar("handed_on", default=())


@cache
def git_version(path: str) -> Version:
    """Return the version of the git that is found on `path`."""
    try:
        done = subprocess.run(
            ["git", "version"],  # noqa: S607
            env={"PATH": path},
            capture_output=True,
            check=False,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(rb"git version (\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def works(command: Sequence[str]) -> bool:
    """Tell whether a short command succeeds here; it hears and says nothing."""
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def installed_version() -> Version:
    """Return the version of the git on our PATH."""
    return git_version(os.environ.get("PATH", os.defpath))


class GitResult(Struct, frozen=True):
    """How a git command ended, and what it printed."""

    code: int  # negative is the signal that ended it
    output: bytes
    error: str  # the last 64 kB of its messages


def ask(
    command: Command,
    lines: Iterable[str] = (),
    *,
    seconds: float,
    silence: float | None = None,
    most: int = _LARGEST_OUTPUT,
) -> GitResult:
    """Run a git command for at most `seconds`, and leave the judgement to the caller.

    One that reports its progress is ended where it says nothing for the seconds of `silence`, and any where it prints more
    than `most` bytes.
    """
    with lines_as_input(lines) as stdin, started(command, stdin, seconds) as process:
        output, said = _heard(process, silence=silence, most=most)
    return GitResult(process.returncode, output, said.decode("utf-8", "replace"))


def _heard(
    process: Process,
    *,
    silence: float | None = None,
    most: int = _LARGEST_OUTPUT,
    report: Callable[[str], None] | None = None,
) -> tuple[bytes, bytes]:
    """Return what a process prints, and the last 64 kB of its messages, and wait until it has ended.

    It is ended where it gives no message for the seconds of `silence`, or prints more than `most` bytes. `report` is given
    each line of its messages.
    """
    output, said, last = bytearray(), b"", monotonic()
    with selectors.DefaultSelector() as waiting:
        for pipe in (process.stdout, process.stderr):
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(None if silence is None else last + silence - monotonic())
            if not ready:
                _end(process)
                break
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += chunk
                    if len(output) > most:
                        _end(process)
                        return b"", f"fatal: git printed more than {most:,} bytes; that is no catalogue".encode()
                else:
                    said, last = (said + chunk)[-_LONGEST_WORDS:], monotonic()
                    if report is not None:
                        for line in re.split(rb"[\r\n]+", chunk):
                            report(line.decode("utf-8", "replace"))
    process.wait()
    return bytes(output), said


def fetch(
    command: Command,
    lines: Iterable[str] = (),
    *,
    what: str,
    seconds: float,
    report: Callable[[str], None] | None = None,
) -> None:
    """Run a git command that fetches, for at most `seconds`, and pass on what it says of its progress."""
    with lines_as_input(lines) as stdin, started(command, stdin, seconds) as process:
        _, said = _heard(process, report=report)
    if process.returncode:
        raise SourceError(f"{what}: {explain(said)}")


def execute(
    command: Command,
    stdin: BinaryIO,
    *,
    what: str,
    seconds: float = _READING_SECONDS,
    locks: Collection[int] = (),
) -> bytes:
    """Run a git command for at most `seconds` and return what it prints; raise SourceError about `what` if it fails."""
    with started(command, stdin, seconds, locks) as process:
        output, said = _heard(process)
    if process.returncode:
        raise SourceError(f"{what}: {explain(said)}")
    return output


def open_process(
    command: Command,
    stdin: BinaryIO | None = None,
    locks: Collection[int] = (),
    *,
    messages: BinaryIO | None = None,
    start_new_session: bool = False,
) -> Process:
    """Start a process whose output is a pipe, as its input and its messages are where no file is given; it holds `locks` as well.

    Neither it nor what it starts gets more than 1 GB of memory, beside what it maps of files.
    """
    try:
        process = subprocess.Popen(  # noqa: S603
            command.arguments,
            env=command.environment,
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if messages is None else messages,
            start_new_session=start_new_session,
            pass_fds=locks,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise BrokenSource(_NO_GIT) from error
    # Only Linux can; where the limit was lower before, it stays. What starts git as its child was given the limit already.
    with suppress(AttributeError, OSError, ValueError):
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
        if messages is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_LARGEST_MESSAGES, _LARGEST_MESSAGES))
    return process


def last_words(process: Process, messages: BinaryIO) -> bytes:
    """Return the last 64 kB of what a process that ends wrote into the file of its messages."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)
    size = messages.seek(0, os.SEEK_END)
    messages.seek(max(0, size - _LONGEST_WORDS))
    return messages.read()


@contextmanager
def started(command: Command, stdin: BinaryIO, seconds: float, locks: Collection[int] = ()) -> Iterator[Process]:
    """Start a process that ends after `seconds`, or with us."""
    check_version(installed_version())
    process = open_process(command, stdin, (*locks, *_handed_on.get()), start_new_session=True)
    watchdog = Timer(seconds, _signal, (process.pid, signal.SIGKILL))
    watchdog.daemon = True
    watchdog.start()
    _running.add(process.pid)
    try:
        yield process
    except BaseException:
        _end(process)  # Ctrl-C: git and what it started end with us
        raise
    finally:
        _running.discard(process.pid)
        watchdog.cancel()
        stop(process)


@contextmanager
def handing_on(lock: int) -> Iterator[None]:
    """Let every git command that this thread runs meanwhile inherit a lock, which then lasts until all have ended."""
    token = _handed_on.set((*_handed_on.get(), lock))
    try:
        yield
    finally:
        _handed_on.reset(token)


def interrupt() -> None:
    """Ask every git command that runs in another thread to end now, as a service must that is told to stop."""
    for pid in tuple(_running):
        _signal(pid, signal.SIGTERM)


@contextmanager
def lines_as_input(lines: Iterable[str]) -> Iterator[BinaryIO]:
    """Offer `lines` to a process; a file, so that git can never wait for us while we wait for it."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(lines_of(lines))
        stdin.seek(0)
        yield cast("BinaryIO", stdin)


def lines_of(names: Iterable[str]) -> bytes:
    """Return names as git reads them, one a line."""
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


def explain(stderr: bytes | str) -> str:
    """Choose the part of git's complaint that tells a person what is wrong."""
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else stderr
    if "No such file or directory" in text and text.startswith(_GUARDS):
        return _NO_GIT
    if "promisor remote" in text:
        return (
            "this partial clone lacks the contents of documents; run `git fetch --refetch --no-filter` in it, "
            "or give --repo the URL"
        )
    if "bad revision 'HEAD'" in text:
        return "the repository has no commits yet"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "Timeout:"))]
    chosen = (fatal or lines or ["git failed without a message"])[0]
    return chosen.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")[:_LONGEST_REASON]


def _end(process: Process) -> None:
    """Ask a process and all that it started to clean up and end; make it if it takes too long."""
    _signal(process.pid, signal.SIGTERM)
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(process.pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def stop(process: Process) -> None:
    """End a process, if it has not ended, and close its pipes."""
    process.terminate()  # first, since to close a pipe that another thread is writing to waits for its reader
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


# How a guarded command ends that was ended: by `timeout`, SIGTERM or SIGKILL.
ENDED = (124, 128 + 9, 128 + 15, -9, -15)
# How long one may take to clean up, and then how much later it is certainly gone.
GRACE_SECONDS = 10
_CLEANING_SECONDS = 5


def guarded(command: Command, *, seconds: float, most: int | None = None) -> Command:
    """Return `command` such that git ends with us and in time, whatever becomes of us.

    It gets no more memory than any git, and no file that it writes gets more than `most` bytes.
    """
    tools = _tools()
    guards = [*tools["setpriv"], "--"] if "setpriv" in tools else []
    if "prlimit" in tools:
        guards += [*tools["prlimit"], f"--data={MEMORY}", *([] if most is None else [f"--fsize={most}"]), "--"]
    if "timeout" in tools:
        guards += [*tools["timeout"], f"--kill-after={_CLEANING_SECONDS}", f"{seconds:.3f}"]
    return Command((*guards, *command.arguments), command.environment)


@cache
def _tools() -> dict[str, list[str]]:
    found = {name: [path] for name in ("setpriv", "prlimit", "timeout") if (path := which(name))}
    if "setpriv" in found:
        found["setpriv"] += ["--pdeathsig", "TERM"]
        # It sets capabilities, even if to what they are, which the sandbox of a service may forbid.
        if not works([*found["setpriv"], "--", "true"]):
            del found["setpriv"]
    return found
