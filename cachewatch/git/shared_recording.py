"""The bare repository in which hosts share what they record of a build cache: one records at a time, any may go on.

    fetch   before recording: what other hosts recorded comes here, and the next revision follows it
    push    after recording: the revisions that it lacks; nothing there is ever taken back or replaced

Where it cannot be reached, this host records on its own, and what two hosts recorded beside each other is joined later.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git import clone_maintenance
from cachewatch.git.clone_remote import Remote
from cachewatch.git.credentials import Access
from cachewatch.git.making_repository import init_repository
from cachewatch.git.recorded_repository import BRANCH, Recording, keep_small, open_recording
from cachewatch.git.repository import Repository
from cachewatch.git.stale_files import unlock_refs

# For a whole history; it ends earlier if nothing moves.
_FIRST_SECONDS = 6 * 3600.0


class SharedRecording:
    """The shared repository at a path or URL, and the one at `folder` in which this host records."""

    def __init__(self, folder: Path, address: str, access: Access | None = None, *, seconds: float) -> None:
        """Say what to share; nothing is done yet. `seconds` is for each fetch and push, but for those of a whole history."""
        self._folder = folder
        self._address = address
        self._remote = Remote(address, access, seconds=seconds)
        self._patient = Remote(address, access, seconds=_FIRST_SECONDS, silence=seconds)

    @property
    def name(self) -> str:
        """The address as messages have it."""
        return self._remote.name

    def fetch(self) -> str | None:
        """Get what other hosts recorded, go on from there, and return its newest revision if that is news here.

        A path that does not exist becomes an empty repository. Raises SourceError if it cannot be reached.
        """
        with self._open() as recording:
            remote = self._remote if recording.shared else self._patient
            remote.begin()
            self._create(recording)
            commit = remote.commit_of(recording.branch)
            if commit is None:
                recording.forget_shared()
            elif commit not in (recording.shared, recording.head):
                remote.fetch_commit(self._folder, commit, most=clone_maintenance.room(self._folder))
                self._follow(recording, commit)
                return commit
            elif commit != recording.shared:
                self._follow(recording, commit)
            return None

    def push(self) -> str | None:
        """Push what was recorded here and is lacking there, and return the newest revision that is; None if none is lacking.

        Raises NotFollowed if another host pushed meanwhile, which is joined after the next fetch.
        """
        with self._open() as recording:
            commit = recording.head
            if commit is None or commit == recording.shared or recording.is_apart:
                return None
            remote = self._remote if recording.shared else self._patient
            remote.begin()
            if remote.is_path:
                unlock_refs(Path(self._address))
            remote.push(self._folder, commit, recording.branch)
            recording.note_shared(commit)
            if remote.is_path:
                with suppress(SourceError), closing(Repository(Path(self._address))) as repository:
                    keep_small(repository)
            return commit

    @contextmanager
    def _open(self) -> Iterator[Recording]:
        with open_recording(self._folder) as recording, recording.handing_on():
            yield recording

    def _follow(self, recording: Recording, commit: str) -> None:
        try:
            recording.note_shared(commit)
        except BrokenSource as error:
            raise BrokenSource(f"{self.name}: {error}") from None

    def _create(self, recording: Recording) -> None:
        """Make the repository at a path where there is nothing yet."""
        path = Path(self._address)
        try:
            if not self._remote.is_path or path.exists():
                return
            if recording.shared is not None:
                raise BrokenSource(
                    f"{path}: is gone, though revisions of this host were there; mount or restore it, "
                    f"or make a new one: git init --bare --initial-branch={BRANCH} {path}"
                )
            if not path.parent.is_dir():
                raise BrokenSource(f"{path.parent}: there is no such folder; mount or create it")
            _make(path)
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from error


def _make(path: Path) -> None:
    """Make an empty bare repository, which is there whole or not at all."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.new-") as folder:
        new = Path(folder) / path.name
        init_repository(new, branch=BRANCH)
        try:
            new.rename(path)
        except OSError:
            if not path.exists():  # or another host made it at the same time
                raise
