"""A piece of the configuration file that knows where it stands, and the list of everything that is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct, field

from cachewatch.errors import ConfigError


class Node(Struct, frozen=True, kw_only=True):
    """One value of the file; every scalar is still the text that was written."""

    value: "str | Mapping[str, Node] | tuple[Node, ...] | None"
    file: Path
    line: int
    path: str  # sources.public.poll.every, or subscriptions.ml.to[1]

    @property
    def what(self) -> str:
        """Say of what form the value is."""
        if self.value is None:
            return "nothing"
        return "text" if isinstance(self.value, str) else "a list" if isinstance(self.value, tuple) else "a section"

    def text(self) -> str:
        """Return a single value."""
        if isinstance(self.value, str):
            return self.value
        raise ConfigError(f"holds {self.what}; give it one value, or remove the line")

    def items(self) -> "tuple[Node, ...]":
        """Return the values of a list; one value is a list of one."""
        if isinstance(self.value, tuple):
            return self.value
        if isinstance(self.value, str):
            return (self,)
        raise ConfigError(f"holds {self.what}; give it a list: [one, two]")

    def section(self) -> "Mapping[str, Node]":
        """Return the keys and values of a section."""
        if isinstance(self.value, Mapping):
            return self.value
        raise ConfigError(f"holds {self.what}; it takes keys and values, indented below it")


class Mistake(Struct, frozen=True, order=True):
    """Something that is wrong with the file."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class Broken(ConfigError):
    """Something inside is wrong, and has been noted."""


class Context(Struct, kw_only=True):
    """What is known while a file is read, and what was found wrong so far."""

    folder: Path  # that relative paths are relative to
    zone: str = "UTC"
    with_secrets: bool = True  # or all of them are left empty, and need not be there
    sources: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    channels: Mapping[str, str] = {}  # the type of each
    templates: Path | None = None
    mistakes: list[Mistake] = field(default_factory=list)

    def note(self, node: Node, message: str) -> None:
        """Remember a mistake."""
        self.mistakes.append(Mistake(str(node.file), node.line, node.path, message))

    def raise_mistakes(self) -> None:
        """Raise ConfigError with every mistake, if there is any."""
        found = sorted(set(self.mistakes))
        if found:
            count = f"{found[0].file}: {len(found)} mistakes\n" if len(found) > 1 else ""
            raise ConfigError(count + "\n".join(map(str, found)))


def unknown(word: str, known: Iterable[str]) -> str:
    """Say that `word` is not known, and what may have been meant."""
    known = sorted(known)
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"
