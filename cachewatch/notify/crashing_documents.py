"""Documents that ended a worker process, or the service itself: skipped after the second time until they change.

What is kept is one small file beside the database. Without it everything is tried once more, so it
need not survive what the database has to.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from cachewatch import __version__
from cachewatch.runtime import atomic_files
from cachewatch.runtime.isolation import Piece

NAME = "suspects.json"
_ENOUGH = 2
_ENDED = "cachewatch ended while it was read"


class _Suspect(Struct, kw_only=True):
    """A pair of documents, or one of them, with how often it ended something, and how."""

    source: str
    package: str
    versions: tuple[str, ...]
    times: int
    reason: str


class _State(Struct, kw_only=True):
    version: str = __version__
    in_hand: list[_Suspect] = field(default_factory=list)
    suspects: list[_Suspect] = field(default_factory=list)


_Name = tuple[str, str, tuple[str, ...]]


class Suspects:
    """The documents of all sources that ended something, and what is in hand now."""

    def __init__(self, folder: Path) -> None:
        """Read what `folder` has; what another process had in hand when it ended becomes suspect."""
        self._path = folder / NAME
        state = self._load()
        self._suspects = {_name(each): each for each in state.suspects}
        self._is_noted = bool(state.in_hand)
        for each in state.in_hand:
            self.fail(each.source, Piece(each.package, each.versions, 0), _ENDED)
        self.finish()

    def of(self, source: str) -> "SuspectsOfSource":
        """Return those of one source."""
        return SuspectsOfSource(self, source)

    def find(self, source: str, piece: Piece) -> _Suspect | None:
        """Return what is known of a document, or a pair of them."""
        return self._suspects.get((source, piece.package, piece.versions))

    def begin(self, source: str, pieces: Sequence[Piece]) -> None:
        """Write down what takes long, should we end over it."""
        self._is_noted = True
        self._save([_suspect(source, piece) for piece in pieces])

    def finish(self) -> None:
        """Write down that nothing is in hand."""
        if self._is_noted:
            self._is_noted = False
            self._save([])

    def fail(self, source: str, piece: Piece, reason: str) -> None:
        """Count one more end."""
        new = _suspect(source, piece)
        known = self._suspects.setdefault(_name(new), new)
        known.times += 1
        known.reason = reason
        self._is_noted = True  # at the end of this work, it is written

    def clear(self, source: str, piece: Piece) -> None:
        """Forget a document with which nothing is wrong."""
        if self._suspects.pop((source, piece.package, piece.versions), None) is not None:
            self._is_noted = True

    def _load(self) -> _State:
        with suppress(OSError, msgspec.MsgspecError):
            state = msgspec.json.decode(atomic_files.read(self._path) or b"{}", type=_State)
            if state.version == __version__:
                return state
        return _State()

    def _save(self, in_hand: list[_Suspect]) -> None:
        state = _State(in_hand=in_hand, suspects=list(self._suspects.values()))
        with suppress(OSError):  # a full disk is met, and told, where something is stored
            atomic_files.put(self._path, msgspec.json.encode(state), base=self._path.parent, mode=0o600)


class SuspectsOfSource:
    """What Isolated asks (see isolation.Ledger), about one source."""

    def __init__(self, suspects: Suspects, source: str) -> None:
        self._suspects = suspects
        self._source = source

    def refusal(self, piece: Piece) -> str:
        """Say why nothing is tried any more; empty where it is."""
        known = self._suspects.find(self._source, piece)
        if known is None or known.times < _ENOUGH:
            return ""
        return f"{known.reason}, twice; it is tried again when it changes"

    def is_suspect(self, piece: Piece) -> bool:
        """Tell whether it should be tried alone."""
        return self._suspects.find(self._source, piece) is not None

    def begin(self, pieces: Sequence[Piece]) -> None:
        """Note what takes long."""
        self._suspects.begin(self._source, pieces)

    def finish(self, pieces: Sequence[Piece]) -> None:
        """Note that nothing is wrong with these."""
        for piece in pieces:
            self._suspects.clear(self._source, piece)

    def end(self) -> None:
        """Note that nothing is in hand any more."""
        self._suspects.finish()

    def fail(self, piece: Piece, reason: str) -> None:
        """Note what cannot be done."""
        self._suspects.fail(self._source, piece, reason)


def _suspect(source: str, piece: Piece) -> _Suspect:
    return _Suspect(source=source, package=piece.package, versions=piece.versions, times=0, reason="")


def _name(suspect: _Suspect) -> _Name:
    return suspect.source, suspect.package, suspect.versions
