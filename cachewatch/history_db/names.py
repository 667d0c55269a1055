"""The numbers of tags, packages, builds and sets of stacks, which the tables of the index use instead of their values."""

import json
import sqlite3
from collections.abc import Iterable
from functools import lru_cache

from cachewatch.core.model import Signature

# The fields of a signature that are columns of `build`.
_Build = tuple[tuple[str, ...], str, str, str, str, tuple[str, ...]]


class Numbers:
    """Numbers values as they are met, and remembers the numbers for one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tags: dict[str, int] = {}
        self._packages: dict[str, int] = {}
        self._builds: dict[_Build, int] = {}
        self._stacks: dict[tuple[str, ...], int] = {}
        # A table that was empty has nothing that is not remembered here.
        self._was_empty = {
            table: connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None  # noqa: S608  ours
            for table in ("tag", "package", "build", "stacks")
        }

    def tag(self, name: str) -> int:
        """Return the number of a tag."""
        if name not in self._tags:
            self._tags[name] = self._number("tag", ("name",), (name,))
        return self._tags[name]

    def package(self, name: str) -> int:
        """Return the number of a package."""
        if name not in self._packages:
            self._packages[name] = self._number("package", ("name",), (name,))
        return self._packages[name]

    def build(self, signature: Signature) -> int:
        """Return the number of a signature without its stacks."""
        s = signature
        build = (s.versions, s.compiler, s.os, s.platform, s.target, s.variants)
        number = self._builds.get(build)
        if number is None:
            columns = ("versions", "compiler", "os", "platform", "target", "variants")
            values = (_json(s.versions), s.compiler, s.os, s.platform, s.target, _json(s.variants))
            number = self._builds[build] = self._number("build", columns, values)
        return number

    def stacks(self, names: tuple[str, ...]) -> int:
        """Return the number of a set of stacks, whose members are then in the table `stack`."""
        if names not in self._stacks:
            number = self._number("stacks", ("names",), (_json(names),))
            members = [(number, name) for name in names]
            self._connection.executemany("INSERT OR IGNORE INTO stack VALUES (?, ?)", members)
            self._stacks[names] = number
        return self._stacks[names]

    def _number(self, table: str, columns: Iterable[str], values: tuple[str, ...]) -> int:
        if not self._was_empty[table]:
            where = " AND ".join(f"{column} = ?" for column in columns)
            found = self._connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()  # noqa: S608
            if found is not None:
                return int(found[0])
        marks = ", ".join("?" for _ in values)
        insert = f"INSERT INTO {table}({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  our own names
        return int(self._connection.execute(insert, values).lastrowid or 0)


def signature_of(row: tuple[str, ...]) -> Signature:
    """Return the signature of the columns of a `build`, from `versions` on, and the names of its `stacks`."""
    versions, compiler, os, platform, target, variants, stacks = row
    return Signature(names_of(versions), compiler, os, platform, target, names_of(variants), names_of(stacks))


@lru_cache(maxsize=4096)
def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a column that holds several."""
    return tuple(json.loads(text))


@lru_cache(maxsize=4096)
def _json(names: tuple[str, ...]) -> str:
    return json.dumps(names)
