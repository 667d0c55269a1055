"""Choose by globs: what a reader asked for, of everything that there is.

Patterns of one list are alternatives, lists of different things must all agree, and a
pattern that begins with `!` excludes and wins.
"""

from collections.abc import Iterable, Mapping, Set

from msgspec import Struct, field

from cachewatch.model import Document, Kind, Signature
from cachewatch.patterns import Globs

__all__ = ["Globs", "Selection"]


class Selection(Struct, frozen=True, kw_only=True):
    """What to look at, and which kinds of change to report."""

    tags: Globs = field(default_factory=Globs)
    packages: Globs = field(default_factory=Globs)
    stacks: Globs = field(default_factory=Globs)
    targets: Globs = field(default_factory=Globs)
    oses: Globs = field(default_factory=Globs)
    compilers: Globs = field(default_factory=Globs)
    kinds: Globs = field(default_factory=Globs)

    def hashes(self, before: Document | None, after: Document | None) -> Set[str] | None:
        """Return the hashes that are chosen on either side, or None for all.

        A kept spec that left a chosen stack is news to those who chose it, so one side is enough.
        """
        if self.stacks.is_open and self.targets.is_open and self.oses.is_open and self.compilers.is_open:
            return None
        sides = [document.specs for document in (before, after) if document]
        return {spec_hash for specs in sides for spec_hash in self._chosen(specs)}

    def chooses(self, signature: Signature) -> bool:
        """Tell whether a spec of this signature is chosen."""
        return (
            self.targets(signature.target)
            and self.oses(signature.os)
            and self.compilers(signature.compiler)
            and (self.stacks.is_open or any(map(self.stacks, signature.stacks)))
        )

    @property
    def sees_stack(self) -> Globs | None:
        """What to say of stacks; None is everything."""
        return None if self.stacks.is_open else self.stacks

    def wants(self, kinds: Set[Kind]) -> bool:
        """Tell whether a change of these kinds is to be reported."""
        return self.kinds.is_open or any(map(self.kinds, kinds))

    def _chosen(self, specs: Mapping[str, Signature]) -> Iterable[str]:
        chosen = {signature: self.chooses(signature) for signature in set(specs.values())}
        return (spec_hash for spec_hash, signature in specs.items() if chosen[signature])
