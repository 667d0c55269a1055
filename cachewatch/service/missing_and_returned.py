"""Find what was removed from a source (departures), in which revision, and what is back (returns).

A digest compares two revisions that may lie weeks apart. A subscription remembers which single revision removed
something; when that is back, it is compared with the last revision that had it. Git's trees show which documents a
revision has.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date, timedelta
from functools import cache, cached_property, partial
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.urgency_and_levels import is_urgent
from cachewatch.core.advice.waits_and_reminders import (
    AnnouncedWave,
    Departure,
    DepartureKind,
    Point,
    Remembered,
    StillMissing,
    series_or_tag,
)
from cachewatch.core.changesets import Blob, Content
from cachewatch.core.comparison.stacks_prunes_suspicion import is_most
from cachewatch.core.kinds_and_specs import CompilerForm, Document, Kind, Machine, Place, Side, grouped
from cachewatch.core.statement_kinds import LOSSES, OF_VALUES, Line, Statement, StatementKind, in_order, name_of
from cachewatch.core.statements import select_statements
from cachewatch.core.versions_spellings_targets import version_key
from cachewatch.documents.records_parsing_diagnostics import Binary, KnownRecords, parse_side, write_document
from cachewatch.errors import SourceError, UnknownRevision, WorkFailed
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, chain_between, resolve
from cachewatch.git.tags_and_documents import GitReader, RestoredDocument, document_in, packages_in
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.runtime.worker import Isolation, Piece

_IN_DOCUMENTS = (DepartureKind.STACK, DepartureKind.PLACE)  # that trees do not show
_OF_NEW_SNAPSHOTS = {
    StatementKind.PACKAGE_REMOVED: DepartureKind.PACKAGE,
    StatementKind.STACK_REMOVED: DepartureKind.STACK,
}
# The statements which say that hashes of the last reported state are gone.
_GONE_HASHES = frozenset({StatementKind.PRUNE, StatementKind.PRUNED, StatementKind.SURPLUS, StatementKind.TURNOVER})
_SAMPLES = 3  # documents of a stack that tell whether a revision had the stack
_MOST_TIMES = 3  # how many snapshots in a row name the same packages that they still lack


def packages_of(repository: Repository, revision: Revision, tag: str) -> Mapping[str, str]:
    """Return the tree id of each package of a tag in a revision; empty if this clone lacks the revision."""
    try:
        return trees_of_packages(repository, revision, tag)
    except SourceError:
        return {}


@cache  # until the pass ends: every subscription asks for the same
def trees_of_packages(repository: Repository, revision: Revision, tag: str) -> Mapping[str, str]:
    """Return the tree id of each package of a tag in a revision; raise SourceError if this clone lacks the revision."""
    return packages_in(repository, revision.commit, tag)


def all_statements(tag: TagDigest) -> Iterator[Statement]:
    """Yield every statement on the selected specs of a tag, whether the digest shows it or not."""
    yield from tag.statements
    yield from tag.rest


class Steps:
    """The revisions of a source from `before` to `after`: which packages each had, and which revision removed what."""

    def __init__(self, source: str, repository: Repository, before: Revision, after: Revision) -> None:
        self.source, self.repository, self.before, self.after = source, repository, before, after

    @cached_property
    def chain(self) -> Sequence[Revision]:
        """The revisions from `before` to `after`, oldest first."""
        return chain_between(self.repository, self.before, self.after)

    def packages(self, revision: Revision, tag: str) -> Mapping[str, str]:
        """Return the tree id of each package of a tag in a revision."""
        return packages_of(self.repository, revision, tag)

    def last_with(self, has: Callable[[Revision], bool]) -> tuple[Revision, Revision]:
        """Return the last revision that `has` accepts, and the next one; `before` and `after` if it accepts none."""
        for earlier, later in reversed(list(pairwise(self.chain))):
            if has(earlier):
                return earlier, later
        return self.before, self.after

    def suspicious(self, tag: str, is_broken: Callable[[Revision, Revision], bool]) -> bool:
        """Tell whether one step removed most packages of `tag`, or changed most and `is_broken` is true of the step."""
        for earlier, later in pairwise(self.chain):
            had, has = self.packages(earlier, tag), self.packages(later, tag)
            removed = len(had.keys() - has.keys())
            changed = sum(has.get(package) != tree for package, tree in had.items())
            if is_most(removed, removed, len(had)):
                return True
            if is_most(changed, changed, len(had)) and has and is_broken(earlier, later):
                return True
        return False

    def departures(self, digest: TagDigest) -> Iterator[Departure]:
        """Yield the removals that `digest` shows of its tag; of a new snapshot, those since the snapshot before it."""
        before, after = digest.report.before, digest.report.after
        if before.tag != after.tag:
            if before.tag and after.tag and tag_names.is_snapshot(after.tag):
                had, lacks = (_point(self.after, tag) for tag in (before.tag, after.tag))
                at = replace(had, day=tag_names.day_of_snapshot(before.tag) or had.day), lacks
                for one in all_statements(digest):
                    if one.kind in _OF_NEW_SNAPSHOTS:
                        yield self._departure(_OF_NEW_SNAPSHOTS[one.kind], one.name, at, one.packages)
            return
        gone = list(self._of_tag(digest, after.tag or ""))
        if any(one.kind is StatementKind.SUSPICIOUS for one in all_statements(digest)):
            worst = max(gone, key=lambda one: len(one.packages), default=None)
            gone = [replace(one, is_suspicious=worst is not None and one.first == worst.first) for one in gone]
        yield from gone

    def _of_tag(self, digest: TagDigest, tag: str) -> Iterator[Departure]:
        statements = list(all_statements(digest))
        had, has = self.packages(self.before, tag), self.packages(self.after, tag)
        if not has:
            return
        gone = {package for one in statements for package in one.packages if package in had and package not in has}
        missing = {name for one in statements if one.kind is StatementKind.SUSPICIOUS for name in one.packages}
        groups: defaultdict[tuple[Revision, Revision], set[str]] = defaultdict(set)
        for package in sorted(gone):
            groups[self.last_with(lambda at: package in self.packages(at, tag))].add(package)  # noqa: B023  called at once
        if missing - gone:  # no stack builds these any more, which trees do not show
            worst = max(groups, key=lambda step: len(groups[step]), default=(self.before, self.after))
            groups[worst] |= missing - gone
        for step, packages in groups.items():
            name = next(iter(packages)) if len(packages) == 1 else ""
            yield self._departure(DepartureKind.PACKAGE, name, [_point(at, tag) for at in step], packages)
        for one in statements:
            if one.kind is StatementKind.STACK_REMOVED and one.packages:
                has_it = partial(_has_stack, self.repository, tag, one.name, one.packages[:_SAMPLES])
                points = [_point(at, tag) for at in self.last_with(has_it)]
                yield self._departure(DepartureKind.STACK, one.name, points, one.packages)
            # By the names of places and machines, and of their stacks.
            lost: defaultdict[tuple[str, str], dict[str, str | None]] = defaultdict(dict)
            # A migration back is reported as such, unless the builds that replaced the old ones are not selected.
            is_migration = one.kind in OF_VALUES and one.counts.new > 0
            for loss in one.losses if one.kind in (*LOSSES, *OF_VALUES) and not is_migration else ():
                lost[loss.name, loss.place.stack][loss.package] = had.get(loss.package)
            for (name, stack), trees in lost.items():
                step = self.last_with(partial(self._has_place, tag, stack, trees))
                yield self._departure(DepartureKind.PLACE, name, [_point(at, tag) for at in step], trees)

    def _has_place(self, tag: str, stack: str, trees: Mapping[str, str | None], at: Revision) -> bool:
        """Tell whether all packages of `trees` still had, in the revision `at`, a place of `stack` that was lost later.

        `trees` maps packages to the ids of their trees before the loss. A package counts if it has the same tree in
        `at`, or if its document names the stack in `at` but no longer in the last revision.
        """
        packages = self.packages(at, tag)
        changed = [[package] for package, tree in trees.items() if packages.get(package) != tree]
        has = partial(_has_stack, self.repository, tag, stack)
        return all(has(package, at) and not has(package, self.after) for package in changed)

    def of_lost_tag(self, tag: str) -> Departure:
        """Return the removal of the whole `tag`, with the packages that it had."""
        step = self.last_with(lambda at: bool(self.packages(at, tag)))
        packages = self.packages(step[0], tag)
        return self._departure(DepartureKind.TAG, tag, [_point(at, tag) for at in step], packages)

    def _departure(self, kind: DepartureKind, name: str, points: Iterable[Point], packages: Iterable[str]) -> Departure:
        last, first = points
        return Departure(
            source=self.source,
            tag=series_or_tag(last.tag),
            kind=kind,
            name=name,
            last=last,
            first=first,
            packages=tuple(sorted(packages)),
        )


def _point(revision: Revision, tag: str) -> Point:
    return Point(revision.commit, tag, f"{revision.time:%Y-%m-%d}" if revision.time else "")


def _has_stack(repository: Repository, tag: str, stack: str, packages: Iterable[str], revision: Revision) -> bool:
    """Tell whether a document of one of `packages` in `revision` contains the name of a stack; it is not parsed."""
    name = re.compile(rb"(?<![\w.+-])" + re.escape(stack.encode()) + rb"(?![\w.+-])")
    for package in packages:
        with suppress(SourceError):
            found = document_in(repository, revision.commit, tag, package)
            content = repository.objects().get(found.name) if isinstance(found, Blob) else None
            if content is not None and name.search(content.content):
                return True
    return False


class Returns(Struct, frozen=True):
    """Finds the remembered removals from a source that are undone, unless the stream has already reported that."""

    repository: Repository
    source: str
    stream: str
    newest: Revision
    known: Remembered  # the removals that the subscription remembers

    def documents(self, tag: str, wanted: Callable[[str], bool]) -> Mapping[str, list[Departure]]:
        """Return the `wanted` packages that have a document in a tag again, each with its removals, earliest first."""
        departures = [one for one in self._departures(tag) if one.kind not in _IN_DOCUMENTS]
        has = packages_of(self.repository, self.newest, tag) if departures else {}
        back: defaultdict[str, list[Departure]] = defaultdict(list)
        for departure in departures:
            lacked = self._packages_of(departure.first)
            for package in departure.missing(self.stream):
                if package in has and package not in lacked and wanted(package):
                    back[package].insert(0, departure)
        return back

    def builds(self, digest: TagDigest) -> Mapping[str, list[Departure]]:
        """Return, by package, the removals of packages that stacks build again or other streams reported as back."""
        departures = list(self._departures(digest.report.after.tag or ""))
        if not departures:
            return {}
        joined: defaultdict[str, set[str]] = defaultdict(set)  # names of stacks, places and machines
        for line in (line for one in all_statements(digest) for line in one.lines):
            new = line.story.places if line.story.kind is StatementKind.PLACE_GAINED else ()
            joined[line.package] |= (
                line.joined | line.machines | {name for place in new for name in (place.stack, name_of(place))}
            )
        back: defaultdict[str, list[Departure]] = defaultdict(list)
        for departure in departures:
            seen = {package for stream, those in departure.back if stream != self.stream for package in those}
            lacked = self._packages_of(departure.first)
            for package in departure.missing(self.stream):
                names = joined.get(package, set())
                is_built = departure.name in names if departure.kind in _IN_DOCUMENTS else names and package in lacked
                if package in seen or is_built:
                    back[package].insert(0, departure)
        return back

    def bases(self, back: Mapping[str, Sequence[Departure]]) -> Mapping[str, Revision]:
        """Return, for packages in `back`, the revision to compare with: the last reported one that had the package."""
        found = {}
        for package, departures in back.items():
            known = self._known_to_readers(departures)
            if known and (base := self._base(package, known[0])):
                found[package] = base
        return found

    def restored(
        self, back: Mapping[str, Sequence[Departure]], before: Side, isolation: Isolation
    ) -> Mapping[str, RestoredDocument]:
        """Return documents in `before` of packages in `back`, with the places that are back added as last reported."""
        lost: list[tuple[str, list[Blob], list[str]]] = []
        for package, departures in back.items():
            known = self._known_to_readers(departures)
            bases = {one.name: base for one in known if (base := self._base(package, one))}
            tags = [(before.revision or "", before.tag), *((base.commit, base.tag) for base in bases.values())]
            sides = [*tags, (self.newest.commit, before.tag)]
            found = [document_in(self.repository, commit, tag or "", package) for commit, tag in sides]
            blobs = [blob for blob in found if isinstance(blob, Blob)]
            if bases and len(blobs) == len(sides) and {one.kind for one in known} <= {*_IN_DOCUMENTS}:
                lost.append((package, blobs, list(bases)))
        contents = GitReader(self.repository).read([blob for _, blobs, _ in lost for blob in blobs])
        asked = ((package, [(blob, next(contents)) for blob in blobs], names) for package, blobs, names in lost)
        restored = {}
        for parts, results in isolation.each(_with_places, asked, _about_lost):
            if isinstance(results, WorkFailed):
                continue
            for (package, ((blob, _), *_), _), content in zip(parts, results, strict=True):
                if content is not None:
                    name = f"{blob.path} with returned places"
                    restored[package] = RestoredDocument(replace(blob, name=name, size=len(content)), content)
        return restored

    def statements(
        self, tag: str, back_by_package: Mapping[str, Sequence[Departure]], statements: Collection[Statement]
    ) -> Iterator[Statement]:
        """Yield a statement for each removal that is undone, at least in part; `statements` are all others on the tag.

        Of the removals of a package (`back_by_package`), the first is reported; if it is of a stack or place, so are
        the other removals of stacks and places.
        """
        back: defaultdict[str, list[str]] = defaultdict(list)
        departures = {}
        for package, (first, *others) in back_by_package.items():
            also = [one for one in others if {one.kind, first.kind} <= {*_IN_DOCUMENTS}]
            for departure in {one.name: one for one in (*reversed(also), first)}.values():
                departures[departure.key] = departure
                back[departure.key].append(package)
        has = packages_of(self.repository, self.newest, tag) if back else {}
        lost = grouped((each.package, each.place) for one in statements if one.kind in LOSSES for each in one.losses)
        for key, packages in sorted(back.items()):
            departure = departures[key]
            besides = (
                (StatementKind.PLACE_GAINED, StatementKind.WIDENED) if departure.kind is DepartureKind.PLACE else ()
            )
            changed = {
                package
                for one in statements
                if one.kind not in besides
                for lines in [{line.package: line for line in one.lines if not _is_elsewhere(line, departure)}]
                for package in one.packages
                if package in lines or all(line.package != package for line in one.lines)
            }
            had = self._packages_of(departure.last)
            is_whole = departure.kind is DepartureKind.PACKAGE and not departure.is_suspicious
            yield Statement(
                kind=StatementKind.RETURNED,
                name=departure.name,
                before=(departure.last.day, departure.first.day),
                packages=tuple(sorted(packages)),
                of_packages=len(departure.missing(self.stream)),
                places=tuple(sorted({place for package in packages for place in lost.get(package, ())}))
                if is_whole
                else (),
                exceptions=tuple(sorted(one for one in changed & set(packages) if had.get(one, "") != has.get(one))),
                kinds=frozenset({Kind.RETURNED}),
            )

    def _known_to_readers(self, departures: Iterable[Departure]) -> list[Departure]:
        return [one for one in departures if any(stream == self.stream for stream, *_ in one.told)]

    def _base(self, package: str, departure: Departure) -> Revision | None:
        """Return the last reported revision before a removal, else the one just before; None if it lacks `package`."""
        told = {of: point for stream, of, point in departure.told if stream == self.stream}
        for point in (told.get(package, told[""]), departure.last):
            with suppress(UnknownRevision):  # upstream rewrote its history, and our copy was lost
                side = replace(resolve(self.repository, point.revision), tag=point.tag)
                # A package that was added and removed between two digests is new to readers.
                return side if package in packages_of(self.repository, side, point.tag) else None
        return None

    def still_missing(self, tag: str, wanted: Callable[[str], bool]) -> StillMissing | None:
        """Return `wanted` packages that earlier snapshots lost and `tag` lacks; None without any or after 3 reports."""
        has = packages_of(self.repository, self.newest, tag)
        earlier = [one for one in self._departures(tag) if one.kind is DepartureKind.PACKAGE and one.first.tag != tag]
        lacked = {package for one in earlier for package in one.missing(self.stream)}
        packages = tuple(sorted(package for package in lacked if package not in has and wanted(package)))
        said = self.known.still_missing(self.source, tag, self.stream)
        times = said.times if said is not None and said.packages == packages else 0
        if not packages or times >= _MOST_TIMES:
            return None
        series = series_or_tag(tag)
        return StillMissing(source=self.source, series=series, stream=self.stream, packages=packages, times=times + 1)

    def in_documents(self, tag: str) -> Iterator[Departure]:
        """Yield the remembered removals of stacks and places that the newest `tag` may undo, latest first."""
        return (one for one in self._departures(tag) if one.kind in _IN_DOCUMENTS)

    def _departures(self, tag: str) -> Iterator[Departure]:
        """Yield the removals that `tag` may undo, latest first; a later snapshot may undo those from an earlier one."""
        for one in self.known.departures(self.source, tag):
            is_from_earlier = one.kind is not DepartureKind.TAG and version_key(one.first.tag) < version_key(tag)
            if one.first.tag == tag or is_from_earlier:
                yield one

    def _packages_of(self, point: Point) -> Mapping[str, str]:
        try:
            revision = resolve(self.repository, point.revision)
        except UnknownRevision:
            return {}
        return packages_of(self.repository, revision, point.tag)


# A package, its documents and their contents (the last is the newest), and places that all between still had.
_Lost = tuple[str, Sequence[tuple[Blob, Content]], Sequence[str]]


def _with_places(lost: Sequence[_Lost]) -> list[bytes | None]:
    """Return each package's first document with the lost places added; None for a package with an unusable document."""
    return [_with_places_of(*each) for each in lost]


def _with_places_of(package: str, contents: Sequence[tuple[Blob, Content]], names: Sequence[str]) -> bytes | None:
    found = [parse_side(blob, content, KnownRecords(), package) for blob, content in contents]
    documents = [one for one in found if isinstance(one, Document) and one.has_hashes]
    if len(documents) < len(found) or any(one.compiler_form is CompilerForm.MISSING for one in documents):
        return None
    had, *others, now = documents
    specs = dict(had.specs)
    left: defaultdict[Place, set[str]] = defaultdict(set)  # the versions in each
    for spec in specs.values():
        for place in spec.places:
            left[place].update(spec.versions)
    for document, name in zip(others, names, strict=True):
        for spec_hash, spec in document.specs.items():
            machine = Machine(spec.platform, spec.os, spec.target)
            places = ((stack, Place(stack, spec.target)) for stack in spec.stacks)
            stacks = {s for s, place in places if name in (s, name_of(place), name_of(place, machine))}
            if stacks:
                # Readers were not told of other places that lost the spec, kept a version as new, and have it again.
                again = spec.places & now.specs[spec_hash].places if spec_hash in now.specs else frozenset()
                newest = {place: max({*left[place], *spec.versions}, key=version_key, default="") for place in again}
                stacks |= {place.stack for place in again if newest[place] in left[place]}
                known = specs.get(spec_hash, replace(spec, stacks=()))
                specs[spec_hash] = replace(known, stacks=tuple(sorted({*known.stacks, *stacks})))
    listed = []
    for spec_hash, spec in specs.items():
        if len(spec.versions) != 1:
            return None
        built_for = spec.os, spec.platform, spec.target
        binary = Binary(package, spec_hash, spec.versions[0], spec.compiler, *built_for, spec.variants, spec.stacks)
        listed.append(binary)
    return write_document(package, had.tag, listed)


def _about_lost(lost: _Lost) -> Piece:
    _, contents, _ = lost
    sizes = (len(content) for _, content in contents if isinstance(content, bytes))
    return Piece(tuple(blob.name for blob, _ in contents), sum(sizes))


def _is_elsewhere(line: Line, departure: Departure) -> bool:
    """Tell whether `line` is only about other places than the stack, place or machine of `departure`."""
    if departure.kind not in _IN_DOCUMENTS:
        return False
    stack = departure.name.partition(" (")[0]
    if departure.kind is DepartureKind.STACK or not line.story.places:
        return bool(line.stacks) and stack not in line.stacks
    return all(name_of(place) != f"{stack} ({target_of(departure.name)})" for place in line.story.places)


def target_of(name: str) -> str:
    """Return the target in the name of a place or machine, such as zen4 in `e4s (rhel8, zen4)`; "" for a stack."""
    return name.partition(" (")[2].removesuffix(")").rpartition(", ")[2]


def is_for_same(name: str, other: str) -> bool:
    """Tell from two names of places or machines whether both are for the same machines; a stack's name is for all."""
    values = [each.partition(" (")[2].removesuffix(")") for each in (name, other)]
    return "" in values or len({*values}) == 1 or (target_of(name) in values and target_of(name) == target_of(other))


def learned_back(packages: Mapping[str, Sequence[Departure]], stream: str) -> Iterator[Departure]:
    """Yield each removal in `packages` (package: removals) with the packages that `stream` now reports as back."""
    departures = {one.key: one for those in packages.values() for one in those}
    back = grouped((one.key, package) for package, those in packages.items() for one in those)
    for key, departure in departures.items():
        yield replace(departure, back=((stream, tuple(sorted({*back[key]}))),))


def is_old(departure: Departure, newest: Revision) -> bool:
    """Tell whether `departure` is over two weeks before `newest`, and so counts as a loss; False if one is undated."""
    if newest.time is None or not departure.first.day:
        return False
    return newest.time.date() - date.fromisoformat(departure.first.day) > timedelta(days=14)


def missing_since(departure: Departure, packages: tuple[str, ...]) -> Statement:
    """Return the statement that the suspicious removal `departure` is a loss; `packages` are those still missing."""
    return Statement(
        kind=StatementKind.PACKAGE_REMOVED,
        before=(departure.last.day, departure.first.day),
        packages=packages,
        of_packages=len(departure.packages),
        kinds=frozenset({Kind.PACKAGE_REMOVED, Kind.GONE}),
    )


def announced(source: str, tag: TagDigest) -> Iterator[AnnouncedWave]:
    """Yield a fact to remember if `tag`, the digest of a tag of `source`, announces that old builds will be pruned."""
    after = tag.report.after
    for one in all_statements(tag):
        if one.kind is StatementKind.REBUILD_WAVE and one.counts.beside > 0 and after.tag and after.revision:
            day = (after.time or "")[:10]
            yield AnnouncedWave(source=source, tag=after.tag, revision=after.revision, day=day, count=one.counts.beside)


def tag_added(tag: str) -> Statement:
    """Return the statement that the snapshot `tag` is new."""
    return Statement(kind=StatementKind.TAG_ADDED, name=tag, kinds=frozenset({Kind.TAG_ADDED}))


def with_statements(tag: TagDigest, more: Sequence[Statement], wants: Callable[[Set[Kind]], bool]) -> TagDigest:
    """Return `tag` with the statements `more`; those whose kinds `wants` rejects are kept in `rest`, but not shown."""
    wanted = [one for one in more if wants(one.kinds)]
    others = tuple(one for one in more if not wants(one.kinds))
    report = replace(tag.report, statements=in_order((*tag.report.statements, *more)))
    return replace(tag, report=report, statements=in_order((*tag.statements, *wanted)), rest=(*tag.rest, *others))


def without_told_losses(tag: TagDigest, back: Mapping[str, Sequence[Departure]], stream: str) -> TagDigest:
    """Return `tag` without what `stream` told when the packages in `back` (package: removals, earliest first) went.

    These are lost places of packages that were removed as a whole, and versions that a place had before it went. What
    is still missing, or not as it was, the statement on the return says.
    """
    told = {
        package: [one for one in those if not one.is_suspicious and any(of == stream for of, *_ in one.told)]
        for package, those in back.items()
    }
    whole = {package for package, those in told.items() if those and those[0].kind is DepartureKind.PACKAGE}

    def is_news(line: Line) -> bool:
        names = {one.name for one in told.get(line.package, ()) if one.kind in _IN_DOCUMENTS}
        is_told = all({place.stack, name_of(place)} & names for place in line.story.places)
        is_old = line.story.kind is StatementKind.RETIRED and bool(line.story.places) and is_told
        return not is_old and not (line.story.kind in LOSSES and line.package in whole)

    shown, rest = (select_statements(of, is_news, lambda *_: True)[0] for of in (tag.statements, tag.rest))
    return replace(tag, statements=shown, rest=rest)


def gone_since(tag: TagDigest, last: TagDigest | None) -> TagDigest:
    """Return `tag` with its statements on gone hashes replaced by those of `last`, a comparison with the last report.

    Some packages in `tag` are compared with earlier revisions, so `tag` may repeat losses from before the last report.
    If `last` is None, the statements are only removed.
    """
    found = [(), (), ()] if last is None else [last.statements, last.rest, last.report.statements]
    prunes = [any(one.kind is StatementKind.PRUNE for one in of) for of in (found[2], tag.report.statements)]
    # Only without a prune do retired versions have statements of their own.
    kinds = _GONE_HASHES | ({StatementKind.RETIRED} if prunes[0] != prunes[1] else set())
    statements, rest, every = (
        in_order((*(one for one in of if one.kind not in kinds), *(one for one in those if one.kind in kinds)))
        for of, those in zip((tag.statements, tag.rest, tag.report.statements), found, strict=True)
    )
    events = [one for one in tag.report.events if one.kind is not Kind.PRUNE]
    events += (one for one in (last.report.events if last else ()) if one.kind is Kind.PRUNE)
    pruned = last.report.pruned if last else 0
    report = replace(tag.report, statements=every, events=tuple(events), pruned=pruned)
    return replace(tag, statements=statements, rest=rest, report=report)


def urgent_only(tag: TagDigest) -> TagDigest:
    """Return `tag` with only its urgent statements: suspicious losses, and losses from tags other than snapshots."""
    kept = tuple(one for one in tag.statements if is_urgent(one, tag.report.after.tag or tag.report.before.tag or ""))
    kinds = {kind for one in kept for kind in one.kinds}
    report = replace(tag.report, events=tuple(event for event in tag.report.events if event.kind in kinds))
    rest = (*tag.rest, *(one for one in tag.statements if one not in kept))
    return replace(tag, statements=kept, rest=rest, report=report)
