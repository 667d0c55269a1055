"""The file system that a folder is on, as far as it matters: whether other machines may share it."""

import re
from collections.abc import Iterator
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_SHARED = re.compile(
    r"nfs4?|cifs|smb\w*|ceph|lustre|gpfs|mmfs|beegfs|9p|afs|coda|dvs|gfs2|ocfs2|orangefs|pvfs2|panfs|wekafs"
    r"|fuse\.(?!fuse-overlayfs|portal|lxcfs)[\w.-]+"
)
# The fields before the dash are as many as there are options; the fifth is where it is mounted.
_LINE = re.compile(r"(?:\S+ ){4}(\S+) .*? - (\S+) ")


def shared_kind(folder: Path, mounts: Path | None = None) -> str:
    """Return the type of the network or cluster file system that `folder` is on, or nothing if it is local."""
    folder, best, kind = folder.resolve(), Path("/"), ""
    for point, found in _mounts(mounts or MOUNTS):
        # Of what is mounted at one place, the last hides the others.
        if folder.is_relative_to(point) and point.is_relative_to(best):
            best, kind = point, found
    return kind if _SHARED.fullmatch(kind) else ""


def journal_mode(folder: Path) -> str:
    """Return the journal that SQLite needs in `folder`.

    The log of WAL is shared through memory, which machines that share a file system do not have in common.
    """
    return "TRUNCATE" if shared_kind(folder) else "WAL"


def _mounts(path: Path) -> Iterator[tuple[Path, str]]:
    try:
        text = path.read_text("utf-8", "surrogateescape")
    except OSError:
        return  # not Linux
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield Path(_unescaped(found[1])), found[2]


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
