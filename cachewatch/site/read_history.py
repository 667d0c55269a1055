"""All that a site is made of, read from a repository; what is known from the last time is not read again."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from cachewatch import __version__
from cachewatch.causes.step_causes import Step
from cachewatch.core import tag_names
from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT, Wanted
from cachewatch.core.tag_pairs import Listing
from cachewatch.errors import DocumentError, UnknownRevision
from cachewatch.git.arranged_trees import nothing_found
from cachewatch.git.catalogue import list_revision, stacks_of, tags_of
from cachewatch.git.document_history import FileHistories, FileVersion, find_trails
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision
from cachewatch.git.trees import folders
from cachewatch.history import Present, Revisions, TagHistory, read_tag, reports_of, walk
from cachewatch.history.revision_reports import Declared
from cachewatch.history.walk_revisions import Progress, size_to_read
from cachewatch.report.changes import Report
from cachewatch.site.indexed_arrivals import Arrivals
from cachewatch.site.recorded_causes import OpenStep, PackageCauses, RecordedCauses
from cachewatch.site.revision_stories import Story, story_of


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
