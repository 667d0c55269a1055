"""The output of commands: data to standard output, a pager or a file; messages and progress to standard error."""

import os
import shutil
import signal
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import reduce
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic
from typing import Any

import click
import msgspec

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.kinds_and_specs import Diagnostic
from cachewatch.errors import UsageError, explained
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.diff_blocks_and_colours import Palette, fitted
from cachewatch.report.json_and_safe_csv import pretty_json


def tell(text: str) -> None:
    """Print `text` on standard error, folded to the width of the terminal; do nothing if that cannot be written."""
    try:
        for line in fitted(text.splitlines(), _columns() if is_drawing() else None):
            click.echo(line, err=True)
    except OSError:
        # Some versions of Python would try to write it again when they end, and exit with 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def say(text: str) -> None:
    """Print `text` on standard error, with "cachewatch: " before it."""
    tell(f"cachewatch: {safe(text)}")


def warn(text: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {text}")


_SIDES = {"before": " (BEFORE)", "after": " (AFTER)", "both": " (BEFORE and AFTER)"}


def warn_of(faults: Iterable[Diagnostic], *, most: int | None = None, more: str = "") -> None:
    """Print up to `most` (None: all) warnings of `faults`; of the others, only the number and the text `more`."""
    problems = list(faults)
    for each in problems[:most]:
        warn(f"{each.path}: {each.kind}: {each.message}{_SIDES.get(each.side, '')}")
    if most is not None and len(problems) > most:
        warn(f"... and {len(problems) - most:,} more{more}")


def warn_of_graph(what: str) -> None:
    """Warn that a dependency graph is unreadable, for the reason `what`."""
    warn(f"{what}; its specs are left out, and the causes of others end there")


def is_drawing() -> bool:
    """Tell whether standard error is a terminal, where progress can be drawn."""
    return sys.stderr is not None and sys.stderr.isatty()


# About half a second of work; for less, no line is drawn.
LONG_BYTES = 12 * 2**20
_MANY_PIECES = 500


class ProgressLine:
    """Shows progress on a line of standard error, begun by `doing`, if `is_wanted` and standard error is a terminal."""

    def __init__(self, doing: str = "comparing", *, is_wanted: bool = True) -> None:
        self._doing = doing
        self._is_shown = is_wanted and is_drawing()
        self.git_report = self.git if self._is_shown else None  # shows git's progress
        self._is_drawn = False
        self._start = 0.0
        self._total = self._done = self._done_at_start = 0

    def begin(self, total: int, done: int | None = None) -> None:
        """Begin work on `total` bytes or, if `done` is given, on `total` pieces, of which `done` are finished."""
        self._done = self._done_at_start = done or 0
        is_long = total - self._done >= (LONG_BYTES if done is None else _MANY_PIECES)
        self._total = total if self._is_shown and is_long else 0
        self._start = monotonic()

    def advance(self, size: int) -> None:
        """Count `size` more bytes (or pieces) as done, and draw the line if the work is long."""
        if not self._total:
            return
        self._done += size
        share, left = self._done / self._total, ""
        elapsed, done = monotonic() - self._start, self._done - self._done_at_start
        if elapsed >= 3 and done:  # at the present speed, which the first seconds do not show
            left = f", {how_long(timedelta(seconds=elapsed / done * (self._total - self._done)))} left"
        self._draw("" if share >= 1 else f"{self._doing} [{'#' * int(30 * share):30}] {share:4.0%}{left}")

    def count(self, done: int) -> None:
        """Count `done` more pieces, and draw how many are done so far; the total need not be known."""
        if self._is_shown:
            self._done += done
            self._draw(f"{self._doing}: {self._done:,}")

    def git(self, line: str) -> None:
        """Show `line`, of the output of git, if it reports progress in percent."""
        if "%" in line:
            self.show("" if line.rstrip().endswith("done.") else line.strip())

    def show(self, text: str) -> None:
        """Draw `text` on the line, in place of what is there."""
        if self._is_shown:
            self._draw(safe(text))

    def close(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            self._draw("")
            self._total = 0

    def _draw(self, text: str) -> None:
        self._is_drawn = bool(text)
        sys.stderr.write(f"\r\x1b[K{text[: _columns() - 1]}")  # erases the line first
        sys.stderr.flush()


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds `options` to a command, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _keep_color(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Store the value of `--color` in the context, from which the commands of a group inherit it."""
    if value is not None:
        context.color = {"always": True, "never": False}.get(value)


COLOR_OPTION = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    metavar="WHEN",
    expose_value=False,
    callback=_keep_color,
    help="Colorize output: always, never or auto (on a terminal).",
)


def format_option(*forms: str) -> Callable[[Any], Any]:
    """Return a decorator that adds --color and --format, which takes one of `forms`; the first is the default."""
    form = click.option("--format", "format_", type=click.Choice(forms), default=forms[0], help="Output format.")
    return with_options(form, COLOR_OPTION)


FORMAT_OPTION = format_option("text", "json")
OUTPUT_OPTION = click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, which is replaced only when the output is complete."
)
JOBS_OPTION = click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(2, os.cpu_count() or 1),
    show_default="2, or 1 on a single CPU",
    help="Number of worker processes.",
)


def palette(output: str | None = None) -> Palette:
    """Return the colours for output to `output` (a file; None: standard output), according to `--color`."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return Palette(is_on=context.color)
    may_paint = is_on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Palette(is_on=output is None and may_paint)


def is_on_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def write(pieces: Iterable[bytes], file: str | None, *, is_for_people: bool = False) -> None:
    """Write `pieces` to standard output one by one if `file` is None or "-"; otherwise replace `file` at the end.

    If `is_for_people`, standard output goes to the user's pager on a terminal. Raises UsageError if writing fails.
    """
    if file is None or file == "-":
        context = click.get_current_context(silent=True)
        is_switched_off = context is not None and context.find_root().params.get("no_pager")
        is_paged = is_for_people and file is None and not is_switched_off and is_on_terminal()
        has_pager = os.environ.get("PAGER", "less").strip() not in ("", "cat")
        (_page if is_paged and has_pager else _write_stdout)(pieces)
        return
    with explained(UsageError, f"{file}: cannot be written"):
        path = Path(file).resolve()  # through a link, to what it names
        if path.exists() and not path.is_file():
            with path.open("wb") as special:
                special.writelines(pieces)
        else:
            _write_file(pieces, path)


def width() -> int | None:
    """Return how many columns lines for people may have; None (no limit) if they go to no terminal."""
    return _columns() if is_on_terminal() or os.environ.get("COLUMNS") else None


def _columns() -> int:
    return shutil.get_terminal_size().columns


def write_lines(lines: Iterable[str], file: str | None = None) -> None:
    """Write `lines`, with coloured words for states, to the file `file` (None: standard output, or the pager)."""
    states = palette(file).states
    write((f"{line}\n".encode() for line in fitted(map(states, lines), width())), file, is_for_people=True)


def write_text(text: str) -> None:
    """Write `text` to standard output unchanged; on a terminal to the user's pager, folded to the width."""
    if is_on_terminal():
        text = "".join(f"{line}\n" for line in fitted(text.splitlines(), width()))
    write([text.encode()], None, is_for_people=True)


def write_json(what: str, value: object) -> None:
    """Write `value` as JSON with its schema `cachewatch.{what}/1`; if it is no object, put it under the key `what`."""
    plain = msgspec.to_builtins(value)
    plain = {"schema": f"cachewatch.{what}/1"} | (plain if isinstance(plain, dict) else {what: plain})
    write([pretty_json(plain)], None)


def _page(pieces: Iterable[bytes]) -> None:
    rest = iter(pieces)
    first = next(rest, None)  # no pager before there is anything to read, and none for a mistake
    if first is None:
        return
    # As in git: less ends if all fits the screen, shows colours, and does not clear the screen.
    os.environ.setdefault("LESS", "FRX")
    with suppress(BrokenPipeError), click.get_pager_file(color=True) as pager:
        for piece in chain([first], rest):
            pager.write(piece.decode())
            pager.flush()
    # If the user quits early, the rest is still computed, because exit codes depend on it.
    deque(rest, maxlen=0)


def _write_stdout(pieces: Iterable[bytes]) -> None:
    if sys.stdout is None:
        raise UsageError("standard output is closed; use --output FILE")
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has seen enough (| head)
            sys.exit(128 + signal.SIGPIPE)
        raise UsageError(f"standard output cannot be written: {error.strerror}") from error


def _write_file(pieces: Iterable[bytes], path: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~mask
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
        try:
            temporary.writelines(pieces)
            temporary.flush()
            os.fsync(temporary.fileno())
            os.fchmod(temporary.fileno(), mode)
            Path(temporary.name).replace(path)
        finally:
            Path(temporary.name).unlink(missing_ok=True)
