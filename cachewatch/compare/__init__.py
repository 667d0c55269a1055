"""Two documents of one package in, what happened to the package out. The laws are in docs/laws.md."""

import logging
from collections.abc import Callable, Iterable, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.compare.facts import differing_facts, differing_fields, load_deepdiff
from cachewatch.compare.kinds import count_specs, kinds_of
from cachewatch.compare.ladder import account
from cachewatch.compare.places import count_places, judge_versions, lost_places
from cachewatch.facts import Facts, facts_of, seen_facts
from cachewatch.model import Document, PackageChange, Place, Restacked, Signature, Spec, Specs, Status
from cachewatch.safetext import safe

__all__ = ["compare", "load_deepdiff"]

logger = logging.getLogger(__name__)


class _State(Struct, frozen=True):
    """One side of a comparison: its specs, and what they amount to."""

    specs: Specs
    facts: Facts
    copies: Mapping[Place, int]


def compare(
    package: str,
    before: Document | None,
    after: Document | None,
    *,
    selected: Set[str] | None = None,
    sees_stack: Callable[[str], bool] | None = None,
    is_pruned: bool = True,
) -> PackageChange | None:
    """Return what happened to `package`, or None if nothing but the form of its document changed.

    `selected` limits the comparison to these hashes, `sees_stack` what is said of stacks.
    `is_pruned` tells whether specs that no stack builds will disappear from this tag, which
    is so in develop and not in releases and snapshots.
    """
    old, new = _specs(before, selected), _specs(after, selected)
    kept = old.hashes & new.hashes
    rewritten = _rewritten(package, old, new, kept)
    old, new = _in_one_form(old, rewritten), _in_one_form(new, rewritten)
    status = Status.ADDED if before is None else Status.REMOVED if after is None else Status.CHANGED
    went, came = old.without(kept), new.without(kept)
    restacked = _restacked(old, new, kept, sees_stack)
    if not (went or came or restacked) and (status is Status.CHANGED or selected is not None):
        return None
    is_whole = selected is None and not rewritten
    had = _state(old, before if is_whole else None, sees_stack)
    has = _state(new, after if is_whole else None, sees_stack)
    is_unknown = before is not None and after is not None and before.has_old_compilers != after.has_old_compilers
    found = account(went.counts.copy(), came.counts.copy(), is_compiler_unknown=is_unknown)
    facts = differing_facts(had.facts, has.facts, is_compiler_unknown=is_unknown)
    # Where specs are built alike, they are in the same places, however many there are.
    is_alike = old.counts.keys() == new.counts.keys()
    last_copies = () if is_alike else lost_places(had.copies, has.copies)
    stack_versions = () if is_alike else tuple(judge_versions(had.copies, has.copies))
    left_over = _left_over(has)
    newly_left_over = _newly(left_over, had, has) if is_pruned else ()
    counts = count_specs(len(old), len(new), found, len(left_over))
    return PackageChange(
        package=package,
        status=status,
        facts=facts,
        stack_versions=stack_versions,
        counts=counts,
        pairings=found.pairings,
        gone=found.gone,
        new=found.new,
        came=came,
        went=went,
        restacked=restacked,
        left_over=left_over,
        newly_left_over=newly_left_over,
        last_copies=last_copies,
        copies_before=had.copies,
        copies_after=has.copies,
        kinds=kinds_of(
            status,
            facts,
            stack_versions,
            counts,
            restacked,
            has_left_over=bool(newly_left_over),
            has_lost_places=bool(last_copies),
        ),
        before=had.facts,
        after=has.facts,
    )


def _state(specs: Specs, document: Document | None, sees_stack: Callable[[str], bool] | None) -> _State:
    """Sum up `specs`; a `document` that holds just them has their facts already."""
    facts = facts_of(specs.counts) if document is None else document.facts
    return _State(
        specs=specs,
        facts=seen_facts(facts, sees_stack) if sees_stack else facts,
        copies=count_places(specs.counts, sees_stack),
    )


def _in_one_form(specs: Specs, rewritten: Mapping[str, Signature]) -> Specs:
    if not rewritten:
        return specs
    return Specs.of({**specs, **{h: replace(s, stacks=specs[h].stacks) for h, s in rewritten.items()}})


def _specs(document: Document | None, selected: Set[str] | None) -> Specs:
    if document is None:
        return Specs.of({})
    return document.specs if selected is None else document.specs.only(selected)


def _left_over(state: _State) -> tuple[str, ...]:
    if not any(signature.is_left_over for signature in state.specs.counts):
        return ()
    return tuple(sorted(spec_hash for spec_hash, signature in state.specs.items() if signature.is_left_over))


def _newly(left_over: Iterable[str], had: _State, has: _State) -> tuple[Spec, ...]:
    news = (h for h in left_over if h not in had.specs or not had.specs[h].is_left_over)
    return tuple(Spec(spec_hash, has.specs[spec_hash]) for spec_hash in news)


def _rewritten(package: str, old: Specs, new: Specs, kept: Set[str]) -> Mapping[str, Signature]:
    """Return the kept specs that are written differently, each in one of the two ways.

    Nothing but its stacks can change of a kept hash (law 2), so this is form, which is logged.
    """
    rewritten = {}
    # Documents that are read together share their signatures, so most are one object.
    for spec_hash in sorted(h for h in kept if old[h] is not new[h]):
        before, after = old[spec_hash], new[spec_hash]
        form = differing_fields(before, after) - {"stacks"} if before != after else frozenset()
        if form:
            logger.info("%s/%s: %s written differently", safe(package), spec_hash[:7], ", ".join(sorted(form)))
            # The same one whichever comes first; a compiler that is named, before none.
            rewritten[spec_hash] = min(before, after, key=lambda s: s.sort_key)
    return rewritten


def _restacked(
    old: Specs, new: Specs, kept: Set[str], sees_stack: Callable[[str], bool] | None
) -> tuple[Restacked, ...]:
    """Return the kept hashes whose stacks changed."""
    moved = (h for h in kept if old[h] is not new[h] and old[h].stacks != new[h].stacks)
    restacked = (Restacked(spec_hash, old[spec_hash], new[spec_hash]) for spec_hash in sorted(moved))
    return tuple(r for r in restacked if sees_stack is None or any(map(sees_stack, r.gained + r.lost)))
