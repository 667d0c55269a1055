"""A repository that others push to, processes that work on it, and damage to a clone of it."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

IDENTITY = {f"GIT_{who}_{what}": x for who in ("AUTHOR", "COMMITTER") for what, x in (("NAME", "x"), ("EMAIL", "x@x"))}
IDENTITY |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    check: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run git as a user would, and return what it prints."""
    command, env = ["git", f"--git-dir={folder}", *arguments], {**os.environ, **IDENTITY, **environment}
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=env)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "replace").strip()


class Upstream:
    """A bare repository, changed without any work tree."""

    def __init__(self, path: Path, *, object_format: str = "sha1", can_filter: bool = True) -> None:
        self.path = path
        git(path, "init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={object_format}", str(path))
        git(path, "config", "uploadpack.allowFilter", str(can_filter).lower())
        (path / "git-daemon-export-ok").touch()

    @property
    def url(self) -> str:
        """The address of the repository by way of git's own protocol over a pipe."""
        return self.path.as_uri()

    def commit(
        self, files: Mapping[str, bytes], *parents: str, branch: str = "main", date: str = "1748750400 +0000"
    ) -> str:
        """Commit exactly these files upon `parents`, or upon the branch as it is, and return the commit."""
        if not parents:
            tip = git(self.path, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
            parents = (tip,) if tip else ()
        git(self.path, "fast-import", "--quiet", "--force", stdin=b"".join(_commit(files, parents, branch, date)))
        return git(self.path, "rev-parse", f"refs/heads/{branch}")

    def forget(self) -> None:
        """Throw away at once what no branch has."""
        git(self.path, "reflog", "expire", "--expire=now", "--all")
        git(self.path, "gc", "--quiet", "--prune=now")


def _commit(files: Mapping[str, bytes], parents: tuple[str, ...], branch: str, date: str) -> Iterator[bytes]:
    # Reset first: otherwise the branch as it is would be a parent.
    yield f"reset refs/heads/{branch}\ncommit refs/heads/{branch}\ncommitter x <x@x> {date}\ndata 1\nx\n".encode()
    for keyword, parent in zip(["from", *["merge"] * 9], parents, strict=False):
        yield f"{keyword} {parent}\n".encode()
    yield b"deleteall\n"
    for name, data in files.items():
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data)
    yield b"\n"


def specs(*numbers: int, tag: str = "develop") -> dict[str, bytes]:
    """Return the files of a small catalogue; a number is a package that differs from all others."""
    return {f"_cache/{tag}/package{number % 10}/specs.md": f"{number}\n".encode() * 40 for number in numbers}


def processes(text: str) -> list[str]:
    """Return the commands of all processes that mention `text`, this one aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in command and path.parent.name != str(os.getpid()):
            found.append(command)
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process started, and those that they started."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    yield child
                    yield from descendants(child)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.chmod(0o600)
    path.write_bytes(data)


def only(folder: Path, pattern: str) -> Path:
    """Return the largest file that matches, writable."""
    path = max(folder.glob(pattern), key=lambda found: found.stat().st_size)
    path.chmod(0o600)
    return path
