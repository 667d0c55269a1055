"""One form for both sides of a package: what is only written differently did not change."""

from collections.abc import Callable, Iterable, Mapping, Set

from msgspec.structs import replace

from cachewatch.core.model import Signature, Specs
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.untrusted_text import safe
from cachewatch.core.versions import VersionKey, version_identity


def in_one_form(package: str, old: Specs, new: Specs, kept: Set[str]) -> tuple[Specs, Specs]:
    """Return both sides with each version in one spelling, and each kept hash written in one way."""
    spellings = _spellings(version for side in (old, new) for s in side.counts for version in s.versions)
    if spellings:
        old, new = (_respelled(side, spellings) for side in (old, new))
    rewritten = _rewritten(package, old, new, kept)
    return (_with(old, rewritten), _with(new, rewritten)) if rewritten else (old, new)


def _spellings(versions: Iterable[str]) -> Mapping[str, str]:
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
    spellings = _spellings(versions)
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


def _rewritten(package: str, old: Specs, new: Specs, kept: Set[str]) -> Mapping[str, Signature]:
    """Return the kept specs that are written differently, each in one of the two ways.

    Nothing but its stacks can change of a kept hash (law 2), so this is form, which is logged.
    """
    from cachewatch.core.compare.added_and_removed import differing_fields  # noqa: PLC0415  as _log says

    rewritten = {}
    # Documents that are read together share their signatures, so most are one object.
    for spec_hash in sorted(h for h in kept if old[h] is not new[h]):
        before, after = old[spec_hash], new[spec_hash]
        form = differing_fields(before, after) - {"stacks"} if before != after else frozenset()
        if form:
            _log(package, spec_hash, form)
            rewritten[spec_hash] = min(before, after, key=_named_first)
    return rewritten


def _log(package: str, spec_hash: str, form: Iterable[str]) -> None:
    import logging  # noqa: PLC0415  a question to the history loads this module, and logs nothing

    logger = logging.getLogger(__name__)
    logger.info("%s/%s: %s written differently", safe(package), spec_hash[:7], ", ".join(sorted(form)))


def _named_first(signature: Signature) -> tuple[object, ...]:
    # The same one whichever comes first; a compiler that is named, before none.
    return (signature.compiler == NO_COMPILER, signature)
