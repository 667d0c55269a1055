"""Two documents of one package in, what happened to the package out. The laws are in docs/laws.md."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Set

from msgspec.structs import replace

from cachewatch.compare.facts import differing_facts, differing_fields
from cachewatch.compare.kinds import count_specs, kinds_of
from cachewatch.compare.ladder import account
from cachewatch.compare.places import count_places, judge_versions, lost_places
from cachewatch.facts import Facts, facts_of, seen_facts
from cachewatch.model import Document, PackageChange, Restacked, Signature, Spec, Status
from cachewatch.safetext import safe

__all__ = ["compare"]

logger = logging.getLogger(__name__)

Specs = Mapping[str, Signature]


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
    rewritten = _rewritten(package, old, new)
    if rewritten:
        old = {**old, **{h: replace(s, stacks=old[h].stacks) for h, s in rewritten.items()}}
        new = {**new, **{h: replace(s, stacks=new[h].stacks) for h, s in rewritten.items()}}
    status = Status.ADDED if before is None else Status.REMOVED if after is None else Status.CHANGED
    went = {spec_hash: signature for spec_hash, signature in old.items() if spec_hash not in new}
    came = {spec_hash: signature for spec_hash, signature in new.items() if spec_hash not in old}
    restacked = _restacked(old, new, sees_stack)
    if not (went or came or restacked) and (status is Status.CHANGED or selected is not None):
        return None
    is_unknown = before is not None and after is not None and before.has_old_compilers != after.has_old_compilers
    old_counts, new_counts = Counter(old.values()), Counter(new.values())
    # Often all hashes are new, and counting is the larger part of comparing.
    vanished = Counter(went.values()) if len(went) < len(old) else old_counts.copy()
    fresh = Counter(came.values()) if len(came) < len(new) else new_counts.copy()
    found = account(vanished, fresh, is_compiler_unknown=is_unknown)
    is_whole = selected is None and not rewritten
    old_facts = _facts(before if is_whole else None, old_counts, sees_stack)
    new_facts = _facts(after if is_whole else None, new_counts, sees_stack)
    facts = differing_facts(old_facts, new_facts, is_compiler_unknown=is_unknown)
    copies_before, copies_after = count_places(old_counts, sees_stack), count_places(new_counts, sees_stack)
    last_copies = lost_places(copies_before, copies_after)
    stack_versions = tuple(judge_versions(copies_before, copies_after))
    left_over = _left_over(new, new_counts)
    newly = [h for h in left_over if h not in old or not old[h].is_left_over] if is_pruned else []
    newly_left_over = tuple(Spec(spec_hash, new[spec_hash]) for spec_hash in newly)
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
        copies_before=copies_before,
        copies_after=copies_after,
        kinds=kinds_of(
            status,
            facts,
            stack_versions,
            counts,
            restacked,
            has_left_over=bool(newly_left_over),
            has_lost_places=bool(last_copies),
        ),
        before=old_facts,
        after=new_facts,
    )


def _specs(document: Document | None, selected: Set[str] | None) -> Specs:
    if document is None:
        return {}
    if selected is None:
        return document.specs
    return {h: s for h, s in document.specs.items() if h in selected}


def _facts(document: Document | None, counts: Counter[Signature], sees_stack: Callable[[str], bool] | None) -> Facts:
    """Return the facts of a whole document, or of what was counted if there is none."""
    facts = facts_of(counts) if document is None else document.facts
    return seen_facts(facts, sees_stack) if sees_stack else facts


def _left_over(specs: Specs, counts: Counter[Signature]) -> tuple[str, ...]:
    if not any(signature.is_left_over for signature in counts):
        return ()
    return tuple(sorted(spec_hash for spec_hash, signature in specs.items() if signature.is_left_over))


def _rewritten(package: str, old: Specs, new: Specs) -> Specs:
    """Return the kept specs that are written differently, each in one of the two ways.

    Nothing but its stacks can change of a kept hash (law 2), so this is form, which is logged.
    """
    rewritten = {}
    # Documents that are read together share their signatures, so most are one object.
    for spec_hash in sorted(h for h, s in old.items() if h in new and new[h] is not s):
        before, after = old[spec_hash], new[spec_hash]
        form = differing_fields(before, after) - {"stacks"} if before != after else frozenset()
        if form:
            logger.info("%s/%s: %s written differently", safe(package), spec_hash[:7], ", ".join(sorted(form)))
            # The same one whichever comes first; a compiler that is named, before none.
            rewritten[spec_hash] = min(before, after, key=lambda s: s.sort_key)
    return rewritten


def _restacked(old: Specs, new: Specs, sees_stack: Callable[[str], bool] | None) -> tuple[Restacked, ...]:
    """Return the kept hashes whose stacks changed."""
    kept = (h for h, s in old.items() if h in new and new[h] is not s and new[h].stacks != s.stacks)
    restacked = (Restacked(spec_hash, old[spec_hash], new[spec_hash]) for spec_hash in sorted(kept))
    return tuple(r for r in restacked if sees_stack is None or any(map(sees_stack, r.gained + r.lost)))
