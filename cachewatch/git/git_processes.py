"""Start git through GitPython, which only this module imports, with a safe environment, limits and time-outs.

`Git.execute` starts every git process, also for GitPython's own methods. Its environment and configuration are fixed,
so no shell, user or repository can make git run a command, ask for a password, follow a redirection or leave a
process behind. Names from outside are passed through standard input or after `--end-of-options`.
"""

import io
import os
import resource
import select
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import chain
from pathlib import Path
from shutil import which
from threading import get_ident
from time import monotonic
from typing import Any, cast

from msgspec import Struct

from cachewatch.errors import BrokenSource, SourceError

# cachewatch itself looks for git, with its own error message.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
# At its import, GitPython would run `git version` with our whole environment, which may still contain secrets.
os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = os.devnull

import git
from git.config import GitConfigParser
from git.exc import GitError

del os.environ["GIT_PYTHON_GIT_EXECUTABLE"]

# The environment variables that git inherits: how to find programs, and how to reach the network.
_INHERITED = ["PATH", "TMPDIR", "SSH_AUTH_SOCK", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR"]
_INHERITED += ["http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"]

SSH = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3"  # a shell reads it

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

# The protocols that git may use when it fetches; when it reads, none. An environment variable takes precedence over
# all configuration, so that no repository can allow itself another one, such as `ext`, which runs a command.
_PROTOCOLS = ("https", "http", "ssh", "git", "file")

# Git takes a configuration from its environment from 2.31 on; no system that is still looked after has one older than this.
OLDEST = (2, 34)

_NO_GIT = "git is not installed, or not on the PATH"
_VERSION_SECONDS = 10.0
_READING_SECONDS = 120.0
_FETCHING_SECONDS = 3600.0
_POLL_SECONDS = 0.005  # between two looks at whether a process has ended
_ENDING_SECONDS = 5.0
# How long a guarded command may take to clean up, and after how much longer it is considered ended.
_CLEANING_SECONDS = 5
_GRACE_SECONDS = 10.0
ENDED = (124, 128 + 9, 128 + 15, -9, -15)  # how a guarded command ends that was ended: by `timeout`, SIGTERM or SIGKILL
LONGEST_WORDS = 65536  # the number of bytes kept of messages, from their end: the last ones say why git ended
_LONGEST_REASON = 1000  # characters
_LARGEST_OUTPUT = 2**29  # as much as a list of the objects of a repository of 12 million
MEMORY = 2**30  # for each git process, without the files that it maps: more than a clone of millions of objects needs

Report = Callable[[str], None]  # gets each line of git's messages
Settings = Iterable[tuple[str, str]]  # keys and values of git's configuration

_running: dict["Process", int] = {}  # each with the thread that started it
_handed_on: ContextVar[tuple[int, ...]] = ContextVar("handed_on", default=())


class GitResult(Struct, frozen=True):
    """The exit code of a git command, and what it printed."""

    code: int  # negative is the signal that ended it
    output: bytes
    error: str  # the last 64 kB of its messages


class Process(git.Git.AutoInterrupt):
    """A running git process; it is ended at the latest when no object refers to it any more."""

    proc: Any  # a subprocess.Popen whose pipes are there, which its own type does not say
    seconds: float  # that it may take

    def listen(
        self, *, silence: float = float("inf"), most: int = _LARGEST_OUTPUT, report: Report | None = None
    ) -> GitResult:
        """Wait until git ends, and return its result; call `report` with each line of its messages.

        End git after `self.seconds`, after `silence` seconds without a message, or if it prints more than `most` bytes;
        the result says so.
        """
        output, messages, last_message, tell = bytearray(), b"", monotonic(), report or (lambda _: None)
        deadline = last_message + self.seconds
        try:
            with selectors.DefaultSelector() as waiting:
                for pipe in (self.stdout, self.stderr):
                    waiting.register(pipe, selectors.EVENT_READ)
                while waiting.get_map() and len(output) <= most:
                    ready = waiting.select(max(0.0, min(deadline, last_message + silence) - monotonic()))
                    if not ready:
                        break
                    for key, _ in ready:
                        chunk = os.read(key.fd, LONGEST_WORDS)
                        if not chunk:
                            waiting.unregister(key.fileobj)
                        elif key.fileobj is self.stdout:
                            output += chunk
                        else:
                            messages, last_message = (messages + chunk)[-LONGEST_WORDS:], monotonic()
                            for line in chunk.replace(b"\r", b"\n").splitlines():
                                tell(line.decode("utf-8", "replace"))
                if not waiting.get_map():
                    _has_ended(self.proc, deadline)
        finally:
            code = self.end()
        if len(output) > most:
            return GitResult(code, b"", f"fatal: git printed more than {most:,} bytes; that is no catalogue")
        return GitResult(code, bytes(output), messages.decode("utf-8", "replace"))

    def end(self) -> int:
        """End git and the processes that it started, if they still run; close the pipes, and return the exit code."""
        _running.pop(self, None)
        process, self.proc = self.proc, None
        if process is not None:
            if process.poll() is None:
                _signal(process, signal.SIGTERM)
                if not _has_ended(process, monotonic() + _ENDING_SECONDS):
                    _signal(process, signal.SIGKILL)
            # Not before: to close a pipe that another thread is writing to waits for its reader.
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            self.status = process.wait()
        return self.status or 0

    _terminate = end  # type: ignore[assignment]  # GitPython calls this when the last reference is deleted


class _Messages(io.FileIO):
    """Git's messages as GitPython needs them: in lines of limited length, even if a server sends no line ends."""

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`; return how many bytes. If it is filled without a line end, its last byte becomes one."""
        count = super().readinto(buffer)
        if count == len(buffer) and not {10, 13} & set(buffer):
            buffer[-1] = 10
        return count


def _has_ended(process: "subprocess.Popen[bytes]", until: float) -> bool:
    """Wait for `process` until the time `until` of the monotonic clock; return whether it has ended."""
    while process.poll() is None:
        if monotonic() >= until:
            return False
        select.select([], [], [], _POLL_SECONDS)  # `time.sleep` does not work where a clock is faked
    return True


def _signal(process: Any, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Git(git.Git):
    """Starts git processes for GitPython's objects and for ours."""

    AutoInterrupt = Process

    def __init__(
        self,
        working_dir: Any = None,
        *,
        git_dir: str | Path = "",
        what: str = "",
        settings: Settings = (),
        seconds: float | None = None,  # that a command may take
        largest_file: int | None = None,  # bytes
        guarded: bool = False,  # limit what git uses, and end it when this process ends; fetches are always guarded
    ) -> None:
        """Prepare to run git in `working_dir` (None: the current folder) on the repository `git_dir`.

        If `git_dir` is "", git looks for the repository of `working_dir`. Messages call the repository `what` ("": its
        path). `settings`: more configuration of git. `guarded`: limit what git uses, and end it when this process ends.
        `seconds` and `largest_file` (bytes) are limits for each command.
        """
        super().__init__(working_dir and Path(working_dir))  # of a text, GitPython expands variables
        self.git_dir, self.what = str(git_dir), what or str(git_dir or working_dir)
        self.settings, self.seconds = tuple(settings), seconds
        self.largest_file, self.is_guarded = largest_file, guarded

    def execute(  # type: ignore[override]
        self,
        command: Sequence[str],
        istream: Any = None,
        *,
        as_process: bool = False,
        universal_newlines: bool = False,
        **_: Any,
    ) -> Any:
        """Start git with the arguments that follow the first word of `command`; `istream` is its standard input.

        If `as_process`, return the process, with its messages as a text stream if `universal_newlines`. Else wait, and
        return what git prints, as text. Raises SourceError if git is missing, or if it fails while this waits.
        """
        arguments = list(command)[1:]  # the first is what GitPython calls git
        if arguments != ["version"]:
            check_version()
        fetches = arguments[0] in ("clone", "fetch", "ls-remote")  # all others may speak no protocol at all
        seconds = self.seconds or (_FETCHING_SECONDS if fetches else _READING_SECONDS)
        values = _environment(self.settings, fetches=fetches) | self.environment()
        # GitPython begins with our own variables. With `env -i`, every user could read the others as its arguments.
        line = ["env", *chain.from_iterable(("-u", name) for name in {*os.environ, "LANGUAGE"} - {*values, ""})]
        if fetches or self.is_guarded:
            line += _guards(seconds, self.largest_file)
            seconds += _GRACE_SECONDS
        line += ["git", *([f"--git-dir={self.git_dir}"] if self.git_dir else []), *arguments]
        try:
            popen = {"env": values, "start_new_session": True, "pass_fds": _handed_on.get()}
            process = cast("Process", super().execute(line, istream, as_process=True, **popen))
        except (git.GitCommandNotFound, PermissionError) as error:
            raise BrokenSource(_NO_GIT) from error
        # Only Linux can; where the limit was lower before, it stays. What starts git as its child has set it already.
        with suppress(AttributeError, OSError, ValueError):
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
        process.seconds = seconds
        if istream is not subprocess.PIPE:
            _running[process] = get_ident()
        if universal_newlines:
            with process.proc.stderr as pipe:
                messages = io.BufferedReader(_Messages(os.dup(pipe.fileno())))
                process.proc.stderr = io.TextIOWrapper(messages, errors="replace")
        return process if as_process else self._output(process.listen()).decode().removesuffix("\n")

    def start(self, arguments: Iterable[str], stdin: Any = subprocess.PIPE) -> Process:
        """Start git with `arguments`; return its process. Its input is by default a pipe for the caller to write to."""
        return cast("Process", self.execute(["git", *arguments], stdin, as_process=True))

    def ask(self, arguments: Iterable[str], lines: Iterable[str] = (), **limits: Any) -> GitResult:
        """Run git with `arguments` and the input `lines`; return its result, even a failure. `limits`: see `listen`."""
        with tempfile.TemporaryFile() as stdin:  # so that git can never wait for us while we wait for it
            stdin.write(lines_of(lines))
            stdin.seek(0)
            return self.start(arguments, stdin).listen(**limits)

    def run(self, arguments: Iterable[str]) -> bytes:
        """Run a git command and return what it prints. Raises SourceError if it fails."""
        return self._output(self.ask(arguments))

    def _output(self, result: GitResult) -> bytes:
        if result.code:
            raise SourceError(f"{self.what}: {explain(result.error)}")
        return result.output


def _environment(settings: Settings, *, fetches: bool) -> dict[str, str]:
    """Return git's environment variables, with its configuration and `settings`; `fetches`: allow network protocols."""
    config = [*_CONFIG.items(), *((f"protocol.{name}.allow", "always") for name in _PROTOCOLS if fetches), *settings]
    values = {name: os.environ[name] for name in _INHERITED if name in os.environ} | _ENVIRONMENT
    values["GIT_ALLOW_PROTOCOL"] = ":".join(_PROTOCOLS) if fetches else ""
    values["GIT_CONFIG_COUNT"] = str(len(config))
    for number, (key, value) in enumerate(config):
        values[f"GIT_CONFIG_KEY_{number}"] = key
        values[f"GIT_CONFIG_VALUE_{number}"] = value
    return values


def _guards(seconds: float, largest_file: int | None) -> list[str]:
    """Return the words before `git` in a command: programs that end git after `seconds` or together with this process.

    They also limit its memory and, unless `largest_file` is None, the bytes of a file that it may write.
    """
    guards: list[str] = []
    if setpriv := which("setpriv"):
        ends_with_us = [setpriv, "--pdeathsig", "TERM", "--"]
        # It sets capabilities, even unchanged ones, which the sandbox of a service may forbid.
        with suppress(OSError, subprocess.SubprocessError):
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _VERSION_SECONDS}
            subprocess.run([*ends_with_us, "true"], check=True, **how)  # noqa: S603
            guards = ends_with_us
    if prlimit := which("prlimit"):
        file_size = [] if largest_file is None else [f"--fsize={largest_file}"]
        guards += [prlimit, f"--data={MEMORY}", *file_size, "--"]
    if timeout := which("timeout"):
        guards += [timeout, f"--kill-after={_CLEANING_SECONDS}", f"{seconds:.3f}"]
    return guards


@cache
def git_version(path: str) -> tuple[int, ...]:
    """Return the version of git on the search path `path`, or () if unknown. Raises BrokenSource if git is missing."""
    if which("git", path=path) is None:
        raise BrokenSource(_NO_GIT)
    with suppress(GitError, SourceError, LookupError, ValueError):
        version = Git(seconds=_VERSION_SECONDS).version_info
        return (*version, 0, 0)[:3] if version else ()
    return ()


def check_version() -> tuple[int, ...]:
    """Return the version of git on PATH, or () if unknown. Raises BrokenSource if git is missing or too old."""
    version = git_version(os.environ.get("PATH", os.defpath))
    if version and version < OLDEST:
        raise BrokenSource(
            f"git {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}, which cachewatch requires: "
            "it would ignore security settings; install a newer git"
        )
    return version


@contextmanager
def handing_on(lock: int) -> Iterator[None]:
    """Let git processes started by this thread in the block inherit the lock `lock`, and hold it until they end."""
    token = _handed_on.set((*_handed_on.get(), lock))
    try:
        yield
    finally:
        _handed_on.reset(token)


def interrupt() -> None:
    """End git commands of all threads, so that the service can stop; those whose input is a pipe go on."""
    for running in tuple(_running):
        process = running.proc
        if process is not None and process.poll() is None:
            _signal(process, signal.SIGTERM)


def lines_of(names: Iterable[str]) -> bytes:
    """Return `names` as input for git: bytes, one name a line."""
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


def explain(stderr: str) -> str:
    """Return one line that tells users why git failed: its first error in `stderr`, or an explanation of that."""
    if "promisor remote" in stderr:
        remedy = "run `git fetch --refetch --no-filter` in it, or give --repo the URL"
        return f"this partial clone lacks the contents of documents; {remedy}"
    if "bad revision 'HEAD'" in stderr:
        return "the repository has no commits yet"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    chosen = (fatal or lines or ["git failed without a message"])[0]
    return chosen.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")[:_LONGEST_REASON]


class Repo(git.Repo):
    """GitPython's repository; it starts git by `Git` above, and reads no configuration."""

    GitCommandWrapperType = Git

    def _config_reader(self, *_: Any, **__: Any) -> GitConfigParser:
        """Return an empty configuration; only git reads the real one: GitPython would fail if it is not UTF-8."""
        return GitConfigParser([], read_only=True)


# GitPython would use these variables for any repository that it opens.
_VARIABLES = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")


@contextmanager
def _without_variables() -> Iterator[None]:
    """Remove git's environment variables in the `with` block: a hook may have set them for another repository."""
    hidden = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


@_without_variables()
def find_repository(path: Path, *, is_inside: bool) -> Repo:
    """Open the repository at `path`, or above it if `is_inside`. Raises SourceError if there is no repository."""
    try:
        return Repo(os.path.realpath(path), search_parent_directories=is_inside, expand_vars=False)
    except (GitError, OSError, ValueError) as error:
        wanted = "a catalogue is a git repository or a folder with documents"
        raise SourceError(f"{path}: not a git repository, or a damaged one; {wanted}") from error


@_without_variables()
def init_repository(folder: Path, *, branch: str, form: str = "sha1") -> None:
    """Make or complete an empty bare repository at `folder`; HEAD is `branch`, ids are of `form`: sha1 or sha256."""
    Repo.init(folder, expand_vars=False, bare=True, quiet=True, initial_branch=branch, object_format=form)


class _Progress(git.RemoteProgress):
    """Passes git's progress lines to `report`, and keeps the last of its other messages."""

    def __init__(self, report: Report | None) -> None:
        super().__init__()
        self._report = report

    def update(self, *_: Any) -> None:
        if self._report and self._cur_line:
            self._report(self._cur_line)

    def line_dropped(self, line: str) -> None:  # noqa: ARG002
        """Drop the oldest messages, so that no more than 100 are kept."""
        del self.other_lines[:-100]


@_without_variables()
def clone(url: str, folder: Path, report: Report | None) -> None:
    """Make a bare clone of `url` at `folder`, if possible without file contents; `report` gets git's progress lines."""
    check_version()
    progress: Any = _Progress(report)
    try:
        Repo.clone_from(url, folder, progress=progress, bare=True, filter="blob:none")
    except GitError as error:
        messages = "\n".join(progress.error_lines or progress.other_lines)
        raise SourceError(f"{url}: {explain(messages)}") from error
    finally:  # with Ctrl-C it has not ended yet
        for process in tuple(_running):
            if _running.get(process) == get_ident():
                process.end()
