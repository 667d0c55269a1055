"""Check a repository before git opens it: for pipes and devices, on which it would hang, and for promised objects.

A partial clone promises that what it lacks can be fetched, and its configuration says how. A git that
does not know how to leave that alone is not let near one that is not ours.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cachewatch.errors import BrokenSource
from cachewatch.runtime.files import RefusedFile, check_regular, read_regular

_LARGEST_CONFIG = 2**20
_MOST_INCLUDED = 100
_LOOKED_FOR = (".git", "HEAD", "commondir", "gitdir", "config")
_INCLUDE = re.compile(r"\[\s*include", re.IGNORECASE)
_HOOK = re.compile(r"\[\s*hook[\s.\"\]]", re.IGNORECASE)
# Those that leave out of reach what a partial clone lacks where GIT_NO_LAZY_FETCH says so: 2.45, and older ones that
# were fixed in May 2024, by what their last number has to be.
_NOT_LAZY = {39: 4, 40: 2, 41: 1, 42: 2, 43: 4, 44: 1}
_PROMISE = re.compile(r"promisor|partialclone", re.IGNORECASE)
_TOO_OLD = (
    "and this git would run what its configuration says to fetch what it lacks; install git 2.45 or newer "
    "(or one fixed in May 2024, such as 2.39.4), or give --repo the URL"
)
_PATH = re.compile(r"path\s*=\s*(.*)", re.IGNORECASE)


def _fetches_by_itself(version: tuple[int, ...]) -> bool:
    """Tell whether a git of this version may fetch what a partial clone lacks, without being asked."""
    if version[:2] >= (2, 45):
        return False
    return not version or version[2] < _NOT_LAZY.get(version[1], 1000)


def check_repository(path: Path, version: tuple[int, ...]) -> None:
    """Raise BrokenSource where the repository that `path` is, or is in, cannot be given to a git of this version."""
    try:
        git_dir = _git_dir(_physical(path))
        for folder in _folders(git_dir) if git_dir else ():
            _check_files(str(folder))
            texts = list(_configuration(folder))
            if _fetches_by_itself(version) and any(map(_PROMISE.search, texts)):
                raise BrokenSource(f"{path}: is a partial clone, {_TOO_OLD}")
    except RefusedFile as error:
        raise BrokenSource(
            f"{error.filename}: {error.strerror}; git would wait for it for ever, and no git makes one"
        ) from error


def check_no_hooks(folder: Path) -> None:
    """Raise BrokenSource where the configuration of a bare repository to which is written names hooks: git 2.54 runs them."""
    try:
        if any(map(_HOOK.search, _configuration(folder))):
            raise BrokenSource(
                f"{folder}: its configuration names commands as hooks, which git 2.54 and newer would run; "
                "remove the sections [hook ...], or name another repository"
            )
    except RefusedFile as error:
        raise BrokenSource(f"{error.filename}: {error.strerror}; git would wait for it for ever") from error


def is_in_repository(path: Path) -> bool:
    """Tell whether `path` is a repository, or is in one, without starting git."""
    try:
        return _git_dir(_physical(path)) is not None
    except RefusedFile:
        return True  # which opening it will explain


def shared_git_dir(path: Path) -> Path | None:
    """Return the git folder of the repository that `path` is, or is in, which all its work trees share, without starting git."""
    try:
        git_dir = _git_dir(_physical(path))
        return None if git_dir is None else list(_folders(git_dir))[-1].resolve()
    except RefusedFile:
        return None  # which opening it will explain


def _physical(path: Path) -> Path:
    """Return the place that `path` leads to, without links and `..`: where git would be if it were started there."""
    return Path(os.path.realpath(path))  # `resolve` raises RuntimeError where links go in circles


def _git_dir(path: Path) -> Path | None:
    """Look for the repository as git does, but at no pipe on the way."""
    for folder in (path, *path.parents):
        dot_git = folder / ".git"
        for place in (folder, dot_git):
            for name in _LOOKED_FOR:
                check_regular(place / name)
        if dot_git.is_file():
            return folder / _word(dot_git).removeprefix("gitdir: ")
        if dot_git.is_dir():
            return dot_git
        # The git folder of a linked work tree has no objects; it lies in that of the main one, which has another HEAD.
        if (folder / "HEAD").is_file() and ((folder / "objects").is_dir() or (folder / "commondir").is_file()):
            return folder
    return None


def _folders(git_dir: Path) -> Iterator[Path]:
    """Yield the folder of a repository, and for a work tree the one that it shares."""
    yield git_dir
    shared = git_dir / "commondir"
    check_regular(shared)
    if shared.is_file():
        yield git_dir / _word(shared)


def _word(path: Path) -> str:
    return os.fsdecode(read_regular(path, most=_LARGEST_CONFIG)).rstrip("\r\n")


def _check_files(folder: str) -> None:
    """Look at every file; that costs milliseconds, because the folders say what their files are."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = list(found)
        except OSError:
            continue  # which git will say, if it needs it
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                check_regular(Path(entry.path))


def _configuration(folder: Path) -> Iterator[str]:
    """Yield the text of the configuration, and of all that it includes."""
    waiting, seen = [folder / "config", folder / "config.worktree"], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if len(seen) > _MOST_INCLUDED:
            raise BrokenSource(f"{folder}: its configuration includes more than {_MOST_INCLUDED} files; remove some")
        check_regular(file)
        if file.is_file():
            text = read_regular(file, most=_LARGEST_CONFIG).decode("utf-8", "replace")
            text = text.replace("\r\n", "\n").replace("\\\n", "")
            waiting += islice(_included(text, file.parent), _MOST_INCLUDED + 1)
            yield text


def _included(text: str, folder: Path) -> Iterator[Path]:
    """Yield each file that a configuration may include, and a few that it does not."""
    if not _INCLUDE.search(text):
        return
    for value in _PATH.findall(text.replace('"', "").replace("\\\\", "\\")):
        for name in {value.strip(), re.split("[;#]", value)[0].strip()} - {""}:
            if "\0" not in name:
                yield folder / os.path.expanduser(name)  # noqa: PTH111  a user that is not known is no error
