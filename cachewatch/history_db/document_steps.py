"""What a revision did to a document, by its intervals: which specs came and went, and which of them are alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import replace

from cachewatch.core.compare.normalizing import one_spelling, reused_hashes, together
from cachewatch.core.compare.rebuilt_and_upgraded import Account, account
from cachewatch.core.model import Signature
from cachewatch.history_db.hashes import members
from cachewatch.history_db.reading import Index

Kept = Mapping[tuple[Signature, Signature], int]
_Group = tuple[Signature, Sequence[bytes | str]]
_Spelled = Callable[[Signature], Signature]


class Part(NamedTuple):
    """An interval that begins or ends in a revision."""

    build: int
    stacks: int
    hashes: bytes | str
    begins: bool


class DocumentStep(Struct, frozen=True):
    """What became of the specs of one document."""

    account: Account
    restacked: Kept  # how many kept specs left these stacks for those
    vanished: Mapping[Signature, int]
    spelled: _Spelled  # writes versions as the others here do


class Where(NamedTuple):
    """A document, and a revision that changed it."""

    tag: int
    package: int
    revision: int


def read_step(index: Index, where: Where) -> DocumentStep:
    """Return what a revision did to a document."""
    query = """
        SELECT build, stacks, hashes, 1 FROM interval WHERE package = :package AND tag = :tag AND first = :revision
        UNION ALL
        SELECT build, stacks, hashes, 0 FROM interval WHERE package = :package AND tag = :tag AND +last = :revision
    """
    return step_of(index, where, [Part(*row) for row in index.rows(query, where._asdict())])


def step_of(index: Index, where: Where, parts: Sequence[Part]) -> DocumentStep:
    """Part what was kept from what came and went, and match that as a comparison does."""
    before, after = (_groups(index, (part for part in parts if part.begins == begins)) for begins in (False, True))
    both = _hashes(before) & _hashes(after)
    old, now = (_signatures(groups, both) for groups in (before, after))
    kept = old.keys() - reused_hashes(old, now, old)
    spelled = one_spelling(_versions(index, where, [signature for signature, _ in (*before, *after)]))
    vanished, new = (_counts(groups, kept, spelled) for groups in (before, after))
    restacked = Counter(_restacked(old[one], now[one], spelled) for one in kept if old[one].stacks != now[one].stacks)
    is_unknown = bool(vanished and new) and _is_compiler_unknown(index, where)
    return DocumentStep(account(Counter(vanished), new, is_compiler_unknown=is_unknown), restacked, vanished, spelled)


def _groups(index: Index, parts: Iterable[Part]) -> list[_Group]:
    return [(index.signature(part.build, part.stacks), members(part.hashes)) for part in parts]


def _hashes(groups: Iterable[_Group]) -> set[bytes | str]:
    return {one for _, hashes in groups for one in hashes}


def _signatures(groups: Iterable[_Group], wanted: Set[bytes | str]) -> dict[bytes | str, Signature]:
    return {one: signature for signature, hashes in groups for one in hashes if one in wanted} if wanted else {}


def _counts(groups: Iterable[_Group], kept: Set[bytes | str], spelled: _Spelled) -> Counter[Signature]:
    """Count what is not kept."""
    counts: Counter[Signature] = Counter()
    for signature, hashes in groups:
        count = len(hashes) if kept.isdisjoint(hashes) else sum(one not in kept for one in hashes)
        if count:
            counts[spelled(signature)] += count
    return counts


def _restacked(old: Signature, now: Signature, spelled: _Spelled) -> tuple[Signature, Signature]:
    """Return a kept spec before and after; that the document writes it differently is no change."""
    one = spelled(together(old, now))
    return replace(one, stacks=old.stacks), replace(one, stacks=now.stacks)


def _versions(index: Index, where: Where, signatures: Iterable[Signature]) -> set[str]:
    """Return the versions that may be written in several ways; all of both sides, if any of these may be (1-2)."""
    found = {version for signature in signatures for version in signature.versions}
    if any("-" in version or "_" in version for version in found):
        query = """
            SELECT DISTINCT b.versions FROM interval i JOIN build b ON b.id = i.build
            WHERE i.package = :package AND i.tag = :tag AND i.first <= :revision
            AND (i.last IS NULL OR i.last >= :revision)
        """
        found |= {version for (listed,) in index.rows(query, where._asdict()) for version in decode(listed)}
    return found


def _is_compiler_unknown(index: Index, where: Where) -> bool:
    """Tell whether only one of the two documents writes compilers as before Spack 1.0 (law 1)."""
    query = "SELECT compilers_differ FROM step WHERE tag = :tag AND package = :package AND revision = :revision"
    return any(bool(flag) for (flag,) in index.rows(query, where._asdict()))
