"""Tell which hashes of two documents name the same spec in both, and which were reused for another spec.

Both documents are brought into one form first, so that differences in writing are no changes. An attribute that no
record of one document gives makes no difference either.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import astuple, replace

from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.kinds_and_specs import CompilerForm, Document, Signature, Specs
from cachewatch.core.versions_spellings_targets import NO_COMPILER, VersionKey, agrees, version_identity

Hash = TypeVar("Hash", str, bytes | str)


def in_one_form(
    old: Specs, new: Specs, *, has_hashes: bool, is_compiler_unknown: bool
) -> tuple[Specs, Specs, frozenset[str], tuple[str, ...]]:
    """Return both sides in one form, the hashes that name one spec in both, and those of them whose records differ.

    Each version then has one spelling, and each kept hash one signature, except for stacks. `has_hashes`: whether all
    records have hashes; if not, equal records count as kept. `is_compiler_unknown`: whether only one side writes
    compilers as before Spack 1.0.
    """
    lists = {signature.versions for side in (old, new) for signature in side.counts}
    spellings = spellings_of(chain.from_iterable(lists))
    if spellings:
        respelled = {
            s: replace(s, versions=tuple(dict.fromkeys(spellings.get(version, version) for version in s.versions)))
            for side in (old, new)
            for s in side.counts
        }
        old, new = (Specs.of({h: respelled[s] for h, s in side.items()}) for side in (old, new))
    if not has_hashes:
        old, new = old.by_record(), new.by_record()
    kept = old.hashes & new.hashes
    # Documents that are read together share their signatures, so most are one object.
    differing = tuple([spec_hash for spec_hash in kept if old[spec_hash] is not new[spec_hash]])
    unwritten = not_written(old.counts, new.counts, is_compiler_unknown=is_compiler_unknown) if differing else NOTHING
    reused = reused_hashes(old, new, differing, unwritten)
    if reused:
        kept -= reused
        differing = tuple([spec_hash for spec_hash in differing if spec_hash not in reused])
    # Those that the two sides write differently, with both records combined.
    rewritten = {h: together(old[h], new[h]) for h in differing if replace(old[h], stacks=new[h].stacks) != new[h]}
    if rewritten:
        old, new = (
            Specs.of({**side, **{h: replace(s, stacks=side[h].stacks) for h, s in rewritten.items()}})
            for side in (old, new)
        )
    return old, new, kept, differing


# The attributes that a hash determines, with the words for them.
_ATTRIBUTES = {
    "versions": "version",
    "compiler": "compiler",
    "os": "operating system",
    "platform": "platform",
    "target": "target",
    "variants": "variants",
}

# Stands beside these names for the version of a compiler.
_COMPILER_VERSION = "compiler version"

NOTHING: frozenset[str] = frozenset()


def not_written(
    before: Collection[Signature], after: Collection[Signature], *, is_compiler_unknown: bool
) -> frozenset[str]:
    """Return the attributes that no record of `before`, or none of `after`, gives; these are not compared.

    They include the compiler if the documents write compilers in different forms (`is_compiler_unknown`).
    """
    missing = {name for name in _ATTRIBUTES if not all(_is_given_in(side, name) for side in (before, after))}
    if not all(any("@" in signature.compiler for signature in side) for side in (before, after)):
        missing.add(_COMPILER_VERSION)
    return frozenset(missing | {"compiler"} if is_compiler_unknown else missing)


def _is_given_in(side: Iterable[Signature], name: str) -> bool:
    return any(getattr(signature, name) not in ("", (), NO_COMPILER) for signature in side)


def describe_not_written(before: Document | None, after: Document | None) -> str:
    """Return a text on the attributes of common specs that only one document gives; "" if there are none."""
    if before is None or after is None or not (before.has_hashes and after.has_hashes):
        return ""
    common = before.specs.hashes & after.specs.hashes
    sentences = []
    sides = ((before, after, "gives", "any more"), (after, before, "gave", "before"))
    for giving, other, gives, when in sides if common else ():
        is_old = CompilerForm.OLD in (before.compiler_form, after.compiler_form)  # then law 1 applies to compilers
        names = [
            name
            for name in _ATTRIBUTES
            if not _is_given_in(other.specs.counts, name) and not (is_old and name == "compiler")
        ]
        kept = [giving.specs[one] for one in common] if names else []
        if names := [name for name in names if _is_given_in(kept, name)]:
            words = ", ".join(_ATTRIBUTES[name] for name in names)
            sentences.append(f"no spec {gives} its {words} {when}; the {len(kept):,} that stay count as unchanged")
    return "; ".join(sentences)


def reused_hashes(
    before: Mapping[Hash, Signature], after: Mapping[Hash, Signature], common: Iterable[Hash], unwritten: frozenset[str]
) -> frozenset[Hash]:
    """Return those hashes in `common` that name one spec in `before` and another one in `after`.

    `unwritten` are attributes that no record of one side gives; these are not compared.
    """
    return frozenset([one for one in common if not is_same_spec(before[one], after[one], unwritten)])


@lru_cache(maxsize=4096)
def is_same_spec(before: Signature, after: Signature, unwritten: frozenset[str]) -> bool:
    """Tell whether two records agree, except in stacks and in `unwritten` attributes that one record lacks."""
    return not any(True for _ in _disagreeing(before, after, unwritten))


def together(before: Signature, after: Signature) -> Signature:
    """Return the combination of two records that agree, with the more precise value of each attribute."""
    # A missing value is smaller than all others, and a name without a version smaller than one with it. The order of
    # the two records does not matter.
    pairs = zip(astuple(before), astuple(after), strict=True)
    return Signature(*(max(pair, key=lambda value: (value != NO_COMPILER, value)) for pair in pairs))


def describe_reused(removed: Specs, added: Specs) -> str:
    """Return a text on hashes in both arguments, and how the spec of the first hash changed; "" if there are none."""
    hashes = sorted(removed.hashes & added.hashes)
    if not hashes:
        return ""
    changes = describe_changes(removed[hashes[0]], added[hashes[0]])
    if len(hashes) == 1:
        return f"hash {hashes[0][:7]} now names another spec: {changes}"
    return f"{len(hashes):,} hashes now name another spec, first {hashes[0][:7]}: {changes}"


def describe_changes(before: Signature, after: Signature) -> str:
    """Return the differences of two specs with the same hash as text, such as "version 0.3.1, now 0.4.0"."""
    return "; ".join(_difference(name, before, after) for name in _disagreeing(before, after))


def _difference(name: str, before: Signature, after: Signature) -> str:
    """Return the difference of two specs in the attribute `name` as text."""
    old, new = ((found,) if isinstance(found := getattr(one, name), str) else found for one in (before, after))
    had, has = (
        ", ".join(safe_name(value) for value in one if value not in other) for one, other in ((old, new), (new, old))
    )
    if not (any(old) and any(new)):
        had, has = had or "not given", has or "not given"
    change = f"{had}, now {has}" if had and has else f"{has} added" if has else f"{had} removed"
    return f"{_ATTRIBUTES[name]} {change}"


def _disagreeing(before: Signature, after: Signature, unwritten: frozenset[str] = NOTHING) -> Iterable[str]:
    """Yield the names of attributes that differ between two records; either may lack attributes in `unwritten`."""
    return (name for name in _ATTRIBUTES if not _agree(name, getattr(before, name), getattr(after, name), unwritten))


def _agree(name: str, before: Any, after: Any, unwritten: frozenset[str]) -> bool:
    if before == after:
        return True
    if not (before and after) or NO_COMPILER in (before, after):
        return name in unwritten
    if name == "compiler":
        (compiler, _, version), (other, _, other_version) = before.partition("@"), after.partition("@")
        return compiler == other and not (version and other_version) and _COMPILER_VERSION in unwritten
    return name == "versions" and all(
        any(agrees(version, one) for one in others)
        for versions, others in ((before, after), (after, before))
        for version in versions
    )


def spellings_of(versions: Iterable[str]) -> Mapping[str, str]:
    """Return the versions to respell, each with its new spelling: 1.2 for 1-2, if both are in `versions`."""
    distinct = set(versions)
    spelling_of: dict[VersionKey, str] = {}
    # With dots first, as nearly everybody writes them.
    for version in sorted(distinct, key=lambda version: (sum(map(version.count, "_-")), version)):
        spelling_of.setdefault(version_identity(version), version)
    if len(spelling_of) == len(distinct):
        return {}
    chosen = {version: spelling_of[version_identity(version)] for version in distinct}
    return {version: spelling for version, spelling in chosen.items() if version != spelling}
