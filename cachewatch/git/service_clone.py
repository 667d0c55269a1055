"""The service's long-lived clone of one branch, with the documents of its newest revision (docs/dev/design.md).

A ref refs/cachewatch/keep/COMMIT pins a revision, so that git's gc keeps it, also if upstream rewrites the branch. A
damaged clone is replaced by a new one, so nothing important may exist only in a clone.
"""

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.names_and_layouts import ANYWHERE, TAGS_FILE, Layout, Wanted
from cachewatch.errors import BrokenSource, SourceError, UnknownRevision
from cachewatch.git import clone_locks_and_disk_space as upkeep
from cachewatch.git.clone_locks_and_disk_space import RECORDING_LOCK
from cachewatch.git.git_processes import init_repository
from cachewatch.git.local_repository import FULL_ID, Repository
from cachewatch.git.remote_urls_and_fetch_errors import Access, Remote, Tip, Unreachable, redact
from cachewatch.git.trees import folder_of, folders, stored_catalogue
from cachewatch.runtime.files_and_locks import user_name

logger = logging.getLogger(__name__)

_KEEP = "refs/cachewatch/keep/"
_CLONING_SECONDS = 6 * 3600.0
_ATTEMPTS = 3  # how often a fetch is repeated because somebody pushed meanwhile


class Update(Struct, frozen=True, kw_only=True):
    """The result of updating a clone: the newest commit of its branch before and after."""

    branch: str
    before: str | None  # None after the first fetch
    after: str
    # Whether the branch no longer contains `before`, because it was rewritten; False if the clone has not all history.
    rewritten: bool = False
    set_aside: Path | None = None  # where the old clone lies, if it was damaged and replaced by a new one
    lost_pins: tuple[str, ...] = ()  # the pinned commits that no longer exist anywhere; the new clone lacks them


class ServiceClone:
    """A clone that the service keeps in `folder`: one branch of the repository at `address`."""

    def __init__(
        self,
        folder: Path,
        address: str,
        branch: str | None = None,  # by default, that of HEAD
        *,
        timeout: float = 600.0,  # seconds for all of one update; a first clone may take hours
        access: Access | None = None,  # credentials
        layout: Layout = ANYWHERE,  # where documents lie
        wanted_tag: Wanted = lambda _: True,  # selects tags whose newest documents are always fetched
    ) -> None:
        """Prepare the clone. Raises RefusedAddress if `address` has a password or could make git run a command."""
        self.folder = folder.absolute()
        self._address, self._branch, self._access = address, branch, access
        self._remote = Remote(address, access, seconds=timeout)
        self.layout, self._wanted_tag = layout, wanted_tag
        self._whole: str | None = None  # the last revision that was seen to be complete
        self._failures = 0

    def update(self) -> Update:
        """Fetch new commits of the branch, or clone anew if necessary; return what changed. Raises SourceError."""
        with self._updating() as lock:
            tip = self._remote.tip(self._branch)
            if not self.folder.exists():
                return self._clone(lock, tip)
            owner, we = self.folder.stat().st_uid, os.geteuid()
            if owner != we:  # git refuses it
                raise BrokenSource(
                    f"{self.folder}: belongs to user {user_name(owner)}, but cachewatch runs as {user_name(we)}; "
                    f"run it as the owner, or hand the folder over: chown -R {user_name(we)} {self.folder}"
                )
            try:
                done = self._fetch(tip)
            except upkeep.DamagedClone as error:
                return self._clone(lock, tip, str(error))
            except SourceError as error:
                self._failures += 1
                # A fault of the way is no sign of damage, unless it comes again and again.
                is_suspect = not isinstance(error, Unreachable) or self._failures % 3 == 0
                problem = error.is_transient and upkeep.damage(self.folder, thoroughly=is_suspect)
                if not problem:
                    raise
                return self._clone(lock, tip, problem)
            self._failures = 0
            try:
                upkeep.pack(self.folder)
            except SourceError as error:  # the update itself succeeded
                logger.warning("%s", redact(str(error)))
                if problem := upkeep.damage(self.folder, thoroughly=True):
                    return replace(self._clone(lock, tip, problem), before=done.before, rewritten=done.rewritten)
            return done

    def open(self) -> Repository:
        """Open the clone for reading, with HEAD at the newest fetched revision; the caller closes it."""
        if not self.folder.exists():
            raise SourceError(f"{self._remote.name}: has not been fetched yet")
        return Repository(self.folder, self.layout, is_ours=True, obtain=self.obtain, fetch_tag=self.fetch_tag)

    def pin(self, commit: str) -> None:
        """Pin `commit` against deletion, and fetch its missing documents. Raises UnknownRevision if it is not here."""
        if _commit_of(self.folder, commit) is None or self._absent(self.folder, commit):
            with self._updating():
                self._make_whole(self._remote, self.folder, commit)
        self._write_ref(f"update {_KEEP}{commit} {commit}", f"pin {commit}")

    def fetch_tag(self, name: str) -> bool:
        """Fetch the git tag `name`, which `update` does not fetch; return whether the repository has this tag."""
        with self._updating():
            if not self._remote.has_tag(name):
                return False
            ref = f"refs/tags/{name}"
            self._remote.fetch(self.folder, f"+{ref}:{ref}", is_partial=upkeep.is_partial(self.folder))
        return True

    def unpin(self, commit: str) -> None:
        """Remove the pin of `commit`, if there is one."""
        self._write_ref(f"delete {_KEEP}{commit}", f"unpin {commit}")

    def pins(self) -> frozenset[str]:
        """Return the ids of the pinned commits."""
        return _pins_of(self.folder)

    def obtain(self, ids: Iterable[str], tell: Callable[[int], None] = lambda _: None) -> None:
        """Fetch those of the objects `ids` that the clone lacks; first call `tell` with their number if it is not 0."""
        self._remote.fetch_absent(self.folder, ids, tell, hold=self._updating)

    @contextmanager
    def _updating(self) -> Iterator[int]:
        """Hold the lock for updates of the clone; yield the lock that all its writers share."""
        with (
            self._explained(),
            upkeep.locked(self.folder, seconds=self._remote.seconds),
            upkeep.writing(self.folder, seconds=upkeep.PATIENCE_SECONDS) as lock,
        ):
            self._remote.begin()
            yield lock

    def _write_ref(self, change: str, what: str) -> None:
        """Apply `change`, a line for `git update-ref`; messages call it `what`. Raises SourceError."""
        with self._explained(), upkeep.writing(self.folder):
            done = upkeep.read(self.folder, ["update-ref", "--stdin"], [change])
        if done.code:
            raise SourceError(f"{self.folder}: cannot {what}: {redact(done.error.strip())}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn OSErrors into SourceErrors. Raises BrokenSource if the folder has recordings, which must be kept."""
        if (self.folder / RECORDING_LOCK).exists():
            raise BrokenSource(
                f"{self.folder}: has the recorded history of a build cache, which cannot be had again; give the source "
                "of the repository another name, or move that folder away"
            )
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SourceError(f"{error.filename or self.folder}: {reason}") from error

    def _fetch(self, tip: Tip) -> Update:
        before = _commit_of(self.folder, "HEAD")
        if None in (before, self._whole) and (problem := upkeep.damage(self.folder, thoroughly=False)):
            raise upkeep.DamagedClone(problem)
        tip = self._follow(self._remote, self.folder, tip)
        self._make_whole(self._remote, self.folder, tip.commit)
        self._whole = tip.commit
        is_known = before not in (None, tip.commit) and not (self.folder / "shallow").exists()
        asked = ["merge-base", "--is-ancestor", str(before), tip.commit]
        rewritten = is_known and upkeep.read(self.folder, asked).code == 1
        return Update(branch=tip.branch, before=before, after=tip.commit, rewritten=rewritten)

    def _follow(self, remote: Remote, folder: Path, tip: Tip) -> Tip:
        """Fetch the branch of `tip` into `folder` until that is up to date; point HEAD at its new tip; return this."""
        is_partial = not remote.is_path or upkeep.is_partial(folder)
        for _ in range(_ATTEMPTS + 1):
            ref = f"refs/heads/{tip.branch}"
            if _commit_of(folder, ref) == tip.commit:
                if (folder / "HEAD").read_text("utf-8", "replace").strip() != f"ref: {ref}":
                    upkeep.read(folder, ["symbolic-ref", "HEAD", ref])
                return tip
            # With a + and full names: otherwise git may update nothing, for ever, and still report success.
            remote.fetch(folder, f"+{ref}:{ref}", is_partial=is_partial)
            if _commit_of(folder, ref) != tip.commit:
                tip = remote.tip(self._branch)
        raise SourceError(f"{remote.name}: the branch {tip.branch!r} moves on faster than it can be fetched")

    def _make_whole(self, remote: Remote, folder: Path, commit: str) -> None:
        """Fetch the documents of `commit` that `folder` lacks. Raises UnknownRevision if it lacks `commit` itself."""
        if commit == self._whole and folder == self.folder:
            return
        if _commit_of(folder, commit) is None:
            raise UnknownRevision(f"{folder}: the revision {commit} is not here")
        if absent := self._absent(folder, commit):
            remote.fetch(folder, ids=absent)
            if left := self._absent(folder, commit):
                raise SourceError(f"{self._remote.name}: it does not send {len(left):,} documents of {commit}")

    def _absent(self, folder: Path, commit: str) -> list[str]:
        """Return the ids of those documents of `commit` in wanted tags that the clone at `folder` lacks."""
        if not upkeep.is_partial(folder):
            return []
        with closing(Repository(folder, self.layout, is_ours=True)) as repository:
            catalogue = stored_catalogue(repository, commit)
            tags = folders(repository, catalogue)
        named = [*tags.ids, *(name.decode("utf-8", "surrogateescape") for name in tags.odd)]
        wanted = [tag for tag in named if self._wanted_tag(tag) and "\n" not in tag]
        paths = [f":(literal){folder_of(repository, tag)}" for tag in wanted] if catalogue else self.layout.pathspecs
        return upkeep.missing(folder, [commit], [f":(literal){TAGS_FILE}", *paths])

    def _clone(self, lock: int, tip: Tip, problem: str = "") -> Update:
        """Clone anew up to `tip`, in place of any old clone, whose damage is `problem`; `lock` is shared by writers."""
        new = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f"{self.folder.name}.new-"))
        try:
            init_repository(new, branch=tip.branch, form="sha256" if len(tip.commit) == 64 else "sha1")
            patient = Remote(self._address, self._access, seconds=_CLONING_SECONDS, silence=self._remote.seconds)
            tip = self._follow(patient, new, tip)
            self._make_whole(patient, new, tip.commit)
            old = self.folder if self.folder.exists() else next(reversed(upkeep.damaged_ones(self.folder)), None)
            lost = self._carry_over(patient, old, new) if old else ()
            before = _commit_of(self.folder, "HEAD")
            with upkeep.exclusive(lock, upkeep.PATIENCE_SECONDS):
                remote = Remote(self._address, self._access, seconds=self._remote.seconds)  # with its whole time
                lost += self._carry_over(remote, self.folder, new, but=lost)
                kept = upkeep.set_aside(self.folder) if self.folder.exists() else None
                new.rename(self.folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        if kept is not None:
            logger.warning("%s: damaged (%s); kept as %s and cloned anew", self.folder, redact(problem), kept.name)
        self._whole, self._failures = tip.commit, 0
        rewritten = before is not None and _commit_of(self.folder, before) is None
        update = Update(branch=tip.branch, before=before, after=tip.commit, rewritten=rewritten)
        return replace(update, set_aside=kept, lost_pins=lost)

    def _carry_over(self, remote: Remote, old: Path, new: Path, *, but: Collection[str] = ()) -> tuple[str, ...]:
        """In `new`, pin the commits that the clone `old` pins, except `but`; fetch them from `remote`, else from `old`.

        Return the ids of the commits that neither of the two has.
        """
        lost = []
        for commit in sorted(_pins_of(old) - _pins_of(new) - {*but}):
            try:
                if _commit_of(new, commit) is None:
                    try:
                        remote.fetch(new, commit, is_partial=upkeep.is_partial(new))
                    except SourceError:
                        Remote(str(old)).fetch(new, commit)
                self._make_whole(remote, new, commit)
            except (SourceError, UnknownRevision):
                lost.append(commit)
                logger.warning("%s: the pinned revision %s exists nowhere any more", self.folder, commit)
            else:
                upkeep.read(new, ["update-ref", "--stdin"], [f"update {_KEEP}{commit} {commit}"])
        return tuple(lost)


def _commit_of(folder: Path, name: str) -> str | None:
    """Return the id of the commit that `name` means in the clone at `folder`; None if missing or unreadable."""
    found = upkeep.read(folder, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"])
    return found.output.decode().strip() or None if found.code == 0 else None


def _pins_of(folder: Path) -> frozenset[str]:
    """Return the ids of the commits pinned in the clone `folder`; read from files: git may fail if it is damaged."""
    names: list[str] = []
    try:
        packed = (folder / "packed-refs").read_text("utf-8", "replace") if (folder / "packed-refs").exists() else ""
        names += re.findall(rf" {_KEEP}(\S+)$", packed, re.MULTILINE)
        names += (path.name for path in (folder / _KEEP).glob("*"))
    except OSError as error:
        logger.warning("%s: %s", error.filename, error.strerror)
    return frozenset(filter(FULL_ID.fullmatch, names))
