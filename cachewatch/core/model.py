"""The values that cachewatch works with: what was published, what changed, and the facts of a package.

All values are frozen, and nothing here reads, writes or formats. The words are those of the README; a spec is one
built binary, and its signature is all that is known of it but the hash.
"""

from collections import Counter
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Set, ValuesView
from enum import IntEnum, StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from operator import add
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple


class _Word(StrEnum):
    """A word that is counted so often that it is hashed as the text that it is."""

    __hash__ = str.__hash__


class Kind(_Word):
    """What can happen to a package or a tag, in the words of reports, JSON and `--kind`."""

    TAG_ADDED = "tag-added"
    TAG_REMOVED = "tag-removed"
    STACK_EVENT = "stack-event"
    STACK_LOST = "stack-lost"
    STACK_MERGED = "stack-merged"
    BESIDE = "beside"
    NO_LONGER = "no-longer"
    RETURNED = "returned"
    PRUNE = "prune"
    TURNOVER = "turnover"
    SUSPICIOUS = "suspicious"
    UNREADABLE = "unreadable"
    PACKAGE_REMOVED = "package-removed"
    PACKAGE_ADDED = "package-added"
    PLACE_LOST = "place-lost"
    MACHINE_LOST = "machine-lost"
    GONE = "gone"
    GOING = "going"
    OTHER = "other"
    PLACE_GAINED = "place-gained"
    UNREFERENCED = "unreferenced"
    VERSION_REMOVED = "version-removed"
    VERSION_ADDED = "version-added"
    DOWNGRADED = "downgraded"
    UPGRADED = "upgraded"
    RETIRED = "retired"
    EXTENDED = "extended"
    NARROWED = "narrowed"
    WIDENED = "widened"
    STACK_REMOVED = "stack-removed"
    STACK_ADDED = "stack-added"
    COMPILER = "compiler"
    OS = "os"
    TARGET = "target"
    VARIANT = "variant"
    RECONFIGURED = "reconfigured"
    MOVED = "moved"
    SPEC_ADDED = "spec-added"
    SPEC_REMOVED = "spec-removed"
    REBUILT = "rebuilt"


class Status(_Word):
    """What became of a package's document."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class MatchKind(_Word):
    """How a vanished and a new spec were paired."""

    REBUILT = "rebuilt"
    MOVED = "moved"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    RECOMPILED = "recompiled"
    RECONFIGURED = "reconfigured"


class Verdict(_Word):
    """What happened to a package in one place: the first of these that holds."""

    GAINED = "gained"
    LOST = "lost"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    RETIRED = "retired"
    EXTENDED = "extended"
    NARROWED = "narrowed"
    WIDENED = "widened"
    SAME = "same"


# Another version is the newest one of the place.
REGRADED = (Verdict.UPGRADED, Verdict.DOWNGRADED)


class SpecClass(_Word):
    """What a spec is that was not paired."""

    PRUNED = "pruned"  # had no stack
    LOST = "lost"  # a place of it is lost
    REPLACED = "replaced"  # its version left a place that went up or down
    RETIRED = "retired"  # its version left another place
    DROPPED = "dropped"  # its combination left a place
    SURPLUS = "surplus"
    UNREFERENCED_NEW = "unreferenced_new"  # has no stack
    GAINED = "gained"
    SUCCESSOR = "successor"
    EXTENDED = "extended"
    NEW_COMBINATION = "new_combination"
    EXTRA_COPY = "extra_copy"


VANISHED_CLASSES = frozenset(
    {
        SpecClass.PRUNED,
        SpecClass.LOST,
        SpecClass.REPLACED,
        SpecClass.RETIRED,
        SpecClass.DROPPED,
        SpecClass.SURPLUS,
    }
)
NEW_CLASSES = frozenset(SpecClass) - VANISHED_CLASSES


class DiagnosticKind(_Word):
    """Why a document was not, or not wholly, believed."""

    NOT_COMPARABLE = "not-comparable"
    UNREADABLE = "unreadable"
    INCONSISTENT = "inconsistent"
    REUSED_HASH = "reused-hash"  # a published binary is another one now


class CompilerForm(IntEnum):
    """How a document writes the compilers of its specs."""

    NEW = 0  # gcc@11.4.0, or none
    OLD = 1  # as before Spack 1.0: gcc@=11.4.0
    MISSING = 2  # no record has one: it is left out, or empty


class Signature(Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """All that is known of a spec but its hash and size, in one spelling (see core/spack.py); sorted by all fields."""

    versions: tuple[str, ...]
    compiler: str
    os: str
    platform: str
    target: str
    variants: tuple[str, ...]
    stacks: tuple[str, ...]  # without root; empty means that no stack builds it any more

    @property
    def is_unreferenced(self) -> bool:
        """Whether no stack builds this any more, so that it may be pruned at any time."""
        return not self.stacks


class Spec(Struct, frozen=True, gc=False):
    """One built binary."""

    hash: str
    signature: Signature


# What begins the key of a spec whose record names no hash; no hash begins so.
NO_HASH = "-"


def known_hash(key: str) -> str | None:
    """Return the hash of a spec by its key; None where its record names none."""
    return None if key.startswith(NO_HASH) else key


class Specs(Mapping[str, Signature]):
    """Specs by hash. Which hashes there are and how many of each signature is known; which has which, once asked."""

    def __init__(
        self, hashes: frozenset[str], counts: Counter[Signature], pairs: Iterable[tuple[str, Signature]]
    ) -> None:
        """Take `hashes` and `counts` as what `pairs` amount to; those are not looked at before somebody asks."""
        self.hashes = hashes
        self.counts = counts
        self._pairs = pairs

    @classmethod
    def of(cls, signatures: Mapping[str, Signature]) -> "Specs":
        """Return these specs."""
        return cls(frozenset(signatures), Counter(signatures.values()), signatures.items())

    def by_record(self) -> "Specs":
        """Return these specs by keys that are made of what they are, and a number for each that is equal."""
        numbers: Counter[Signature] = Counter()
        found = {}
        for signature in self.values():
            numbers[signature] += 1
            found[f"{NO_HASH}{numbers[signature]} {signature!r}"] = signature
        return Specs.of(found)

    def only(self, hashes: Set[str]) -> "Specs":
        """Return those of `hashes`."""
        return self if hashes >= self.hashes else Specs.of({h: s for h, s in self.items() if h in hashes})

    def without(self, hashes: Set[str]) -> "Specs":
        """Return those of other hashes."""
        if self.hashes.isdisjoint(hashes):
            return self
        return Specs.of({h: s for h, s in self.items() if h not in hashes})

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Signature]], "Specs"], tuple[Mapping[str, Signature]]]:
        """Let another process have the same."""
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
        """Yield hashes with their signatures, by hash."""
        by_hash = self._by_hash
        return ((spec_hash, by_hash[spec_hash]) for spec_hash in sorted(by_hash))

    @cached_property
    def _by_hash(self) -> dict[str, Signature]:
        return dict(self._pairs)


class Diagnostic(Struct, frozen=True):
    """A document, or part of one, that could not be used as it stands."""

    path: str
    kind: DiagnosticKind
    message: str
    # Whether something is missing from the comparison because of it.
    is_loss: bool = True


class Unreadable(Struct, frozen=True, kw_only=True):
    """A package whose document could not be compared: on which sides, and why."""

    package: str
    reason: str
    before: bool = False
    after: bool = False
    blob: str | None = None  # the object id of the later document, if it ended the process that read it


class Document(Struct, frozen=True, kw_only=True):
    """What one `specs.md` says of one package."""

    package: str
    tag: str
    specs: Specs
    facts: Mapping[str, frozenset[str]]  # the values of each fact over the specs
    compiler_form: CompilerForm = CompilerForm.NEW
    has_hashes: bool = True  # whether each record names one
    diagnostics: tuple[Diagnostic, ...] = ()


class Side(Struct, frozen=True, kw_only=True):
    """One of the two states that are compared."""

    name: str  # as asked for
    revision: str | None = None  # 40 or 64 hex digits; None where there is no git
    tag: str | None = None
    time: str | None = None  # RFC 3339, UTC


class Delta(Struct, frozen=True, gc=False):
    """The values of one fact that came and went, sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class StackVersions(Struct, frozen=True, gc=False):
    """The versions of one package in one stack, before and after, oldest first."""

    stack: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    verdict: Verdict


class Place(NamedTuple):
    """Where a package can be there or not: one stack and one target."""

    stack: str
    target: str


@lru_cache(maxsize=1024)
def places_in(stacks: tuple[str, ...], target: str) -> frozenset[Place]:
    """Return the place of each of `stacks`. Few differ in a whole tag, so whoever asks gets the same values."""
    return frozenset([place_in(stack, target) for stack in stacks])


@lru_cache(maxsize=1024)
def place_in(stack: str, target: str) -> Place:
    """Return a place; the same value for whoever asks, which crosses to another process once."""
    return Place(stack, target)


class LossClass(_Word):
    """What the tag still has of what a place or machine lost: the first of these that holds."""

    KEPT = "kept"  # the same binary, which another stack builds
    EQUAL = "equal"  # another binary of the version with the same variants, which these machines run
    GOING = "going"  # the same binary, which no stack builds any more: it may be pruned at any time
    OTHER = "other"  # the version with other variants, or a newer version
    GONE = "gone"  # nothing that these machines run, or only older versions


# Those that readers have to know of.
MISSED = (LossClass.GOING, LossClass.OTHER, LossClass.GONE)


class Loss(Struct, frozen=True, kw_only=True):
    """What is there now of the newest version that a place or machine lost, and where."""

    loss_class: LossClass
    version: str  # that is lost; empty where its records name none
    there: str = ""  # the other version, if there is one: a newer one (other), or the newest of the older ones (gone)
    stacks: tuple[str, ...] = ()  # that build what is there
    compiler: str = ""  # of what is there, if it is another one than that of what is lost
    variants: tuple[str, ...] = ()  # which what is there has and what is lost had not

    @property
    def is_missed(self) -> bool:
        """Whether readers have to know of it: the tag has no equal binary that some stack builds."""
        return self.loss_class in MISSED


class Machine(Struct, frozen=True, order=True):
    """What a binary is built for."""

    platform: str
    os: str
    target: str


class PlaceChange(Struct, frozen=True, kw_only=True):
    """What happened to a package in one place, with its versions there, oldest first."""

    stack: str
    target: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    verdict: Verdict
    kinds: frozenset[Kind]
    loss: Loss | None = None  # of a lost place
    machines: frozenset[Machine] = frozenset()  # of a lost or gained place


class MachineLoss(Struct, frozen=True, kw_only=True):
    """A platform and operating system for which a place had the package, which it keeps for others."""

    stack: str
    machine: Machine
    versions: tuple[str, ...]  # that it had for this machine, oldest first
    loss: Loss


class SignatureCount(Struct, frozen=True, gc=False):
    """So many specs of one signature and class, which only their hashes tell apart."""

    signature: Signature
    count: int
    spec_class: SpecClass
    counterpart: Signature | None = None  # of another compiler, system or target, in the same stack


class SpecMatch(Struct, frozen=True, gc=False):
    """`count` specs of one signature whose place specs of another took; which took which is unknowable."""

    kind: MatchKind
    before: Signature
    after: Signature
    count: int
    # Where only some specs are chosen, and of the pair only the new one, or only the old one.
    entered: bool = False
    left: bool = False


class StackChange(Struct, frozen=True, gc=False):
    """A kept hash that other stacks build now; no stacks after means that it is unreferenced."""

    hash: str
    before: Signature
    after: Signature
    # Where only some specs are chosen, and this one only now, or not any more.
    entered: bool = False
    left: bool = False

    @property
    def gained(self) -> tuple[str, ...]:
        """The stacks that build it now and did not."""
        return tuple(sorted(set(self.after.stacks) - set(self.before.stacks)))

    @property
    def lost(self) -> tuple[str, ...]:
        """The stacks that built it and do not any more."""
        return tuple(sorted(set(self.before.stacks) - set(self.after.stacks)))


class SpecCounts(Struct, frozen=True, gc=False):
    """How many specs there were and what became of them; they add up, or cachewatch is wrong."""

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
    # Of `gone`, by class.
    pruned: int = 0
    lost: int = 0
    replaced: int = 0
    retired: int = 0
    dropped: int = 0
    surplus: int = 0
    # Of `new`, by class.
    unreferenced_new: int = 0
    gained: int = 0
    successor: int = 0
    extended: int = 0
    new_combination: int = 0
    extra_copy: int = 0
    # Of a selection: specs of pairs of which the other spec is not in it, and kept specs that came into it or left it.
    entered: int = 0  # of `added`
    left: int = 0  # of `removed`

    def __add__(self, other: "SpecCounts") -> "SpecCounts":
        return SpecCounts(*map(add, astuple(self), astuple(other)))

    @property
    def paired(self) -> int:
        """Vanished specs for which something took the place."""
        return self.rebuilt + self.moved + self.upgraded + self.downgraded + self.recompiled + self.reconfigured

    @property
    def adds_up(self) -> bool:
        """Whether nothing was counted twice or left out."""
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
    """Everything that happened to one package between two states of one tag."""

    package: str
    status: Status
    facts: Mapping[str, Delta]  # by the names in FACTS
    stack_versions: tuple[StackVersions, ...]
    places: tuple[PlaceChange, ...]  # in which something happened
    machines_lost: tuple[MachineLoss, ...] = ()
    counts: SpecCounts
    matches: tuple[SpecMatch, ...]
    gone: tuple[SignatureCount, ...]  # vanished without anything in their place
    new: tuple[SignatureCount, ...]  # came without anything that they replace
    came: Specs  # and `went`: a hash that names another spec now is in both
    went: Specs
    restacked: tuple[StackChange, ...]
    unreferenced: tuple[str, ...]  # hashes that no stack builds any more, all of them
    newly_unreferenced: tuple[Spec, ...]
    kinds: frozenset[Kind]
    # The values of each fact on either side, for what happens to a whole tag.
    before: Mapping[str, frozenset[str]]
    after: Mapping[str, frozenset[str]]
    # All specs of either side, in one form.
    specs_before: Specs
    specs_after: Specs
    is_compiler_unknown: bool = False  # one of the two documents writes compilers in another form
    is_pruned: bool = True  # specs that no stack builds will go

    @property
    def added(self) -> tuple[Spec, ...]:
        """The specs of `added_specs`, by hash; few who ask for counts want to see them."""
        return tuple(Spec(spec_hash, signature) for spec_hash, signature in self.added_specs.in_order())

    @property
    def removed(self) -> tuple[Spec, ...]:
        """The specs of `removed_specs`, by hash."""
        return tuple(Spec(spec_hash, signature) for spec_hash, signature in self.removed_specs.in_order())

    @property
    def added_specs(self) -> Specs:
        """The specs whose hash is new, and the kept ones that came into the selection."""
        return _and_kept(self.came, {kept.hash: kept.after for kept in self.restacked if kept.entered})

    @property
    def removed_specs(self) -> Specs:
        """The specs whose hash is gone, and the kept ones that left the selection."""
        return _and_kept(self.went, {kept.hash: kept.before for kept in self.restacked if kept.left})


def _and_kept(specs: Specs, kept: Mapping[str, Signature]) -> Specs:
    return Specs.of({**specs, **kept}) if kept else specs


# The facts of a package, in the order of reports and JSON.
FACTS = ("versions", "stacks", "compilers", "oses", "platforms", "targets", "variants")


class PackageCounts(Struct, frozen=True, kw_only=True):
    """How many packages a tag had, and what became of them."""

    before: int = 0
    after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    rebuilt_only: int = 0

    @property
    def adds_up(self) -> bool:
        """Whether nothing was counted twice or left out."""
        return self.before + self.added - self.removed == self.after


class Event(Struct, frozen=True):
    """Something that happened to a whole tag, with what it explains."""

    kind: Kind
    name: str
    packages: int
    specs: int


# The values of a package under the names in model.FACTS.
Facts = Mapping[str, frozenset[str]]

# What a signature has of each fact.
VALUES: Mapping[str, Callable[[Signature], tuple[str, ...]]] = {
    "versions": lambda s: s.versions,
    "stacks": lambda s: s.stacks,
    "compilers": lambda s: (s.compiler,),
    "oses": lambda s: (s.os,),
    "platforms": lambda s: (s.platform,),
    "targets": lambda s: (s.target,),
    "variants": lambda s: s.variants,
}

# Of which kind a change of each fact is, gone and come.
_KINDS_OF_FACTS = {
    "versions": (Kind.VERSION_REMOVED, Kind.VERSION_ADDED),
    "stacks": (Kind.STACK_REMOVED, Kind.STACK_ADDED),
    "compilers": (Kind.COMPILER, Kind.COMPILER),
    "oses": (Kind.OS, Kind.OS),
    "platforms": (Kind.OS, Kind.OS),
    "targets": (Kind.TARGET, Kind.TARGET),
    "variants": (Kind.VARIANT, Kind.VARIANT),
}

NO_FACTS: Facts = dict.fromkeys(FACTS, frozenset())


def facts_of(signatures: Collection[Signature]) -> Facts:
    """Return the values of each fact over `signatures`."""
    return {
        # Many have the same, so equal lists are found first.
        "versions": _all_of({s.versions for s in signatures}),
        "stacks": _all_of({s.stacks for s in signatures}),
        "compilers": frozenset([s.compiler for s in signatures]),
        "oses": frozenset([s.os for s in signatures]),
        "platforms": frozenset([s.platform for s in signatures]),
        "targets": frozenset([s.target for s in signatures]),
        "variants": _all_of({s.variants for s in signatures}),
    }


def kind_of_fact(name: str, *, is_added: bool) -> Kind:
    """Return of which kind of change it is that a value of this fact came or went."""
    return _KINDS_OF_FACTS[name][is_added]


def _all_of(lists: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(chain.from_iterable(lists))
