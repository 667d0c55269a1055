"""`cachewatch show`: what there is of packages, versions and single specs, and where."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.output import COLOR_OPTION, FORMAT_OPTION, OUTPUT_OPTION, palette, write
from cachewatch.cli.progress import ProgressLine, progress_line
from cachewatch.core import tag_names
from cachewatch.core.filter_patterns import Globs, is_plain
from cachewatch.core.model import Diagnostic, Document, Specs
from cachewatch.core.tag_pairs import Listing
from cachewatch.core.untrusted_text import safe
from cachewatch.core.versions import Versions
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, UnreadableDocument, UsageError
from cachewatch.git.catalogue import read_package
from cachewatch.git.resolving_revisions import resolve
from cachewatch.git.tag_contents import list_tag, read_documents
from cachewatch.render.colour import Palette
from cachewatch.render.show_table import render_inventory
from cachewatch.render.spec_details import ShownPackage, ShownSpec, packages_json, render_spec, specs_json
from cachewatch.sources import folders

if TYPE_CHECKING:
    from cachewatch.git.repository import Repository
    from cachewatch.git.resolving_revisions import Revision

# A hash, or with a slash before it what one begins with.
_HASH = re.compile(r"/([a-z0-9]{1,64})|([a-z2-7]{32})")
_MOST_SPECS = 20


class _Asked(Struct, frozen=True):
    """A name or pattern of packages, and the versions of interest."""

    pattern: str
    versions: Versions


@click.command(
    epilog=examples(
        "cachewatch show zlib",
        "cachewatch show 'py-*@3:' --rev 2025-06-01",
        "cachewatch show /22xqlomm",
    )
)
@click.argument(
    "packages", metavar="PACKAGE...", nargs=-1, required=True, shell_complete=completing("package_versions")
)
@click.option(
    "--rev", default="HEAD", metavar="REVISION", shell_complete=completing("revisions"), help="Revision or date."
)
@click.option(
    "--tag",
    default=None,
    show_default="develop",
    metavar="TAG",
    shell_complete=completing("tags"),
    help="Tag to read.",
)
@REPO_OPTION
@FORMAT_OPTION
@COLOR_OPTION
@OUTPUT_OPTION
def show(
    *,
    packages: tuple[str, ...],
    rev: str,
    tag: str | None,
    repo: str | None,
    format_: str,
    color: str,
    output: str | None,
) -> None:
    """Show the builds of packages by version, stack and target.

    PACKAGE is a name, a glob ('py-*'), either with versions (hdf5@1.14, 'py-*@3:'), the hash of a spec or what
    it begins with (/22xqlomm), or the path of a document (a .md file).
    """
    with ExitStack() as stack:
        line = stack.enter_context(closing(progress_line(doing="reading")))
        catalogue = _Catalogue(repo, f"{rev}:{tag}" if tag else rev, line, stack)
        if hashes := [found[1] or found[2] for name in packages if (found := _HASH.fullmatch(name))]:
            if len(hashes) < len(packages):
                raise UsageError("hashes and names of packages cannot be combined; show them one after the other")
            specs = catalogue.specs(hashes)
            pieces = [specs_json(specs)] if format_ == "json" else _spec_lines(specs, palette(color, output))
        else:
            shown = [each for name in packages for each in _packages(name, catalogue)]
            _warn(diagnostic for each in shown for diagnostic in each.document.diagnostics)
            pieces = [packages_json(shown)] if format_ == "json" else _tables(shown, palette(color, output))
        write(pieces, output, is_for_people=format_ == "text")


def _packages(name: str, catalogue: "_Catalogue") -> list[ShownPackage]:
    if folders.is_documents(name):
        return [_read_file(name)]
    folders.check_path(name)
    pattern, at, versions = name.partition("@")
    asked = _Asked(pattern, Versions([f"@{versions}"] if at else []))
    if is_plain(pattern):
        return [_of_versions(catalogue.package(pattern), asked, name)]
    found = [_of_versions(each, asked, "") for each in catalogue.packages(pattern)]
    kept = [each for each in found if each.document.specs]
    if not kept:
        raise UsageError(f"{name}: {'no package that matches has such a version' if found else 'no package matches'}")
    return kept


def _of_versions(shown: ShownPackage, asked: _Asked, name: str) -> ShownPackage:
    """Return only the specs of the versions asked for; with a `name`, raise UsageError if there are none."""
    if asked.versions.is_open:
        return shown
    document = shown.document
    specs = {h: s for h, s in document.specs.items() if any(map(asked.versions, s.versions))}
    if name and not specs:
        there = ", ".join(sorted({version for s in document.specs.counts for version in s.versions}))
        raise UsageError(f"{name}: there is no such version; there are {there}")
    return replace(shown, document=replace(document, specs=Specs.of(specs)))


class _Catalogue:
    """The repository of the catalogue, opened when something is asked of it."""

    def __init__(self, repo: str | None, revision: str, line: ProgressLine, stack: ExitStack) -> None:
        self._repo, self._revision, self._line, self._stack = repo, revision, line, stack
        self._opened: tuple[Repository, Revision] | None = None

    def package(self, name: str) -> ShownPackage:
        """Return one package, and since when it is as it is."""
        found = read_package(*self._open(), name)
        return ShownPackage(_parse(found.content, found.path), found.side, found.unchanged_since)

    def packages(self, pattern: str) -> Iterator[ShownPackage]:
        """Yield all packages of these names."""
        listing = list_tag(*self._open(), Globs([pattern]))
        for document in self._documents(listing, lambda _: True):
            yield ShownPackage(document, listing.side)

    def specs(self, beginnings: Sequence[str]) -> list[ShownSpec]:
        """Return the specs whose hashes begin so; raises UsageError for a beginning that none has."""
        listing = list_tag(*self._open(), Globs())
        wanted = [each.encode() for each in beginnings]
        found = [
            ShownSpec(document.package, spec_hash, signature, listing.side)
            for document in self._documents(listing, lambda content: any(each in content for each in wanted))
            for spec_hash, signature in document.specs.items()
            if spec_hash.startswith(tuple(beginnings))
        ]
        for each in beginnings:
            if not any(spec.hash.startswith(each) for spec in found):
                raise UsageError(f"/{each}: no spec in {listing.side.tag} has a hash that begins so")
        return found

    def _documents(self, listing: Listing, may_have: Callable[[bytes], bool]) -> Iterator[Document]:
        self._line.begin(sum(blob.size for blob in listing.blobs.values()))
        for found in read_documents(listing, progress=self._line.advance, may_have=may_have):
            if isinstance(found, Diagnostic):
                _warn([found])
            else:
                yield found

    def _open(self) -> "tuple[Repository, Revision]":
        if self._opened is None:
            repository = self._stack.enter_context(closing(open_catalogue(self._repo, self._line)))
            self._opened = repository, resolve(repository, self._revision)
        return self._opened


def _tables(shown: Sequence[ShownPackage], colours: Palette) -> Iterator[bytes]:
    for number, each in enumerate(shown):
        lines = render_inventory(
            each.document,
            each.side,
            unchanged_since=each.unchanged_since,
            is_pruned=tag_names.is_mutable(each.side.tag),
            palette=colours,
        )
        # A table without marks ends with an empty line, for which there is no need before the next one.
        text = "\n".join(lines).rstrip("\n") if len(shown) > 1 else "\n".join(lines)
        yield f"{chr(10) if number else ''}{text}\n".encode()


def _spec_lines(specs: Sequence[ShownSpec], colours: Palette) -> Iterator[bytes]:
    for number, each in enumerate(specs[:_MOST_SPECS]):
        if number:
            yield b"\n"
        yield from (f"{line}\n".encode() for line in render_spec(each, colours))
    if len(specs) > _MOST_SPECS:
        yield f"\nand {len(specs) - _MOST_SPECS:,} more specs; write more of the hash\n".encode()


def _warn(diagnostics: Iterable[Diagnostic]) -> None:
    for each in diagnostics:
        click.echo(f"cachewatch: warning: {safe(each.path)}: {each.kind}: {safe(each.message)}", err=True)


def _read_file(name: str) -> ShownPackage:
    listings = folders.list_path(name)
    blobs = [(listing, blob) for listing in listings for blob in listing.blobs.values()]
    if len(blobs) != 1:
        raise UsageError(
            f"{name}: has {len(blobs)} documents, and `show` takes one; `cachewatch show PACKAGE --repo {name}` shows one of them"
        )
    listing, blob = blobs[0]
    content = next(listing.reader.read([blob]))
    return ShownPackage(_parse(content, name), listing.side)


def _parse(content: bytes | str, path: str) -> Document:
    if isinstance(content, str):
        raise UnreadableDocument(f"{path}: {content}")
    try:
        return parse(content, path)
    except DocumentError as error:
        raise type(error)(f"{path}: {error}") from error
