"""Follow one document through its versions, and tell since when and until when each of its specs was there."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT
from cachewatch.documents.limits import brief
from cachewatch.documents.parsing import TOO_LARGE
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError
from cachewatch.git.document_versions import Version
from cachewatch.history_db.hashes import pack_all, unpack
from cachewatch.history_db.indexed_document import IndexedDocument, Interval, KnownDocument, Step, Tally, Task
from cachewatch.history_db.record_differences import Difference, DocumentReader
from cachewatch.history_db.step_counts import count_step

# What a version holds; None if it is too large to be a document.
Contents = Iterator[bytes | None]


def follow(task: Task, contents: Contents, known: Known | None = None) -> IndexedDocument:
    """Read the versions of `task`, whose contents come in their order, and return what they add to the index."""
    return _Follower(task, known or Known()).run(contents)


class _Follower:
    """The state of one document on its way through its versions."""

    def __init__(self, task: Task, known: Known) -> None:
        self._task = task
        specs = {one: row.signature for row in task.intervals for one in unpack(row.hashes)}
        form = task.known.compiler_form if task.known else CompilerForm.NEW
        self._reader = DocumentReader(known, specs, compiler_form=form)
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
        before = self._reader.compiler_form
        try:
            found = self._difference(version, contents, path)
        except DocumentError as error:
            return str(error)
        if isinstance(found, str):
            return found
        is_baseline = version.blob is not None and (self._is_unread or version.revision == 0)
        self._note(version, found, old_form=before, is_baseline=is_baseline)
        return ""

    def _difference(self, version: Version, contents: Contents, path: str) -> Difference | str:
        if version.blob is None:
            return self._reader.remove()
        content = next(contents)
        return TOO_LARGE if content is None else self._reader.read(content, path)

    def _note(self, version: Version, found: Difference, *, old_form: CompilerForm, is_baseline: bool) -> None:
        """Note what was found of a version that is readable, or of a removal."""
        is_there = self._document is not None and self._document.blob is not None
        if found and not is_baseline:
            self._count(version, found, old_form=old_form, is_compared=is_there and version.blob is not None)
        self._move(version.revision, found)
        baseline = self._document.baseline if self._document else version.revision if is_baseline else None
        self._document = KnownDocument(version.blob, version.revision, baseline, self._reader.compiler_form)
        self._is_unread = False

    def _count(self, version: Version, found: Difference, *, old_form: CompilerForm, is_compared: bool) -> None:
        form = self._reader.compiler_form
        step, tallies = count_step(
            self._task.package,
            version.revision,
            found,
            lambda: ((_before(self._reader.specs, found), old_form), (self._reader.specs, form)),
            is_compiler_unknown=is_compared and old_form is not form,
        )
        self._steps += [] if step is None else [step]
        self._tallies += tallies

    def _move(self, revision: int, found: Difference) -> None:
        """End the intervals of what went, and begin those of what came; a changed spec does both."""
        for one, signature in found.went.items():
            self._ended[signature, self._first.pop(one), revision].append(one)
        for one, (before, _) in found.changed.items():
            self._ended[before, self._first[one], revision].append(one)
            self._first[one] = revision
        self._first.update(dict.fromkeys(found.came, revision))

    def _intervals(self) -> Iterator[Interval]:
        for one, signature in self._reader.specs.items():
            self._ended[signature, self._first[one], None].append(one)
        ranks = {signature: rank for rank, signature in enumerate(sorted({place[0] for place in self._ended}))}
        places = sorted(self._ended, key=lambda place: (ranks[place[0]], place[1], place[2] is None, place[2]))
        found = [self._ended[place] for place in places]
        for (signature, first, last), hashes, packed in zip(places, found, pack_all(found), strict=True):
            yield Interval(signature, first, last, packed, len(hashes))


def _before(after: Mapping[str, Signature], found: Difference) -> dict[str, Signature]:
    """Return the specs before `found`, of those after it."""
    kept = {one: signature for one, signature in after.items() if one not in found.came}
    return kept | dict(found.went) | {one: before for one, (before, _) in found.changed.items()}
