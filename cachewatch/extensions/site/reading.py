"""Read all that a site is made of from a repository; what is known from the last build of the site is not read again.

A history index, if there is one, says when versions came before the first revision that the site shows. A recorded
dependency graph says why each revision rebuilt what it did.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from cachewatch import __version__
from cachewatch.core import names as tag_names
from cachewatch.core.changesets import Listing
from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.names import CATALOGUE, DOCUMENT, Wanted
from cachewatch.core.statements import with_causes
from cachewatch.core.versions import VersionKey
from cachewatch.errors import DocumentError, UnknownRevision
from cachewatch.extensions.causes.of_changes import Chain, find_chains, rebuilt_in
from cachewatch.extensions.causes.recorded import Step
from cachewatch.extensions.history.read import Index
from cachewatch.extensions.history.when import Presence, find_stays
from cachewatch.extensions.site.past import (
    Declared,
    Present,
    Progress,
    Revisions,
    TagHistory,
    intervals_of,
    read_tag,
    reports_of,
    size_to_read,
    walk,
)
from cachewatch.extensions.site.stories import Story, story_of
from cachewatch.extensions.site.trails import FileHistories, FileVersion, find_trails
from cachewatch.extensions.site.values import DatedRevision
from cachewatch.extensions.site.words import dated_revision
from cachewatch.git.catalogue import list_revision, stacks_of, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision
from cachewatch.git.trees import folders, nothing_found
from cachewatch.report.values import Report


class Arrival(Struct, frozen=True):
    """When something came."""

    moment: DatedRevision
    time: datetime | None
    is_dated: bool  # False if it came then or before


class Arrivals(Struct, frozen=True):
    """Of one package: what the first revision of the site has, and the first stack that ever had each version."""

    stays: Mapping[tuple[str, VersionKey], Arrival] = {}  # by stack and version
    begins: Mapping[VersionKey, Arrival] = {}  # by version


def read_arrivals(index: Index, past: TagHistory) -> Mapping[str, Arrivals]:
    """Return the arrivals of all packages that were there when the site begins; nothing if the index does not know that."""
    number = _begin(index, past)
    if number is None:
        return {}
    return {
        history.package: _arrivals(index, history.package, past.tag, number)
        for history in past.packages
        if any(not stay.is_dated for stay in intervals_of(history))
    }


def _begin(index: Index, past: TagHistory) -> int | None:
    """Return the place of the first revision in the chain; None if nothing comes before it, or it is not indexed."""
    try:
        number = index.number_of(past.revisions[0][0]) if past.revisions else 0
    except UnknownRevision:
        return None
    return number or None


def _arrivals(index: Index, package: str, tag: str, number: int) -> Arrivals:
    found = find_stays(index, package, tag, number)
    return Arrivals(
        {key: _arrival(index, one) for key, one in found.first.items()},
        {version: _arrival(index, one) for version, one in found.begins.items()},
    )


def _arrival(index: Index, one: Presence) -> Arrival:
    point = index.point(one.first)
    time = datetime.fromisoformat(point.time) if point.time else None
    return Arrival(dated_revision(point.revision, time), time, not one.is_baseline)


# Opens the graphs of the two revisions of a report.
OpenStep = Callable[[Report], Step | None]


class PackageCauses(Struct, frozen=True, array_like=True):
    """Why a package was rebuilt the last time, and in which revision."""

    revision: int  # its number
    chains: tuple[Chain, ...]


class RecordedCauses:
    """Adds causes to reports, one revision after the other, and keeps the last ones of each package."""

    def __init__(self, open_step: OpenStep, known: Mapping[str, PackageCauses]) -> None:
        self._open_step = open_step
        self.packages = dict(known)

    def explain(self, reports: Iterable[Report], first: int) -> Iterator[Report]:
        """Yield the reports, of which the first is on the revision of that number, with causes."""
        for number, report in enumerate(reports, first):
            step = self._open_step(report)
            if step is None or not step.is_recorded:
                yield report
                continue
            self._learn(step, number)
            yield replace(report, statements=with_causes(report.statements, rebuilt_in(step), lambda _: True))

    def _learn(self, step: Step, number: int) -> None:
        for package in step.packages:
            with suppress(DocumentError):
                if chains := find_chains(step, package):
                    self.packages[package] = PackageCauses(number, chains)


class Remembered(Struct, frozen=True):
    """What the last build read, for the next one."""

    by: str = ""  # the version of cachewatch, for stories are in its words
    past: TagHistory | None = None
    stories: tuple[Story, ...] = ()  # of the revisions of the past; the oldest has none to tell
    causes: Mapping[str, PackageCauses] = {}  # by package, where a dependency graph is recorded
    documents: Mapping[str, Present] = {}  # of tags that do not change, by object id


class Catalogue(Struct, frozen=True, kw_only=True):
    """The past of one tag, and what there is in the others."""

    past: TagHistory
    stories: tuple[Story, ...]  # by number of the revision
    causes: Mapping[str, PackageCauses] = {}  # why packages were rebuilt the last time
    arrivals: Mapping[
        str, Arrivals
    ] = {}  # by package, of what the first revision has, where a history index knows them
    tags: Mapping[str, Mapping[str, Present]]  # by tag and package, in order, without that of the past
    diagnostics: tuple[Diagnostic, ...]
    remembered: Remembered


class Plan(Struct, frozen=True):
    """What is to be read, before any document is."""

    trails: FileHistories
    listings: Sequence[Listing]
    known: Remembered
    declared: Declared
    open_step: OpenStep

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        blobs = (blob for listing in self.listings for blob in listing.blobs.values())
        unknown = sum(blob.size for blob in blobs if blob.name not in self.known.documents)
        return unknown + size_to_read(self.trails, self.known.past)


def plan(
    repository: Repository,
    until: Revision,
    *,
    since: Revision | None,
    wanted_tag: Callable[[str], bool],
    wanted_package: Wanted,
    known: Remembered,
) -> Plan:
    """Find what there is to read. The first tag that is wanted has its past told; the others are as they are."""
    # A folder without any folders is a package of 2022, and no tag.
    trees = {tag: tree for tag, tree in tags_of(repository, until).ids.items() if folders(repository, tree).ids}
    found = [tag for tag in tag_names.in_order(trees) if wanted_tag(tag)]
    if not trees:
        raise UnknownRevision(f"{repository.path}: {nothing_found(repository, until.commit, until.name)}")
    if not found:
        there = tag_names.in_order(trees)
        raise UnknownRevision(
            f"{repository.path}: {until.name!r} has no such tag; there are {', '.join(there[:8])}{', ...' if there[8:] else ''}"
        )
    told = "develop" if "develop" in found else found[0]
    trails = find_trails(repository, until, tag=told, since=since, wanted_package=wanted_package)
    listings = [
        list_revision(
            repository,
            Revision(until.name, until.commit, tag, until.time),
            wanted_tag=wanted_tag,
            wanted_package=wanted_package,
        )
        for tag in found
        if tag != told
    ]
    return Plan(
        trails,
        listings,
        _usable(known, trails),
        lambda moment: _stacks(repository, moment),
        lambda report: _open_step(repository, report),
    )


def _open_step(repository: Repository, report: Report) -> Step | None:
    old, new = report.before, report.after
    if not (old.revision and old.tag and new.revision and new.tag):
        return None
    with suppress(DocumentError):  # of a graph that cannot be read, nothing is said
        return Step.between(repository, (old.revision, old.tag), (new.revision, new.tag))
    return None


def _stacks(repository: Repository, moment: FileVersion) -> Mapping[str, frozenset[str]]:
    return stacks_of(repository, Revision(moment.commit, moment.commit, None, moment.time))


def _usable(known: Remembered, trails: FileHistories) -> Remembered:
    """Return what is known, but no past of other packages: what is told of a revision is about all of them."""
    past = known.past
    if past is None or known.by != __version__ or len(known.stories) != len(past.revisions):
        return Remembered(documents=known.documents)
    older = {trail.package for trail in trails.trails if trail.steps[0][0] < len(past.revisions)}
    return known if older == {history.package for history in past.packages} else Remembered(documents=known.documents)


def read(planned: Plan, *, jobs: int, progress: Progress) -> Catalogue:
    """Read all that is not known yet."""
    seen = Revisions()
    past = walk(planned.trails, planned.known.past, jobs=jobs, progress=progress, seen=seen)
    stories, causes = _stories(planned, past, seen)
    diagnostics = list(planned.trails.diagnostics)
    for history in past.packages:
        path = f"{CATALOGUE}/{past.tag}/{history.package}/{DOCUMENT}"
        diagnostics += [Diagnostic(path, DiagnosticKind(kind), message) for kind, message in history.diagnostics]
    documents: dict[str, Present] = {}
    found: dict[str, Mapping[str, Present]] = {}
    for listing in planned.listings:
        diagnostics += listing.diagnostics
        packages: dict[str, Present] = {}
        for package, present in read_tag(
            listing.blobs, listing.reader, planned.known.documents, jobs=jobs, progress=progress
        ):
            blob = listing.blobs[package]
            if isinstance(present, str):
                diagnostics.append(Diagnostic(blob.path, DiagnosticKind.UNREADABLE, present))
            else:
                packages[package] = documents[blob.name] = present
        found[listing.side.tag or ""] = dict(sorted(packages.items()))
    return Catalogue(
        past=past,
        stories=stories,
        causes=causes,
        tags=found,
        diagnostics=tuple(diagnostics),
        remembered=Remembered(__version__, past, stories, causes, documents),
    )


def _stories(planned: Plan, past: TagHistory, seen: Revisions) -> tuple[tuple[Story, ...], Mapping[str, PackageCauses]]:
    """Return what each revision did, and why packages were rebuilt; of revisions that are known, what is known."""
    known = planned.known.past
    is_continued = known is not None and (known.tag, known.revisions) == (
        past.tag,
        past.revisions[: len(known.revisions)],
    )
    stories = planned.known.stories if is_continued else (Story(),)
    causes = RecordedCauses(planned.open_step, planned.known.causes if is_continued else {})
    new = reports_of(planned.trails, seen, planned.declared, first=len(stories))
    stories = (*stories, *map(story_of, causes.explain(new, first=len(stories))))
    return stories, causes.packages
