"""The functions and classes of the public API; `cachewatch/__init__.py` lists them, docs/api.md describes them.

Everything runs in the calling process and thread, except git, which runs in processes of its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from cachewatch.comparison_flow import changesets
from cachewatch.core import changesets as streams
from cachewatch.core.advice.environment_coverage import Coverage, Environment, cover
from cachewatch.core.comparison import package_changes
from cachewatch.core.filters_and_spec_patterns import select
from cachewatch.core.kinds_and_specs import Diagnostic, Document, Kind, PackageChange, PackageCounts, Side, SpecCounts
from cachewatch.core.names_and_layouts import ANYWHERE, DEFAULT_TAG, Layout, in_order, is_mutable
from cachewatch.core.statement_kinds import Statement
from cachewatch.core.statements import Wants, of_kinds
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import CacheContents, listed, open_environment, published, recorded_in
from cachewatch.errors import SourceError, UsageError
from cachewatch.git.local_repository import Repository
from cachewatch.git.remote_urls_and_fetch_errors import open_repository
from cachewatch.git.revision_names_and_times import Revision, back_from, resolve
from cachewatch.git.tags_and_documents import tags_of
from cachewatch.report.json_and_safe_csv import COLUMNS, csv_lines, package_json, write_json
from cachewatch.sources import folders_and_unreadable_files as folders
from cachewatch.sources.before_and_after import compare_sides, needs_git

Address = str | os.PathLike[str]
Patterns = str | Iterable[str]
DocumentLike = Document | bytes | Address
# `before` and `after` are numbers in some rows of CSV, and text in others; each column of a data frame has one type.
_NUMBERS = {"before": "specs_before", "after": "specs_after"}
_EMPTY = {name: "" for name in COLUMNS if name != "tag"} | dict.fromkeys(("count", *_NUMBERS.values()), 0)

T = TypeVar("T")


class BuildCache(Struct, frozen=True, kw_only=True):
    """A live build cache, or one `tag` of a catalogue of build caches; `view` names an index, "" the usual one."""

    address: str  # a folder, or an address that begins with https:// or oci://
    tag: str = "develop"
    view: str = ""  # the named index to read; "" for the usual one
    token_file: Path | None = None  # contains a bearer token
    login_file: Path | None = None  # contains user:password

    def _holdings(self, environment: Environment, revision: str | None) -> CacheContents:
        if revision is not None:
            raise UsageError(f"{self.address}: a live build cache has no revisions")
        return published(packages=environment.packages, **asdict(self))


class Summary(Struct, frozen=True, kw_only=True):
    """The totals of a changeset, and the changes of the whole tag.

    before, after: the two states.  revisions_between: the number of revisions from one to the other; None if unknown.
    packages, specs: numbers of packages and of specs, by what happened to them.  kinds: all kinds of changes.
    statements: every change of the selected kinds once, with its cause.
    diagnostics: problems with documents.  is_partial: whether a document could not be compared.
    """

    before: Side
    after: Side
    revisions_between: int | None
    packages: PackageCounts
    specs: SpecCounts
    kinds: frozenset[Kind]
    statements: tuple[Statement, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_partial(self) -> bool:
        """Whether a document could not be compared; `diagnostics` name it."""
        return any(diagnostic.is_loss for diagnostic in self.diagnostics)


class CoverageReport(Struct, frozen=True, kw_only=True):
    """Which binaries of an environment a catalogue or a build cache has.

    coverage: the environment, and in `needs` each needed binary with what the catalogue or cache has for it.
    where: the catalogue or cache, in words.  diagnostics: problems with documents.
    is_partial: whether a document could not be read, so that its binaries count as gone.
    """

    coverage: Coverage
    where: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_partial(self) -> bool:
        """Whether a document could not be read, so that its binaries count as gone."""
        return any(diagnostic.is_loss for diagnostic in self.diagnostics)


class TagChangeset:
    """The changes between two states of one tag: iterate over its packages once, then read `summary()`.

    before, after: the two states.
    """

    def __init__(self, changeset: streams.Changeset, check_open: Callable[[], None], wants: Wants) -> None:
        self.before = changeset.before
        self.after = changeset.after
        self._found = changeset
        self._check_open = check_open
        self._wants = wants
        self._packages = _guarded(_packages_of(changeset, check_open))
        self._is_begun = False

    def __iter__(self) -> Iterator[PackageChange]:
        """Yield the changes of packages, sorted by name, once they are compared. Raises UsageError the second time."""
        self._begin()
        return self._packages

    @property
    def tag(self) -> str | None:
        """The compared tag: that of the later state, or else that of the earlier one; None if neither has a tag."""
        return self.after.tag or self.before.tag

    def to_records(self) -> list[dict[str, object]]:
        """Iterate over the packages, and return flat rows, each with the tag (see `cachewatch.to_records`)."""
        return [{"tag": self.tag or "", **row} for row in to_records(self)]

    def to_json(self) -> bytes:
        """Iterate over the packages, and return what `cachewatch diff --format json` prints for this tag."""
        self._begin()
        self._check_open()
        self._found = self._found.mapped(lambda changes: list(map(package_json, changes)))
        with _own_errors():
            return b"".join(write_json([self._found], wants=self._wants))

    def _begin(self) -> None:
        if self._is_begun:
            what = "the packages of a changeset can be iterated over only once, also by `to_records` and `to_json`"
            raise UsageError(f"{what}; keep them in a list, which `cachewatch.to_records` takes")
        self._is_begun = True

    def summary(self) -> Summary:
        """Return the totals. Compares all packages that were not iterated over yet; these can no longer be read."""
        self._is_begun = True
        for _ in self._packages:
            pass
        with _own_errors():
            report = self._found.report
        taken = {name: getattr(report, name) for name in Summary.__struct_fields__}
        return Summary(**taken | {"statements": of_kinds(report.statements, self._wants)})


class OpenCatalogue(AbstractContextManager["OpenCatalogue"]):
    """An open catalogue; `cachewatch.open` returns one. Use it in one thread at a time."""

    def __init__(self, address: str, repository: Repository | None, layout: Layout = ANYWHERE) -> None:
        self.address = address
        self._layout = layout
        self._repository = repository
        self._is_open = True

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End git and close the catalogue; nothing can be read from it any more."""
        self._is_open = False
        if self._repository is not None:
            self._repository.close()

    def tags(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Return the tags of a revision or of the folder: branches, then releases and snapshots, newest first."""
        self._check_open()
        with _own_errors():
            if self._repository is None:
                return tuple(in_order(each.side.tag for each in self._listings() if each.side.tag))
            return tuple(in_order(tags_of(self._repository, resolve(self._repository, revision)).ids))

    def revisions(self, until: str = "HEAD", *, limit: int = 20) -> tuple[Revision, ...]:
        """Return `until` and the revisions before it, newest first, at most `limit`; () for a folder of documents."""
        self._check_open()
        if self._repository is None:
            return ()
        with _own_errors():
            return tuple(islice(back_from(self._repository, resolve(self._repository, until).commit), max(0, limit)))

    def diff(
        self,
        before: Address,
        after: Address | None = None,
        *,
        tags: Patterns = (),
        packages: Patterns = (),
        stacks: Patterns = (),
        targets: Patterns = (),
        oses: Patterns = (),
        compilers: Patterns = (),
        versions: Patterns = (),
        kinds: Patterns = (),
    ) -> Iterator[TagChangeset]:
        """Compare two states, and return a changeset for each tag that differs.

        If no tag with selected packages differs, returns one changeset without packages. `before` and `after` are as
        for `cachewatch diff`: a revision, a date, REVISION:TAG, or the path of a document or a folder of documents.
        If `after` is None, `before` is compared with HEAD, or with this catalogue if it is a folder of documents. All
        other arguments select what is compared; they take globs, as the options of `cachewatch diff` do.
        """
        self._check_open()
        with _own_errors():
            filters = {"tags": tags, "packages": packages, "stacks": stacks, "targets": targets, "oses": oses}
            filters |= {"compilers": compilers, "versions": versions, "kinds": kinds}
            selection = select(**{name: _listed(name, patterns) for name, patterns in filters.items()})
            if after is None:
                after = self.address if self._repository is None else "HEAD"
            sides = _text(before, "a state"), _text(after, "a state")
            if self._repository is None and needs_git(*sides):
                name = sides[1] if folders.is_documents(sides[0]) else sides[0]
                raise UsageError(f"{name}: no document or folder of documents, and {self.address} has no revisions")
            comparison = compare_sides(*sides, selection, repository=self._repository, layout=self._layout)
            found = changesets(comparison, selection, partial(streams.ListCollector, lambda change: change))
            return _guarded(TagChangeset(each, self._check_open, selection.wants) for each in found)

    def _check_open(self) -> None:
        if not self._is_open:
            raise UsageError(f"{self.address}: this catalogue is closed; read everything before the end of `with`")

    def _holdings(self, environment: Environment, revision: str | None) -> CacheContents:
        self._check_open()
        if self._repository is not None:
            return recorded_in(self._repository, self.address, revision or "HEAD", environment.packages)
        if revision is not None:
            raise UsageError(f"{self.address}: a folder of documents has no revisions")
        listings = self._listings()
        for listing in listings:
            if len(listings) == 1 or listing.side.tag == DEFAULT_TAG:
                return listed(listing, self.address)
        raise UsageError(f"{self.address} holds several tags; open the folder of one of them")

    def _listings(self) -> list[streams.Listing]:
        return folders.list_path(self.address, self._layout)


def open(address: Address, *, documents: str = "") -> OpenCatalogue:  # noqa: A001  cachewatch.open, as gzip.open
    """Open a catalogue; `address` is the path or URL of a git repository, or the path of a folder or of one document.

    For a URL, makes or updates a clone in $XDG_CACHE_HOME/cachewatch. `documents` is the pattern of the documents'
    paths, such as `catalogue/{tag}/{package}/specs.md`; it is needed only if they are not found without it ("").
    """
    layout = Layout.parse(documents) if documents else ANYWHERE
    name = _text(address, "a catalogue", "as its path or its URL")
    if not name:
        raise UsageError("the address of the catalogue is empty; name a repository, a URL or a folder of documents")
    with _own_errors():
        if _is_folder_of_documents(Path(name), layout):
            return OpenCatalogue(name, None, layout)
        return OpenCatalogue(name, open_repository(name, layout=layout), layout)


def parse_document(data: bytes | Address, name: str = "") -> Document:
    """Parse one document (`specs.md`); `data` is its bytes, its text or its path. Raises DocumentError with the reason.

    `diagnostics` of the result call the document `name`; if that is "", its path, or "document" if there is none.
    """
    content = data.encode() if isinstance(data, str) and data.startswith("---") else data
    if isinstance(content, bytes):
        return parse(content, name or "document")
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"a document is given as its text, its bytes or its path; not as {type(data).__name__}")
    if not data:
        raise UsageError("the document is empty; pass its text, its bytes or its path")
    with _own_errors():
        return parse(Path(data).read_bytes(), name or os.fspath(data))


def to_records(changes: PackageChange | Iterable[PackageChange]) -> list[dict[str, object]]:
    """Return changes as flat rows for a data frame, with the columns of `diff --format csv` except the tag.

    Each column has one type: numbers of specs are in `specs_before` and `specs_after`, texts in `before` and `after`.
    A missing value is "" in a column of texts, and 0 in a column of numbers.
    """
    rows = []
    for change in changes if isinstance(changes, Iterable) else (changes,):
        if not isinstance(change, PackageChange):
            raise TypeError(f"rows are made of one PackageChange or several; not of {type(change).__name__}")
        rows += csv_lines(change)
    return [
        _EMPTY | {_NUMBERS[name] if name in _NUMBERS and isinstance(value, int) else name: value for name, value in row}
        for row in (line.items() for line in rows)
    ]


def compare(before: DocumentLike | None, after: DocumentLike | None) -> PackageChange | None:
    """Return the change of a package between two documents; None if at most their formatting differs.

    Each document is given as a Document, its text, its bytes or its path; None means that there is none.
    """
    before, after = (
        given if given is None or isinstance(given, Document) else parse_document(given) for given in (before, after)
    )
    later = after or before
    if later is None:
        raise UsageError("there is nothing to compare; pass at least one document")
    if before and after and before.package != after.package:
        raise UsageError(f"the documents are of two packages, {before.package} and {after.package}")
    return package_changes.compare(later.package, before, after, is_pruned=is_mutable(later.tag or None))


def coverage(
    environment: Address | Environment, where: OpenCatalogue | BuildCache | Address, revision: str | None = None
) -> CoverageReport:
    """Return which binaries of an environment a catalogue or a live build cache has.

    `environment` is an Environment, or the path of a spack.lock, a spack.yaml or their folder. `where` is a catalogue, a
    build cache or an address that `open` takes. `revision` is one of the repository, as for `OpenCatalogue.diff`, or
    None for HEAD. Raises UsageError if `where` has no revisions but one is given.
    """
    if not isinstance(environment, Environment):
        path = _text(environment, "an environment", "as the path of a spack.lock or spack.yaml, or an Environment")
        with _own_errors():
            environment = open_environment(Path(path))
    if not isinstance(where, OpenCatalogue | BuildCache):
        address = _text(where, "what covers it", "as an OpenCatalogue, a BuildCache or what `open` takes")
        with open(address) as catalogue:
            return coverage(environment, catalogue, revision)
    with _own_errors():
        held = where._holdings(environment, revision)  # noqa: SLF001  it is of this module
    found = cover(environment, held.holdings, is_pruned=held.is_pruned)
    return CoverageReport(coverage=found, where=held.where, diagnostics=held.diagnostics)


def _is_folder_of_documents(path: Path, layout: Layout) -> bool:
    if path.is_file():
        return True
    if not folders.is_plain(path):
        return False
    if folders.is_build_cache(path):
        remedy = (
            "`cachewatch.coverage` takes it as a BuildCache, and `cachewatch record` keeps its history in a repository"
        )
        raise UsageError(f"{path}: is a build cache and has no revisions; {remedy}, which can be opened")
    try:
        return bool(folders.list_path(str(path), layout))
    except UsageError:
        return False  # it may be in a repository


def _packages_of(found: streams.Changeset, check_open: Callable[[], None]) -> Iterator[PackageChange]:
    check_open()
    for changes in found.collected():
        for one in changes:
            yield replace(one, kinds=found.report.kinds_of[one.package]) if one.kinds == streams.UNKNOWN_KINDS else one
        check_open()


def _guarded(found: Iterable[T]) -> Iterator[T]:
    with _own_errors():
        yield from found


@contextmanager
def _own_errors() -> Iterator[None]:
    """Turn each OSError in the `with` block into a SourceError."""
    try:
        yield
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        raise SourceError(f"{where}{error.strerror or error}") from error


def _text(given: object, what: str, how: str = "as text or as a path") -> str:
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{what} is given {how}; not as {type(given).__name__}")
    return os.fspath(given)


def _listed(name: str, patterns: Patterns) -> tuple[str, ...]:
    texts = (patterns,) if isinstance(patterns, str) or not isinstance(patterns, Iterable) else tuple(patterns)
    for each in texts:
        if not isinstance(each, str):
            raise TypeError(f"{name}: a filter is one pattern or several, each as text; not {type(each).__name__}")
    return texts
