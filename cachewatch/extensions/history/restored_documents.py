"""Restore the documents of a tag in each revision from the index, and find what each revision changed in them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import islice
from typing import NamedTuple

from cachewatch.comparison_flow import select_package, statements_on
from cachewatch.core.changesets import NoCollector, Report, Tally
from cachewatch.core.comparison.compiler_and_target_migrations import values_of
from cachewatch.core.comparison.package_changes import Pair, compare_all
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.comparison.renamed_stacks import compare_renamed
from cachewatch.core.comparison.stacks_prunes_suspicion import judge
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import CompilerForm, Document, PackageChange, PackageCounts, Side, Signature
from cachewatch.core.names_and_layouts import Wanted, is_mutable
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.core.statements import counted
from cachewatch.extensions.history.index_lookup import Index
from cachewatch.extensions.history.schema_and_location import unpack
from cachewatch.extensions.history.versions_and_intervals import document_of

_HELD = """
    SELECT package.name, build, stacks, size, hashes
    FROM package CROSS JOIN interval ON interval.package = package.id AND tag = :tag
    WHERE first <= :number AND (last IS NULL OR last > :number) AND (:package IS NULL OR package.name = :package)
"""
_THERE = """
    SELECT package.name, baseline, (
        SELECT there FROM step WHERE step.tag = d.tag AND step.package = d.package AND step.revision <= :number
        ORDER BY step.revision DESC LIMIT 1
    ) FROM document d JOIN package ON package.id = d.package WHERE tag = :tag
"""
# What the index records of a revision of a document besides added and removed specs.
_NOTED = """
    SELECT revision, name, compilers_differ, there, 0 FROM step JOIN package ON id = package
    WHERE tag = :tag AND revision > :number AND revision <= :newest
    UNION ALL SELECT baseline, name, 0, 1, 1 FROM document JOIN package ON id = package
    WHERE tag = :tag AND baseline > :number
"""
# Documents whose first versions, or all, could not be read: the revisions of the first, and of the first readable one.
_UNREAD = """
    SELECT name, min(d.revision) AS begin, coalesce(baseline, :newest + 1)
    FROM diagnostic d JOIN package ON id = d.package LEFT JOIN document USING (tag, package)
    WHERE d.tag = :tag GROUP BY d.package HAVING document.revision IS NULL OR baseline > begin
"""
_Part = tuple[int, int, bytes | str]  # the build, the set of stacks and the packed hashes of an interval

EVERYTHING = Selection()


class HeldSpecs(NamedTuple):
    """Specs of a document that have the same signature and were added by the same revision."""

    signature: Signature
    size: int  # number of specs
    hashes: bytes | str  # packed by `pack`


class DocumentChange(Pair, frozen=True):
    """A document before and after a revision (None: the tag did not have it); `is_baseline`: its specs may be older."""

    is_baseline: bool  # the specs may have been added before this revision, which has the first readable version


def compared(documents: Iterable[DocumentChange], tag: str) -> Iterator[tuple[DocumentChange, PackageChange]]:
    """Yield each of `documents`, all of `tag`, that changed, with its change; DeepDiff compares 64 in one call."""
    left = iter(documents)
    while some := list(islice(left, 64)):
        changes = compare_all(some, is_pruned=is_mutable(tag))
        yield from ((one, change) for one, change in zip(some, changes, strict=True) if change)


def held_at(index: Index, tag: str, number: int, package: str | None = None) -> Mapping[str, Sequence[HeldSpecs]]:
    """Return, by package, the specs that `tag` had in revision `number`: of all packages, or only of `package`."""
    held: defaultdict[str, list[HeldSpecs]] = defaultdict(list)
    values = {"tag": index.id_of("tag", tag), "number": number, "package": package}
    for name, build, stacks, size, hashes in index.rows(_HELD, values):
        held[name].append(HeldSpecs(index.signature(build, stacks), size, hashes))
    return held


def packages_at(index: Index, tag: str, number: int) -> set[str]:
    """Return the packages that have a document in the tag in revision `number`, even one without specs."""
    return {
        package
        for package, baseline, is_there in index.rows(_THERE, {"tag": index.id_of("tag", tag), "number": number})
        if (is_there if is_there is not None else baseline is not None and baseline <= number)
    }


class TagStates:
    """Steps through the revisions of a tag, and keeps its documents in their current state."""

    def __init__(self, index: Index, tag: str, number: int, wanted: Wanted) -> None:
        """Start at revision `number` of `tag`; only packages that `wanted` accepts are considered."""
        self._index = index
        self._tag = tag
        self._wanted = wanted
        self.number = number
        self.packages = set(filter(wanted, packages_at(index, tag, number)))  # that have a document
        self._documents: dict[str, Document] = {}
        self._names: Mapping[int, str] = dict(index.rows("SELECT id, name FROM package"))
        self._values = {"tag": index.id_of("tag", tag), "number": number, "newest": index.newest}
        self._unread = [span for name, *span in index.rows(_UNREAD, self._values) if wanted(name)]
        # By revision and package: whether compilers differ, there is a document, and it is a baseline.
        self._noted: defaultdict[int, dict[str, tuple[int, int, int]]] = defaultdict(dict)
        for revision, package, *facts in index.rows(_NOTED, self._values):
            self._noted[revision][package] = tuple(facts)

    def count(self) -> int:
        """Return the number of documents in the current revision, including unreadable ones."""
        return len(self.packages) + sum(1 for first, end in self._unread if first <= self.number < end)

    def begin(self) -> Iterator[DocumentChange]:
        """Yield all documents of the revision where this object starts, each as a baseline: a change from nothing."""
        held = held_at(self._index, self._tag, self.number)
        for package in sorted(self.packages):
            yield DocumentChange(package, None, _of_held(package, held.get(package, ())), is_baseline=True)

    def advance(self) -> list[DocumentChange]:
        """Go to the next revision, and return the documents that it changed, before and after."""
        self.number += 1
        noted = self._noted.pop(self.number, {})
        ended, began = (self._parts(column) for column in ("last", "first"))
        return [
            self._change(package, ended.get(package, ()), began.get(package, ()), noted.get(package))
            for package in sorted(filter(self._wanted, noted.keys() | ended.keys() | began.keys()))
        ]

    def advance_and_compare(
        self, selection: Selection = EVERYTHING, stacks_of: Callable[[str], frozenset[str] | None] = lambda _: None
    ) -> tuple[Sequence[tuple[DocumentChange, PackageChange]], Report]:
        """Go to the next revision; return changes and report. `stacks_of` returns stacks that a commit lists, or None."""
        before, is_pruned = self.count(), is_mutable(self._tag)
        changes = list(compared(self.advance(), self._tag))
        tally = Tally(selected=None if selection.packages.is_open and selection.takes_all_specs else [])
        for document, change in changes:
            if not document.is_baseline:
                values = values_of(change)
                items = items_of(change, values=values)
                tally.seen.add(change, items, values)
                if selection.packages(document.package):
                    select_package(change, items, selection, tally, NoCollector(), NoCollector)
        after, removed = self.count(), sum(document.after is None for document, _ in changes)
        packages = PackageCounts(
            before=before,
            after=after,
            added=after - before + removed,
            removed=removed,
            changed=tally.changed,
            rebuilt_only=tally.rebuilt_only,
        )
        points = [self._index.point(number) for number in (self.number - 1, self.number)]
        has_moved = any(tally.seen.moved_stacks())
        declared_before, declared_after = (stacks_of(point.revision) if has_moved else None for point in points)
        judgement = judge(
            tally.seen,
            packages,
            whole=self._whole(packages),
            declared=(declared_before, declared_after),
            survey=partial(self._survey, {document.package for document, _ in changes}),
            is_pruned=is_pruned,
            compare_renamed=lambda names, those, chosen: compare_renamed(
                (one for one, _ in changes if one.package in those), names, chosen, is_pruned=is_pruned
            ),
        )
        if tally.selected is not None:
            judgement = counted(tally.seen.items, judgement, self._tag)
        statements, *_ = statements_on(
            tally, packages, judgement, self._tag, selection=selection, takes=selection.packages
        )
        old, new = (Side(name=p.revision, revision=p.revision, tag=self._tag, time=p.time) for p in points)
        return changes, Report(
            before=old, after=new, revisions_between=1, packages=packages, specs=tally.specs, statements=statements
        )

    def _whole(self, packages: PackageCounts) -> StatementKind | None:
        """Return TAG_REMOVED or TAG_ADDED if the whole tag (even unwanted packages) was removed or added; else None."""
        empty = self.number - (not packages.before)
        if bool(packages.before) is bool(packages.after) or packages_at(self._index, self._tag, empty):
            return None
        return StatementKind.TAG_REMOVED if packages.before else StatementKind.TAG_ADDED

    def _survey(self, changed: Set[str]) -> dict[str, Mapping[Signature, int]]:
        """Return, for each package that is not in `changed`, how many specs have each signature in this revision."""
        held = held_at(self._index, self._tag, self.number).items()
        documents = (_of_held(name, found) for name, found in held if name in self.packages and name not in changed)
        return {document.package: document.specs.counts for document in documents}

    def _parts(self, column: str) -> Mapping[str, list[_Part]]:
        """Return, by package, the intervals that the current revision begins (`column` is "first") or ends ("last")."""
        query = f"SELECT package, build, stacks, hashes FROM interval WHERE {column} = :number AND +tag = :tag"  # noqa: S608
        parts: defaultdict[str, list[_Part]] = defaultdict(list)
        for package, *part in self._index.rows(query, {**self._values, "number": self.number}):
            parts[self._names[package]].append(tuple(part))
        return parts

    def _change(
        self, package: str, ended: Iterable[_Part], began: Iterable[_Part], noted: tuple[int, int, int] | None
    ) -> DocumentChange:
        if package in self.packages and package not in self._documents:
            held = held_at(self._index, self._tag, self.number - 1, package)
            self._documents[package] = _of_held(package, held.get(package, ()))
        before = self._documents[package] if package in self.packages else None
        compilers_differ, is_there, is_baseline = noted or (0, before is not None, 0)
        if not is_there:
            self._documents.pop(package, None)
            self.packages.discard(package)
            return DocumentChange(package, before, None, bool(is_baseline))
        gone = {spec_hash for *_, hashes in ended for spec_hash in unpack(hashes)}
        specs = {h: signature for h, signature in before.specs.items() if h not in gone} if before else {}
        for build, stacks, hashes in began:
            specs |= dict.fromkeys(unpack(hashes), self._index.signature(build, stacks))
        # The index knows where the two differ in how they write compilers, which is all that law 1 asks.
        was_new = before is None or before.compiler_form is CompilerForm.NEW
        is_new = was_new is not bool(compilers_differ)
        after = document_of(package, specs, CompilerForm.NEW if is_new else CompilerForm.OLD)
        self._documents[package] = after
        self.packages.add(package)
        return DocumentChange(package, before, after, bool(is_baseline))


def _of_held(package: str, held: Iterable[HeldSpecs]) -> Document:
    return document_of(package, {spec_hash: part.signature for part in held for spec_hash in unpack(part.hashes)})


def last_changes(index: Index, tag: str, until: int) -> Mapping[str, int]:
    """Return, by package, the number of the last revision up to `until` that changed its document in `tag`."""
    query = """
        SELECT name, max(revision) FROM (
            SELECT package, revision FROM step WHERE tag = :tag AND revision <= :until
            UNION ALL SELECT package, revision FROM document WHERE tag = :tag AND revision <= :until
        ) JOIN package ON id = package GROUP BY package
    """
    return dict(index.rows(query, {"tag": index.id_of("tag", tag), "until": until}))


def unread_versions(index: Index, tag: str, until: int) -> Iterator[tuple[str, int, str, bool]]:
    """Yield package, revision and reason of unreadable versions up to `until`, and whether a later one is readable."""
    query = """
        SELECT package.name, d.revision, message, document.revision > d.revision AND document.revision <= :until
        FROM diagnostic d JOIN package ON package.id = d.package LEFT JOIN document USING (tag, package)
        WHERE d.tag = :tag AND d.revision <= :until ORDER BY d.revision, package.name
    """
    return index.rows(query, {"tag": index.id_of("tag", tag), "until": until})
