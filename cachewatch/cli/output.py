"""Where data goes: standard output, or a file that is whole or not there."""

import os
import stat
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

import click
import msgspec

from cachewatch.core.untrusted_text import safe
from cachewatch.errors import UsageError
from cachewatch.render.ascii_json import ascii_only
from cachewatch.render.colour import Palette

FORMAT_OPTION = click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
REPORT_FORMAT_OPTION = click.option(
    "--format", "format_", type=click.Choice(["text", "json", "markdown"]), default="text", help="Output format."
)
OUTPUT_OPTION = click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, which is replaced only when the output is complete."
)
COLOR_OPTION = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colorize output."
)
# As shells report a process that SIGPIPE ended.
_BROKEN_PIPE = 141


def palette(color: str, output: str | None) -> Palette:
    """Return the colours of what goes to `output`, by the option `--color`."""
    return Palette(is_on=color == "always" or (color == "auto" and output is None and _may_paint()))


def is_on_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def _may_paint() -> bool:
    """Tell whether standard output is a terminal whose user likes colour."""
    return is_on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(pieces: Iterable[bytes], file: str | None, *, is_for_people: bool = False) -> None:
    """Write `pieces` as they come to standard output, or to `file` once all of them are there.

    A file that is no regular one (a device, a pipe) is written to as it is. What is for people goes
    through the user's pager if standard output is a terminal.
    """
    if file is None or file == "-":
        if is_for_people and file is None and _is_paged():
            _page(pieces)
        else:
            _write_stdout(pieces)
        return
    path = Path(file)
    try:
        path = path.resolve()  # through a link, to what it names
        if path.exists() and not path.is_file():
            with path.open("wb") as special:
                special.writelines(pieces)
        else:
            _write_file(pieces, path)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error


def write_lines(lines: Iterable[str]) -> None:
    """Write lines for people to standard output, through the user's pager if that is a terminal."""
    write((f"{line}\n".encode() for line in lines), None, is_for_people=True)


def write_json(value: object) -> None:
    """Write a value as JSON to standard output."""
    write([ascii_only(msgspec.json.format(msgspec.json.encode(value))) + b"\n"], None)


def _is_paged() -> bool:
    context = click.get_current_context(silent=True)
    is_switched_off = context is not None and context.find_root().params.get("no_pager")
    return not is_switched_off and is_on_terminal() and os.environ.get("PAGER", "less").strip() not in ("", "cat")


def _page(pieces: Iterable[bytes]) -> None:
    """Write `pieces` into the user's pager as they come, and wait until its user is done."""
    rest = iter(pieces)
    first = next(rest, None)  # no pager before there is anything to read, and none for a mistake
    if first is None:
        return
    # As git has it: less ends if all fits the screen, shows colours, and leaves the text there.
    os.environ.setdefault("LESS", "FRX")
    with suppress(BrokenPipeError), click.get_pager_file(color=True) as pager:
        for piece in chain([first], rest):
            pager.write(piece.decode())
            pager.flush()
    # Who quits early has seen enough; but exit codes are about all of it.
    deque(rest, maxlen=0)


def _write_stdout(pieces: Iterable[bytes]) -> None:
    if sys.stdout is None:
        raise UsageError("standard output is closed; use --output FILE")
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has seen enough (| head). Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UsageError(f"standard output cannot be written: {error.strerror}") from error


def _write_file(pieces: Iterable[bytes], path: Path) -> None:
    import tempfile  # noqa: PLC0415  slow to load, and most output goes to standard output

    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.writelines(pieces)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def warn_of_graph(what: str) -> None:
    """Say that the dependency graph of a package cannot be read, and what of it is missing in the output."""
    click.echo(
        f"cachewatch: warning: {safe(what)}; its specs are left out, and the causes of others end there", err=True
    )
