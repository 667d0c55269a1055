"""What is kept of the past of a package: changes only, so that years of it stay small."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

# The stack of specs that no stack builds any more.
NO_STACK = ""


class Copies(Struct, frozen=True, array_like=True):
    """So many specs of one version in one stack for one target."""

    version: str
    stack: str
    target: str
    count: int


class Build(Struct, frozen=True, array_like=True):
    """Specs that differ in nothing but their hash."""

    version: str
    compiler: str
    os: str
    target: str
    variants: tuple[str, ...]
    stacks: tuple[str, ...]
    hashes: tuple[str, ...]  # sorted


class Present(Struct, frozen=True, array_like=True):
    """What one document says, in numbers."""

    specs: int = 0
    copies: tuple[Copies, ...] = ()
    compilers: tuple[str, ...] = ()
    oses: tuple[str, ...] = ()
    unreferenced: int = 0
    identity: str = ""  # the same for the same hashes
    builds: tuple[Build, ...] = ()  # of the tag whose past is told

    @property
    def versions(self) -> frozenset[str]:
        """All versions that there are."""
        return frozenset(copies.version for copies in self.copies)

    @property
    def stacks(self) -> frozenset[str]:
        """All stacks that build any."""
        return frozenset(copies.stack for copies in self.copies if copies.stack)

    @property
    def targets(self) -> frozenset[str]:
        """All targets that there is any for."""
        return frozenset(copies.target for copies in self.copies)


class Step(Struct, frozen=True, array_like=True):
    """What one revision changed of one package."""

    revision: int
    specs: int  # afterwards
    counts: Mapping[str, int]  # of SpecCounts, but for those that are 0
    stacks: Mapping[str, int]  # how many specs more (or fewer) each stack has
    came: tuple[tuple[str, str], ...] = ()  # (stack, version) that there was none of before
    went: tuple[tuple[str, str], ...] = ()
    is_gone: bool = False  # the document was removed
    # The first version that could be read, of which nobody knows when its contents came.
    is_baseline: bool = False


class PackageHistory(Struct, frozen=True, kw_only=True):
    """One package of one tag: what every revision changed, and what there is now."""

    package: str
    # What was read: the number of each revision that changed the document, and its object id.
    trail: tuple[tuple[int, str], ...]
    steps: tuple[Step, ...]
    present: Present
    diagnostics: tuple[tuple[str, str], ...] = ()  # kind and message

    @property
    def is_there(self) -> bool:
        """Whether the newest revision still has the document."""
        return bool(self.steps) and not self.steps[-1].is_gone


class TagHistory(Struct, frozen=True, kw_only=True):
    """All packages of one tag through a history."""

    tag: str
    revisions: tuple[tuple[str, datetime | None], ...]  # commit and time, the oldest first
    packages: tuple[PackageHistory, ...]
