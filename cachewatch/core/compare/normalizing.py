"""One form for both sides of a package: what is only written differently did not change.

Here it is decided which hashes are kept, for comparisons and for the history index alike: those by which both sides
name the same spec.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import astuple, replace

from cachewatch.core.model import Signature, Specs
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.untrusted_text import safe
from cachewatch.core.versions import VersionKey, agrees, version_identity

Hash = TypeVar("Hash", str, bytes | str)


class Aligned(NamedTuple):
    """Both sides in one form."""

    old: Specs
    new: Specs
    kept: frozenset[str]  # hashes by which both name the same spec
    differing: tuple[str, ...]  # of these, all whose signatures are perhaps not equal


def in_one_form(package: str, old: Specs, new: Specs, *, has_hashes: bool = True) -> Aligned:
    """Return both sides with each version in one spelling, and each kept hash written in one way.

    Where not all of them have hashes, those are kept that are equal.
    """
    spellings = spellings_of(version for side in (old, new) for s in side.counts for version in s.versions)
    if spellings:
        old, new = (_respelled(side, spellings) for side in (old, new))
    if not has_hashes:
        old, new = old.by_record(), new.by_record()
    kept = old.hashes & new.hashes
    # Documents that are read together share their signatures, so most are one object.
    differing = tuple([spec_hash for spec_hash in kept if old[spec_hash] is not new[spec_hash]])
    reused = reused_hashes(old, new, differing)
    if reused:
        kept -= reused
        differing = tuple([spec_hash for spec_hash in differing if spec_hash not in reused])
    rewritten = _rewritten(package, old, new, differing)
    if rewritten:
        old, new = _with(old, rewritten), _with(new, rewritten)
    return Aligned(old, new, kept, differing)


def reused_hashes(
    before: Mapping[Hash, Signature], after: Mapping[Hash, Signature], common: Iterable[Hash]
) -> frozenset[Hash]:
    """Return those of the `common` hashes that name another spec in `after` than in `before`, and so are not kept."""
    return frozenset([spec_hash for spec_hash in common if not is_same_spec(before[spec_hash], after[spec_hash])])


@lru_cache(maxsize=4096)
def is_same_spec(before: Signature, after: Signature) -> bool:
    """Tell whether two records of one hash agree in everything that both of them give, their stacks aside."""
    return not any(True for _ in _disagreeing(before, after))


def together(before: Signature, after: Signature) -> Signature:
    """Return what two records that agree say of a spec: of each attribute the value that says more."""
    # What is not given is smaller than all else, a name without a version smaller than with one; and whichever record
    # comes first, the result is the same.
    pairs = zip(astuple(before), astuple(after), strict=True)
    return Signature(*(max(pair, key=lambda value: (value != NO_COMPILER, value)) for pair in pairs))


def describe_reused(went: Specs, came: Specs) -> str:
    """Say of which hashes both the old and the new spec are among what went and came, and how the first two differ.

    The text is empty if there is no such hash.
    """
    hashes = sorted(went.hashes & came.hashes)
    if not hashes:
        return ""
    changes = describe_changes(went[hashes[0]], came[hashes[0]])
    if len(hashes) == 1:
        return f"hash {hashes[0][:7]} now names another spec: {changes}"
    return f"{len(hashes):,} hashes now name another spec, first {hashes[0][:7]}: {changes}"


def describe_changes(before: Signature, after: Signature) -> str:
    """Say in what two specs differ whose hash is the same: version 0.3.1, now 0.4.0."""
    return "; ".join(_change(name, before, after) for name in _disagreeing(before, after))


def _change(name: str, before: Signature, after: Signature) -> str:
    """Say what one of two specs has of an attribute, and the other has not."""
    had, has = ((found,) if isinstance(found := getattr(one, name), str) else found for one in (before, after))
    gone, come = ([value for value in one if value not in other] for one, other in ((had, has), (has, had)))
    return f"{_ATTRIBUTES[name][0]} {', '.join(gone) or 'none'}, now {', '.join(come) or 'none'}"


def _disagreeing(before: Signature, after: Signature) -> Iterable[str]:
    """Yield the attributes of which both records say something, and not the same."""
    return (name for name, (_, agree) in _ATTRIBUTES.items() if not agree(getattr(before, name), getattr(after, name)))


def _is_equal_where_given(before: object, after: object) -> bool:
    return before == after or not (before and after)


def _is_same_compiler(before: str, after: str) -> bool:
    if before == after or NO_COMPILER in (before, after):
        return True
    (name, _, version), (other_name, _, other_version) = before.partition("@"), after.partition("@")
    return name == other_name and not (version and other_version)


def _has_same_versions(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    return before == after or all(
        any(agrees(version, one) for one in others)
        for versions, others in ((before, after), (after, before))
        for version in versions
        if others
    )


# The attributes of a spec that its hash stands for: what messages call each, and whether two values of it agree.
_ATTRIBUTES: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "versions": ("version", _has_same_versions),
    "compiler": ("compiler", _is_same_compiler),
    "os": ("operating system", _is_equal_where_given),
    "platform": ("platform", _is_equal_where_given),
    "target": ("target", _is_equal_where_given),
    "variants": ("variants", _is_equal_where_given),
}


def spellings_of(versions: Iterable[str]) -> Mapping[str, str]:
    """Return what to write for versions that are written in several ways (1.2, 1-2); empty where none is."""
    distinct = set(versions)
    spelling_of: dict[VersionKey, str] = {}
    for version in sorted(distinct, key=_by_dots):
        spelling_of.setdefault(version_identity(version), version)
    if len(spelling_of) == len(distinct):
        return {}
    chosen = {version: spelling_of[version_identity(version)] for version in distinct}
    return {version: spelling for version, spelling in chosen.items() if version != spelling}


def _by_dots(version: str) -> tuple[int, str]:
    # With dots, as nearly everybody writes them.
    return (sum(map(version.count, "_-")), version)


def one_spelling(versions: Iterable[str]) -> Callable[[Signature], Signature]:
    """Return what writes each of `versions` in one way, wherever a signature has it."""
    spellings = spellings_of(versions)
    return (lambda signature: _spelled(signature, spellings)) if spellings else (lambda signature: signature)


def _respelled(specs: Specs, spellings: Mapping[str, str]) -> Specs:
    respelled = {s: _spelled(s, spellings) for s in specs.counts}
    return Specs.of({spec_hash: respelled[s] for spec_hash, s in specs.items()})


def _spelled(signature: Signature, spellings: Mapping[str, str]) -> Signature:
    if spellings.keys().isdisjoint(signature.versions):
        return signature
    versions = dict.fromkeys(spellings.get(version, version) for version in signature.versions)
    return replace(signature, versions=tuple(versions))


def _with(specs: Specs, rewritten: Mapping[str, Signature]) -> Specs:
    return Specs.of({**specs, **{h: replace(s, stacks=specs[h].stacks) for h, s in rewritten.items()}})


def _rewritten(package: str, old: Specs, new: Specs, kept: Iterable[str]) -> Mapping[str, Signature]:
    """Return the `kept` specs that are written differently, each as the two records together say it."""
    rewritten = {}
    for spec_hash in sorted(kept):
        before, after = old[spec_hash], new[spec_hash]
        form = [name for name in _ATTRIBUTES if getattr(before, name) != getattr(after, name)]
        if form:
            _log(package, spec_hash, form)
            rewritten[spec_hash] = together(before, after)
    return rewritten


def _log(package: str, spec_hash: str, form: Iterable[str]) -> None:
    logger = logging.getLogger(__name__)
    logger.info("%s/%s: %s written differently", safe(package), spec_hash[:7], ", ".join(sorted(form)))
