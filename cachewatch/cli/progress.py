"""One line on a terminal that says how far long work is, and vanishes when it is done."""

import sys
from collections.abc import Callable

from cachewatch.core.untrusted_text import safe

# About half a second of work; less needs no line.
LONG_BYTES = 12 * 2**20

_ERASE = "\r\x1b[K"


def progress_line(*, is_wanted: bool = True, doing: str = "comparing") -> "ProgressLine":
    """Return a line that draws if standard error is a terminal."""
    return ProgressLine(is_shown=is_wanted and sys.stderr is not None and sys.stderr.isatty(), doing=doing)


class ProgressLine:
    """Draws on standard error, or nothing at all."""

    def __init__(self, *, is_shown: bool, doing: str = "comparing") -> None:
        self._doing = doing
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
        self._total = total if self._is_shown and total >= LONG_BYTES else 0

    def advance(self, size: int) -> None:
        """Note that `size` more bytes are done."""
        if self._total:
            self._done += size
            share = self._done / self._total
            self._draw("" if share >= 1 else f"{self._doing} [{'#' * int(30 * share):30}] {share:4.0%}")

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
