"""Take revisions back out of the index, as a force-push took them out of the chain."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from cachewatch.core.model import CompilerForm
from cachewatch.git.document_versions import DocumentVersions, Moment, Version
from cachewatch.history_db.hashes import pack, prefixes, unpack
from cachewatch.history_db.writing import add_specs, remove_specs

# Tells how a blob writes compilers.
FormOf = Callable[[str, str, str], CompilerForm]


def common_length(connection: sqlite3.Connection, chain: Sequence[Moment]) -> int:
    """Return how many of the revisions in the index are the first ones of `chain`."""
    rows = connection.execute('SELECT "commit" FROM revision ORDER BY n').fetchall()
    for place, ((commit,), moment) in enumerate(zip(rows, chain, strict=False)):
        if commit != moment.commit:
            return place
    return min(len(rows), len(chain))


def cut(
    connection: sqlite3.Connection, newest: int, versions: Callable[[int], Sequence[DocumentVersions]], form_of: FormOf
) -> None:
    """Bring the index back to revision number `newest`, or to an earlier one up to which everything was indexed.

    `versions` finds those up to a revision. The caller begins and ends the transaction.
    """
    indexed = connection.execute("SELECT indexed FROM progress").fetchone()[0]
    _remember(connection, newest)
    newest = min(newest, indexed)
    _cut_intervals(connection, newest)
    for table in ("step", "tally", "night", "cause"):
        connection.execute(f"DELETE FROM {table} WHERE revision > ?", (newest,))  # noqa: S608  our own names
    _cut_documents(connection, newest, versions, form_of)
    connection.execute("DELETE FROM diagnostic WHERE revision > ?", (newest,))
    connection.execute("DELETE FROM unit")
    connection.execute("DELETE FROM revision WHERE n > ?", (newest,))
    connection.execute("UPDATE progress SET indexed = ?", (newest,))


def _remember(connection: sqlite3.Connection, newest: int) -> None:
    connection.execute('INSERT OR REPLACE INTO rewritten SELECT "commit", time, n FROM revision WHERE n > ?', (newest,))


def _cut_intervals(connection: sqlite3.Connection, newest: int) -> None:
    """Delete what came later, and open what ended later."""
    for number, hashes in connection.execute("SELECT id, hashes FROM interval WHERE first > ?", (newest,)).fetchall():
        remove_specs(connection, number, prefixes(hashes))
    connection.execute("DELETE FROM interval WHERE first > ?", (newest,))
    reopened = connection.execute(
        "SELECT tag, package FROM interval WHERE last > ? GROUP BY 1, 2", (newest,)
    ).fetchall()
    connection.execute("UPDATE interval SET last = NULL WHERE last > ?", (newest,))
    for tag, package in reopened:
        _merge_open(connection, tag, package)


def _merge_open(connection: sqlite3.Connection, tag: int, package: int) -> None:
    """Make one row of the open rows of a document that are alike: they were parted when some of their specs went."""
    alike: defaultdict[tuple[int, int, int], list[tuple[int, bytes | str]]] = defaultdict(list)
    query = "SELECT build, stacks, first, id, hashes FROM interval WHERE package = ? AND tag = ? AND last IS NULL"
    for build, stacks, first, number, hashes in connection.execute(query, (package, tag)):
        alike[build, stacks, first].append((number, hashes))
    for rows in alike.values():
        if len(rows) > 1:
            _merge(connection, rows)


def _merge(connection: sqlite3.Connection, rows: Sequence[tuple[int, bytes | str]]) -> None:
    (kept, _), *others = rows
    together = [one for _, hashes in rows for one in unpack(hashes)]
    connection.execute("UPDATE interval SET size = ?, hashes = ? WHERE id = ?", (len(together), pack(together), kept))
    for number, hashes in others:
        remove_specs(connection, number, prefixes(hashes))
        add_specs(connection, kept, prefixes(hashes))
        connection.execute("DELETE FROM interval WHERE id = ?", (number,))


def _cut_documents(
    connection: sqlite3.Connection, newest: int, versions: Callable[[int], Sequence[DocumentVersions]], form_of: FormOf
) -> None:
    """Let each document be again what its last readable version was then."""
    query = """SELECT tag.name, package.name, tag, package FROM document JOIN tag ON tag.id = tag
        JOIN package ON package.id = package WHERE revision > ?"""
    affected = {(tag, package): key for tag, package, *key in connection.execute(query, (newest,))}
    if not affected:
        return
    found: Mapping[tuple[str, str], Sequence[Version]] = {
        (one.tag, one.package): one.versions for one in (versions(newest) if newest >= 0 else ())
    }
    for names, (tag, package) in affected.items():
        last = _last_readable(connection, tag, package, found.get(names, ()))
        if last is None:
            connection.execute("DELETE FROM document WHERE tag = ? AND package = ?", (tag, package))
        else:
            form = form_of(*names, last.blob) if last.blob is not None else CompilerForm.NEW
            connection.execute(
                "UPDATE document SET blob = ?, revision = ?, old_compilers = ? WHERE tag = ? AND package = ?",
                (last.blob, last.revision, form, tag, package),
            )


def _last_readable(
    connection: sqlite3.Connection, tag: int, package: int, versions: Sequence[Version]
) -> Version | None:
    query = "SELECT revision FROM diagnostic WHERE tag = ? AND package = ?"
    unread = {revision for (revision,) in connection.execute(query, (tag, package))}
    readable = [version for version in versions if version.revision not in unread]
    return readable[-1] if readable else None
