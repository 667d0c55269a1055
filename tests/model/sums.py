"""Add up what digests report, and compare it with what there was.

What is added must not have been there, what is removed must; then it is what upstream had, but for documents nobody could read.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cachewatch.core.advice.waits_and_reminders import series_or_tag
from cachewatch.core.names_and_layouts import is_snapshot
from model.catalogue import Broken, Builds, Tags, readable, version

Versions = frozenset[str]
Content = dict[str, dict[str, Versions]]


_RETURNED = re.compile(r"(\S+) is back; it was gone since ")
_UNKNOWN = re.compile(r"no earlier version of these documents of (\S+) can be read: (.*);")


class News(NamedTuple):
    """What a digest tells of one tag."""

    tag: str
    base: str  # the tag that it is compared with
    base_revision: str
    added: Mapping[str, list[str]]
    removed: Mapping[str, list[str]]
    gone: tuple[str, ...]  # packages
    is_whole: bool  # the tag was not there before
    is_gone: bool
    named: frozenset[str]  # other tags that it only says are there


class Digest(NamedTuple):
    """What is read in one digest."""

    revision: str
    bases: frozenset[str]  # the revisions that it is compared with
    news: tuple[News, ...]
    returned: frozenset[str]  # tags of which a note says that they are back
    unknown: frozenset[tuple[str, str]]  # tags with packages of which a note says that nobody knows what they had
    is_unconfirmed: bool = False  # operators did not answer in time
    held: frozenset[str] = frozenset()  # tags that were held by themselves when it was sent

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags that it says something of."""
        told = {tag for news in self.news for tag in (news.tag, *news.named)}
        return self.returned | told | {tag for tag, _ in self.unknown}

    def gone(self) -> Counter[tuple[str, str]]:
        """Count what it says has gone: packages, and tags, which have no package."""
        packages = [(each.tag, package) for each in self.news for package in each.gone]
        return Counter([*packages, *((each.tag, "") for each in self.news if each.is_gone)])


def read_digest(content: bytes) -> Digest:
    """Read a digest in its JSON form."""
    data = json.loads(content)
    (revision,) = {span["after"]["revision"] for span in data["spans"]}
    bases = frozenset(span["before"]["revision"] for span in data["spans"])
    notes = [note for span in data["spans"] for note in span["notes"]]
    returned = frozenset(found[1] for note in notes if (found := _RETURNED.match(note)))
    without_base = [(found[1], found[2].split(", ")) for note in notes if (found := _UNKNOWN.match(note))]
    unknown = frozenset((tag, package) for tag, packages in without_base for package in packages)
    is_unconfirmed = any(note.startswith("not confirmed by the operators") for note in notes)
    news = tuple(_news(tag) for tag in data["tags"])
    return Digest(revision, bases, news, returned, unknown, is_unconfirmed)


# Statements that say of whole packages that they are gone: these worlds have one stack and one target.
_REMOVED = ("package-removed", "suspicious")


def _news(data: dict[str, Any]) -> News:
    statements = [*data["statements"], *data["hidden"]]
    kinds = {one["kind"] for one in statements}
    gone = {name for one in data["statements"] if one["kind"] in _REMOVED for name in one["packages"]}
    versions = {each["package"]: each for each in data["versions"]}
    return News(
        tag=data["tag"],
        base=data["before"]["tag"],
        base_revision=data["before"]["revision"],
        added={package: each["added"] for package, each in versions.items()},
        removed={package: each["removed"] for package, each in versions.items()},
        gone=tuple(sorted(gone)),
        is_whole="tag-added" in kinds and data["before"]["tag"] == data["tag"],
        is_gone="tag-removed" in kinds,
        named=frozenset(one["name"] for one in statements if one["kind"] == "tag-added") - {data["tag"]},
    )


def content_of(tags: Tags) -> Content:
    """Return the versions of every package that can be read."""
    return {
        tag: {package: _versions(builds) for package, builds in readable(listed).items()}
        for tag, listed in tags.items()
    }


def _versions(builds: Builds) -> Versions:
    return frozenset(map(version, builds))


class Sum:
    """What the readers of one stream know."""

    def __init__(self, first: Tags, had: Callable[[str], Tags], *, is_forgetful: bool = False) -> None:
        """Begin with `had`, the last readable versions by revision; who `is_forgetful` had a clock far ahead, and may forget."""
        self.known = content_of(first)
        self._had = had
        self._is_forgetful = is_forgetful
        self.before: Content = {}  # what was known before the last digest
        self.gone: set[str] = set()
        self.past: dict[tuple[str, str], Versions] = {}  # what packages had that are gone

    def add(self, digest: Digest, there: Tags) -> Iterator[str]:
        """Take in a digest of the revision in which upstream had what is `there`; yield what is wrong with it."""
        self.before = {tag: dict(packages) for tag, packages in self.known.items()}
        for tag in sorted(digest.returned):
            if tag not in self.gone and self.known.get(tag):
                yield f"{tag} is said to be back, which was never said to be gone"
            self.gone.discard(tag)
        for news in digest.news:
            for tag in sorted(news.named):
                if tag in self.known and tag not in self.gone:
                    yield f"{tag} is said to be there, of which readers knew"
                self.known[tag] = content_of(self._had(digest.revision))[tag]
                self.gone.discard(tag)
            yield from self._add(news, content_of(there).get(news.tag, {}))
        for tag, package in sorted(digest.unknown):
            known = self.known.setdefault(tag, {})
            if package in known:
                yield f"{tag}/{package} is said to be unknown, of which readers knew"
            if now := content_of(there).get(tag, {}).get(package):
                known[package] = now
        yield from self.differences(there, digest.held)

    def differences(self, there: Tags, held: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield where what is known is not what is `there`, but for tags that are `held` and documents that cannot be read."""
        has = content_of(there)
        for tag in sorted((has.keys() | self.known.keys()) - held):
            if not there.get(tag) and (tag in self.gone or not self.known.get(tag)):
                continue  # there is nothing in it that was asked for
            if (tag in has) != (tag in self.known and tag not in self.gone):
                yield f"{tag} is {'there' if tag in has else 'gone'}, which nobody was told"
                continue
            if tag not in has:
                continue
            unread = {package for package, found in there[tag].items() if isinstance(found, Broken)}
            for package in sorted((has[tag].keys() | self.known[tag].keys()) - unread):
                known, has_it = self.known[tag].get(package, Versions()), has[tag].get(package, Versions())
                past = self.past.get((tag, package)) or self._in_earlier_snapshot(tag, package)
                if package not in self.known[tag] and has_it == past:
                    self.known[tag][package] = known = has_it  # it is back, unchanged
                if known != has_it:
                    yield f"{tag}/{package} has {sorted(has_it)}, but readers know {sorted(known)}"

    def _add(self, news: News, there: Mapping[str, Versions]) -> Iterator[str]:
        if news.is_gone:
            if news.tag not in self.known or news.tag in self.gone:
                yield f"{news.tag} is said to be gone, of which nobody knew"
            self.gone.add(news.tag)
            return
        is_known = news.tag in self.known
        if news.is_whole:
            self.known[news.tag] = {}
        elif news.base != news.tag:
            # What cannot be read of the base is compared by its last readable version.
            self.known[news.tag] = content_of(self._had(news.base_revision)).get(news.base, {})
        elif not is_known:
            self.known[news.tag] = {}  # it had nothing that was asked for
        is_forgotten = self._is_forgetful and news.tag in self.gone
        if is_known and (news.is_whole or news.base != news.tag) and not is_forgotten:
            # One that is back is compared with what was told of it last.
            yield f"{news.tag} is said to be new, of which readers knew"
        self.gone.discard(news.tag)
        yield from self._add_rows(news, there)

    def _in_earlier_snapshot(self, tag: str, package: str) -> Versions:
        """Return what the last snapshot before `tag`, of the same series, that had a package had of it."""
        of_series = [other for other in self.before if is_snapshot(tag) and series_or_tag(other) == series_or_tag(tag)]
        # Or it had it until it went from that snapshot alone.
        had = {other: self.before[other].get(package) or self.past.get((other, package)) for other in of_series}
        return had[max(earlier)] or Versions() if (earlier := [o for o in had if o < tag and had[o]]) else Versions()

    def _add_rows(self, news: News, there: Mapping[str, Versions]) -> Iterator[str]:
        packages = self.known[news.tag]
        for package in sorted(news.added.keys() | news.removed.keys()):
            added, removed = news.added.get(package, []), news.removed.get(package, [])
            before = packages.get(package, Versions())
            past = self.past.get((news.tag, package), Versions())
            if removed and not past:  # it is back in a later snapshot
                past = self._in_earlier_snapshot(news.tag, package)
            is_new = self._is_forgetful and not past <= there.get(package, Versions())
            if package not in packages and (removed or (past.isdisjoint(added) and not is_new)):
                before = past  # what is back is compared with what it had last
            if twice := [name for name, count in Counter([*added, *before]).items() if count > 1]:
                yield f"{news.tag}/{package}: {sorted(twice)} added once more"
            if missing := Counter(removed) - Counter(before):
                yield f"{news.tag}/{package}: {sorted(missing)} removed, which readers did not know"
            packages[package] = before - frozenset(removed) | frozenset(added)
            if not packages[package]:
                del packages[package]
                self.past[news.tag, package] = before


class Line(NamedTuple):
    """What upstream published, by commit, from the first commit to the last."""

    first: str
    last: str
    published: Mapping[str, Tags]
    last_read: Mapping[str, Tags]  # the same, with what broken documents had before
    is_forgotten: bool = False  # the service may have forgotten what it remembered first


def added_up(digests: Sequence[Digest], selected: Callable[[Tags], Tags], line: Line) -> Iterator[str]:
    """Add up the digests of a stream, in order; yield where that is not what happened to what it `selected`."""
    total = Sum(
        selected(line.published[line.first]),
        lambda revision: selected(line.last_read[revision]),
        is_forgetful=line.is_forgotten,
    )
    for number, digest in enumerate(digests, 1):
        for problem in total.add(digest, selected(line.published[digest.revision])):
            yield f"digest {number} of {len(digests)}: {problem}"
    for problem in total.differences(selected(line.published[line.last])):
        yield f"in the end: {problem}"
