"""The data of the pages: the history of every package, the changes by each revision in words, and file names."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.advice.verbs_and_reasons import Rank
from cachewatch.core.changesets import Report
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.kinds_and_specs import Kind, PackageChange, Signature
from cachewatch.core.statement_kinds import Severity, Statement, StatementKind
from cachewatch.extensions.history.restored_documents import HeldSpecs
from cachewatch.extensions.history.schema_and_location import unpack
from cachewatch.report.diff_blocks_and_colours import ADDING, Block, Requested, blocks_of
from cachewatch.report.digest_and_message_values import newest_day
from cachewatch.report.digests.subject import clauses_of_statements
from cachewatch.report.words import in_column, name_of, staying, where

NO_STACK = ""  # stands for a stack where specs are counted that no stack builds
# The kinds of changes to specs in the order of the page, with their explanations.
KINDS = {
    "new": "came, and replaced nothing",
    "gone": "went, and nothing took their place",
    "upgraded": "replaced an older version",
    "downgraded": "replaced a newer version",
    "recompiled": "the same, by another compiler",
    "reconfigured": "the same, with other variants",
    "moved": "the same, in other stacks",
    "rebuilt": "the same, built again",
}
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._+-]{0,79}")
_DEVICES = re.compile(r"(aux|con|nul|prn|com\d|lpt\d)(\..*)?")  # on Windows, with any extension
_LONGEST_NAME = 80
_LONG_WORD = re.compile(r"[^\s]{81,}")
# Kinds of statements that are marked on the axis of a plot.
_MARKS = ("suspicious", "stack-removed", "stack-added", "migration", "prune", "rebuild-wave")
_MARKED = frozenset(map(StatementKind, _MARKS))

# How pages colour a change: bad news, something new, another change, or "routine"; these are classes of site.css.
ATTENTION, NEWS, CHANGED = "attention", "news", "changed"


class DatedRevision(Struct, frozen=True, array_like=True):
    """A revision and its time, with the forms in which pages display them."""

    revision: str  # the whole hash of the commit
    time: datetime | None  # None if the commit has no valid date

    @property
    def commit(self) -> str:
        """The first ten digits of the revision."""
        return self.revision[:10]

    @property
    def path(self) -> str:
        """The path of the page about the revision, relative to the site."""
        return page("revision", self.revision[:12])

    @property
    def day(self) -> str:
        """The day as 2025-05-24, or "" if the time is None."""
        return self.time.date().isoformat() if self.time else ""

    @property
    def calendar_day(self) -> str:
        """The day in words: 24 May 2025, or `no date` if the time is None."""
        return f"{self.time.day} {self.time:%b %Y}" if self.time else "no date"


Revisions = Sequence[DatedRevision]


class Copies(Struct, frozen=True, array_like=True):
    """The number of specs of a package with one version, in one stack, for one target."""

    version: str
    stack: str
    target: str
    count: int


class AlikeSpecs(Struct, frozen=True, array_like=True):
    """Specs that differ only in their hashes."""

    signature: Signature
    hashes: tuple[str, ...]  # sorted

    @property
    def version(self) -> str:
        """The version; "" if the specs have none."""
        return ", ".join(self.signature.versions)


class Present(Struct, frozen=True, array_like=True):
    """The current specs of one document, counted."""

    specs: int = 0  # number of all specs
    copies: tuple[Copies, ...] = ()
    compilers: tuple[str, ...] = ()
    unreferenced: int = 0  # number of specs that no stack builds
    builds: tuple[AlikeSpecs, ...] = ()  # all specs; only for the tag with a history, otherwise empty

    @property
    def versions(self) -> frozenset[str]:
        """All versions that have a spec."""
        return frozenset(copies.version for copies in self.copies)

    @property
    def stacks(self) -> frozenset[str]:
        """All stacks that build a spec of the package now."""
        return frozenset(copies.stack for copies in self.copies if copies.stack)

    @property
    def targets(self) -> frozenset[str]:
        """All targets that have a spec."""
        return frozenset(copies.target for copies in self.copies)


class PackageStep(Struct, frozen=True, array_like=True):
    """The changes of one package by one revision."""

    revision: int  # its index in `TagHistory.revisions`, as everywhere below
    specs: int  # number of specs afterwards
    counts: Mapping[str, int]  # numbers of changed specs by kind, as in KINDS, without zeros; empty in a baseline
    stacks: Mapping[str, int]  # by stack: by how much the number of specs rose (or fell, if negative)
    added: tuple[tuple[str, str], ...] = ()  # pairs of stack and version that came
    removed: tuple[tuple[str, str], ...] = ()  # pairs of stack and version that went
    is_gone: bool = False  # the document was removed
    is_baseline: bool = False  # it is the first readable version, of unknown age, or that of the site's first revision


class StackStay(Struct, frozen=True, array_like=True):
    """A period in which one version of a package was in one stack."""

    stack: str
    version: str
    first: int  # number of the revision that added it; 0 if before the first one of the site
    last: int | None  # number of the revision that removed it; None while it is present
    since: DatedRevision  # the revision that added it, also if that is before the first one of the site
    is_dated: bool = True  # whether it was added in the revision `since`; if not, then or before
    lag: float | None = None  # days after the first stack got the version; None if unknown
    is_first: bool = False  # no other stack had the version before


class PackageHistory(Struct, frozen=True, kw_only=True):
    """One package of a tag: the changes by every revision, and the current specs."""

    package: str
    changed: int = 0  # number of the last revision that changed the document
    steps: tuple[PackageStep, ...]
    stays: tuple[StackStay, ...] = ()  # all but those that ended before the first revision of the site
    present: Present

    @property
    def is_there(self) -> bool:
        """Whether the newest revision still has the document."""
        return bool(self.steps) and not self.steps[-1].is_gone


class TagHistory(Struct, frozen=True, kw_only=True):
    """The histories of all packages of one tag."""

    tag: str
    revisions: tuple[DatedRevision, ...]  # the oldest first
    packages: tuple[PackageHistory, ...]


def lost_by(history: PackageHistory) -> Mapping[str, int]:
    """Return, by stack that had the package and lacks it now, the number of the revision that removed it there."""
    found = {stack: step.revision for step in history.steps for stack, _ in step.removed if stack}
    return {stack: revision for stack, revision in found.items() if stack not in history.present.stacks}


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over all packages of a tag; each list has one value for every revision, the oldest first."""

    specs: list[int]
    packages: list[int]  # numbers of packages that have a document
    stacks: Mapping[str, list[int]]  # by stack: numbers of its specs
    unreferenced: list[int]  # numbers of specs that no stack builds
    churn: Mapping[str, list[int]]  # by kind of change, as in KINDS: numbers of changed specs; 0 in the first revision


def totals_of(past: TagHistory) -> Totals:
    """Return the sums over the changes of all packages in `past`."""
    specs, packages = [0] * len(past.revisions), [0] * len(past.revisions)
    stacks: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(past.revisions))
    churn: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(past.revisions))
    for history in past.packages:
        before, was_there = 0, False
        for step in history.steps:
            specs[step.revision] += step.specs - before
            packages[step.revision] += (not step.is_gone) - was_there
            before, was_there = step.specs, not step.is_gone
            for stack, gained in step.stacks.items():
                stacks[stack][step.revision] += gained
            for kind, number in step.counts.items():  # none in a baseline
                churn[kind][step.revision] += number
    return Totals(
        specs=list(accumulate(specs)),
        packages=list(accumulate(packages)),
        stacks={stack: list(accumulate(gains)) for stack, gains in stacks.items() if stack != NO_STACK},
        unreferenced=list(accumulate(stacks[NO_STACK])),
        churn=churn,
    )


def step_of(number: int, change: PackageChange, *, is_gone: bool, is_baseline: bool) -> PackageStep:
    """Return `change` by revision `number` as a step; `is_gone`: no document is left; `is_baseline`: age unknown."""
    gained: Counter[str] = Counter()
    places: list[set[tuple[str, str]]] = []
    for specs, sign in ((change.specs_before, -1), (change.specs_after, 1)):
        places.append({(stack, version) for one in specs.counts for stack in one.stacks for version in one.versions})
        for signature, count in specs.counts.items():
            for stack in signature.stacks or (NO_STACK,):
                gained[stack] += sign * count
    old, new = places
    counts = {} if is_baseline else {name: n for name in KINDS if (n := getattr(change.counts, name))}
    stacks = {stack: count for stack, count in gained.items() if count}
    added, removed = tuple(sorted(new - old)), tuple(sorted(old - new))
    return PackageStep(number, change.counts.after, counts, stacks, added, removed, is_gone, is_baseline)


def present_of(held: Iterable[HeldSpecs], *, has_builds: bool = False) -> Present:
    """Return numbers of the specs in `held`, all of one document; if `has_builds`, also these specs, in `builds`."""
    parts: defaultdict[Signature, list[HeldSpecs]] = defaultdict(list)
    copies: Counter[tuple[str, str, str]] = Counter()
    for part in held:
        parts[part.signature].append(part)
        for version in part.signature.versions:
            for stack in part.signature.stacks or (NO_STACK,):
                copies[version, stack, part.signature.target] += part.size
    builds = (
        AlikeSpecs(signature, tuple(sorted(one for part in parts[signature] for one in unpack(part.hashes))))
        for signature in (sorted(parts) if has_builds else ())
    )
    sizes = {signature: sum(part.size for part in some) for signature, some in parts.items()}
    return Present(
        specs=sum(sizes.values()),
        copies=tuple(Copies(*place, count) for place, count in sorted(copies.items())),
        compilers=tuple(sorted({signature.compiler for signature in sizes})),
        unreferenced=sum(count for signature, count in sizes.items() if signature.is_unreferenced),
        builds=tuple(builds),
    )


def page(folder: str, name: str) -> str:
    """Return the path, relative to the site, of the page about `name` in `folder`."""
    return f"{folder}/{file_name(name)}.html"


def file_name(name: str) -> str:
    """Return `name`, or a readable part of it and a hash if some file systems or URLs cannot contain the name."""
    if _PLAIN.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name[:_LONGEST_NAME].lower()).strip("-")[:40]
    # No plain name contains a ~, so two names never get the same file.
    return f"{readable or 'x'}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def shown(text: str, most: int = _LONGEST_NAME) -> str:
    """Return `text` for display: invisible characters escaped, its middle cut out if it is longer than `most`."""
    text = safe_name(text)
    is_long = len(text) > most
    return f"{text[: most * 2 // 3]} ... {text[-most // 4 :]} ({len(text):,} characters)" if is_long else text


def tone_of(kind: StatementKind, severity: Severity) -> str:
    """Return how pages colour a statement of this kind and severity: ATTENTION, NEWS, CHANGED or "routine"."""
    return NEWS if kind in ADDING else CHANGED if severity is Severity.NEWS else severity.value


class FactInWords(Struct, frozen=True, array_like=True):
    """One change in words, and how pages colour it (one of the values of `tone_of`)."""

    tone: str
    text: str


class NewVersion(Struct, frozen=True, array_like=True):
    """A version of a package that no stack had before."""

    package: str  # unchanged, as in documents
    before: str  # the versions that it replaced; "" for a new package
    after: str
    where: str = ""  # words for the stacks that have it, unless all have, and for what stays beside it


class RevisionStory(Struct, frozen=True, kw_only=True):
    """The changes by one revision, in words."""

    facts: tuple[FactInWords, ...] = ()  # for lists of revisions
    total: str = ""
    sections: tuple[Block, ...] = ()  # for the page of the revision
    marks: tuple[tuple[StatementKind, str], ...] = ()  # for plots: events of the whole tag, with the stack or tag
    versions: tuple[NewVersion, ...] = ()  # for the front page


def story_of(report: Report, back: Mapping[str, str]) -> RevisionStory:
    """Return the changes in `report` in words; `back` has sentences on what came back, by id of statement."""
    if not report.statements:
        return RevisionStory()
    blocks, total = blocks_of(report, Requested(most=100, wants=lambda *_: True, names_packages=True))
    facts = []
    for clause in clauses_of_statements(report.statements, report.after.tag or "", newest_day(report), without=back):
        tone = tone_of(clause.statement.kind, clause.statement.severity)
        is_harmless = tone == ATTENTION and clause.first.rank is Rank.HARMLESS
        facts.append(FactInWords(CHANGED if is_harmless else tone, _bounded(clause.line)))
    facts += [FactInWords(NEWS, _bounded(said)) for said in back.values()]
    return RevisionStory(
        facts=tuple(facts[:12]),
        total=total,
        sections=tuple(map(_section, blocks)),
        marks=tuple((one.kind, _bounded(name_of(one))) for one in report.statements if one.kind in _MARKED),
        versions=tuple(_versions(report.statements)),
    )


def _bounded(text: str) -> str:
    """Return `text`, which may quote untrusted documents, with long words shortened, and the middle cut out if long."""
    return shown(_LONG_WORD.sub(lambda word: shown(word[0]), text), 2000)


def _section(block: Block) -> Block:
    """Return `block` with shortened texts, and without the lines of routine changes."""
    is_listed = block.kind.severity is not Severity.ROUTINE
    entries = [replace(e, fact=_bounded(e.fact), where=_bounded(in_column(e.where))) for e in block.entries]
    return replace(
        block,
        name=_bounded(block.name),
        total=_bounded(block.total),
        notes=tuple(map(_bounded, block.notes)),
        entries=tuple(entries) if is_listed else (),
        more=block.more.removesuffix(" (--all)") if is_listed else "",
    )


def _versions(statements: Iterable[Statement]) -> Iterator[NewVersion]:
    """Yield the versions in `statements` that no stack had before: of upgrades, and of new packages."""
    for one in statements:
        is_new = one.kind is StatementKind.PACKAGE_ADDED
        if is_new or (one.kind is StatementKind.UPGRADED and Kind.VERSION_ADDED in one.kinds):
            # Which older versions stay, and the stacks of the new one unless these are all of the package's.
            beside = ""
            for line in one.lines[:1]:
                is_part = len({place.stack for place in line.story.places}) < line.story.of_stacks
                beside = " ".join(filter(None, (staying(line), where(line).partition(";")[0] if is_part else "")))
            yield NewVersion(one.name, ", ".join(one.before), ", ".join(one.after), _bounded(beside))
