"""Find the git folder of a repository with GitPython, which is loaded here and nowhere else.

It knows work trees, and what is no repository. Nothing else of it is used: its own diff loses every
change of a commit when one file name is odd, and its objects are not safe to share; see docs/dev/design.md.
"""

import configparser
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import SourceError

# Looking for git is our own business, with our own words.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
# It would run `git version` with our whole environment, and the secrets that nobody has taken out of it yet.
os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = os.devnull

import git
from git.exc import GitError

del os.environ["GIT_PYTHON_GIT_EXECUTABLE"]

# GitPython takes what these name for a part of whatever repository it opens.
_VARIABLES = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")


def git_dir_by_gitpython(path: Path) -> str:
    """Return the absolute git folder of the repository that `path` is, or is in, or raise SourceError."""
    try:
        with (
            _without_variables(),
            git.Repo(os.path.realpath(path), search_parent_directories=True, expand_vars=False) as repository,
        ):
            return str(Path(repository.git_dir).absolute())
    except (GitError, OSError, ValueError, AttributeError, configparser.Error) as error:
        raise SourceError(
            f"{path}: not a git repository, or a damaged one; a catalogue is a git repository or a folder with documents"
        ) from error


@contextmanager
def _without_variables() -> Iterator[None]:
    """Hide variables of git, which a shell or a hook may have set for another repository."""
    hidden = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
