"""Follow one document through its versions, and tell since when and until when each of its specs was there."""

from collections import defaultdict
from collections.abc import Iterator

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT
from cachewatch.documents.limits import brief
from cachewatch.documents.parsing import TOO_LARGE, parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError
from cachewatch.git.document_versions import Version
from cachewatch.history_db.hashes import pack_all, unpack
from cachewatch.history_db.indexed_document import IndexedDocument, Interval, KnownDocument, Step, Tally, Task
from cachewatch.history_db.step_counts import Difference, count_step, difference

# What a version holds; None if it is too large to be a document.
Contents = Iterator[bytes | None]


def follow(task: Task, contents: Contents, known: Known | None = None) -> IndexedDocument:
    """Read the versions of `task`, whose contents come in their order, and return what they add to the index."""
    return _Follower(task, known or Known()).run(contents)


class _Follower:
    """The state of one document on its way through its versions."""

    def __init__(self, task: Task, known: Known) -> None:
        self._task = task
        self._known = known
        self._specs = {one: row.signature for row in task.intervals for one in unpack(row.hashes)}
        self._form = task.known.compiler_form if task.known else CompilerForm.NEW
        self._first = {one: row.first for row in task.intervals for one in unpack(row.hashes)}
        self._ended: defaultdict[tuple[Signature, int, int | None], list[str]] = defaultdict(list)
        self._document = task.known
        self._is_unread = task.is_unread
        self._steps: list[Step] = []
        self._tallies: list[Tally] = []
        self._diagnostics: list[tuple[int, str]] = []

    def run(self, contents: Contents) -> IndexedDocument:
        """Go through all versions."""
        path = f"{CATALOGUE}/{self._task.tag}/{self._task.package}/{DOCUMENT}"
        for version in self._task.versions:
            problem = version.problem or self._take(version, contents, path)
            if problem:
                self._diagnostics.append((version.revision, brief(problem)))
                self._is_unread = self._is_unread or self._document is None
        return IndexedDocument(
            document=self._document,
            intervals=tuple(self._intervals()),
            steps=tuple(self._steps),
            tallies=tuple(self._tallies),
            diagnostics=tuple(self._diagnostics),
        )

    def _take(self, version: Version, contents: Contents, path: str) -> str:
        """Take in one version, or say why it cannot be used; the state before it then stays."""
        specs, form = {}, CompilerForm.NEW
        if version.blob is not None:
            content = next(contents)
            if content is None:
                return TOO_LARGE
            try:
                document = parse(content, path, self._known)
            except DocumentError as error:
                return str(error)
            specs, form = dict(document.specs.items()), document.compiler_form
        self._note(version, specs, form)
        return ""

    def _note(self, version: Version, specs: dict[str, Signature], form: CompilerForm) -> None:
        """Note what a version that is readable, or a removal, changed."""
        is_baseline = version.blob is not None and (self._is_unread or version.revision == 0)
        was_there = self._document is not None and self._document.blob is not None
        found = difference(self._specs, specs)
        if found and not is_baseline:
            is_compiler_unknown = was_there and version.blob is not None and self._form is not form
            before, after = (self._specs, self._form), (specs, form)
            step, tallies = count_step(
                self._task.package, version.revision, found, before, after, is_compiler_unknown=is_compiler_unknown
            )
            self._steps += [] if step is None else [step]
            self._tallies += tallies
        self._move(version.revision, found)
        self._specs, self._form = specs, form
        baseline = self._document.baseline if self._document else version.revision if is_baseline else None
        self._document = KnownDocument(version.blob, version.revision, baseline, form)
        self._is_unread = False

    def _move(self, revision: int, found: Difference) -> None:
        """End the intervals of what went, and begin those of what came; a changed spec does both."""
        for one, signature in found.went.items():
            self._ended[signature, self._first.pop(one), revision].append(one)
        for one, (before, _) in found.changed.items():
            self._ended[before, self._first[one], revision].append(one)
            self._first[one] = revision
        self._first.update(dict.fromkeys(found.came, revision))

    def _intervals(self) -> Iterator[Interval]:
        for one, signature in self._specs.items():
            self._ended[signature, self._first[one], None].append(one)
        ranks = {signature: rank for rank, signature in enumerate(sorted({place[0] for place in self._ended}))}
        places = sorted(self._ended, key=lambda place: (ranks[place[0]], place[1], place[2] is None, place[2]))
        found = [self._ended[place] for place in places]
        for (signature, first, last), hashes, packed in zip(places, found, pack_all(found), strict=True):
            yield Interval(signature, first, last, packed, len(hashes))
