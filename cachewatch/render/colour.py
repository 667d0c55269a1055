"""Colours of a terminal, or none. Words carry the meaning; colour only helps the eye."""

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


class Palette:
    """Paints text, or leaves it alone."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on

    def paint(self, text: str, colour: str) -> str:
        """Return `text` in one of the colours above; "" is no colour."""
        if not self._is_on or not text or not colour:
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"
