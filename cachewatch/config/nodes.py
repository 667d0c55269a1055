"""A piece of the configuration file that knows where it stands, and the list of everything that is wrong."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cachewatch.core.similar_names import similar
from cachewatch.errors import ConfigError


class Nothing:
    """The value of a key that has none. It is not None, which optional keys would accept."""


NOTHING = Nothing()
_WANTED = {
    "value": "give it one value, or remove the line",
    "list": "give it a list: [one, two]",
    "section": "it takes keys and values, indented below it",
}


class Node(Struct, frozen=True, kw_only=True):
    """One value of the file; every scalar is still the text that was written."""

    value: "str | Mapping[str, Node] | tuple[Node, ...] | None"
    file: Path
    line: int
    path: str  # sources.public.poll.every, or subscriptions.ml.to[1]

    def section(self) -> "Mapping[str, Node]":
        """Return the keys and values of a section."""
        if isinstance(self.value, Mapping):
            return self.value
        raise ConfigError(holds(NOTHING if self.value is None else self.value, "section"))

    def at(self, location: Iterable[int | str]) -> "Node":
        """Return the value at `location`, or the nearest section around it."""
        node = self
        for part in location:
            if isinstance(node.value, Mapping) and part in node.value:
                node = node.value[str(part)]
            elif isinstance(node.value, tuple) and isinstance(part, int):
                node = node.value[part]
        return node


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

    file: Path
    zone: str = "UTC"
    with_secrets: bool = True  # or all of them are left empty, and need not be there
    sources: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    channels: Mapping[str, str] = {}  # the type of each
    templates: Path | None = None
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Return the folder that relative paths begin at."""
        return self.file.absolute().parent

    def note(self, node: Node, message: str) -> None:
        """Remember a mistake."""
        self.mistakes.append(Mistake(str(node.file), node.line, node.path, message))

    def raise_mistakes(self) -> None:
        """Raise ConfigError with every mistake, if there is any."""
        found = sorted(set(self.mistakes))
        if found:
            count = f"{found[0].file}: {len(found)} mistakes\n" if len(found) > 1 else ""
            raise ConfigError(count + "\n".join(map(str, found)))


def plain(node: Node, known: dict[int, Any] | None = None) -> Any:
    """Return the value of `node` without its places. What an alias refers to is converted once, and shared."""
    known = {} if known is None else known
    if id(node) not in known:
        match node.value:
            case None:
                known[id(node)] = NOTHING
            case str():
                known[id(node)] = node.value
            case tuple():
                known[id(node)] = [plain(each, known) for each in node.value]
            case _:
                known[id(node)] = {key: plain(each, known) for key, each in node.value.items()}
    return known[id(node)]


def holds(value: object, wanted: str) -> str:
    """Say what stands where a value, a list or a section is wanted."""
    if value is NOTHING:
        found = "nothing"
    else:
        found = "text" if isinstance(value, str) else "a list" if isinstance(value, list | tuple) else "a section"
    return f"holds {found}; {_WANTED[wanted]}"


def unknown(word: str, known: Iterable[str]) -> str:
    """Say that `word` is not known, and what may have been meant."""
    known = sorted(known)
    close = similar(word, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"
