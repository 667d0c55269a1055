"""What a package consists of: the values of each fact over its specs."""

from collections.abc import Callable, Iterable, Mapping

from cachewatch.model import Signature

# The values of a package under the names in model.FACTS.
Facts = Mapping[str, frozenset[str]]


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


def seen_facts(facts: Facts, sees_stack: Callable[[str], bool]) -> Facts:
    """Return `facts` with only those stacks that are seen."""
    return {**facts, "stacks": frozenset(filter(sees_stack, facts["stacks"]))}
