"""The real documents and build caches that tests read, packed in tests/data.

`python tests/archives.py FOLDER tests/data/NAME.tar.xz` packs a folder again; the same content gives the same bytes.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data"
_TIME = 1_767_225_600  # 2026-01-01


def pack(folder: Path, archive: Path) -> None:
    """Write everything in a folder to an archive, with nothing of this machine in it."""
    with tarfile.open(archive, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=_anonymous)


def unpack(name: str, into: Path) -> Path:
    """Unpack an archive of tests/data into a folder, once, however many processes ask at the same time."""
    folder = into / name
    if not folder.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=into))
        with tarfile.open(DATA / f"{name}.tar.xz") as tar:
            # The filters arrived in patch releases of Python 3.11; from 3.12 on, Python warns where none is named.
            if hasattr(tarfile, "data_filter"):
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(scratch)
        try:
            scratch.rename(folder)
        except OSError:  # another process was first, and its copy is the same
            if not folder.is_dir():
                raise
    return folder


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = _TIME
    member.mode = 0o755 if member.isdir() else 0o644
    return member


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
