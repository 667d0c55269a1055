"""Where data goes: standard output, or a file that is whole or not there."""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cachewatch.errors import UsageError


def write(pieces: Iterable[bytes], file: str | None) -> None:
    """Write `pieces` as they come to standard output, or to `file` once all of them are there."""
    if file is None or file == "-":
        _write_stdout(pieces)
    else:
        _write_file(pieces, Path(file))


def _write_stdout(pieces: Iterable[bytes]) -> None:
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has seen enough (| head). Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(pieces: Iterable[bytes], file: Path) -> None:
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.writelines(pieces)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(file)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
