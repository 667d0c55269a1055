"""The file of the history index: how it is made, opened and refused, and how hashes are kept in it."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cachewatch.errors import NoHistoryIndex, StateError
from cachewatch.extensions.history import schema_and_location
from cachewatch.extensions.history.index_lookup import Index
from cachewatch.extensions.history.schema_and_location import NAME, NotAnIndex, open_for_reading, open_for_writing

Opens = Callable[[Path], sqlite3.Connection]


def _complete(path: Path) -> None:
    connection = open_for_writing(path)
    connection.execute("UPDATE progress SET indexed = 0")
    connection.close()


def test_an_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / NAME
    _complete(path)
    old = sqlite3.connect(path)
    old.execute(f"PRAGMA user_version = {schema_and_location.VERSION - 1}")
    old.close()
    with pytest.raises(NoHistoryIndex, match="an older version"):
        open_for_reading(path)
    with closing(open_for_writing(path)) as made:
        assert made.execute("SELECT indexed FROM progress").fetchall() == [(-1,)]


@pytest.mark.parametrize("opens", [open_for_reading, open_for_writing])
def test_an_index_of_a_newer_version_is_left_alone(tmp_path: Path, opens: Opens) -> None:
    """Two users of one index may have two versions of cachewatch."""
    path = tmp_path / NAME
    _complete(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {schema_and_location.VERSION + 1}")
    with pytest.raises(StateError, match="written by a newer cachewatch"):
        opens(path)
    with closing(sqlite3.connect(path)) as left:
        assert left.execute("SELECT indexed FROM progress").fetchall() == [(0,)]


@pytest.mark.parametrize("opens", [open_for_reading, open_for_writing])
def test_a_pipe_is_no_index(opens: Callable[[Path], sqlite3.Connection], tmp_path: Path) -> None:
    """Nobody waits for it."""
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(StateError, match="no history index; name another file"):
        opens(tmp_path / NAME)


def _name_in_journal(index: Path, named: Path) -> None:
    """Let SQLite find a transaction beside the index that was not finished, and that another file belongs to."""
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    magic, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(named)
    pages = index.stat().st_size // 4096
    header = magic + b"".join(number.to_bytes(4) for number in (0, 1, pages, 512, 4096))
    end = (2**30 // 4096 + 1).to_bytes(4) + name + len(name).to_bytes(4) + sum(name).to_bytes(4) + magic
    index.with_name(f"{index.name}-journal").write_bytes(header.ljust(512, b"\0") + end)


@pytest.mark.parametrize("opens", [open_for_reading, open_for_writing])
def test_no_journal_of_a_stranger_deletes_a_file(tmp_path: Path, opens: Opens) -> None:
    """A repository may come with an index that was not made here."""
    path, mine = tmp_path / NAME, tmp_path / "mine.txt"
    mine.write_text("of the user")
    _complete(path)
    _name_in_journal(path, mine)
    with pytest.raises(StateError):
        opens(path)
    assert mine.read_text() == "of the user"


def test_nothing_is_written_through_links_or_to_files_of_others(tmp_path: Path) -> None:
    """Nor is a file made where a link leads, and what is beside the index is no link either."""
    path, mine = tmp_path / NAME, tmp_path / "mine"
    path.symlink_to(mine)
    with pytest.raises(NotAnIndex, match="is a link, or no file of yours"):
        open_for_writing(path)
    path.unlink()
    _complete(path)
    for end in ("-journal", "-wal", "-shm"):
        beside = path.with_name(path.name + end)
        beside.unlink(missing_ok=True)
        beside.symlink_to(mine)
        with pytest.raises(NotAnIndex, match=f"{end}: is a link, or no file of yours"):
            open_for_writing(path)
        beside.unlink()
    assert not mine.exists()
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(NotAnIndex, match="is a link, or no file of yours"):
            open_for_writing(path)


def test_a_revision_is_a_commit(tmp_path: Path) -> None:
    """It is shown as it is, so that nothing else is believed."""
    _complete(tmp_path / NAME)
    with closing(sqlite3.connect(tmp_path / NAME)) as connection, connection:
        connection.execute("INSERT INTO revision VALUES (0, '\x1b]0;owned\x07', 0)")
    with pytest.raises(schema_and_location.DamagedIndex, match="malformed"):
        Index(tmp_path / NAME)
