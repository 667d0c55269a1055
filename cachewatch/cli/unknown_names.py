"""Whether what filters name exists at all: a name that nothing has is more often a mistake than an answer.

What was compared usually says so. If not, the whole catalogue is read, which takes a
fraction of a second and happens only then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from cachewatch.core.changesets import Outcome
from cachewatch.core.filter_patterns import is_plain, matcher
from cachewatch.core.selection import every_compiler
from cachewatch.core.similar_names import similar
from cachewatch.core.statements.values import Build
from cachewatch.core.tag_pairs import Blob, Comparison, Reader
from cachewatch.core.untrusted_text import safe_name
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError

_MOST_NAMES = 3
# What the values of a filter are called in the facts of a document.
FACTS = {"stack": "stacks", "target": "targets", "os": "oses", "compiler": "compilers"}

Values = Mapping[str, set[str]]  # by filter, what it can match
Asked = Sequence[tuple[str, str]]  # filters, each with one of its patterns


class Unknown(Struct, frozen=True):
    """What a filter asks for that nothing is called, in words; a mistake, or worth a warning."""

    message: str
    is_mistake: bool


def unknown_names(
    filters: Mapping[str, Sequence[str]], comparison: Comparison, done: Sequence[Outcome]
) -> Iterator[Unknown]:
    """Yield every pattern of `filters` that matches nothing on either side, whether that changed or not."""
    asked = [(name, pattern) for name in ("package", *FACTS) for pattern in filters[name]]
    if not asked:
        return
    left = unmatched(asked, _seen(comparison, done))
    if any(name == "stack" for name, _ in left):
        left = unmatched(left, _declared(comparison))
    if not left:
        return
    is_read = any(name in FACTS for name, _ in left)
    others = comparison.other_documents() if is_read else ()
    values = _catalogue(comparison, others or (), is_read=is_read)
    is_partial = any(outcome.is_partial for outcome in done)
    for name, pattern in unmatched(left, values):
        # What could not be read, or was not, may have it.
        is_unread = others is None and name in FACTS
        is_mistake = is_plain(pattern) and not pattern.startswith("!") and not is_partial and not is_unread
        where = _compared_tags(comparison) if is_unread else "on either side"
        yield Unknown(f"--{name} {pattern}: {nothing_has(name, pattern, values, where)}", is_mistake)


def _compared_tags(comparison: Comparison) -> str:
    tags = [safe_name(str(pair.after.tag)) for pair in comparison.pairs]
    more = f" and {len(tags) - _MOST_NAMES:,} more" if len(tags) > _MOST_NAMES else ""
    return f"in {', '.join(tags[:_MOST_NAMES])}{more}; other tags did not change, and were not searched (--tag)"


def nothing_has(name: str, pattern: str, values: Values, where: str) -> str:
    """Say that nothing in `values` matches `pattern`, and what is called nearly so."""
    known = values[name] | ({value.partition("@")[0] for value in values[name]} if name == "compiler" else set())
    near = similar(pattern, sorted(known), _MOST_NAMES)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"no {name} matches {where}{hint}"


def unmatched(asked: Asked, values: Values) -> Asked:
    """Return the patterns of `asked` that match none of `values`."""
    return [(name, pattern) for name, pattern in asked if not _is_among(name, pattern, values.get(name, set()))]


def _is_among(name: str, pattern: str, values: Iterable[str]) -> bool:
    own = pattern.removeprefix("!")
    patterns = every_compiler([own]) if name == "compiler" else (own,)
    matchers = [matcher(each) for each in patterns]
    return any(matches(value) for value in values for matches in matchers)


def _seen(comparison: Comparison, done: Iterable[Outcome]) -> Values:
    """Return what was met in documents that differ."""
    values: dict[str, set[str]] = {name: set() for name in ("package", *FACTS)}
    for pair in comparison.pairs:
        values["package"].update(document.package for document in pair.difference.all_documents)
    for outcome in done:
        seen = outcome.tally.seen
        values["stack"].update(*seen.traces)
        builds = {Build(*use[:3]) for uses in seen.uses for use in uses}
        for build in builds | {leaving.before for leaving in seen.leaving}:
            values["compiler"].add(build.compiler)
            values["os"].add(build.os)
            values["target"].add(build.target)
    return values


def _declared(comparison: Comparison) -> Values:
    """Return the stacks that the tags say they have."""
    return {"stack": {stack for ask in comparison.stacks for stacks in ask().values() for stack in stacks}}


def _catalogue(comparison: Comparison, others: Iterable[Blob], *, is_read: bool) -> Values:
    """Return what there is at all: all names of packages, and what all documents have if they are read."""
    values: dict[str, set[str]] = {name: set() for name in FACTS}
    values["package"] = {document.package for pair in comparison.pairs for document in pair.difference.all_documents}
    values["package"].update(comparison.packages())
    if is_read:
        values["stack"] |= _declared(comparison)["stack"]
        for blobs, reader in _documents(comparison, others):
            for name, found in facts_of(blobs, reader):
                values[name] |= found
    return values


def _documents(comparison: Comparison, others: Iterable[Blob]) -> Iterator[tuple[list[Blob], Reader]]:
    readers = comparison.readers
    for pair in comparison.pairs:
        documents = pair.difference.all_documents
        yield [document.before for document in documents if document.before], readers.before
        yield [document.after for document in documents if document.after], readers.after
        yield list(pair.difference.unchanged()), readers.after
    yield list(others), readers.after


def facts_of(blobs: Sequence[Blob], reader: Reader) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield by filter what each document has that it can match; one that cannot be read has nothing."""
    for blob, content in zip(blobs, reader.read(blobs), strict=True):
        try:
            document = parse(content, blob.path) if isinstance(content, bytes) else None
        except DocumentError:
            continue
        if document is not None:
            yield from ((name, document.facts[fact]) for name, fact in FACTS.items())
