"""The tables of the history index, how the file is opened and checked, and how sets of hashes are stored.

Only `sqlite3` is used, since every other import would take longer than a question.

A hash is 32 letters of base32, which is 160 bits. A set of hashes is stored as 20 bytes for each, sorted, one after the
other; or, if a member is any other text, as a JSON array. SQLite's type (BLOB or TEXT) tells which of the two it is.
"""

import base64
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from stat import S_ISREG

from msgspec.json import decode, encode

from cachewatch.errors import NoHistoryIndex, StateError
from cachewatch.runtime.files_and_locks import RefusedFile, cache_path, read_beginning, shared_kind

NAME = "cachewatch-history.db"
VARIABLE = "CACHEWATCH_HISTORY"
VERSION = 9
_APPLICATION = 0x63775F68  # "cw_h", in bytes 68 to 71 of the file
PATIENCE = 30.0  # seconds: writers commit for a short time only, but the end of a first build takes longer

# The last bytes of a journal that names another file, as in transactions over several databases.
_NAMES_ANOTHER_FILE = bytes.fromhex("d9d505f920a163d7")
MALFORMED = "database disk image is malformed"

TABLES = """
CREATE TABLE revision(                   -- the first-parent chain of the branch, oldest first
    n INTEGER PRIMARY KEY,               -- its place in the chain, from 0
    "commit" TEXT NOT NULL UNIQUE,
    time INTEGER                         -- of the committer, in seconds since 1970; NULL if git has none that is usable
);
CREATE TABLE progress(                   -- one row
    id INTEGER PRIMARY KEY CHECK (id = 1),
    indexed INTEGER NOT NULL             -- the last revision up to which every document is indexed, or -1. Later
                                         -- rows of `revision` are being indexed, or were when that was interrupted
);
CREATE TABLE unit(                       -- documents (TAG/PACKAGE) that are done up to the last row of `revision`,
    name TEXT PRIMARY KEY                -- while others are not yet
) WITHOUT ROWID;
CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE package(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE build(                      -- a signature without its stacks
    id INTEGER PRIMARY KEY,
    versions TEXT NOT NULL,              -- a JSON array, in the order of the signature
    compiler TEXT NOT NULL,
    os TEXT NOT NULL,
    platform TEXT NOT NULL,
    target TEXT NOT NULL,
    variants TEXT NOT NULL,              -- a JSON array, in the order of the signature
    UNIQUE (versions, compiler, os, platform, target, variants)
);
CREATE TABLE stacks(                     -- a set of stacks
    id INTEGER PRIMARY KEY,
    names TEXT NOT NULL UNIQUE           -- a JSON array, sorted; [] is no stack
);
CREATE TABLE stack(                      -- the members of each set; this order of the key serves the join
    stacks INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (stacks, name)
) WITHOUT ROWID;
CREATE TABLE document(                   -- the last readable version of each document
    tag INTEGER NOT NULL,
    package INTEGER NOT NULL,
    blob TEXT,                           -- its object id; NULL if the document was removed
    revision INTEGER NOT NULL,           -- that made it so
    baseline INTEGER,                    -- the first readable version, if it is in revision 0 or after an unreadable one:
                                         -- its specs came "at or before"; NULL if the document came in a known revision
    old_compilers INTEGER NOT NULL,      -- how it writes compilers: 0 as today, 1 as before Spack 1.0, 2 not at all (law 1)
    PRIMARY KEY (tag, package)
) WITHOUT ROWID;
CREATE TABLE diagnostic(                 -- a version that could not be compared: the state before it is kept
    tag INTEGER NOT NULL,
    package INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (tag, package, revision)
) WITHOUT ROWID;
CREATE TABLE interval(                   -- specs of one document and signature that came and went together
    id INTEGER PRIMARY KEY,
    tag INTEGER NOT NULL,
    package INTEGER NOT NULL,
    build INTEGER NOT NULL,
    stacks INTEGER NOT NULL,
    first INTEGER NOT NULL,              -- the first revision that has them
    last INTEGER,                        -- the first revision that does not; NULL if they are still there
    size INTEGER NOT NULL,               -- how many specs
    hashes NOT NULL                      -- see `pack`. A hash in a row that ends and in one that begins at the same
                                         -- revision was kept: its stacks changed, or the document writes it differently
);
CREATE TABLE spec(                       -- the intervals of a hash; filled when a build is complete
    prefix BLOB NOT NULL,                -- the first 40 bits; none of a text that is not 32 letters of base32
    interval INTEGER NOT NULL,
    PRIMARY KEY (prefix, interval)
) WITHOUT ROWID;
CREATE TABLE step(                       -- what a revision did to a document, in specs; not what a baseline has, nor where
                                         -- specs only changed their stacks
    tag INTEGER NOT NULL,
    package INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    rebuilt INTEGER NOT NULL,            -- pairs of an added and a removed spec with equal signatures
    compilers_differ INTEGER NOT NULL,   -- whether only one of the two documents writes compilers as before Spack 1.0,
                                         -- so that a spec without a compiler matches any (law 1)
    there INTEGER NOT NULL,              -- whether there is a document afterwards, be it without specs
    PRIMARY KEY (tag, package, revision)
) WITHOUT ROWID;
CREATE TABLE tally(                      -- what a revision did to each set of stacks, in specs. A kept spec that moved
    tag INTEGER NOT NULL,                -- from {a, b} to {b, c} counts as added to {c} and removed from {a}
    stacks INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    rebuilt INTEGER NOT NULL,
    PRIMARY KEY (tag, stacks, revision)
) WITHOUT ROWID;
INSERT INTO progress VALUES (1, -1);
"""

# Created when the first build is complete, because filling them at once is faster and smaller than row by row.
INDEXES = """
-- Covers the query of `when` in the order of its groups, so that it neither reads the rows, which are wide, nor sorts.
CREATE INDEX IF NOT EXISTS interval_by_package ON interval(package, tag, build, stacks, first, last);
CREATE INDEX IF NOT EXISTS interval_by_first ON interval(first);
CREATE INDEX IF NOT EXISTS interval_by_last ON interval(last) WHERE last IS NOT NULL;
"""


class DamagedIndex(StateError):
    """The index is unreadable; it can be built again without loss."""


class NotAnIndex(StateError):
    """The file is not a history index."""


def index_path(db: str | Path | None, git_dir: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the first of these: `db`, $CACHEWATCH_HISTORY, an existing index in `git_dir`, one in the user's cache."""
    if named := db or environment.get(VARIABLE):
        return Path(named)
    beside = git_dir / NAME
    return beside if os.path.lexists(beside) else cache_path("history", str(git_dir.resolve()), ".db")


def check_is_index(path: Path) -> None:
    """Raise NotAnIndex if the file at `path` exists and is no history index, not even a damaged one."""
    try:
        header = read_beginning(str(path), 100)
    except (FileNotFoundError, NotADirectoryError):
        return
    except RefusedFile:
        header = b"a pipe or the like"
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; name another file with --db") from error
    if header and header[68:72] != _APPLICATION.to_bytes(4):
        raise NotAnIndex(f"{path}: is no history index; name another file with --db")


def _check_is_ours(path: Path) -> None:
    """Raise NotAnIndex if a file of the index is a link or not ours, or if its journal makes SQLite delete a file."""
    for file in (path, *(path.with_name(path.name + end) for end in ("-journal", "-wal", "-shm"))):
        with suppress(FileNotFoundError):
            about = file.lstat()
            if not S_ISREG(about.st_mode) or about.st_nlink > 1 or about.st_uid != os.geteuid():
                raise NotAnIndex(f"{file}: is a link, or no file of yours; name another file with --db")
            with file.open("rb") as content:
                content.seek(max(0, about.st_size - len(_NAMES_ANOTHER_FILE)))
                if content.read() == _NAMES_ANOTHER_FILE:
                    raise NotAnIndex(f"{file}: is no journal of cachewatch; remove it, or name another file with --db")


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the index at `path`, with empty tables if it is new or of an older version. Raises StateError if unusable.

    The caller must hold the lock for writing (`build.locked`), and begin each transaction.
    """
    check_is_index(path)
    _check_is_ours(path)
    with _connecting(path, "rwc", PATIENCE) as (connection, version):
        if not version:
            # First of all, so that the file says what it is even if this process is killed now.
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        journal = "TRUNCATE" if shared_kind(path.parent) else "WAL"  # as for the state: WAL needs shared memory
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version != VERSION:
            connection.execute("BEGIN IMMEDIATE")
            make_tables(connection)
            connection.execute("COMMIT")
    return connection


def open_for_reading(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    """Open the index at `path` in a transaction: all queries see one state. Wait up to `patience` seconds for writers.

    Raises NoHistoryIndex if there is no complete index of this version, and StateError if it is unusable.
    """
    check_is_index(path)
    if not path.exists() or not path.stat().st_size:  # a build that ended before its first commit leaves an empty file
        raise NoHistoryIndex(f"{path}: there is no history index; run `cachewatch history build` first")
    # In a read-only folder, SQLite cannot create its shared memory.
    log = path.with_name(f"{path.name}-wal")
    is_fixed = not (log.exists() and log.stat().st_size) and not os.access(path.parent, os.W_OK)
    with _connecting(path, "ro&immutable=1" if is_fixed else "ro", patience) as (connection, version):
        if version != VERSION:
            raise NoHistoryIndex(f"{path}: written by an older version; run `cachewatch history build` again")
        connection.execute("BEGIN")
        if connection.execute("SELECT indexed FROM progress").fetchone()[0] < 0:
            raise NoHistoryIndex(
                f"{path}: the history index is not complete; `cachewatch history build` continues, unless one is running"
            )
    return connection


@contextmanager
def _connecting(path: Path, mode: str, patience: float) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Yield a connection in SQLite's `mode` and its tables' version (0: none); wait `patience` seconds for locks."""
    with translating_errors(path), ExitStack() as undo:
        place = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(place, uri=True, isolation_level=None, timeout=patience)
        undo.callback(connection.close)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise StateError(f"{path}: written by a newer cachewatch; use that one, or name another file with --db")
        yield connection, version
        undo.pop_all()


@contextmanager
def translating_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite in the block into DamagedIndex if the file at `path` is damaged, into StateError if not."""
    try:
        yield
    except sqlite3.Error as error:
        # Python gives no code for text that is not UTF-8. The higher bits of a code tell which kind of error it is.
        without_code = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else sqlite3.SQLITE_ERROR
        code = getattr(error, "sqlite_errorcode", without_code)
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged(path, error) from error
        raise StateError(f"{path}: {error}; try again, or name another file with --db") from error
    except UnicodeDecodeError as error:  # SQLite's message contains bytes of the file
        raise damaged(path, MALFORMED) from error


def is_damaged(connection: sqlite3.Connection) -> bool:
    """Tell whether any page of the database is damaged."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    return True


def damaged(path: Path, what: object) -> DamagedIndex:
    """Return the error to raise if the file at `path` is damaged; `what` is the reason."""
    remove = f"cachewatch history drop --db {quote(str(path))}"
    return DamagedIndex(f"{path}: {what}; `{remove}` removes it, then build it again")


def make_tables(connection: sqlite3.Connection) -> None:
    """Replace all tables by empty ones, in a transaction of the caller; the contents can be built again."""
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        connection.execute(f'DROP TABLE "{name}"')
    for statement in TABLES.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


_LETTERS, _BYTES = 32, 20
_PREFIX_LETTERS, _PREFIX_BYTES = 8, 5
UNUSUAL = b""  # the prefix of every text that is not 32 letters of base32
_BASE32 = frozenset("abcdefghijklmnopqrstuvwxyz234567")


def pack(hashes: Iterable[str]) -> bytes | str:
    """Return a set of hashes in the form in which it is stored: bytes or, with an unusual hash, a JSON array."""
    ordered = sorted(hashes)
    text = "".join(ordered)
    # Eight letters are five bytes, so 32 letters end where a byte does.
    if {*map(len, ordered)} <= {_LETTERS} and _BASE32.issuperset(text):
        return base64.b32decode(text.upper())
    return encode(ordered).decode()


def unpack(stored: bytes | str) -> list[str]:
    """Return the hashes, sorted, of a set that `pack` returned."""
    if isinstance(stored, str):
        return decode(stored, type=list[str])
    together = base64.b32encode(stored).decode().lower()
    return [together[start : start + _LETTERS] for start in range(0, len(together), _LETTERS)]


def members(stored: bytes | str) -> list[bytes | str]:
    """Divide a stored set into hashes without decoding them; each result equals what `pack` returns for that hash."""
    if isinstance(stored, str):
        return [pack([one]) for one in unpack(stored)]
    return [stored[start : start + _BYTES] for start in range(0, len(stored), _BYTES)]


def prefixes(stored: bytes | str) -> set[bytes]:
    """Return the keys of the table `spec` for a stored set: the first bytes of each hash, or UNUSUAL."""
    return {one[:_PREFIX_BYTES] if isinstance(one, bytes) else UNUSUAL for one in members(stored)}


def prefix_range(beginning: str) -> tuple[bytes, bytes]:
    """Return the lowest and highest prefix of hashes that begin with the first eight letters of `beginning`."""
    letters = beginning[:_PREFIX_LETTERS]
    if not _BASE32.issuperset(letters):
        return UNUSUAL, UNUSUAL
    low, high = (base64.b32decode(letters.upper().ljust(_PREFIX_LETTERS, filler)) for filler in "A7")
    return low, high
