"""What a package consists of: the values of each fact over its specs."""

from collections.abc import Callable, Iterable, Mapping

from cachewatch.core.model import FACTS, Signature

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

NO_FACTS: Facts = dict.fromkeys(FACTS, frozenset())


def facts_of(signatures: Iterable[Signature]) -> Facts:
    """Return the values of each fact over `signatures`."""
    versions: set[str] = set()
    stacks: set[str] = set()
    compilers: set[str] = set()
    oses: set[str] = set()
    platforms: set[str] = set()
    targets: set[str] = set()
    variants: set[str] = set()
    for signature in signatures:
        versions.update(signature.versions)
        stacks.update(signature.stacks)
        compilers.add(signature.compiler)
        oses.add(signature.os)
        platforms.add(signature.platform)
        targets.add(signature.target)
        variants.update(signature.variants)
    return {
        "versions": frozenset(versions),
        "stacks": frozenset(stacks),
        "compilers": frozenset(compilers),
        "oses": frozenset(oses),
        "platforms": frozenset(platforms),
        "targets": frozenset(targets),
        "variants": frozenset(variants),
    }
