"""`cachewatch tags`, `stacks` and `packages`: what there is in a revision."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import click

from cachewatch.cli.completing import Complete, completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, is_partial, open_as_fetched, open_catalogue
from cachewatch.cli.output import OUTPUT_OPTION, palette, write
from cachewatch.cli.progress import progress_line
from cachewatch.core import tag_names
from cachewatch.core.filter_patterns import Globs
from cachewatch.core.model import Diagnostic, Document
from cachewatch.core.similar_names import similar
from cachewatch.core.untrusted_text import safe
from cachewatch.core.versions import sorted_versions
from cachewatch.errors import UnknownRevision, UsageError
from cachewatch.git.arranged_trees import nothing_found
from cachewatch.git.catalogue import stacks_of, tags_of
from cachewatch.git.resolving_revisions import resolve
from cachewatch.git.tag_contents import list_tag, read_documents
from cachewatch.git.trees import folders
from cachewatch.render.listings import Listed, ListedPackage, ListedStack, ListedTag, write_listing

_REV = click.option(
    "--rev", default="HEAD", metavar="REVISION", shell_complete=completing("revisions"), help="Revision or date."
)
_TAG = click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to read.")
_FORMAT = click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "names", "json", "csv", "markdown"]),
    default="text",
    help="Output format.",
)


def _listing(names: Complete) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what gives a command what all listings have; `names` completes its patterns."""
    patterns = click.argument("patterns", metavar="[GLOB]...", nargs=-1, shell_complete=names)

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for add in (OUTPUT_OPTION, _FORMAT, REPO_OPTION, _REV, patterns):
            command = add(command)
        return command

    return with_options


@click.command(epilog=examples("cachewatch tags", "cachewatch tags 'develop-*' --format names"))
@_listing(completing("tags"))
def tags(*, patterns: tuple[str, ...], rev: str, repo: str | None, **form: Any) -> None:
    """List the tags of a catalogue: branches, releases and snapshots.

    Each with its number of packages and of the stacks that it says it has. !GLOB excludes.
    """
    with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as repository:
        revision = resolve(repository, rev)
        trees = tags_of(repository, revision).ids
        if not trees:
            raise UnknownRevision(nothing_found(repository, revision.commit, rev))
        declared = stacks_of(repository, revision)
        found = [
            ListedTag(tag, len(folders(repository, trees[tag]).ids), tuple(sorted(declared.get(tag, ()))))
            for tag in _chosen("tag", tag_names.in_order(trees), patterns)
        ]
    _write(found, **form)


@click.command(
    epilog=examples(
        "cachewatch stacks",
        "cachewatch stacks 'ml-*' --tag develop-2025-06-01",
        "cachewatch stacks --rev 2025-06-01",
    )
)
@_listing(completing("stacks"))
@_TAG
@click.pass_context
def stacks(context: click.Context, /, *, patterns: tuple[str, ...], **options: Any) -> None:
    """List the stacks of a tag, with their packages, specs and targets.

    !GLOB excludes.
    """
    counts: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    diagnostics = []
    for document in _documents(Globs(), **options):
        if isinstance(document, Diagnostic):
            diagnostics.append(document)
            continue
        for signature, count in document.specs.counts.items():
            for stack in signature.stacks:
                counts[stack].append((document.package, count, signature.target))
    # A stack that the tag says it has, and of which it has nothing now, is worth a line.
    counts = {name: [] for name in _declared(**options)} | counts
    _write([_stack(name, counts[name]) for name in _chosen("stack", sorted(counts), patterns)], **options)
    _end(context, diagnostics)


def _declared(*, rev: str, tag: str, repo: str | None, **_: object) -> Iterator[str]:
    """Yield the stacks that a tag says it has."""
    repository = open_as_fetched(repo)
    if repository is not None:
        with closing(repository):
            yield from stacks_of(repository, resolve(repository, rev)).get(tag, ())


def _stack(name: str, counted: Sequence[tuple[str, int, str]]) -> ListedStack:
    return ListedStack(
        name,
        packages=len({package for package, _, _ in counted}),
        specs=sum(count for _, count, _ in counted),
        targets=tuple(sorted({target for _, _, target in counted})),
    )


@click.command(epilog=examples("cachewatch packages 'py-*'", "cachewatch packages --rev yesterday --format json"))
@_listing(completing("packages"))
@_TAG
@click.pass_context
def packages(context: click.Context, /, *, patterns: tuple[str, ...], **options: Any) -> None:
    """List the packages of a tag, with their specs, versions and stacks.

    The versions begin with the newest. !GLOB excludes.
    """
    read = list(_documents(Globs(patterns), **options))
    _write([_package(document) for document in read if isinstance(document, Document)], **options)
    _end(context, [document for document in read if isinstance(document, Diagnostic)])


def _package(document: Document) -> ListedPackage:
    signatures = document.specs.counts
    return ListedPackage(
        document.package,
        specs=len(document.specs),
        versions=tuple(reversed(sorted_versions({version for each in signatures for version in each.versions}))),
        stacks=tuple(sorted({stack for each in signatures for stack in each.stacks})),
        targets=tuple(sorted({each.target for each in signatures})),
    )


def _documents(wanted: Globs, *, rev: str, tag: str, repo: str | None, **_: object) -> Iterator[Document | Diagnostic]:
    """Yield the documents of these packages; raises UsageError if there are none."""
    with closing(progress_line(doing="reading")) as line, closing(open_catalogue(repo, line)) as repository:
        listing = list_tag(repository, resolve(repository, f"{rev}:{tag}"), wanted)
        if not listing.blobs and not wanted.is_open:
            everything = list_tag(repository, resolve(repository, f"{rev}:{tag}"), lambda _: True).blobs
            raise UsageError(nothing_named("package", wanted.patterns, sorted(everything)))
        line.begin(sum(blob.size for blob in listing.blobs.values()))
        yield from read_documents(listing, progress=line.advance)


def _chosen(what: str, names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    found = list(filter(Globs(patterns), names))
    if not found and patterns:
        raise UsageError(nothing_named(what, patterns, names))
    return found


def nothing_named(what: str, patterns: Sequence[str], names: Sequence[str]) -> str:
    """Say that no `what` matches, and what is called nearly so."""
    near = [name for pattern in patterns for name in similar(pattern, names)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"no {what} matches {', '.join(patterns)}{hint}"


def _write(listed: Sequence[Listed], *, format_: str, output: str | None, **_: object) -> None:
    write(write_listing(listed, format_, palette("auto", output)), output, is_for_people=format_ in ("text", "names"))


def _end(context: click.Context, diagnostics: Sequence[Diagnostic]) -> None:
    """Name every document that could not be read, and end accordingly."""
    for each in diagnostics:
        click.echo(f"cachewatch: warning: {safe(each.path)}: {each.kind}: {safe(each.message)}", err=True)
    context.exit(4 if any(each.is_loss for each in diagnostics) or is_partial(context) else 0)
