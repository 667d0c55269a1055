"""What readers got, read from their mails alone: each digest by its text, its headers and the table that is attached."""

import csv
import email
import email.policy
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from email.message import EmailMessage

from model.checks import by_message_id, different_copies
from model.sums import Digest, Line, News, added_up
from model.world import Stream

# The text of a note goes on in lines that begin with blanks.
_FOLD = re.compile(r"\n +")
_UNKNOWN = re.compile(r"no earlier version of these documents of (\S+) can be read: (.*?);")


def problems(taken: Sequence[bytes], stream: Stream, line: Line) -> Iterator[str]:
    """Yield what is wrong with all that one reader of a stream got, in order."""
    bodies = by_message_id(taken)
    yield from different_copies(bodies)
    digests = [read_mail(min(found)) for found in bodies.values()]
    if unknown := [digest.revision for digest in digests if digest.revision not in line.published]:
        yield f"tells of {unknown}, which were never published"
        return
    yield from added_up(digests, stream.selected, line)


def read_mail(message: bytes) -> Digest:
    """Read a digest."""
    mail = email.message_from_bytes(message, policy=email.policy.default)
    text = _FOLD.sub(" ", _part(mail, "text/plain"))
    without_base = [(found[1], found[2].split(", ")) for found in _UNKNOWN.finditer(text)]
    unknown = frozenset((tag, package) for tag, packages in without_base for package in packages)
    is_unconfirmed = "not confirmed by the operators" in text
    news = tuple(_news(_part(mail, "text/csv")))
    return Digest(revision_of(mail), frozenset(), news, frozenset(), unknown, is_unconfirmed)


def newest(taken: Sequence[bytes]) -> str:
    """Return the revision that the last message tells of, or nothing."""
    return revision_of(email.message_from_bytes(taken[-1], policy=email.policy.default)) if taken else ""


def revision_of(mail: EmailMessage) -> str:
    """Return the revision up to which a digest tells."""
    return str(mail["X-Cachewatch-Revisions"]).rpartition("..")[2]


def _part(mail: EmailMessage, content_type: str) -> str:
    """Return a part, which is empty if there is nothing to attach."""
    found = [part.get_content() for part in mail.walk() if part.get_content_type() == content_type]
    return "".join(part if isinstance(part, str) else part.decode() for part in found)


def _news(table: str) -> Iterator[News]:
    rows: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(table)):
        rows[row["tag"]].append(row)
    for tag, found in rows.items():
        kinds = {row["change"] for row in found}
        yield News(
            tag=tag,
            base=tag,
            base_revision="",
            added=_versions(found, "version-added"),
            removed=_versions(found, "version-removed"),
            gone=tuple(sorted({row["package"] for row in found if row["change"] == "package-removed"})),
            is_whole="tag-added" in kinds,
            is_gone="tag-removed" in kinds,
            named=frozenset(),
        )


def _versions(rows: Sequence[dict[str, str]], kind: str) -> dict[str, list[str]]:
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["change"] == kind:
            versions[row["package"]].append(row["name"])
    return versions
