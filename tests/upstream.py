"""A repository that others push to, and the servers that serve it on loopback."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_IDENTITY = {
    "GIT_AUTHOR_NAME": "x",
    "GIT_AUTHOR_EMAIL": "x@x",
    "GIT_COMMITTER_NAME": "x",
    "GIT_COMMITTER_EMAIL": "x@x",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    check: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run git as a user would, and return what it prints."""
    done = subprocess.run(
        ["git", f"--git-dir={folder}", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **_IDENTITY, **environment},
    )
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
        self, files: Mapping[str, bytes], *parents: str, branch: str = "main", date: str = "2025-06-01T04:00:00Z"
    ) -> str:
        """Commit exactly these files upon `parents`, or upon the branch as it is, and return the commit."""
        index = {"GIT_INDEX_FILE": str(self.path / "scratch-index")}
        git(self.path, "read-tree", "--empty", environment=index)
        entries = "".join(
            f"100644 {git(self.path, 'hash-object', '-w', '--stdin', stdin=data)}\t{name}\n"
            for name, data in files.items()
        )
        git(self.path, "update-index", "--index-info", stdin=entries.encode(), environment=index)
        tree = git(self.path, "write-tree", environment=index)
        tip = git(self.path, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        onto = [argument for parent in parents or [tip] if parent for argument in ("-p", parent)]
        dates = {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        commit = git(self.path, "commit-tree", tree, *onto, "-m", "x", environment=dates)
        git(self.path, "update-ref", f"refs/heads/{branch}", commit)
        return commit

    def forget(self) -> None:
        """Throw away at once what no branch has."""
        git(self.path, "reflog", "expire", "--expire=now", "--all")
        git(self.path, "gc", "--quiet", "--prune=now")


def specs(*numbers: int, tag: str = "develop") -> dict[str, bytes]:
    """Return the files of a small catalogue; a number is a package that differs from all others."""
    return {f"_cache/{tag}/package{number % 10}/specs.md": f"{number}\n".encode() * 40 for number in numbers}
