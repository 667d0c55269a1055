"""Keep the history of a folder of documents, which keeps none: each state of it becomes a revision.

Documents have the paths that they have in the folder. What cannot be read now was not removed, so that it stays as it
was recorded last.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.repository_layout import ANYWHERE, TAGS_FILE, Layout
from cachewatch.core.tag_pairs import Blob
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import TOO_LARGE
from cachewatch.git.recorded_repository import Recording, open_recording
from cachewatch.runtime.untrusted_files import read_beginning
from cachewatch.sources import folders

_LARGEST_TAGS = 2**20


def record_folder(
    name: str, repository: Path, layout: Layout = ANYWHERE, *, now: datetime | None = None
) -> tuple[Diagnostic, ...]:
    """Add the documents in the folder `name` to the bare repository at `repository`, and return what is wrong with them.

    The revision has the time `now`, or else that of the newest document. Raises UsageError or SourceError where there
    is no document that can be read; then nothing is written.
    """
    listings = folders.list_path(name, layout)
    blobs = [blob for listing in listings for blob in listing.blobs.values()]
    reader, others = listings[0].reader, listings[0].others
    found = [each for listing in listings for each in listing.diagnostics]
    told = {each.path for each in found}
    root = f"{name.rstrip('/')}/"
    with open_recording(repository) as recording:
        before = recording.files()
        present: set[str] = set()
        for blob, content in zip(blobs, reader.read(blobs), strict=True):
            path = blob.name.removeprefix(root)
            present.add(path)
            problem = content if isinstance(content, str) else _problem(path, content)
            if isinstance(content, bytes) and not problem:
                _put(recording, before, path, content)
            elif blob.name not in told:
                found.append(Diagnostic(blob.name, DiagnosticKind.UNREADABLE, problem))
        _put_stacks(recording, before, name)
        for path in sorted(before.keys() - present - {TAGS_FILE}):
            if path not in others and not any(each.endswith("/") and path.startswith(each) for each in others):
                recording.remove(path)
            elif path in others and not others[path] and root + path not in told:
                message = (
                    "what was recorded of it stays: now it is no document, or not the only one of its package and tag"
                )
                found.append(Diagnostic(root + path, DiagnosticKind.UNREADABLE, message))
        recording.commit(f"Record {name}\n".encode("utf-8", "replace").decode(), now or _newest(blobs))
    return tuple(found)


def _problem(path: str, content: bytes) -> str:
    """Return why a document cannot be recorded; "" if it can."""
    if len(content) > MAX_BYTES:
        return TOO_LARGE
    return "" if path.isprintable() else "the name of the file has control characters, or is not UTF-8"


def _put(recording: Recording, before: Mapping[str, str], path: str, content: bytes) -> None:
    if before.get(path) != recording.id_of(content):
        recording.write(path, content)


def _put_stacks(recording: Recording, before: Mapping[str, str], name: str) -> None:
    """Keep the file that says which stacks each tag has, where the folder is a whole catalogue."""
    try:
        _put(recording, before, TAGS_FILE, read_beginning(f"{name}/{TAGS_FILE}", _LARGEST_TAGS))
    except OSError:
        return  # it only helps to name stacks


def _newest(blobs: Iterable[Blob]) -> datetime:
    """Return when the newest of these files was changed."""
    times = [Path(blob.name).stat().st_mtime for blob in blobs if Path(blob.name).exists()]
    return datetime.fromtimestamp(max(0, *times), UTC)
