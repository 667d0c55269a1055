"""Find the git folder of a repository."""

import os
import re
from pathlib import Path

from cachewatch.errors import SourceError
from cachewatch.git.hardening import check_version, fetches_by_itself
from cachewatch.git.processes import installed_version
from cachewatch.git.repository_checks import check_repository

_HEAD = re.compile(rb"ref: refs/|[0-9a-f]{40}")


def find_git_dir(path: Path, *, is_ours: bool) -> str:
    """Return the absolute git folder of the repository that `path` is, or is in; bare and shallow ones are fine.

    Raises SourceError where there is none, where git cannot be given it, and where git is too old.
    """
    if not path.exists():
        raise SourceError(f"{path}: there is no such folder")
    version = installed_version()
    check_version(version)
    likely = path if is_ours else check_repository(path, may_be_partial=not fetches_by_itself(version))
    if likely is not None and _is_plain(likely):
        return os.path.realpath(likely)  # to cut `..` off the name of a link would lead elsewhere
    # To load GitPython takes more than half as long as a small comparison.
    from cachewatch.git.gitpython import git_dir_by_gitpython  # noqa: PLC0415

    return git_dir_by_gitpython(path)


def _is_plain(folder: Path) -> bool:
    """Tell whether this is beyond doubt a git folder, and of no work tree that shares the folder of another."""
    if (folder / "commondir").exists() or not all((folder / name).is_dir() for name in ("objects", "refs")):
        return False
    try:
        with (folder / "HEAD").open("rb") as head:
            return _HEAD.match(head.read(64)) is not None
    except OSError:
        return False
