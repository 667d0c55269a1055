"""One line on a terminal that says how far long work is, and vanishes when it is done."""

import sys
import time
from collections.abc import Callable

from cachewatch.core.untrusted_text import safe

# About half a second of work; less needs no line.
LONG_BYTES = 12 * 2**20

_MANY_PIECES = 500
# An estimate made sooner would jump about.
_SECONDS_BEFORE_ESTIMATE = 3.0
_MINUTE, _HOUR = 60, 3600

_ERASE = "\r\x1b[K"


def progress_line(*, is_wanted: bool = True, doing: str = "comparing") -> "ProgressLine":
    """Return a line that draws if standard error is a terminal."""
    return ProgressLine(is_shown=is_wanted and sys.stderr is not None and sys.stderr.isatty(), doing=doing)


class ProgressLine:
    """Draws on standard error, or nothing at all."""

    def __init__(
        self, *, is_shown: bool, doing: str = "comparing", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._doing = doing
        self._clock = clock
        self._start = 0.0
        self._done_at_start = 0
        self._is_shown = is_shown
        self._total = 0
        self._done = 0
        self._is_drawn = False

    @property
    def git_report(self) -> Callable[[str], None] | None:
        """Return what takes git's progress, or None if nothing is drawn and git need not count."""
        return self.git if self._is_shown else None

    def begin(self, total: int) -> None:
        """Begin work on `total` bytes."""
        self._begin(total if total >= LONG_BYTES else 0, 0)

    def begin_pieces(self, total: int, done: int) -> None:
        """Begin work on `total` pieces, some of which are `done`; `advance` then counts pieces."""
        self._begin(total if total - done >= _MANY_PIECES else 0, done)

    def _begin(self, total: int, done: int) -> None:
        self._total = total if self._is_shown else 0
        self._done = self._done_at_start = done
        self._start = self._clock()

    def advance(self, size: int) -> None:
        """Note that `size` more bytes, or pieces, are done."""
        if self._total:
            self._done += size
            share = self._done / self._total
            bar = f"{self._doing} [{'#' * int(30 * share):30}] {share:4.0%}{self._left()}"
            self._draw("" if share >= 1 else bar)

    def _left(self) -> str:
        """Say how long it will take, as long as what was done took."""
        elapsed, done = self._clock() - self._start, self._done - self._done_at_start
        if elapsed < _SECONDS_BEFORE_ESTIMATE or not done:
            return ""
        seconds = elapsed / done * (self._total - self._done)
        if seconds < _MINUTE:
            return f", {seconds:.0f} s left"
        return f", {seconds / _MINUTE:.0f} min left" if seconds < _HOUR else f", {seconds / _HOUR:.1f} h left"

    def count(self, done: int) -> None:
        """Note that `done` more pieces are done, of which nobody knows how many there are."""
        if self._is_shown:
            self._done += done
            self._draw(f"{self._doing}: {self._done:,}")

    def git(self, line: str) -> None:
        """Show what git says of a clone, as long as it is about how far it is."""
        if "%" in line:
            self._draw("" if line.rstrip().endswith("done.") else safe(line.strip())[:79])

    def close(self) -> None:
        """Leave nothing behind."""
        if self._is_drawn:
            self._draw("")
            self._total = 0

    def _draw(self, text: str) -> None:
        self._is_drawn = bool(text)
        sys.stderr.write(f"{_ERASE}{text}")
        sys.stderr.flush()
