"""Read a repository on this machine through git's plumbing.

Nothing is ever checked out, nor written to a repository that is not ours.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from pathlib import Path

from cachewatch.core.repository_layout import ANYWHERE, Layout
from cachewatch.git.finding_repository import find_git_dir
from cachewatch.git.hardening import Command, git_command
from cachewatch.git.object_pipe import ObjectPipe
from cachewatch.git.processes import execute, lines_as_input
from cachewatch.git.repository_checks import shared_git_dir


class Repository:
    """A repository on this machine, read through git's plumbing."""

    is_ours = False  # or nobody else writes in it
    is_folder = False  # or its one revision was made of a folder, for one command

    def __init__(self, path: Path, layout: Layout = ANYWHERE) -> None:
        """Find the repository that `path` is in or is; bare and shallow ones are fine."""
        self.path = path
        self.layout = layout  # where its documents are
        self.git_dir = find_git_dir(path, is_ours=self.is_ours)
        self._objects: ObjectPipe | None = None

    @property
    def shared_git_dir(self) -> Path:
        """The git folder that all work trees of the repository share."""
        return shared_git_dir(Path(self.git_dir)) or Path(self.git_dir)

    def run(self, arguments: Sequence[str], lines: Iterable[str] = ()) -> bytes:
        """Run a git command that reads, with `lines` as its input, and return what it prints."""
        with lines_as_input(lines) as stdin:
            return execute(self._command().plus(*arguments), stdin, what=str(self.path))

    def objects(self) -> ObjectPipe:
        """Return the pipe that objects are read through, which stays open."""
        if self._objects is None:
            self._objects = ObjectPipe(self._command().plus("cat-file", "--batch"), self.path)
        return self._objects

    def again(self) -> "Repository":
        """Return the same repository with git processes of its own, for the process that we are in, forked or not."""
        if self._objects is not None:
            self._objects.abandon()
        return self.another()

    def another(self) -> "Repository":
        """Return the same repository with git processes of its own."""
        twin = copy(self)
        twin._objects = None  # noqa: SLF001  it is one of us
        return twin

    def obtain(self, ids: Iterable[str], tell: Callable[[int], None] = lambda _: None) -> None:
        """Make sure that these objects are here, and `tell` first how many are not; one that is not ours is left as it is."""

    def fetch_tag(self, name: str) -> bool:  # noqa: ARG002  those of a mirror do
        """Fetch a tag of git that is not here, if this is a clone of some branches; return whether that changed anything."""
        return False

    def close(self) -> None:
        """End the git process that is still open, if any."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None

    def _command(self) -> Command:
        return git_command().plus(f"--git-dir={self.git_dir}")


class FolderAsRepository(Repository):
    """A folder of documents as it is now, in a repository that was made of it: nothing shows its revision."""

    is_ours = True
    is_folder = True

    def __init__(self, folder: Path, made: Path, layout: Layout = ANYWHERE) -> None:
        """Open the repository `made`, which messages call by the name of the folder."""
        super().__init__(made, layout)
        self.path = folder
