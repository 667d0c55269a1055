"""What a package consists of: the values of each fact over its specs."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from cachewatch.core.model import FACTS, Kind, Signature

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
