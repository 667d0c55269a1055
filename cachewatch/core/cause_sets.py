"""Sets of causes as the bits of a number: after a change of compiler, each package is a cause of all above it."""

from collections.abc import Iterable, Iterator

from cachewatch.core.causes import Cause


class CauseSets:
    """Numbers causes in the order in which they are found."""

    def __init__(self) -> None:
        self._causes: list[Cause] = []
        self._bits: dict[Cause, int] = {}

    def set_of(self, causes: Iterable[Cause]) -> int:
        """Return a set of these causes."""
        found = 0
        for cause in causes:
            if cause not in self._bits:
                self._bits[cause] = 1 << len(self._causes)
                self._causes.append(cause)
            found |= self._bits[cause]
        return found

    def members(self, found: int) -> Iterator[Cause]:
        """Yield the causes of a set."""
        while found:
            lowest = found & -found
            yield self._causes[lowest.bit_length() - 1]
            found ^= lowest
