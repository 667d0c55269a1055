"""Read the data for a site from the history index, except what the last build of the site has stored."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from cachewatch import __version__
from cachewatch.comparison_flow import changesets
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import NoCollector, Report
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, grouped
from cachewatch.core.statements import with_causes
from cachewatch.errors import DocumentError, UnknownRevision
from cachewatch.extensions.causes.asked_specs import GraphStep
from cachewatch.extensions.causes.explaining_reports_and_locks import Chain, find_chains, rebuilt_in
from cachewatch.extensions.history import restored_documents as restored
from cachewatch.extensions.history.index_lookup import Index
from cachewatch.extensions.history.package_questions import OPEN, baseline_of, joined, presences, returned
from cachewatch.extensions.site.package_histories import (
    DatedRevision,
    PackageHistory,
    PackageStep,
    Present,
    RevisionStory,
    StackStay,
    TagHistory,
    present_of,
    step_of,
    story_of,
)
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, commit_time
from cachewatch.git.tags_and_documents import stacks_of, tags_of
from cachewatch.git.trees import folders, nothing_found
from cachewatch.report.diff_blocks_and_colours import Requested
from cachewatch.report.diff_formats_and_alike_tags import read_report
from cachewatch.report.words import first_of
from cachewatch.sources.before_and_after import compare_sides

_DAY = 86400


class PackageCauses(Struct, frozen=True, array_like=True):
    """The causes of the last rebuild of a package, and the number of the revision that rebuilt it."""

    revision: int
    chains: tuple[Chain, ...]


class TagMove(Struct, frozen=True, array_like=True):
    """The changes, in words, from the tag `before` to the tag that follows it, such as the next snapshot."""

    before: str
    changed: tuple[str, str]  # the commit that changed each of the two tags last; "" if unknown
    story: RevisionStory


class SiteContents(Struct, frozen=True, kw_only=True):
    """The history of one tag, and the current specs of the others; stored for the next build."""

    by: str = __version__  # the version of cachewatch that made the sentences of the stories
    asked: tuple[str, ...] = ()  # the patterns of packages that were requested
    past: TagHistory
    stories: tuple[RevisionStory, ...]  # one for each revision of `past`; that of the oldest is empty
    causes: Mapping[str, PackageCauses] = {}  # by package; only where a dependency graph is recorded
    # Of each other tag, in order: the commit that changed it last, and its current specs by package.
    tags: Mapping[str, tuple[str, Mapping[str, Present]]] = {}
    moves: Mapping[str, TagMove] = {}  # by tag: the changes from the tag before it
    diagnostics: tuple[Diagnostic, ...] = ()


class Plan(Struct, frozen=True):
    """The revisions, tags and packages that a site shows."""

    until: Revision
    shown: int  # number of revisions, of which the newest is `until`
    tags: Sequence[str]  # the first is shown with its history, the others in their current state
    packages: Globs


def plan(
    repository: Repository, until: Revision, *, since: Revision | None, wanted_tag: Globs, packages: Globs
) -> Plan:
    """Return what to show, with the history of `develop` or the first tag. Raises UnknownRevision if no tag matches.

    The plan has the revisions from `since` (None: the first) to `until`, and the tags that `wanted_tag` accepts.
    """
    # A folder without any folders is a package of 2022, and no tag.
    trees = {tag: tree for tag, tree in tags_of(repository, until).ids.items() if folders(repository, tree).ids}
    tags = [tag for tag in tag_names.in_order(trees) if wanted_tag(tag)]
    if not trees:
        raise UnknownRevision(f"{repository.path}: {nothing_found(repository, until.commit, until.name)}")
    if not tags:
        there = first_of(tag_names.in_order(trees), 8, ", ...")
        raise UnknownRevision(f"{repository.path}: {until.name!r} has no such tag; there are {there}")
    main = "develop" if "develop" in tags else tags[0]
    count = ["rev-list", "--first-parent", "--count", until.commit]
    later = int(repository.run([*count, f"^{since.commit}"] if since else count))
    return Plan(until, later + (since is not None), [main, *(tag for tag in tags if tag != main)], packages)


class ContentsReader:
    """Reads the contents of a site from the history index, as far as the last build of the site does not have them."""

    def __init__(self, repository: Repository, index: Index, planned: Plan, known: SiteContents | None) -> None:
        self._repository, self._index, self._packages = repository, index, planned.packages
        self._tag, *self._others = planned.tags
        self._until = index.number_of(planned.until.commit)
        self._begin = max(0, self._until + 1 - planned.shown)
        rows = index.rows('SELECT "commit", time FROM revision WHERE n <= ? ORDER BY n', (self._until,))
        self._chain = [DatedRevision(c, None if time is None else commit_time(str(time))) for c, time in rows]
        self._revisions = tuple(self._chain[self._begin :])
        # The last build can be continued if it has the same tag, packages, version and earlier revisions.
        same = known and (known.by, known.asked, known.past.tag) == (__version__, self._packages.patterns, self._tag)
        if known is None or not same or known.past.revisions != self._revisions[: len(known.stories)]:
            known = SiteContents(past=TagHistory(tag=self._tag, revisions=(), packages=()), stories=())
        self._known = known

    def read(self, jobs: int) -> SiteContents:
        """Return all contents: what the last build stored and what is new; `jobs` processes compare tags."""

        def stacks_at(commit: str) -> frozenset[str] | None:
            return stacks_of(self._repository, Revision(commit, commit, None, None)).get(self._tag)

        known = self._known
        stories = list(known.stories)
        steps = {one.package: list(one.steps) for one in known.past.packages}
        causes = dict(known.causes)
        states = restored.TagStates(self._index, self._tag, self._begin + max(len(stories) - 1, 0), self._packages)
        for number in range(len(stories), len(self._revisions)):
            changes, report = (
                states.advance_and_compare(stacks_of=stacks_at)
                if number
                else (restored.compared(states.begin(), self._tag), None)  # the first revision of the site
            )
            for document, change in changes:
                step = step_of(number, change, is_gone=document.after is None, is_baseline=document.is_baseline)
                steps.setdefault(document.package, []).append(step)
            story = RevisionStory()
            if report:
                report = _with_causes(self._repository, report, number, causes)
                story = story_of(report, returned(self._index, self._tag, self._begin + number - 1, report.statements))
            stories.append(story)
        lasts = {tag: restored.last_changes(self._index, tag, self._until) for tag in (self._tag, *self._others)}
        # Of an earlier revision than the newest, the index does not know when documents changed.
        is_newest = self._until == self._index.newest
        changed = {
            tag: self._chain[max(last.values(), default=0)].revision if is_newest else "" for tag, last in lasts.items()
        }
        packages = tuple(self._histories(steps, lasts[self._tag]))
        return SiteContents(
            asked=self._packages.patterns,
            past=TagHistory(tag=self._tag, revisions=self._revisions, packages=packages),
            stories=tuple(stories),
            causes=causes,
            tags={tag: self._state(tag, changed[tag]) for tag in self._others},
            moves=dict(self._moves(changed, jobs)),
            diagnostics=tuple(found for tag in lasts for found in self._unread(tag)),
        )

    def _state(self, tag: str, changed: str) -> tuple[str, Mapping[str, Present]]:
        """Return `changed`, the commit that changed `tag` last (or ""), and the current specs of `tag` by package."""
        known = self._known.tags.get(tag)
        if known and changed and changed == known[0]:
            return known
        held = restored.held_at(self._index, tag, self._until)
        there = sorted(filter(self._packages, restored.packages_at(self._index, tag, self._until)))
        return changed, {package: present_of(held.get(package, ())) for package in there}

    def _moves(self, changed: Mapping[str, str], jobs: int) -> Iterator[tuple[str, TagMove]]:
        """Yield each tag that has a predecessor, and what changed from the predecessor to the tag.

        The predecessor is the tag before in its series; for the tag whose history is shown, it is its newest snapshot.
        `changed` has, by tag, the commit that changed it last, or "" if unknown; `jobs` is a number of processes.
        """
        before = tag_names.predecessors(changed)
        snapshots = (tag for tag in tag_names.in_order(changed) if tag_names.series(tag) == self._tag)
        if newest := next(snapshots, None):
            before.setdefault(self._tag, newest)
        commit, selection = self._chain[-1].revision, Selection(packages=self._packages)
        for tag, base in before.items():
            move = self._known.moves.get(tag)
            if move is None or not changed[tag] or (move.before, *move.changed) != (base, changed[base], changed[tag]):
                sides = f"{commit}:{base}", f"{commit}:{tag}"
                comparison = compare_sides(*sides, selection, repository=self._repository)
                (changeset,) = changesets(comparison, selection, NoCollector, jobs=jobs)
                story = story_of(read_report(changeset, Requested(most=0, wants=lambda *_: True)), {})
                move = TagMove(base, (changed[base], changed[tag]), story)
            yield tag, move

    def _histories(self, steps: Mapping[str, list[PackageStep]], last: Mapping[str, int]) -> Iterator[PackageHistory]:
        """Yield each package's history, the last build's if unchanged; `last`: index of the last change, by package."""
        known = {one.package: one for one in self._known.past.packages}
        versions = restored.unread_versions(self._index, self._tag, self._until)
        unread = {package: n for package, n, *_ in versions if n >= self._begin and self._packages(package)}
        for package in sorted(steps.keys() | unread.keys()):
            own = tuple(steps.get(package, ()))
            changed = last.get(package, unread.get(package, 0)) - self._begin
            changed = max(changed, own[-1].revision if own else 0)
            if package in known and (known[package].changed, known[package].steps) == (changed, own):
                yield known[package]
                continue
            held = restored.held_at(self._index, self._tag, self._until, package).get(package, ())
            stays, present = tuple(self._stays(package)), present_of(held, has_builds=True)
            yield PackageHistory(package=package, changed=changed, steps=own, stays=stays, present=present)

    def _stays(self, package: str) -> Iterator[StackStay]:
        """Yield the periods in which each version of `package` was in each stack, and its lag after the first stack."""
        ids = self._index.id_of("package", package), self._index.id_of("tag", self._tag)
        stays = presences(self._index, *ids, self._until)
        spans = grouped((place, span) for specs, span in stays for place in product(specs.stacks, specs.versions))
        leads: dict[str, int] = {}  # in which revision the first stack had each version
        for (_, version), found in spans.items():
            leads[version] = min(leads.get(version, OPEN), *(first for first, _ in found))
        baseline = baseline_of(self._index, *ids)
        merged = [(span, *key) for key, found in spans.items() for span in joined(found)]
        for (first, end), stack, version in sorted(merged, key=lambda one: (max(one[0][0], self._begin), *one[1:])):
            lead, start = leads[version], self._chain[first]
            began = None if lead == baseline else self._chain[lead].time
            lag = None if began is None or start.time is None else max(0.0, (start.time - began).total_seconds() / _DAY)
            if end > self._begin:
                last = end - self._begin if end <= self._until else None
                is_dated, is_first = first != baseline, first == lead
                yield StackStay(stack, version, max(0, first - self._begin), last, start, is_dated, lag, is_first)

    def _unread(self, tag: str) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each document of `tag` that is unreadable, now or in a revision that is shown."""
        for package, number, message, is_over in restored.unread_versions(self._index, tag, self._until):
            if self._packages(package) and (not is_over or (tag == self._tag and number >= self._begin)):
                said = f"{message} (revision {self._chain[number].commit})"
                yield Diagnostic(f"{package} in {tag}", DiagnosticKind.UNREADABLE, said)


def _with_causes(repository: Repository, report: Report, number: int, causes: dict[str, PackageCauses]) -> Report:
    """Return `report` with causes of rebuilds; store these in `causes`, by package, with the number of the revision."""
    before, after = ((side.revision or "", side.tag or "") for side in (report.before, report.after))
    step = None
    with suppress(DocumentError):  # a graph that cannot be read has no causes
        step = GraphStep.between(repository, before, after)
    if step is None or not step.is_recorded:
        return report
    for package in step.packages:
        with suppress(DocumentError):
            if chains := find_chains(step, package):
                causes[package] = PackageCauses(number, chains)
    return replace(report, statements=with_causes(report.statements, rebuilt_in(step), lambda _: True))
