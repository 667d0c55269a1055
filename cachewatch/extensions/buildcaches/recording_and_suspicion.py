"""Record the history of a build cache that keeps none: each of its states becomes a revision of a catalogue.

`record` may be called as often as one likes, and be killed at any point: a revision is made in one step, and the file
with validators only saves the next call some work. `RecordedHistory` is a source that subscriptions can watch.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import Diagnostic, Signature
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, PACKAGE_GRAPH, TAG_GRAPH, TAGS_FILE
from cachewatch.core.versions_spellings_targets import UNION_STACK
from cachewatch.documents.recognition_and_front_matter import read_tags_file, write_tags_file
from cachewatch.documents.records_parsing_diagnostics import Binary, write_document
from cachewatch.documents.spec_nodes_and_graphs import write_package_graph, write_tag_graph
from cachewatch.environments import CacheContents
from cachewatch.errors import SourceError, UnknownRevision, UsageError
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache, CacheSource, Failed, Published
from cachewatch.extensions.buildcaches.mirrors_and_registries import LIMITS, Validator
from cachewatch.extensions.buildcaches.settings import CatalogueSource
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.writing_revisions import Recording, open_recording
from cachewatch.report.words import first_of
from cachewatch.runtime.files_and_locks import publish
from cachewatch.service.context_and_source_copies import News, RecordedSource

_STATE_FILE = "cachewatch-record.json"
_COUNTS = re.compile(rb'^meta: .*?"num_specs_by_stack": (\{[^}]*\})', re.MULTILINE)


class HeldTag(Struct, frozen=True):
    """A tag that was not recorded, because it lost so much at once that a person must confirm it."""

    tag: str
    reason: str


class TagCounts(Struct, frozen=True):
    """The numbers of specs and packages of a recorded tag, and of its new, changed and removed documents."""

    tag: str
    specs: int
    packages: int
    new: int = 0  # number of documents, as below
    changed: int = 0
    removed: int = 0

    @property
    def is_different(self) -> bool:
        """Whether any document is new, changed or removed."""
        return bool(self.new or self.changed or self.removed)


class Recorded(Struct):
    """The result of a call of `record`."""

    commit: str | None = None  # the new revision; None if nothing is different
    before: str | None = None  # the newest revision until then; None if this is the first
    tags: tuple[TagCounts, ...] = ()  # tags that may have changed, and were neither held back nor unreadable
    held: tuple[HeldTag, ...] = ()
    failed: tuple[Failed, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class _RecordState(Struct):
    """What the state file holds: validators of the indexes recorded last; without them, all indexes are read again."""

    commit: str = ""  # the newest revision when it was written
    address: str = ""  # of the cache
    known: dict[str, Validator] = {}  # by TAG/STACK, TAG/STACK/VIEW, or "catalogue" for the list


def record(
    cache: Cache,
    repository: Path,
    *,
    is_confirmed: bool = False,
    now: datetime | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Recorded:
    """Record the current contents of `cache` in the bare repository at `repository`; create it if it is missing.

    Unless `is_confirmed`, a tag is held back (not recorded) if it is empty, or if it or a stack lost nine tenths of its
    specs. `tell` is called with a text on each step. Raises SourceError, and writes nothing, if `cache` is unreadable.
    """
    tell(f"reading the index of {cache.address}")
    with closing(CacheSource(cache, wants_graph=True)) as source, open_recording(repository) as recording:
        known: dict[str, Validator] = {}
        with suppress(OSError, msgspec.MsgspecError):
            state = msgspec.json.decode((recording.folder / _STATE_FILE).read_bytes(), type=_RecordState)
            if (state.commit, state.address) == (recording.head, cache.address):
                known = state.known
        work = _Work(recording, is_confirmed, Recorded(before=recording.head))
        for published in source.read(known):
            tell(f"comparing {published.tag or cache.address} with what was recorded")
            work.take(published)
            tell(f"reading {cache.address} after {published.tag or 'the list'}")
        tell(f"writing the revision of {repository}")
        work.done.commit = work.commit(cache.address, now or datetime.now(UTC))
        read = {count.tag for count in work.done.tags}
        known = {name: fresh for name, fresh in known.items() if name.partition("/")[0] not in read}
        state = _RecordState(recording.head or "", cache.address, known | work.fresh)
        content = msgspec.json.format(msgspec.json.encode(state), indent=1)
        publish(recording.folder / _STATE_FILE, content, base=recording.folder, mode=0o644)
        return work.done


class _Work(Struct):
    """Writes the published specs as the files of a revision, tag by tag."""

    recording: Recording
    is_confirmed: bool
    done: Recorded
    stacks: dict[str, frozenset[str]] = {}
    fresh: dict[str, Validator] = {}

    def take(self, published: Published | Failed) -> None:
        """Write the files of the tag `published` that differ from the newest revision, or note why it is left out."""
        if isinstance(published, Failed):
            self.done.failed += (published,)
            return
        self.done.diagnostics += published.diagnostics
        if published.tag:
            before, specs = self.recording.files(f"{CATALOGUE}/{published.tag}"), published.specs.count()
            if not self.is_confirmed and (reason := self._suspicion(published, specs, before)):
                self.done.held += (HeldTag(published.tag, reason),)
                return
            changes, packages = self._write(published, before), len(published.specs.packages)
            self.done.tags += (TagCounts(published.tag, specs[UNION_STACK], packages, **changes),)
            self.stacks[published.tag] = frozenset(published.stacks)
        if published.tag or not (self.done.held or self.done.failed):
            self.fresh |= published.fresh

    def commit(self, address: str, now: datetime) -> str | None:
        """Commit the revision, made `now`, with `address` in its message; return its hash, None if nothing changed."""
        content = self.recording.file(TAGS_FILE)
        before = read_tags_file(content) if content is not None else {}
        if (stacks := {**before, **self.stacks}) != before:
            self.recording.write(TAGS_FILE, write_tags_file(stacks))
        different = [count for count in self.done.tags if count.is_different]
        subject = f"Record {len(different)} tags" if different else "Record stacks and dependency graphs"
        if len(different) == 1:
            subject = f"Record {different[0].tag}: {different[0].specs:,} specs of {different[0].packages:,} packages"
        details = [f"{c.tag}: {c.new} new, {c.changed} changed, {c.removed} removed documents" for c in different]
        return self.recording.commit("\n".join((subject, "", *details, "", f"CacheSource: {address}", "")), now)

    def _write(self, state: Published, before: Mapping[str, str]) -> Mapping[str, int]:
        """Write the files of `state` that differ from `before` (ids by path); count new, changed, removed documents."""
        folder, counts, left = f"{CATALOGUE}/{state.tag}", Counter[str](), {*before}
        for path, content in _files(state):
            left.discard(path)
            if before.get(path) != self.recording.id_of(content):
                self.recording.write(f"{folder}/{path}", content)
                counts["changed" if path in before else "new"] += path.endswith(DOCUMENT)
        for path in left:
            self.recording.remove(f"{folder}/{path}")
            counts["removed"] += path.endswith(DOCUMENT)
        return counts

    def _suspicion(self, published: Published, has: Mapping[str, int], before: Mapping[str, str]) -> str:
        """Return why `published` looks wrong, or "". `has`: numbers of specs by stack; `before`: file ids by path."""
        if not has[UNION_STACK]:
            is_unread = any(diagnostic.is_loss for diagnostic in published.diagnostics)
            unread = "none of its records can be read, maybe because its form is newer"
            return unread if is_unread else "the index is empty"
        had: Counter[str] = Counter()
        for content in self.recording.read([key for path, key in before.items() if path.endswith(DOCUMENT)]):
            if match := _COUNTS.search(content[: 2**16]):
                had.update(msgspec.json.decode(match[1], type=dict[str, int]))
        lost = [
            f"{'the tag' if stack == UNION_STACK else f'stack {stack}'} had {count:,} specs and has {has.get(stack, 0):,}"
            for stack, count in sorted(had.items())
            if has.get(stack, 0) <= count * 0.1
        ]
        return first_of(lost, 5, ", and {:,} more stacks")


def _files(state: Published) -> Iterator[tuple[str, bytes]]:
    """Yield path, relative to the folder of the tag, and content of each file of the tag `state`."""
    for package in state.specs.packages:
        listed, graph = state.specs.read(package)
        yield f"{package}/{DOCUMENT}", write_document(package, state.tag, listed)
        yield f"{package}/{PACKAGE_GRAPH}", write_package_graph(graph)
    yield TAG_GRAPH, write_tag_graph(state.other_nodes)


class RecordedHistory(RecordedSource):
    """The recorded history of a build cache, as a source of the service."""

    def __init__(self, source: CatalogueSource, folder: Path) -> None:
        named: dict[str, Any] = {name: Path(file) for name, file in source.credentials.items()}
        named |= {name: getattr(source, name, None) for name in ("tag", "stack", "view", "max_index")}
        seconds = source.poll.timeout.total_seconds()
        self._cache = Cache(
            address=source.address,
            is_catalogue=source.type == "catalogue",
            wanted_tag=Globs(source.tags),
            limits=replace(LIMITS, seconds=seconds, total=seconds),
            **{name: value for name, value in named.items() if value is not None},
        )
        super().__init__(folder, source.address)

    def update(self) -> News:
        """Record the contents of the cache if they changed; return the newest revision, with all warnings."""
        done = record(self._cache, self._folder)
        remarks = [f"{held.tag} is held back: {held.reason}." for held in done.held]
        remarks += [f"{failed.tag} was not recorded: {failed.message}." for failed in done.failed]
        with closing(self.open()) as repository:
            try:
                newest = resolve(repository, "HEAD")
            except UnknownRevision as error:
                raise SourceError(" ".join(remarks) or f"{self._address}: nothing was recorded yet") from error
        warnings = tuple(f"{diagnostic.path}: {diagnostic.message}." for diagnostic in done.diagnostics)
        return News(revision=newest.commit, time=newest.time, warnings=warnings, problem=" ".join(remarks))


def holdings(address: str, packages: Collection[str], *, tag: str | None = None, **options: Any) -> CacheContents:
    """Return what `tag` (None: develop) of the cache at `address` has of `packages`; `options` are fields of Cache."""
    wanted = tag or "develop"
    cache = Cache(address=address, tag=wanted, wanted_tag=lambda name: name == wanted, **options)
    with closing(CacheSource(cache)) as source:
        for state in source.read({}):
            if isinstance(state, Failed):
                raise SourceError(f"{state.tag}: {state.message}")
            if state.tag == wanted:
                held = {
                    package: {spec.hash: _signature(spec) for spec in state.specs.read(package)[0]}
                    for package in state.specs.packages
                    if package in packages
                }
                return CacheContents(held, f"{address} as it is now", tag_names.is_mutable(wanted), state.diagnostics)
    raise UsageError(f"{address}: has no tag {wanted}")


def _signature(binary: Binary) -> Signature:
    compiler, variants = spack.compiler(binary.compiler), spack.variants(binary.variants)
    where = binary.os, binary.platform, binary.target
    return Signature((binary.version,), compiler, *where, variants, spack.stacks(binary.stacks))
