"""What readers who know nothing of cachewatch find in the first lines of a mail: the cause, and what to do in which order."""

from pathlib import Path

from digests import digest_of, mail, many, week
from helpers import record
from msgspec.structs import replace

from cachewatch.core.advice.values import Known, Pinned, Verb
from cachewatch.core.model import Kind
from cachewatch.core.statement_values import Statement, StatementKind, severity_of


def test_it_is_said_that_no_cause_is_known(tmp_path: Path) -> None:
    """Of what was removed, of what has an older version, and of what was rebuilt."""
    before = {"gone": [record(1)], "older": [record(2, versions=["5.8.0"])], "again": [record(3)], "zlib": [record(4)]}
    after = {"older": [record(5, versions=["1.0.5"])], "again": [record(6)], "zlib": [record(4)]}
    _, body = mail(digest_of(week(tmp_path / "a", before, after), silenced=()))
    todo = body.partition("GONE")[0]
    assert todo.count("The catalogue does not say why.") == 2
    assert "again rebuilt; it is not known why." in body

    stack = many(50, 12, stacks=["radiuss", "root"]) | {"zlib": [record(4)]}
    for name, left in (("going", many(50, 12, stacks=["root"])), ("gone", {"curl": [record(7)]})):
        _, body = mail(digest_of(week(tmp_path / name, stack, left | {"zlib": [record(4)]}), silenced=()))
        assert "Stack radiuss was removed (the catalogue does not say why" in body

    pin = Pinned(tag="develop-2026-09-06", source="public", is_gone=True)
    _, body = mail(digest_of(week(tmp_path / "p", before, before | {"curl": [record(7)]}), pinned=(pin,)))
    assert "develop-2026-09-06, which you pinned, was removed without notice, as old snapshots are." in body


def test_the_end_of_a_wait_names_its_cause(tmp_path: Path) -> None:
    """What was missing while publishing may have failed is back; what went in another way had another cause."""
    tag = week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2, versions=["1.1"])]})
    back = Statement(
        kind=StatementKind.RETURNED,
        packages=("curl", "zlib"),
        of_packages=2,
        before=("2025-05-20", "2025-05-27"),
        kinds=frozenset({Kind.RETURNED}),
        severity=severity_of(StatementKind.RETURNED),
    )
    tag = replace(tag, statements=(back, *tag.statements))
    waited = Known(since={("public", Verb.WAIT, "suspicious develop "): "2025-05-27"})
    assert "publishing had failed" not in mail(digest_of(tag))[1]
    assert "back, unchanged since 20 May. It seems that publishing had failed." in mail(digest_of(tag, known=waited))[1]
