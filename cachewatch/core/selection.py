"""Select by patterns: which specs and kinds of change were requested.

Patterns of one list are alternatives, lists of different things must all agree, and a
pattern that begins with `!` excludes and wins.
"""

from collections.abc import Iterable, Iterator, Set

from msgspec import Struct, field

from cachewatch.core.change_kinds import GROUPS
from cachewatch.core.filter_patterns import Globs, is_plain
from cachewatch.core.model import Kind, Signature
from cachewatch.core.similar_names import similar
from cachewatch.core.spack_spellings import compiler
from cachewatch.core.versions import Versions
from cachewatch.errors import UsageError

__all__ = ["Globs", "Selection", "Versions", "every_compiler", "every_kind", "select"]


class Selection(Struct, frozen=True, kw_only=True):
    """What to look at, and which kinds of change to report."""

    tags: Globs = field(default_factory=Globs)
    packages: Globs = field(default_factory=Globs)
    stacks: Globs = field(default_factory=Globs)
    targets: Globs = field(default_factory=Globs)
    oses: Globs = field(default_factory=Globs)
    compilers: Globs = field(default_factory=Globs)
    versions: Versions = field(default_factory=Versions)
    kinds: Globs = field(default_factory=Globs)

    @property
    def takes_all_specs(self) -> bool:
        """Whether every spec of a chosen package is chosen."""
        return all(key.is_open for key in (self.stacks, self.targets, self.oses, self.compilers, self.versions))

    @property
    def of_specs(self) -> tuple[tuple[str, ...], ...]:
        """The patterns that choose specs of a package, by which two selections can be told apart."""
        return tuple(key.patterns for key in (self.stacks, self.targets, self.oses, self.compilers, self.versions))

    def chooses(self, signature: Signature) -> bool:
        """Tell whether a spec of this signature is chosen."""
        return (
            self.targets(signature.target)
            and self.oses(signature.os)
            and self.compilers(signature.compiler)
            and (self.stacks.is_open or any(map(self.stacks, signature.stacks)))
            and (self.versions.is_open or any(map(self.versions, signature.versions)))
        )

    @property
    def sees_stack(self) -> Globs | None:
        """What to say of stacks; None is everything."""
        return None if self.stacks.is_open else self.stacks

    def wants(self, kinds: Set[Kind]) -> bool:
        """Tell whether a change of these kinds is to be reported."""
        return self.kinds.is_open or any(map(self.kinds, kinds))


def select(
    *,
    tags: Iterable[str] = (),
    packages: Iterable[str] = (),
    stacks: Iterable[str] = (),
    targets: Iterable[str] = (),
    oses: Iterable[str] = (),
    compilers: Iterable[str] = (),
    versions: Iterable[str] = (),
    kinds: Iterable[str] = (),
) -> Selection:
    """Return what these patterns select; no patterns select everything."""
    return Selection(
        tags=Globs(tags),
        packages=Globs(packages),
        stacks=Globs(stacks),
        targets=Globs(targets),
        oses=Globs(oses),
        compilers=Globs(every_compiler(compilers)),
        versions=Versions(versions),
        kinds=Globs(every_kind(kinds)),
    )


def every_kind(patterns: Iterable[str]) -> Iterator[str]:
    """Yield patterns of kinds; the name of a group means each of its kinds. Raises UsageError for what matches none."""
    for pattern in patterns:
        name = pattern.removeprefix("!")
        mark = pattern.removesuffix(name)
        if name in GROUPS:
            yield from (f"{mark}{kind}" for kind in sorted(GROUPS[name]))
        elif any(map(Globs([name]), Kind)):
            yield pattern
        else:
            near = similar(name, [*GROUPS, *Kind], 2)
            hint = f"did you mean {' or '.join(near)}?" if near else "see `cachewatch kinds`"
            raise UsageError(f"{pattern}: unknown kind of change; {hint}")


def every_compiler(patterns: Iterable[str]) -> Iterator[str]:
    """Yield patterns of compilers; a name without a version means every version, in today's spelling."""
    for pattern in patterns:
        name = pattern.removeprefix("!")
        mark = pattern.removesuffix(name)
        if not is_plain(name):
            yield pattern
            continue
        spelt = compiler(name)
        yield mark + spelt
        if "@" not in spelt:
            yield f"{mark}{spelt}@*"
