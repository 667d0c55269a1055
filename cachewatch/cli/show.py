"""`cachewatch show`: what there is of one package, and where."""

from contextlib import closing
from dataclasses import dataclass

import click

from cachewatch.cli.diff import may_paint
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.output import write
from cachewatch.cli.progress import progress_line
from cachewatch.core import tag_names
from cachewatch.core.model import Document, Side
from cachewatch.core.untrusted_text import safe
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, UnreadableDocument
from cachewatch.render.colour import Palette
from cachewatch.render.show_table import render_inventory
from cachewatch.sources import folders


@dataclass(frozen=True, slots=True)
class _Found:
    document: Document
    side: Side
    unchanged_since: Side | None = None


@click.command(
    epilog=examples(
        "cachewatch show zlib",
        "cachewatch show py-numpy --rev 2025-06-01 --tag develop",
    )
)
@click.argument("package")
@click.option("--rev", default="HEAD", metavar="REVISION", help="Revision or date.")
@click.option("--tag", default=None, show_default="develop", metavar="TAG", help="Tag to read.")
@REPO_OPTION
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colorize output.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, which is replaced only when the output is complete."
)
def show(*, package: str, rev: str, tag: str | None, repo: str | None, color: str, output: str | None) -> None:
    """Show the builds of a package by version, stack and target.

    PACKAGE is the name of a package, or the path of a document (a .md file).
    """
    found = _read_file(package) if folders.is_documents(package) else _read_git(package, rev, tag, repo)
    for diagnostic in found.document.diagnostics:
        click.echo(
            f"cachewatch: warning: {safe(diagnostic.path)}: {diagnostic.kind}: {safe(diagnostic.message)}", err=True
        )
    is_painted = color == "always" or (color == "auto" and output is None and may_paint())
    lines = render_inventory(
        found.document,
        found.side,
        unchanged_since=found.unchanged_since,
        is_pruned=tag_names.is_mutable(found.side.tag),
        palette=Palette(is_on=is_painted),
    )
    write([f"{line}\n".encode() for line in lines], output, is_for_people=True)


def _read_file(name: str) -> _Found:
    listings = folders.list_path(name, wanted_package=lambda _: True)
    blobs = [(listing, blob) for listing in listings for blob in listing.blobs.values()]
    if len(blobs) != 1:
        raise UnreadableDocument(f"{name}: `show` takes one document, but there are {len(blobs)} here")
    listing, blob = blobs[0]
    content = next(listing.reader.read([blob]))
    return _Found(_parse(content, name), listing.side)


def _read_git(package: str, rev: str, tag: str | None, repo: str | None) -> _Found:
    from cachewatch.git.catalogue import read_package  # noqa: PLC0415  git is slow to load
    from cachewatch.git.resolving_revisions import resolve  # noqa: PLC0415

    with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as repository:
        read = read_package(repository, resolve(repository, f"{rev}:{tag}" if tag else rev), package)
    return _Found(_parse(read.content, read.path), read.side, read.unchanged_since)


def _parse(content: bytes | str, path: str) -> Document:
    if isinstance(content, str):
        raise UnreadableDocument(f"{path}: {content}")
    try:
        return parse(content, path)
    except DocumentError as error:
        raise type(error)(f"{path}: {error}") from error
