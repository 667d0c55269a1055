"""Make bare repositories, and write to those that are ours."""

import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import BinaryIO, cast

from cachewatch.git.hardening import git_command
from cachewatch.git.processes import execute, lines_as_input

_PACKING_SECONDS = 3600.0


def make_repository(folder: Path, stream: Iterable[bytes], *, branch: str) -> None:
    """Make a bare repository at `folder` out of a stream for `git fast-import`."""
    init_repository(folder, branch=branch)
    with tempfile.TemporaryFile() as stdin:
        stdin.writelines(stream)
        import_stream(folder, cast("BinaryIO", stdin))


def init_repository(folder: Path, *, branch: str, locks: Collection[int] = ()) -> None:
    """Make an empty bare repository at `folder`, or finish making one; git holds `locks` meanwhile."""
    with lines_as_input(()) as stdin:
        execute(
            git_command().plus("init", "--quiet", "--bare", f"--initial-branch={branch}", str(folder)),
            stdin,
            what=str(folder),
            locks=locks,
        )


def import_stream(folder: Path, stream: BinaryIO, *, locks: Collection[int] = ()) -> None:
    """Put a stream for `git fast-import` into a bare repository; all of it or nothing, and on the disk.

    `locks` are files that git holds as well, so that a lock lasts until git has ended, even if we do before.
    """
    stream.flush()
    stream.seek(0)
    command = git_command().plus("-c", "core.fsync=committed,reference", f"--git-dir={folder}")
    # It would look for deltas between files that follow each other, of different packages, which have little in common.
    command = command.plus("fast-import", "--quiet", "--done", "--depth=0")
    execute(command, stream, what=str(folder), seconds=_PACKING_SECONDS, locks=locks)


def pack(folder: Path, *, locks: Collection[int] = ()) -> None:
    """Put what many imports have left into fewer and smaller packs."""
    with lines_as_input(()) as stdin:
        command = git_command().plus(f"--git-dir={folder}", "repack", "--quiet", "-d", "-l", "--geometric=2")
        execute(command, stdin, what=str(folder), seconds=_PACKING_SECONDS, locks=locks)
