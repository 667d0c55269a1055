"""What one version of a document changed against the one before, found by comparing the texts of records.

Neighbouring versions have most records in common, letter for letter. So a version is cut into the texts of its records,
and only those that the version before did not have are looked at: those between runs that both have (changed_records.py),
or, with many changes, of all. Whatever is not of the form that the generator writes is read by documents/parsing.py, and
the two ways give one answer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from cachewatch.core.compare.normalizing import reused_hashes
from cachewatch.core.model import CompilerForm, Signature
from cachewatch.core.package_facts import facts_of
from cachewatch.documents.frontmatter import NotPlain, UsualDocuments
from cachewatch.documents.limits import MAX_BYTES, MAX_STACKS, MAX_UNLIKE, check
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import END, Known, are_hashes, cut_hashes, hash_in, learn, split_at_braces
from cachewatch.history_db.changed_records import changed_records

BySpec = Mapping[str, Signature]

# The names of the keys leave less than 900 characters of such a record to its values; a compiler may get a name that is 30 longer.
_SHORT = 1000


class Difference(Struct, frozen=True):
    """The specs that a version removed and added, and those that it has with another signature, by hash.

    A hash that names another spec now is among those removed and those added.
    """

    went: BySpec
    came: BySpec
    changed: Mapping[str, tuple[Signature, Signature]]  # in other stacks, or written differently

    def __bool__(self) -> bool:
        return bool(self.went or self.came or self.changed)


class DocumentReader:
    """Reads the versions of one document in their order."""

    def __init__(
        self, known: Known, specs: BySpec | None = None, *, compiler_form: CompilerForm = CompilerForm.NEW
    ) -> None:
        """Begin after a version with these `specs`, or with no document."""
        self.specs: dict[str, Signature] = dict(specs or {})
        self.compiler_form = compiler_form
        self._known = known
        self._usual = UsualDocuments()
        # The records of the last version, each with its text without the hash; None if only the specs are known.
        # Texts only: many pairs would keep the garbage collector busy.
        self._records: dict[str, str] | None = None if specs else {}
        self._copies: dict[str, int] = {}  # how often each text without hash occurs
        self._pieces: list[str] | None = (
            None  # the records in their order in the last version, if each stands there once
        )

    def remove(self) -> Difference:
        """Take note that the document was removed."""
        went, self.specs, self.compiler_form = self.specs, {}, CompilerForm.NEW
        self._records, self._copies, self._pieces = {}, {}, None
        return Difference(went, {}, {})

    def read(self, data: bytes, path: str) -> Difference:
        """Return what this version changed. Raises DocumentError if it cannot be used: nothing changes then."""
        found = self._read_quickly(data)
        if found is not None:
            return found
        document = parse(data, path, self._known)
        self._records = self._pieces = None
        self.compiler_form = document.compiler_form
        return self._replace(dict(document.specs))

    def _read_quickly(self, data: bytes) -> Difference | None:
        try:
            details = self._usual.details(data) if len(data) <= MAX_BYTES else None
            if details is None:
                return None
            pieces = split_at_braces(details)
            found = self._compare(*self._changed(pieces))
        except (NotPlain, msgspec.MsgspecError, RecursionError):
            return None
        if found is not None and self._records is not None:
            self._pieces = pieces if len(pieces) == len(self._records) else None
        return found

    def _changed(self, pieces: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the texts of records that are new, and of those that are gone."""
        before = self._records or {}
        changed = changed_records(self._pieces, pieces) if self._pieces else None
        if changed is None:
            texts = frozenset(pieces)
            new = list(texts.difference(before))
            has_gone = len(before) + len(new) > len(texts)
            return new, list(frozenset(before).difference(texts)) if has_gone else []
        after = dict.fromkeys(changed[1])
        return [text for text in after if text not in before], [text for text in changed[0] if text not in after]

    def _compare(self, new: Sequence[str], gone: Sequence[str]) -> Difference | None:
        """Take in texts of records that are new and that are gone; None if it takes the other way."""
        before = self._records or {}
        parts = cut_hashes(new, END)
        if parts is None:
            return None
        hashes, cut = parts
        if (hashes and not are_hashes(hashes)) or len(frozenset(hashes)) < len(hashes):
            return None
        copies = self._count([before[record] for record in gone], cut, is_whole=self._records is None)
        if copies is None:
            return None
        added = dict(zip(hashes, map(self._known.by_text.__getitem__, cut), strict=True))
        if self._records is None:
            found = self._replace(added)
            self._records = {}
        else:
            removed = set(map(hash_in, gone))
            if not removed.issuperset(added.keys() & self.specs.keys()):
                return None  # a hash is there twice
            found = self._exchange(removed, added)
        for record in gone:
            del self._records[record]
        self._records.update(zip(new, cut, strict=True))
        self._copies = copies
        self.compiler_form = self._known.form_of(copies)
        return found

    def _count(self, old: Iterable[str], new: Iterable[str], *, is_whole: bool) -> dict[str, int] | None:
        """Return how often each text occurs now, every one of which is understood and within the limits; or None."""
        copies = {} if is_whole else dict(self._copies)
        unseen = False
        for text in new:
            unseen = unseen or text not in copies
            copies[text] = copies.get(text, 0) + 1
        for text in old:
            copies[text] -= 1
            if not copies[text]:
                del copies[text]
        return copies if not unseen or self._is_understood(copies) else None

    def _is_understood(self, texts: Collection[str]) -> bool:
        """Learn what is new of `texts`, and check all of them against the limits."""
        by_text = self._known.by_text
        if any(text not in by_text and learn(text, self._known) is None for text in texts):
            return False
        # What is so short has no value, and no number of them, beyond a limit.
        is_small = len(texts) <= MAX_UNLIKE and max(map(len, texts), default=0) <= _SHORT
        if not is_small or sum(len(by_text[text].stacks) for text in texts) > MAX_STACKS:
            signatures = dict.fromkeys((by_text[text] for text in texts), 1)
            check(signatures, facts_of(signatures))
        return True

    def _exchange(self, old: Iterable[str], new: Mapping[str, Signature]) -> Difference:
        before = {one: self.specs.pop(one) for one in old}
        self.specs.update(new)
        return _difference(before, new)

    def _replace(self, new: dict[str, Signature]) -> Difference:
        before, self.specs = self.specs, new
        return _difference(before, new)


def _difference(before: BySpec, after: BySpec) -> Difference:
    kept = before.keys() & after.keys()
    if not kept:
        return Difference(before, after, {})
    differing = [one for one in kept if before[one] != after[one]]
    kept -= reused_hashes(before, after, differing)
    return Difference(
        {one: signature for one, signature in before.items() if one not in kept},
        {one: signature for one, signature in after.items() if one not in kept},
        {one: (before[one], after[one]) for one in differing if one in kept},
    )
