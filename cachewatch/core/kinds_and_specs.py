"""The values that cachewatch works with: published specs, their changes, and the facts of a package. All are frozen.

A spec is one built binary, and its signature is all that is known of it but the hash. Upgraded, lost and the like are
words of several enumerations: MatchKind (how two paired specs differ), SpecClass (why a spec has no pair), Verdict
(what happened to a place: these are the upgrades and losses of reports), and Kind (what `--kind` selects).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Set, ValuesView
from enum import IntEnum, StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from operator import add
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return, by the first of the two values of each pair, a list of the second ones, in the order of `pairs`."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


class _Word(StrEnum):
    """A text constant with the fast hash of plain text, because constants are counted very often."""

    __hash__ = str.__hash__


class Kind(_Word):
    """The kinds of changes to a package or a tag, as named in reports, JSON and `--kind`; worst first.

    `cachewatch help kinds` explains each; with `--format json` for programs.
    """

    meaning: str
    is_default: bool  # whether digests report it by default

    def __new__(cls, word: str, meaning: str = "", is_default: bool = True) -> "Kind":  # noqa: D102
        kind = str.__new__(cls, word)
        kind._value_, kind.meaning, kind.is_default = word, meaning, is_default
        return kind

    TAG_ADDED = "tag-added", "a tag appeared; it is compared with the one before it in its series"
    TAG_REMOVED = "tag-removed", "a tag is gone"
    STACK_EVENT = (
        "stack-event",
        "a stack of at least five packages, or of half of a small tag, joined or left the whole tag",
    )
    STACK_LOST = "stack-lost", "a stack of at least five packages, or of half of a small tag, left the whole tag"
    STACK_MERGED = "stack-merged", "such a stack was renamed, or nine tenths of its packages are in stacks that joined"
    BESIDE = (
        "beside",
        "five or more packages of a stack, four fifths of those with the old one, have another compiler, system, target or variant beside it",
    )
    NO_LONGER = (
        "no-longer",
        "five or more packages of a stack, four fifths of those that were, are no longer built with a compiler, system, target or variant",
    )
    RETURNED = "returned", "what was reported gone is back"
    PRUNE = (
        "prune",
        "a prune removed old builds: a twentieth of the specs or more, of five packages or more; a smaller one is spec-removed",
    )
    TURNOVER = "turnover", "more than half of the hashes are gone, of five packages or more and a fifth of all"
    SUSPICIOUS = (
        "suspicious",
        "over half of a tag's documents or places (see place-lost) went at once, of five packages or more: publishing may have failed",
    )
    UNREADABLE = "unreadable", "a document could not be compared; digests name it beside other changes, never alone"
    PACKAGE_REMOVED = "package-removed", "a package's document is gone"
    PACKAGE_ADDED = "package-added", "a package appeared"
    PLACE_LOST = "place-lost", "a stack no longer has a build of the package for a target"
    MACHINE_LOST = "machine-lost", "a stack no longer has a build of the package for an operating system"
    GONE = "gone", "a place or machine was lost, and nothing is left that runs there, or only older versions"
    GOING = "going", "a place or machine was lost, and no stack builds its binaries any more: they may be pruned"
    OTHER = "other", "a place or machine was lost, and there is a newer version, or one with other variants"
    PLACE_GAINED = "place-gained", "a stack has its first build of the package for a target"
    UNREFERENCED = "unreferenced", "no stack builds a spec any longer, or a new one: it may be pruned at any time"
    VERSION_REMOVED = "version-removed", "a version is gone from the package"
    VERSION_ADDED = "version-added", "a version appeared in the package"
    DOWNGRADED = "downgraded", "a stack, or specs, went to an older version"
    UPGRADED = "upgraded", "a stack, or specs, went to a newer version"
    RETIRED = "retired", "an older version left a stack that keeps its newest"
    EXTENDED = "extended", "an older version was added to a stack that keeps its newest"
    NARROWED = "narrowed", "a stack lost a compiler, system or variants of a version that it keeps", False
    WIDENED = "widened", "a stack gained a compiler, system or variants of a version that it had", False
    STACK_REMOVED = "stack-removed", "a stack no longer builds the package, or specs of it"
    STACK_ADDED = "stack-added", "a stack now builds the package, or specs of it"
    COMPILER = "compiler", "another compiler"
    OS = "os", "another operating system or platform"
    TARGET = "target", "another target"
    VARIANT = "variant", "variants that were added or removed", False
    RECONFIGURED = (
        "reconfigured",
        "specs replaced by specs with other variants, or of another version, where both were and stay",
        False,
    )
    MOVED = "moved", "specs rebuilt for other stacks", False
    SPEC_ADDED = "spec-added", "added specs that replace nothing", False
    SPEC_REMOVED = "spec-removed", "removed specs that nothing replaces", False
    REBUILT = "rebuilt", "the same thing built again: only the hash is new", False


class Status(_Word):
    """Whether the document of a package was added, removed or changed."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class MatchKind(_Word):
    """How a new spec differs from the removed spec with which it is paired."""

    REBUILT = "rebuilt"
    MOVED = "moved"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    RECOMPILED = "recompiled"
    RECONFIGURED = "reconfigured"


class Verdict(_Word):
    """What happened to a package in one place (a stack on a target); the first value that applies is used."""

    GAINED = "gained"  # it has its first build there
    LOST = "lost"  # it has no build there any more
    UPGRADED = "upgraded"  # its newest version there is a newer one
    DOWNGRADED = "downgraded"  # or an older one
    RETIRED = "retired"  # an older version was removed
    EXTENDED = "extended"  # or added
    NARROWED = "narrowed"  # a version lost a compiler, an operating system or variants
    WIDENED = "widened"  # or gained them
    SAME = "same"


REGRADED = (Verdict.UPGRADED, Verdict.DOWNGRADED)  # another version is now the newest of the place


class SpecClass(_Word):
    """Why a removed or added spec is not paired with a spec of the other state."""

    PRUNED = "pruned"  # had no stack
    LOST = "lost"  # a place of it is lost
    REPLACED = "replaced"  # its version left a place that was up- or downgraded
    RETIRED = "retired"  # its version left another place
    DROPPED = "dropped"  # its combination left a place
    SURPLUS = "surplus"
    UNREFERENCED_NEW = "unreferenced_new"  # has no stack
    GAINED = "gained"
    SUCCESSOR = "successor"
    EXTENDED = "extended"
    NEW_COMBINATION = "new_combination"
    EXTRA_COPY = "extra_copy"


# The classes of removed and of added specs, in the order in which they are tried.
VANISHED_CLASSES = (
    SpecClass.PRUNED,
    SpecClass.LOST,
    SpecClass.REPLACED,
    SpecClass.RETIRED,
    SpecClass.DROPPED,
    SpecClass.SURPLUS,
)
NEW_CLASSES = tuple(one for one in SpecClass if one not in VANISHED_CLASSES)


class DiagnosticKind(_Word):
    """Why a document could not be used, or not completely."""

    NOT_COMPARABLE = "not-comparable"
    UNREADABLE = "unreadable"
    INCONSISTENT = "inconsistent"
    REUSED_HASH = "reused-hash"  # a hash now names another binary


class CompilerForm(IntEnum):
    """How a document spells the compilers of its specs."""

    NEW = 0  # gcc@11.4.0, or none
    OLD = 1  # as before Spack 1.0: gcc@=11.4.0
    MISSING = 2  # no record names one


class Place(NamedTuple):
    """One stack on one target, in which a package can be present or not."""

    stack: str
    target: str


@lru_cache(maxsize=1024)
def places_in(stacks: tuple[str, ...], target: str) -> frozenset[Place]:
    """Return the places of these stacks on a target; equal arguments give the same object, to save memory."""
    return frozenset([place_in(stack, target) for stack in stacks])


@lru_cache(maxsize=1024)
def place_in(stack: str, target: str) -> Place:
    """Return the place of a stack and target; equal arguments give the same object, so that pickling writes it once."""
    return Place(stack, target)


class Signature(Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """All that is known of a spec except hash and size, in one spelling (core/versions_spellings_targets.py)."""

    versions: tuple[str, ...]
    compiler: str
    os: str
    platform: str
    target: str
    variants: tuple[str, ...]
    stacks: tuple[str, ...]  # without root; empty means that no stack builds it any more

    @property
    def is_unreferenced(self) -> bool:
        """Whether no stack builds the spec any more, so that the next prune may remove the spec."""
        return not self.stacks

    @property
    def places(self) -> frozenset[Place]:
        """The places that have the spec; none if no stack builds it."""
        return places_in(self.stacks, self.target)


class Spec(Struct, frozen=True, gc=False):
    """One built binary.

    hash: its hash in Spack or, if the record has none, a key that begins with "-".  signature: all else that is known.
    """

    hash: str
    signature: Signature


NO_HASH = "-"  # the beginning of the key of a spec whose record has no hash


def known_hash(key: str) -> str | None:
    """Return the hash of the spec whose key in `Specs` is `key`; None if the record of this spec has no hash."""
    return None if key.startswith(NO_HASH) else key


class Specs(Mapping[str, Signature]):
    """The signatures of the specs of a document, by hash; `counts` has the number of specs of each signature."""

    def __init__(
        self, hashes: frozenset[str], counts: Counter[Signature], pairs: Iterable[tuple[str, Signature]]
    ) -> None:
        """Store `pairs` of hash and signature, read only if needed; `hashes` and `counts` must agree with them."""
        self.hashes, self.counts, self._pairs = hashes, counts, pairs

    @classmethod
    def of(cls, signatures: Mapping[str, Signature]) -> "Specs":
        """Return Specs with `signatures`, which are by hash."""
        return cls(frozenset(signatures), Counter(signatures.values()), signatures.items())

    def by_record(self) -> "Specs":
        """Return the same specs under other keys: the signature, and a number that tells equal signatures apart."""
        numbers: Counter[Signature] = Counter()
        signatures = {}
        for signature in self.values():
            numbers[signature] += 1
            signatures[f"{NO_HASH}{numbers[signature]} {signature!r}"] = signature
        return Specs.of(signatures)

    def without(self, hashes: Set[str]) -> "Specs":
        """Return the specs whose hashes are not in `hashes`."""
        if self.hashes.isdisjoint(hashes):
            return self
        return Specs.of({h: s for h, s in self.items() if h not in hashes})

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Signature]], "Specs"], tuple[Mapping[str, Signature]]]:
        """Pickle the specs with all their signatures."""
        return Specs.of, (self._by_hash,)

    def __getitem__(self, spec_hash: str) -> Signature:
        return self._by_hash[spec_hash]

    def __contains__(self, spec_hash: object) -> bool:
        return spec_hash in self.hashes

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_hash)

    def __len__(self) -> int:
        return len(self.hashes)

    def items(self) -> ItemsView[str, Signature]:
        """Return hashes with their signatures, in the order of the document."""
        return self._by_hash.items()

    def values(self) -> ValuesView[Signature]:
        """Return the signatures, in the order of the document."""
        return self._by_hash.values()

    def in_order(self) -> Iterator[tuple[str, Signature]]:
        """Yield hashes with their signatures, sorted by hash."""
        by_hash = self._by_hash
        return ((spec_hash, by_hash[spec_hash]) for spec_hash in sorted(by_hash))

    @cached_property
    def _by_hash(self) -> dict[str, Signature]:
        return dict(self._pairs)


class Diagnostic(Struct, frozen=True):
    """A problem with a document, or with part of one."""

    path: str
    kind: DiagnosticKind
    message: str
    is_loss: bool = True  # the comparison is incomplete because of it
    side: str = ""  # of a comparison, on which the document has it: before, after or both; "" if it does not matter


class Unreadable(Struct, frozen=True, kw_only=True):
    """A package whose document could not be compared, the sides on which this is so, and the reason."""

    package: str
    reason: str
    before: bool = False
    after: bool = False
    blob: str | None = None  # object id of the later document, if the process that read it ended

    @property
    def side(self) -> str:
        """The side on which the document could not be compared, as in Diagnostic: before, after or both."""
        return "both" if self.before and self.after else "before" if self.before else "after"


class Document(Struct, frozen=True, kw_only=True):
    """The parsed contents of one `specs.md`: the specs of one package in one tag.

    package, tag: the names of both; the tag is "" if the document names none.
    specs: signatures by hash, or by other keys where records have no hashes.
    facts: all versions, stacks, compilers and so on that the specs have, by the names of `PackageChange.facts`.
    compiler_form: the notation of compilers in the document.
    has_hashes: whether each record has a hash.  diagnostics: problems with parts of the document.
    """

    package: str
    tag: str
    specs: Specs
    facts: Mapping[str, frozenset[str]]
    compiler_form: CompilerForm = CompilerForm.NEW
    has_hashes: bool = True
    diagnostics: tuple[Diagnostic, ...] = ()


class Side(Struct, frozen=True, kw_only=True):
    """One of the two states that are compared.

    name: the name that the user gave the state.  tag: the tag that is compared, or None.
    revision: 40 or 64 hex digits, or None without git.  time: the time of the revision, in RFC 3339 and UTC, or None.
    """

    name: str
    revision: str | None = None
    tag: str | None = None
    time: str | None = None


class Delta(Struct, frozen=True, gc=False):
    """The sorted values that one fact of a package, such as its versions, gained and lost."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class StackVersions(Struct, frozen=True, gc=False):
    """The versions of one package in one stack.

    stack: its name.  before, after: its versions in each state, oldest first.  verdict: what happened to them.
    """

    stack: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    verdict: Verdict


class LossClass(_Word):
    """The nearest build that a tag still has for a lost place or machine; the first value that applies is used."""

    KEPT = "kept"  # the same binary, which another stack builds
    EQUAL = "equal"  # another binary of the version with the same variants that these machines run
    GOING = "going"  # the same binary, which no stack builds any more: it may be pruned at any time
    OTHER = "other"  # the version with other variants, or a newer version
    GONE = "gone"  # nothing that these machines run, or only older versions


LOSS_ORDER = list(LossClass)  # the worst last
MISSED = (LossClass.GOING, LossClass.OTHER, LossClass.GONE)  # readers must know about them


class Loss(Struct, frozen=True, kw_only=True):
    """What a tag still has instead of the newest version that a place or machine lost.

    loss_class: the class of the loss.  version: the lost version; "" if its records name none.
    there: the newest version that is present, if it is newer (class other) or older (class gone) than the lost one.
    stacks: the stacks that build what is present.  target: its target, if nothing for the lost target is of this class.
    compiler: the compiler of the equal binary that is present, if the lost binaries had other compilers.
    variants: the variants of what is present that the lost binaries did not have.
    older: the losses of older versions in the same place or machine, newest first; they do not count.
    builds: of class going, the binaries that no stack builds any more; of class gone, one of each lost signature,
    without hash.
    has_copies: whether equal binaries without a stack are left (class gone).  is_missed: whether readers must know.
    """

    loss_class: LossClass
    version: str
    there: str = ""
    stacks: tuple[str, ...] = ()
    target: str = ""
    compiler: str = ""
    variants: tuple[str, ...] = ()
    older: tuple["Loss", ...] = ()
    builds: tuple[Spec, ...] = ()
    has_copies: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether readers must know about the loss: the tag has no equal binary that some stack builds."""
        return self.loss_class in MISSED


class Machine(Struct, frozen=True, order=True):
    """The platform, operating system and target that a binary is built for."""

    platform: str
    os: str
    target: str


class Outside(Struct, frozen=True, kw_only=True):
    """The builds outside of the selection in a place that lost all selected specs of a package."""

    version: str = ""  # the newest, if versions are selected
    compilers: tuple[str, ...] = ()  # compilers that the lost specs did not have
    oses: tuple[str, ...] = ()  # likewise
    targets: tuple[str, ...] = ()  # targets for which the stack has the package now and had not before


class PlaceChange(Struct, frozen=True, kw_only=True):
    """The change of a package in one place.

    stack, target: the place.  place: both in one value.  before, after: the versions there in each state, oldest first.
    verdict: what happened there.  kinds: all kinds of change there.
    loss: what the tag still has instead, if the place is lost.  machines: its machines, if it is lost or gained.
    outside: what the place has outside of the selection, if it lost only selected builds.
    variants: of an up- or downgrade, removed and added variants whose names, perhaps with other values, were kept.
    """

    stack: str
    target: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    verdict: Verdict
    kinds: frozenset[Kind]
    loss: Loss | None = None
    machines: frozenset[Machine] = frozenset()
    outside: Outside | None = None
    variants: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    @property
    def place(self) -> Place:
        """The place itself."""
        return place_in(self.stack, self.target)


class MachineLoss(Struct, frozen=True, kw_only=True):
    """A platform and operating system for which a place lost a package; the place keeps builds for others."""

    stack: str
    machine: Machine
    versions: tuple[str, ...]  # lost for this machine, oldest first
    loss: Loss
    outside: Outside | None = None  # what the place has for this machine outside of the selection

    @property
    def place(self) -> Place:
        """The place that lost the machine."""
        return place_in(self.stack, self.machine.target)


class SignatureCount(Struct, frozen=True, gc=False):
    """The number of unpaired specs that have the same signature and class; only their hashes differ."""

    signature: Signature
    count: int
    spec_class: SpecClass
    counterpart: Signature | None = None  # of the other state: another compiler, system or target in the same stack


class SpecMatch(Struct, frozen=True, gc=False):
    """`count` removed specs of one signature, paired with as many added ones; the pairs of hashes are unknown."""

    kind: MatchKind
    before: Signature
    after: Signature
    count: int
    entered: bool = False  # only the new spec is in a selection of specs
    left: bool = False  # only the old one is


class StackChange(Struct, frozen=True, gc=False):
    """A spec that kept its hash and changed its stacks; if `after` has no stacks, no stack builds the spec any more."""

    hash: str
    before: Signature
    after: Signature
    entered: bool = False  # the selection of specs
    left: bool = False

    @property
    def gained(self) -> tuple[str, ...]:
        """The stacks that build the spec now, but did not before."""
        return tuple(sorted(set(self.after.stacks) - set(self.before.stacks)))

    @property
    def lost(self) -> tuple[str, ...]:
        """The stacks that no longer build the spec."""
        return tuple(sorted(set(self.before.stacks) - set(self.after.stacks)))


class SpecCounts(Struct, frozen=True, gc=False):
    """The numbers of specs, of added and removed ones, and of each way in which these changed; they add up.

    before, after: all specs of each state.  added, removed: those only in one state, and those that entered or left.
    rebuilt, moved, upgraded, downgraded, recompiled, reconfigured: pairs of a removed and an added spec, by kind.
    paired: the sum of these pairs.  new, gone: added and removed specs without a pair.
    pruned, lost, replaced, retired, dropped, surplus: those of `gone`, by class.
    unreferenced_new, gained, successor, extended, new_combination, extra_copy: those of `new`, by class.
    net_added, net_removed: added and removed specs that are not rebuilt.
    unreferenced: specs that no stack builds any more.
    entered, left: kept specs that came into the selection or left it, and added or removed specs that are paired with
    one outside of it.  adds_up: whether nothing was counted twice or left out.
    """

    before: int = 0
    after: int = 0
    added: int = 0
    removed: int = 0
    rebuilt: int = 0
    moved: int = 0
    upgraded: int = 0
    downgraded: int = 0
    recompiled: int = 0
    reconfigured: int = 0
    new: int = 0
    gone: int = 0
    net_added: int = 0
    net_removed: int = 0
    unreferenced: int = 0
    pruned: int = 0
    lost: int = 0
    replaced: int = 0
    retired: int = 0
    dropped: int = 0
    surplus: int = 0
    unreferenced_new: int = 0
    gained: int = 0
    successor: int = 0
    extended: int = 0
    new_combination: int = 0
    extra_copy: int = 0
    entered: int = 0
    left: int = 0

    def __add__(self, other: "SpecCounts") -> "SpecCounts":
        return SpecCounts(*map(add, astuple(self), astuple(other)))

    @property
    def paired(self) -> int:
        """The number of removed specs that are paired with added ones."""
        return self.rebuilt + self.moved + self.upgraded + self.downgraded + self.recompiled + self.reconfigured

    @property
    def adds_up(self) -> bool:
        """Whether each spec was counted once."""
        return (
            self.before + self.added - self.removed == self.after
            and self.added == self.paired + self.new + self.entered
            and self.removed == self.paired + self.gone + self.left
            and self.net_added == self.added - self.rebuilt
            and self.net_removed == self.removed - self.rebuilt
            and self.gone == sum([getattr(self, name) for name in VANISHED_CLASSES])
            and self.new == sum([getattr(self, name) for name in NEW_CLASSES])
        )


class PackageChange(Struct, frozen=True, kw_only=True):
    """All changes of one package between two states of one tag.

    package: its name.  status: whether it was added, removed or changed.  kinds: all kinds of its changes.
    facts: added and removed values, by "versions", "stacks", "compilers", "oses", "platforms", "targets", "variants".
    before, after: all values of each fact in either state.  counts: the numbers of its specs.
    stack_versions: the stacks whose versions changed.
    places: the changed places, with verdict and loss.  machines_lost: the machines lost by places that keep others.
    added, removed: the added and removed specs, sorted by hash, also those that entered or left a selection.
    added_specs, removed_specs: the same specs, by hash.
    added_hashes, removed_hashes: those of them whose hash is missing, or belongs to another spec, in the other state.
    matches: added specs paired with the removed ones that they replaced, counted by signature.
    new, gone: added and removed specs without a pair, by signature and class.  restacked: kept specs in other stacks.
    unreferenced: the hashes of all specs that no stack builds.
    newly_unreferenced: the specs among these that are new or that a stack built before.
    specs_before, specs_after: all specs of either state, in the same spelling.
    is_compiler_unknown: whether the two documents write compilers in different forms.
    is_pruned: whether specs that no stack builds will be removed some day.
    """

    package: str
    status: Status
    facts: Mapping[str, Delta]
    stack_versions: tuple[StackVersions, ...]
    places: tuple[PlaceChange, ...]
    machines_lost: tuple[MachineLoss, ...] = ()
    counts: SpecCounts
    matches: tuple[SpecMatch, ...]
    gone: tuple[SignatureCount, ...]
    new: tuple[SignatureCount, ...]
    added_hashes: Specs
    removed_hashes: Specs
    restacked: tuple[StackChange, ...]
    unreferenced: tuple[str, ...]
    newly_unreferenced: tuple[Spec, ...]
    kinds: frozenset[Kind]
    before: Mapping[str, frozenset[str]]
    after: Mapping[str, frozenset[str]]
    specs_before: Specs
    specs_after: Specs
    is_compiler_unknown: bool = False
    is_pruned: bool = True

    @property
    def added(self) -> tuple[Spec, ...]:
        """The specs of `added_specs`, sorted by hash."""
        return tuple(Spec(spec_hash, signature) for spec_hash, signature in self.added_specs.in_order())

    @property
    def removed(self) -> tuple[Spec, ...]:
        """The specs of `removed_specs`, sorted by hash."""
        return tuple(Spec(spec_hash, signature) for spec_hash, signature in self.removed_specs.in_order())

    @property
    def added_specs(self) -> Specs:
        """The specs with a new hash, and the kept specs that came into the selection."""
        return _and_kept(self.added_hashes, {kept.hash: kept.after for kept in self.restacked if kept.entered})

    @property
    def removed_specs(self) -> Specs:
        """The specs whose hash was removed, and the kept specs that left the selection."""
        return _and_kept(self.removed_hashes, {kept.hash: kept.before for kept in self.restacked if kept.left})


def _and_kept(specs: Specs, kept: Mapping[str, Signature]) -> Specs:
    return Specs.of({**specs, **kept}) if kept else specs


class PackageCounts(Struct, frozen=True, kw_only=True):
    """The numbers of packages of a tag before and after, and of added, removed and changed packages."""

    before: int = 0
    after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    rebuilt_only: int = 0

    @property
    def adds_up(self) -> bool:
        """Whether each package was counted once."""
        return self.before + self.added - self.removed == self.after


class Event(Struct, frozen=True):
    """An event that concerns a whole tag, with the numbers of packages and specs that it explains."""

    kind: Kind
    name: str
    packages: int
    specs: int


Facts = Mapping[str, frozenset[str]]  # the values of a package by name of the fact

# What returns the values of a signature for a fact, and the kinds of change if one is removed or added.
_FACTS: Mapping[str, tuple[Callable[[Signature], tuple[str, ...]], Kind, Kind]] = {
    "versions": (lambda s: s.versions, Kind.VERSION_REMOVED, Kind.VERSION_ADDED),
    "stacks": (lambda s: s.stacks, Kind.STACK_REMOVED, Kind.STACK_ADDED),
    "compilers": (lambda s: (s.compiler,), Kind.COMPILER, Kind.COMPILER),
    "oses": (lambda s: (s.os,), Kind.OS, Kind.OS),
    "platforms": (lambda s: (s.platform,), Kind.OS, Kind.OS),
    "targets": (lambda s: (s.target,), Kind.TARGET, Kind.TARGET),
    "variants": (lambda s: s.variants, Kind.VARIANT, Kind.VARIANT),
}
FACTS = tuple(_FACTS)  # in the order of reports and JSON
VALUES = {name: values for name, (values, *_) in _FACTS.items()}
NO_FACTS: Facts = dict.fromkeys(FACTS, frozenset())


def facts_of(signatures: Collection[Signature]) -> Facts:
    """Return all versions, stacks, compilers and other facts of `signatures`, by the name of the fact."""
    if not signatures:
        return NO_FACTS
    # Many signatures have equal lists, of which each is read once.
    columns = map(frozenset, zip(*map(astuple, signatures), strict=True))
    versions, compilers, oses, platforms, targets, variants, stacks = columns
    versions, stacks, variants = (frozenset(chain.from_iterable(lists)) for lists in (versions, stacks, variants))
    return dict(zip(FACTS, (versions, stacks, compilers, oses, platforms, targets, variants), strict=True))


def places_of(signatures: Iterable[Signature]) -> frozenset[Place]:
    """Return all places that have any of the specs."""
    return frozenset[Place]().union(*{signature.places for signature in signatures})


def versions_by_stack(signatures: Iterable[Signature]) -> Mapping[str, Set[str]]:
    """Return, by stack, the versions of the specs that the stack builds."""
    by_stack: defaultdict[str, set[str]] = defaultdict(set)
    for stacks, versions in {(signature.stacks, signature.versions) for signature in signatures}:
        for stack in stacks:
            by_stack[stack].update(versions)
    return by_stack


def kind_of_fact(name: str, *, is_added: bool) -> Kind:
    """Return the kind of change when the fact `name`, such as versions, gained (`is_added`) or lost a value."""
    _, if_removed, if_added = _FACTS[name]
    return if_added if is_added else if_removed
