"""Build the site: all pages of a catalogue and its history, its Atom feeds, and the archive of digests.

Templates make pages of values. `Folder` writes only pages whose key, a hash of the templates and of all values, is new.
It replaces and removes only files that are in the list of pages that the last build wrote.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from cachewatch import __version__
from cachewatch.channels.files_and_feeds import TEMPLATE, Feed, FeedEntry, timestamp, urn
from cachewatch.core.escaping_and_mentions import markup, safe
from cachewatch.core.kinds_and_specs import grouped
from cachewatch.errors import SourceError, UsageError, explained
from cachewatch.extensions.site import overview_pages_and_search_index as overview
from cachewatch.extensions.site.package_histories import DatedRevision, file_name, page, shown, totals_of
from cachewatch.extensions.site.package_page import Sources, package_page
from cachewatch.extensions.site.page_parts_and_plots import Link, View
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.diff_blocks_and_colours import Block
from cachewatch.report.digest_and_message_values import RenderedDigest, with_neighbours
from cachewatch.report.template_rendering import render
from cachewatch.report.words import first_of
from cachewatch.runtime.files_and_locks import publish, read_inside, remove
from cachewatch.runtime.worker import in_processes

_MOST_ENTRIES = 20
_UNKNOWN = datetime.fromtimestamp(0, UTC)
_OWN = ".cachewatch"
_LARGEST = 2 * 2**30
Value = TypeVar("Value")
_TEMPLATES = files(__package__) / "templates"
_PAGES_AT_ONCE = 50
_NO_SOURCES = Sources()
_Page = tuple[str, str, Mapping[str, Any]]  # path, template and values
_Section = tuple[str, tuple[str, ...], str]  # heading, lines, and how many more there are


def tag_feed(catalogue: SiteContents, title: str) -> View:
    """Return the feed of the newest revisions that changed the tag whose history is shown; `title` is the site's."""
    past = catalogue.past
    changed = [(moment, story) for moment, story in zip(past.revisions, catalogue.stories, strict=True) if story.facts]
    entries = []
    for moment, story in changed[::-1][:_MOST_ENTRIES]:
        name, facts = ("revision", past.tag, moment.revision), first_of([fact.text for fact in story.facts], by="; ")
        entries.append(_entry(name, moment, markup(facts), moment.path, map(_section, story.sections)))
    return _feed(("tag", past.tag), f"{title}: {shown(past.tag)}", "index.html", entries, past.revisions[0].time)


def _section(block: Block) -> _Section:
    """Return what `block` says, for a feed entry: its heading, its lines, and a text on how many more there are."""
    heading = (f"{block.title} {block.name}".strip(), block.total)
    lines = ((f"{each.name} {each.fact}".strip(), each.specs, each.where) for each in block.entries)
    heading_text, *texts = (markup(", ".join(filter(None, parts))) for parts in (heading, *lines))
    return heading_text, tuple(texts), block.more


def page_feed(kind: str, name: str, values: View, since: datetime | None) -> View:
    """Return the feed of versions that the package or stack `name` gained or lost; `values` are those of its page.

    `kind` is "package" or "stack"; `since` is the time of the first revision of the site.
    """
    home = f"{file_name(name)}.html"
    entries = []
    for event in [one for one in values["happenings"] if one["added"] or one["removed"]][:_MOST_ENTRIES]:
        sides = [
            (word, tuple(markup(link.text) for link in event[word]), f"and {more:,} more" if more else "")
            for word, more in (("added", event["more_added"]), ("removed", event["more_removed"]))
            if event[word]
        ]
        title = f"{values['name']}: " + "; ".join(f"{word} {markup(first_of(texts))}" for word, texts, _ in sides)
        sections = ((word.capitalize(), texts, more) for word, texts, more in sides)
        entries.append(_entry((kind, name, event["moment"].commit), event["moment"], title, home, sections))
    return _feed((kind, name), f"{values['name']} in {values['tag']}", home, entries, since)


def _entry(
    name: Sequence[str], moment: DatedRevision, title: str, link: str, sections: Iterable[_Section]
) -> FeedEntry:
    updated = timestamp(moment.time or _UNKNOWN)
    return FeedEntry(id=_id(name), title=title, updated=updated, link=link, sections=tuple(sections))


def _feed(name: Sequence[str], title: str, home: str, entries: Sequence[FeedEntry], since: datetime | None) -> View:
    """Return the values of a feed; `name` becomes its id, `home` is its page, `since` its date if it has no entries."""
    # The feed must change only if an entry does: without entries, it is as old as the history.
    updated = entries[0].updated if entries else timestamp(since or _UNKNOWN)
    return {"feed": Feed(id=_id(name), title=markup(title), updated=updated, page=home), "entries": entries}


def _id(name: Sequence[str]) -> str:
    return urn("\0".join(("cachewatch.site", *name)))


def digests_page(digests: Sequence[RenderedDigest], feeds: Mapping[str, str]) -> View:
    """Return the values of the page that lists `digests`, in this order, and `feeds`: addresses by subscription."""
    listed = sorted({digest.subscription for digest in digests})
    return {
        "digests": [
            {
                "title": Link(shown(digest.title, 160), page("digest", digest.key)),
                "subscription": shown(digest.subscription),
                "period": shown(digest.period),
                "day": digest.created.date().isoformat(),
            }
            for digest in digests
        ],
        "feeds": [Link(shown(name), feed) for name in listed if (feed := feeds.get(name))],
    }


def digest_pages(digests: Sequence[RenderedDigest]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each digest's page, with links to the digests before and after in its subscription."""
    for own in grouped((digest.subscription, digest) for digest in digests).values():  # each with the newest first
        names = [f"{file_name(digest.key)}.html" for digest in own]
        for digest, name, following, previous in zip(own, names, [None, *names], [*names[1:], None], strict=False):
            content = with_neighbours(digest.page or digest.html, previous=previous, following=following)
            yield f"digest/{name}", content.encode()


class _Manifest(Struct):
    pages: dict[str, str]  # key by path


class Folder:
    """The folder of a site: the pages, a list of them, and the contents that the last build showed."""

    def __init__(self, path: Path) -> None:
        """Use the folder `path`. Raises UsageError if it exists, is not empty, and is no site of cachewatch."""
        self.path = path
        self._pages: dict[str, str] = {}
        self._written = 0
        manifest = self._load("pages.json", msgspec.json.Decoder(_Manifest).decode)
        self._before = manifest.pages if manifest else {}
        with explained(UsageError, f"{path}: cannot be used"):
            is_foreign = manifest is None and path.exists() and any(path.iterdir())
        if is_foreign:
            message = "this folder contains something other than a site of cachewatch; choose another one"
            raise UsageError(f"{path}: {message}")

    def remembered(self) -> SiteContents | None:
        """Return the contents that the last build stored; None if there was no build or they are unreadable."""
        return self._load("history.msgpack", msgspec.msgpack.Decoder(SiteContents).decode)

    def offer(self, path: str, key: str) -> bool:
        """Add the page at `path`; return whether it must be written: its hash `key` is new, or the file is missing."""
        assert path not in self._pages, path
        self._pages[path] = key
        return self._before.get(path) != key or not (self.path / path).is_file()

    def put(self, path: str, content: bytes) -> None:
        """Write the page at `path`, which `offer` said must be written. Raises SourceError if that fails."""
        if not self._written:
            # If this build is interrupted, the next one knows that the folder is ours, and writes every page.
            self._note(dict.fromkeys({**self._before, **self._pages}, ""))
        self._write(path, content)
        self._written += 1

    def finish(self, contents: SiteContents) -> tuple[int, int, int]:
        """Remove pages not offered; store `contents` and the list of pages; count files written, kept and removed."""
        stale = [path for path in self._before if path not in self._pages]
        for path in stale:
            parts = PurePosixPath(path).parts  # the list of pages may be forged
            if 1 <= len(parts) <= 2 and ".." not in parts and not path.startswith("/") and safe(path) == path:
                with explained(SourceError, f"{self.path / path}: cannot be removed"):
                    remove(self.path / path, base=self.path)
        self._write(f"{_OWN}/history.msgpack", msgspec.msgpack.encode(contents))
        self._note(self._pages)
        return self._written, len(self._pages) - self._written, len(stale)

    def _note(self, pages: Mapping[str, str]) -> None:
        manifest = _Manifest(dict(sorted(pages.items())))
        self._write(f"{_OWN}/pages.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1))

    def _load(self, name: str, decode: Callable[[bytes], Value]) -> Value | None:
        with suppress(OSError, msgspec.MsgspecError):
            return decode(read_inside(self.path, f"{_OWN}/{name}", most=_LARGEST))
        return None

    def _write(self, path: str, content: bytes) -> None:
        target = self.path / path
        with explained(SourceError, f"{target}: cannot be written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            publish(target, content, base=self.path, mode=0o644, is_durable=False)


def _hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def build(
    folder: Folder,
    catalogue: SiteContents,
    digests: Iterable[RenderedDigest],
    feeds: Mapping[str, str] = {},  # addresses of Atom feeds, relative to the site or absolute, by subscription
    *,
    title: str,  # of the site
    sources: Sources = _NO_SOURCES,  # addresses of binaries and of pages about packages
    jobs: int = 1,  # number of processes
    progress: Callable[[int], None] = lambda _: None,  # gets numbers of pages that were written
) -> tuple[int, int, int]:
    """Write the site of `catalogue` and `digests` to `folder`; return how many files were written, kept and removed.

    `feeds`: addresses of Atom feeds by subscription. `progress` gets the number of pages that were just written.
    """
    digests = sorted(digests, key=lambda digest: (digest.created, digest.key), reverse=True)
    sources_of_pages = sorted(_TEMPLATES.iterdir(), key=lambda file: file.name)
    texts = [__version__, title, *(["digests"] if digests else []), *(f.read_text("utf-8") for f in sources_of_pages)]
    templates = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    for path, content in _files(catalogue, digests):
        if folder.offer(path, _hash_of(content)):
            folder.put(path, content)
    short = shown(title, 120)
    pages = _pages(catalogue, digests, feeds, short, sources)
    due = [one for one in pages if folder.offer(one[0], _hash_of(msgspec.json.encode([templates, one[2]])))]

    def make(run: Sequence[_Page]) -> list[tuple[str, bytes]]:
        made = []
        for path, template, values in run:
            name = TEMPLATE if template == "feed" else f"site/{template}.html.j2"
            more = {"title": short, "up": "../" * path.count("/"), "has_digests": bool(digests)}
            made.append((path, render(name, here=template, **more, **values).encode()))
        return made

    runs = [due[start : start + _PAGES_AT_ONCE] for start in range(0, len(due), _PAGES_AT_ONCE)]
    for run in in_processes(lambda: make, runs, jobs):
        for path, content in run:
            folder.put(path, content)
        progress(len(run))
    return folder.finish(catalogue)


def _files(catalogue: SiteContents, digests: Sequence[RenderedDigest]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of every file that is not made from a template."""
    for name in ("site.css", "site.js"):
        yield f"assets/{name}", (_TEMPLATES / name).read_bytes()
    packages = sorted(overview.packages_of(catalogue))
    yield "assets/index.js", overview.index_file(packages, catalogue, totals_of(catalogue.past))
    yield from overview.hash_files(packages, catalogue)
    yield from digest_pages(digests)


def _pages(
    catalogue: SiteContents, digests: Sequence[RenderedDigest], feeds: Mapping[str, str], title: str, sources: Sources
) -> Iterator[_Page]:
    past, totals, packages = catalogue.past, totals_of(catalogue.past), overview.packages_of(catalogue)
    name, since = shown(past.tag), past.revisions[0].time
    yield "index.html", "index", {"view": overview.index_page(catalogue, totals)}
    yield "packages.html", "packages", {"packages": overview.package_rows(catalogue), "tag": name}
    yield "stacks.html", "stacks", {"plot": overview.stacks_plot(catalogue, totals), "tag": name}
    yield "tags.html", "tags", {"tags": overview.tag_rows(catalogue), "told": name}
    yield "revisions.html", "revisions", {"rows": overview.revision_list(catalogue, totals), "tag": name}
    yield "feed.atom", "feed", tag_feed(catalogue, title)
    if digests:
        yield "digests.html", "digests", {"view": digests_page(digests, feeds)}
    for path, view in overview.revision_pages(catalogue):
        yield path, "revision", {"view": view}
    for stack, view in overview.stack_pages(past, totals):
        yield page("stack", stack), "stack", {"view": view}
        yield f"stack/{file_name(stack)}.atom", "feed", page_feed("stack", stack, view, since)
    for tag, view in overview.tag_pages(catalogue):
        yield page("tag", tag), "tag", {"view": view}
    for package in sorted(packages):
        view = package_page(package, catalogue, packages, sources)
        yield page("package", package), "package", {"view": view}
        if view["feed"]:
            yield f"package/{file_name(package)}.atom", "feed", page_feed("package", package, view, since)
