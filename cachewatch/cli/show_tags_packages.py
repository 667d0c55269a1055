"""The commands that list the contents of a revision: `show`, `tags`, `stacks`, `packages` and `coverage`."""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from cachewatch.cli import terminal
from cachewatch.cli.chosen_repository import is_partial, open_catalogue
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import REPO_OPTION, TAG_OPTION, completing, rev_option, tag_option
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.environment_coverage import cover
from cachewatch.core.changesets import Listing
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.filters_and_spec_patterns import Globs, SpecCondition, SpecPattern, is_plain, spec_texts
from cachewatch.core.kinds_and_specs import MISSED, Diagnostic, Document, LossClass, Signature, Specs
from cachewatch.core.versions_spellings_targets import sorted_versions, variant_name
from cachewatch.documents.recognition_and_front_matter import BOM
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import open_environment, published, recorded_in
from cachewatch.errors import CachewatchError, DocumentError, UnknownRevision, UnreadableDocument, UsageError
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import list_revision, read_documents, read_package, stacks_of, tags_of
from cachewatch.git.trees import locate, nothing_found
from cachewatch.hooks import extensions
from cachewatch.report import tables_and_listings as tables
from cachewatch.report.diff_blocks_and_colours import fitted
from cachewatch.report.environment_words import coverage_json, named, render_coverage
from cachewatch.report.words import first_of
from cachewatch.runtime.worker import INLINE
from cachewatch.sources import folders_and_unreadable_files as folders

# A whole hash, or a slash and the beginning of one.
_HASH = re.compile(r"/([a-z0-9]{1,64})|([a-z2-7]{32})")
# The beginning of a hash without its slash; no name of a package looks like that.
_PERHAPS_HASH = re.compile(r"(?=.*[2-7])[a-z2-7]{7,31}")
_FAILURES = {one.value: (one,) for one in LossClass if one is not LossClass.KEPT} | {"lost": MISSED}
_MOST_SPECS = 20
_MOST_TAGS = 100  # in which a spec is searched that the chosen tag does not have


@examples(
    "cachewatch show zlib",
    "cachewatch show 'py-*@3:' --rev 2025-06-01",
    "cachewatch show -l hdf5@1.14:+mpi%gcc target=zen4",
    "cachewatch show /22xqlomm",
)
@click.command
@click.argument(
    "packages", metavar="PACKAGE...", nargs=-1, required=True, shell_complete=completing("package_versions")
)
@rev_option()
@tag_option("Tag to read.", show_default="develop")
@click.option("-l", "--long", "is_long", is_flag=True, help="Print a line for each spec, with its hash.")
@REPO_OPTION
@terminal.FORMAT_OPTION
@terminal.OUTPUT_OPTION
def show(
    *,
    packages: tuple[str, ...],
    is_long: bool,
    rev: str,
    tag: str | None,
    repo: str | None,
    format_: str,
    output: str | None,
) -> None:
    """Show the builds of packages by version, stack and target.

    PACKAGE is a name or a glob ('py-*'), with what Spack writes behind a name: versions (hdf5@1.14:), a compiler
    (%gcc@12, %c,cxx=gcc), variants (+mpi api=v112), target= (also zen2:), os=, platform=, arch= and /HASH; and
    stack=. Without a name ('%gcc@12'), all packages are searched. It may also be the hash of a spec or what it begins
    with (/22xqlomm), or the path of a document (a .md file).
    """
    source, typed = click.get_current_context().get_parameter_source, ParameterSource.COMMANDLINE
    given = [f"--{name}" for name in ("rev", "tag", "repo", "documents") if source(name) is typed]
    pieces: Iterable[bytes]
    colours = terminal.palette(output)
    with ExitStack() as stack:
        line = stack.enter_context(closing(terminal.ProgressLine("reading")))
        catalogue = _Catalogue(repo, f"{rev}:{tag}" if tag else rev, line, stack)
        words = " ".join(packages).split()
        names = words if all(map(_HASH.fullmatch, words)) else packages
        if hashes := [found[1] or found[2] for name in names if (found := _HASH.fullmatch(name))]:
            if len(hashes) < len(names):
                raise UsageError("hashes and names of packages cannot be combined; show them one after the other")
            specs = catalogue.specs(hashes)
            blocks = [fitted(tables.render_spec(each, colours), terminal.width()) for each in specs[:_MOST_SPECS]]
            if (left := len(specs) - _MOST_SPECS) > 0:
                blocks.append(iter([f"and {left:,} more specs; write more of the hash"]))
            pieces = [tables.specs_json(specs)] if format_ == "json" else _paragraphs(blocks)
        else:
            shown = [each for name in spec_texts(packages) for each in _packages(name, catalogue, given)]
            terminal.warn_of(diagnostic for each in shown for diagnostic in each.document.diagnostics)
            if format_ == "json":
                pieces = [tables.packages_json(shown)]
            elif is_long:
                pieces = tables.write_table(tables.specs_table(shown), "text", colours, terminal.width())
            else:
                width = terminal.width()
                pieces = _paragraphs(tables.render_inventory(each, palette=colours, width=width) for each in shown)
        terminal.write(pieces, output, is_for_people=format_ == "text")


def _paragraphs(blocks: Iterable[Iterable[str]]) -> Iterator[bytes]:
    for number, lines in enumerate(blocks):
        yield b"\n" if number else b""
        yield from (f"{line}\n".encode() for line in lines)


def _packages(name: str, catalogue: "_Catalogue", given: Sequence[str]) -> list[tables.ShownPackage]:
    """Return the packages that match `name`, each with only its matching specs. Raises UsageError if there are none.

    `name` is a spec, a glob, or the path of a document; it cannot be a path if options `given` choose a catalogue.
    """
    is_path = "/" in name or name.endswith((*tag_names.ENDINGS, ".lock")) or not name.strip(".-")
    if (is_path or not given) and folders.is_documents(name):
        if given:
            remedy = f"leave out {' and '.join(given)}, or name the package instead"
            raise UsageError(f"{name}: is a path, which is read as it is; {remedy}")
        return [_read_file(name)]
    if name.strip():
        folders.check_path(name)
    asked = SpecPattern(name)
    if not asked.package:
        raise UsageError(f"{name!r} names no package; `cachewatch packages` lists them")
    if is_plain(asked.package):
        shown = catalogue.package(asked)
        kept = _chosen_specs(shown, asked) if asked.conditions else shown
        if not kept.document.specs:
            where = f"{catalogue.until(asked)}{catalogue.elsewhere(asked)}"
            raise UsageError(f"{name}: {_nothing_so(shown.document, asked)}{where}")
        return [kept]
    some, signatures = [], set[Signature]()
    for each in catalogue.packages(asked.package):
        signatures |= each.document.specs.counts.keys()
        if (kept := _chosen_specs(each, asked)).document.specs:
            some.append(kept)
    if not some:
        unknown = _no_such_variant(signatures, asked) if signatures else "no package matches"
        what = "such a version" if asked.says_only_versions else "such a spec"
        raise UsageError(f"{name}: {unknown or f'no package that matches has {what}'}")
    return some


def _chosen_specs(shown: tables.ShownPackage, matches: Callable[[str, Signature], bool]) -> tables.ShownPackage:
    specs = {each: signature for each, signature in shown.document.specs.items() if matches(each, signature)}
    counts = shown.counts or shown.document.specs.counts
    return replace(shown, document=replace(shown.document, specs=Specs.of(specs)), counts=counts)


def _nothing_so(document: Document, asked: SpecPattern) -> str:
    """Return the message that no spec of `document` matches `asked`, with the values that there are instead."""
    signatures = document.specs.counts
    if not signatures:
        return "its document has no specs"
    if unknown := _no_such_variant(signatures, asked):
        return unknown
    if asked.says_only_versions:
        return f"no such version there (there are {_values(asked.conditions[0], signatures)})"
    nowhere = [one for one in asked.conditions if not any(one.test(*each) for each in document.specs.items())]
    there: dict[str, str] = {}
    for one in nowhere or asked.conditions:
        # Where each condition alone has specs: the values of those that all conditions on something else have.
        others = () if nowhere else [each for each in asked.conditions if each.what != one.what]
        fitting = [of for spec, of in document.specs.items() if all(each.test(spec, of) for each in others)]
        if fitting and one.what != "hashes":
            there.setdefault(one.what, f"{one.what} {_values(one, fitting)}")
    those = "; there are" if nowhere else " with all of this; with the other conditions there are"
    return f"no such spec{those} {'; '.join(there.values())}" if there else "no such spec"


def _no_such_variant(signatures: Iterable[Signature], asked: SpecPattern) -> str:
    """Return a message about the variants in `asked` that no spec of `signatures` has; "" if there are none."""
    names = {variant_name(variant) for signature in signatures for variant in signature.variants}
    unknown = dict.fromkeys(one.variant for one in asked.conditions if one.variant and one.variant not in names)
    if not unknown:
        return ""
    known = f"there are {', '.join(sorted(names))}" if names else "there are no variants"
    return f"no spec has a variant {' or '.join(unknown)}; {known}"


def _values(asked: SpecCondition, signatures: Iterable[Signature]) -> str:
    """Return, as one sorted text, the values that `signatures` have for the attribute in the condition `asked`."""
    values = {value for each in signatures for value in asked.values(each)}
    if asked.what == "versions":
        return ", ".join(sorted_versions(values))
    if asked.variant:
        values = {each for each in values if variant_name(each) == asked.variant}
    return ", ".join(sorted(values))


class _Catalogue:
    """A revision in the repository `repo` (None: as for `open_catalogue`), which is opened when it is first needed."""

    def __init__(self, repo: str | None, revision: str, line: terminal.ProgressLine, stack: ExitStack) -> None:
        self._repo, self._revision, self._line, self._stack = repo, revision, line, stack

    def package(self, asked: SpecPattern) -> tables.ShownPackage:
        """Return the package that `asked` names, with its last change. Raises UnknownRevision if there is none."""
        try:
            read = read_package(*self._opened, asked.package)
        except UnknownRevision as error:
            if is_partial():
                raise UnreadableDocument(f"{error}, unless it is in a document that could not be read") from None
            meant = f"; for a hash, write /{asked.text}" if _PERHAPS_HASH.fullmatch(asked.text) else ""
            until = self.until(asked)
            said = str(error).partition("; did you mean ")[0] if until else error  # no other package was meant
            raise UnknownRevision(f"{said}{until}{self.elsewhere(asked)}{meant}") from None
        document = _parse(read.content, read.path, asked.package)
        return tables.ShownPackage(document, read.side, read.unchanged_since)

    def until(self, asked: SpecPattern) -> str:
        """Return until which day the tag had a spec that `asked` matches, as the end of a message; "" if unknown."""
        repository, revision = self._opened
        tag = revision.tag or tag_names.DEFAULT_TAG
        if (past := extensions().hook.past(repository=repository, log=None)) is None:
            return ""
        with closing(past):
            day = past.until(asked.package, tag, asked)
        return f"; in {safe(tag)} until {day}" if day else ""

    def elsewhere(self, asked: SpecPattern) -> str:
        """Return which other tags have a spec that `asked` matches, as the end of a message; "" if none has."""
        repository, revision = self._opened
        own = revision.tag or tag_names.DEFAULT_TAG
        tags = tag_names.in_order(tags_of(repository, revision).ids)
        others = []
        # Without the tag, the error lists the tags.
        for tag in [tag for tag in tags[: _MOST_TAGS + 1] if tag != own] if own in tags else ():
            with suppress(CachewatchError):
                document = read_package(repository, replace(revision, tag=tag), asked.package)
                if any(asked(*each) for each in _parse(document.content, document.path).specs.items()):
                    others.append(tag)
        return f"; {first_of(others)} {'has' if len(others) == 1 else 'have'} it (--tag)" if others else ""

    def packages(self, pattern: str) -> Iterator[tables.ShownPackage]:
        """Yield all packages whose names match the glob `pattern`."""
        listing = list_revision(*self._opened, Globs([pattern]))
        yield from (tables.ShownPackage(document, listing.side) for document in _documents(listing, self._line))

    def specs(self, beginnings: Sequence[str]) -> list[tables.ShownSpec]:
        """Return the specs whose hashes begin with one of `beginnings`. Raises UsageError if one begins no hash."""
        listing = list_revision(*self._opened, Globs())
        wanted = [each.encode() for each in beginnings]
        matching = [
            tables.ShownSpec(document.package, spec_hash, signature, listing.side)
            for document in _documents(listing, self._line, may_have=lambda text: any(each in text for each in wanted))
            for spec_hash, signature in document.specs.items()
            if spec_hash.startswith(tuple(beginnings))
        ]
        for beginning in beginnings:
            if not any(spec.hash.startswith(beginning) for spec in matching):
                what = f"/{beginning}: no spec in {listing.side.tag} has a hash that begins so"
                raise UsageError(f"{what}; `cachewatch history blame /{beginning}` looks in the past")
        return matching

    @cached_property
    def _opened(self) -> tuple[Repository, Revision]:
        repository = self._stack.enter_context(closing(open_catalogue(self._repo, self._line)))
        revision = resolve(repository, self._revision)
        terminal.warn_of(locate(repository, revision.commit).no_documents)
        return repository, revision


def _read_file(name: str) -> tables.ShownPackage:
    blobs = [(listing, blob) for listing in folders.list_path(name) for blob in listing.blobs.values()]
    if len(blobs) != 1:
        remedy = f"`cachewatch show PACKAGE --repo {name}` shows one of them"
        raise UsageError(f"{name}: has {len(blobs)} documents, and `show` takes one; {remedy}")
    listing, blob = blobs[0]
    return tables.ShownPackage(_parse(next(listing.reader.read([blob])), name), listing.side)


def _parse(content: bytes | str, path: str, package: str = "") -> Document:
    if isinstance(content, str):
        raise UnreadableDocument(f"{path}: {content}")
    try:
        return parse(content, path, package=package)
    except DocumentError as error:
        raise type(error)(f"{path}: {error}") from error


def _listing(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the arguments and options of a list of `what` (tags, say) to a command."""
    return terminal.with_options(
        click.argument("patterns", metavar="[GLOB]...", nargs=-1, shell_complete=completing(what)),
        rev_option(),
        REPO_OPTION,
        terminal.format_option("text", "names", "json", "csv", "markdown"),
        terminal.OUTPUT_OPTION,
    )


@examples("cachewatch tags", "cachewatch tags 'develop-*' --format names")
@click.command
@_listing("tags")
def tags(*, patterns: tuple[str, ...], rev: str, repo: str | None, **form: Any) -> int:
    """List the tags of a catalogue: branches, releases and snapshots.

    Prints how many packages each tag has, and how many stacks _data/tags.yaml lists for it; `cachewatch stacks` counts
    the stacks that documents name. !GLOB excludes. Exits with 4 if a document is empty or does not begin like one; such
    packages are not counted. `cachewatch packages --tag TAG` checks whether those counted can be read. Outside of
    _cache/, a file that only has the name of a document is not counted, and a warning names it.
    """
    rows: list[tables.ListedTag] = []
    with closing(terminal.ProgressLine("reading")) as line, closing(open_catalogue(repo, line)) as repository:
        revision = resolve(repository, rev)
        if not (trees := tags_of(repository, revision).ids):
            raise UnknownRevision(nothing_found(repository, revision.commit, rev))
        faults = [*locate(repository, revision.commit).no_documents]
        declared = stacks_of(repository, revision)
        for tag in _chosen("tag", tag_names.in_order(trees), patterns):
            listing = list_revision(repository, replace(revision, tag=tag), Globs())
            unread = [*listing.diagnostics, *faults]
            deque(_documents(listing, line, faults, _is_doubtful), maxlen=0)
            packages = len(listing.blobs) + len(unread) - len(faults)
            rows.append(tables.ListedTag(tag, packages, tuple(sorted(declared[tag])) if tag in declared else None))
    return _end(rows, "tags", list(dict.fromkeys(faults)), **form)


def _is_doubtful(content: bytes) -> bool:
    """Tell whether `content` begins unlike a document or has no list of specs; much faster than parsing it."""
    return not (content.removeprefix(BOM).startswith(b"---") and b"spec_details" in content)


@examples(
    "cachewatch stacks", "cachewatch stacks 'ml-*' --tag develop-2025-06-01", "cachewatch stacks --rev 2025-06-01"
)
@click.command
@_listing("stacks")
@TAG_OPTION
def stacks(*, patterns: tuple[str, ...], rev: str, tag: str, repo: str | None, **form: Any) -> int:
    """List the stacks of a tag, with their packages, specs and targets.

    !GLOB excludes.
    """
    counts: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    faults: list[Diagnostic] = []
    with closing(terminal.ProgressLine("reading")) as line, closing(open_catalogue(repo, line)) as repository:
        for document in _documents(_list(repository, f"{rev}:{tag}", Globs(), faults), line, faults):
            faults += document.diagnostics
            for signature, count in document.specs.counts.items():
                for stack in signature.stacks:
                    counts[stack].append((document.package, count, signature.target))
        # A stack in the list of tags is listed even if the tag has no specs of it now.
        counts |= {name: [] for name in stacks_of(repository, resolve(repository, rev)).get(tag, ()) - counts.keys()}
    rows = [
        tables.ListedStack(
            name,
            packages=len({package for package, _, _ in counts[name]}),
            specs=sum(count for _, count, _ in counts[name]),
            targets=tuple(sorted({target for _, _, target in counts[name]})),
        )
        for name in _chosen("stack", sorted(counts), patterns)
    ]
    return _end(rows, "stacks", faults, **form)


@examples("cachewatch packages 'py-*'", "cachewatch packages --rev yesterday --format json")
@click.command
@_listing("packages")
@TAG_OPTION
def packages(*, patterns: tuple[str, ...], rev: str, tag: str, repo: str | None, **form: Any) -> int:
    """List the packages of a tag, with their specs, versions and stacks.

    The versions begin with the newest. !GLOB excludes. Exits with 4 if a document is empty or could not be read; of
    another file that is only called like one, there is a warning.
    """
    rows: list[tables.ListedPackage] = []
    faults: list[Diagnostic] = []
    with closing(terminal.ProgressLine("reading")) as line, closing(open_catalogue(repo, line)) as repository:
        for document in _documents(_list(repository, f"{rev}:{tag}", Globs(patterns), faults), line, faults):
            faults += document.diagnostics
            signatures = document.specs.counts
            versions = sorted_versions({version for each in signatures for version in each.versions})
            rows.append(
                tables.ListedPackage(
                    document.package,
                    specs=len(document.specs),
                    versions=tuple(reversed(versions)),
                    stacks=tuple(sorted({stack for each in signatures for stack in each.stacks})),
                    targets=tuple(sorted({each.target for each in signatures})),
                )
            )
    return _end(rows, "packages", faults, **form)


def _list(repository: Repository, name: str, wanted: Globs, faults: list[Diagnostic]) -> Listing:
    """Return the documents of packages that match `wanted` in the revision `name`. Raises UsageError if none does.

    Adds to `faults`, in place, diagnostics of files that have the name of a document but are none.
    """
    revision = resolve(repository, name)
    listing = list_revision(repository, revision, wanted)
    faults += locate(repository, revision.commit).no_documents
    if not listing.blobs and not wanted.is_open:
        terminal.warn_of(faults)
        everything = list_revision(repository, revision, lambda _: True).blobs
        _chosen("package", sorted(everything), wanted.patterns)  # raises the error
    return listing


def _documents(
    listing: Listing,
    line: terminal.ProgressLine,
    faults: list[Diagnostic] | None = None,
    may_have: Callable[[bytes], bool] = lambda _: True,
) -> Iterator[Document]:
    """Yield the readable documents of `listing`; add diagnostics of the others to `faults` or, if None, print them.

    Documents whose bytes `may_have` refuses are left out without being parsed. Progress is shown on `line`.
    """
    line.begin(sum(blob.size for blob in listing.blobs.values()))
    for document in read_documents(listing, progress=line.advance, may_have=may_have):
        if not isinstance(document, Diagnostic):
            yield document
        elif faults is None:
            terminal.warn_of([document])
        else:
            faults.append(document)


def _chosen(what: str, names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return those of `names` that match `patterns`. Raises UsageError if none does; `what` is their kind, as "tag"."""
    wanted = Globs(patterns)
    chosen = list(filter(wanted, names))
    if patterns and not chosen:
        raise UsageError(f"no {what} matches {', '.join(patterns)}{wanted.meant(names)}")
    return chosen


def _end(
    listed: Sequence[tables.Listed], what: str, faults: Sequence[Diagnostic], *, format_: str, output: str | None
) -> int:
    """Write the list `listed` of `what`, and warn of `faults`; return 4 if a document was unreadable, otherwise 0."""
    pieces = tables.write_listing(listed, what, format_, terminal.palette(output), terminal.width())
    terminal.write(pieces, output, is_for_people=format_ in ("text", "names"))
    terminal.warn_of(faults)
    return 4 if any(each.is_loss for each in faults) or is_partial() else 0


@examples(
    "cachewatch coverage spack.lock --rev yesterday",
    "cachewatch coverage . --source https://binaries.example.org/cache --fail-on lost",
)
@click.command
@click.argument("lockfile", type=Path)
@REPO_OPTION
@rev_option()
@click.option("--source", metavar="ADDRESS", help="Query this live build cache or catalogue instead of a repository.")
@tag_option("Tag to compare with.", show_default="develop")
@click.option("--view", default="", show_default=False, metavar="NAME", help="With --source: read this view's index.")
@click.option("--token-file", type=Path, metavar="FILE", help="File that contains a bearer token for the source.")
@click.option("--login-file", type=Path, metavar="FILE", help="File that contains user:password for the source.")
@terminal.FORMAT_OPTION
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(tuple(_FAILURES)),
    metavar="WHAT",
    help="Exit with 1 if any spec is gone, other, going or equal; lost means the first three. Repeatable.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no report, for use with --fail-on.")
@terminal.OUTPUT_OPTION
@click.pass_context
def coverage(
    context: click.Context,
    /,
    *,
    lockfile: Path,
    repo: str | None,
    rev: str,
    source: str | None,
    tag: str | None,
    format_: str,
    fail_on: tuple[str, ...],
    quiet: bool,
    output: str | None,
    **live: Any,
) -> int:
    """Show which specs of an environment have binaries in a cache.

    LOCKFILE is a spack.lock, a spack.yaml (its spack.lock is read too, if present) or an environment's folder.
    It is compared with a recorded revision (--repo) or with a live build cache (--source).
    """
    environment = open_environment(lockfile)
    if source is not None:
        if context.get_parameter_source("repo") is ParameterSource.COMMANDLINE:
            raise UsageError("--repo and --source cannot be combined; give one of them")
        held = published(source, environment.packages, tag=tag, **live)
        report = cover(environment, held.holdings, is_pruned=held.is_pruned)
    else:
        with closing(terminal.ProgressLine()) as line, closing(open_catalogue(repo, line)) as opened:
            revision = f"{rev}:{tag}" if tag else rev
            held = recorded_in(opened, repo or str(opened.path), revision, environment.packages)
            report = cover(environment, held.holdings, is_pruned=held.is_pruned)
            causes = extensions().hook.causes(repository=opened)
            if causes is not None and held.revision and held.tag:
                options = {"folders": (), "tags": ((held.revision, held.tag),), "isolation": INLINE}
                report = causes.of_environment(report, lockfile, **options, warn=terminal.warn)
    if format_ == "json" and not quiet:
        terminal.write([coverage_json(report, held.where)], output)
    elif not quiet:
        terminal.write_lines(render_coverage(report, held.where, terminal.palette(output)), output)
    terminal.warn_of(held.diagnostics)
    if any(diagnostic.is_loss for diagnostic in held.diagnostics):
        return 4
    failed = {what: [one for of in reversed(_FAILURES[what]) for one in report.of_class(of)] for what in fail_on}
    for what, specs in failed.items():
        if specs:
            terminal.say(f"--fail-on {what}: {named(specs)}")
    return int(any(failed.values()))
