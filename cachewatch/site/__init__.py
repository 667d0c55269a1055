"""A static site of a catalogue and its past. Start reading here.

`reading.py` gets everything out of the repository, `overview.py`, `listing.py`, `packages.py`,
`stacks.py`, `tagpages.py` and `revisions.py` say what pages say, as the values in
`views.py`, and templates/site/ makes pages of them. `writing.py` writes those that changed.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from cachewatch import __version__
from cachewatch.history import totals_of
from cachewatch.runtime import resources
from cachewatch.runtime.parallel import in_processes
from cachewatch.site.archive import Archive, ArchivedDigest, NoArchive, StateArchive
from cachewatch.site.overview import index_page, stacks_plot
from cachewatch.site.package_lists import package_rows, search_index
from cachewatch.site.packages import package_page
from cachewatch.site.page_names import page, shown
from cachewatch.site.read_history import Catalogue
from cachewatch.site.revisions import revision_list
from cachewatch.site.shared_phrases import Times
from cachewatch.site.stacks import stack_pages
from cachewatch.site.tagpages import tag_pages, tag_rows
from cachewatch.site.write_pages import Built, Folder, key_of

__all__ = ["Archive", "ArchivedDigest", "NoArchive", "StateArchive", "build"]

_TEMPLATES = (
    "_base.html.j2",
    "_plots.html.j2",
    "index.html.j2",
    "package.html.j2",
    "packages.html.j2",
    "revisions.html.j2",
    "stack.html.j2",
    "stacks.html.j2",
    "tag.html.j2",
    "tags.html.j2",
)
_ASSETS = ("site.css", "site.js")
_PAGES_AT_ONCE = 50

Progress = Callable[[int], None]


class _Page(Struct, frozen=True):
    """One page to be: where, by which template, and what it says."""

    path: str
    template: str
    values: Mapping[str, object]


def build(
    folder: Folder,
    catalogue: Catalogue,
    archive: Archive,
    *,
    title: str,
    jobs: int = 1,
    progress: Progress = lambda _: None,
) -> Built:
    """Write the site of `catalogue` into `folder`, as far as it differs from what is there."""
    source = _digest_of_templates(title)
    for name in _ASSETS:
        content = _asset(name)
        if folder.offer(f"assets/{name}", hashlib.sha256(content).hexdigest()):
            folder.put(f"assets/{name}", content)
    digests = sorted(archive.digests(), key=lambda digest: (digest.created, digest.key), reverse=True)
    for digest in digests:
        content = digest.html.encode()
        path = page("digest", digest.key)
        if folder.offer(path, hashlib.sha256(content).hexdigest()):
            folder.put(path, content)
    due = [p for p in _pages(catalogue, digests) if folder.offer(p.path, key_of(source, p.values))]
    for run in _render(due, shown(title, 120), jobs):
        for path, content in run:
            folder.put(path, content)
        progress(len(run))
    folder.remember(catalogue.remembered)
    return folder.finish()


def _pages(catalogue: Catalogue, digests: Sequence[ArchivedDigest]) -> Iterator[_Page]:
    past = catalogue.past
    totals, times = totals_of(past), Times(past)
    told = shown(past.tag)
    yield _Page("index.html", "index", {"view": index_page(catalogue, totals, times, digests)})
    yield _Page(
        "packages.html",
        "packages",
        {"packages": package_rows(catalogue, times), "index": search_index(catalogue), "tag": told},
    )
    yield _Page("stacks.html", "stacks", {"plot": stacks_plot(totals, times), "tag": told})
    yield _Page("tags.html", "tags", {"tags": tag_rows(catalogue), "told": told})
    yield _Page("revisions.html", "revisions", {"happenings": revision_list(past, totals, times), "tag": told})
    for stack, stack_view in stack_pages(past, totals, times).items():
        yield _Page(page("stack", stack), "stack", {"view": stack_view})
    for tag, tag_view in tag_pages(catalogue).items():
        yield _Page(page("tag", tag), "tag", {"view": tag_view})
    histories = {history.package: history for history in past.packages}
    for package in sorted(histories.keys() | {name for packages in catalogue.tags.values() for name in packages}):
        in_tags = {tag: packages[package] for tag, packages in catalogue.tags.items() if package in packages}
        view = package_page(package, past.tag, histories.get(package), in_tags, times)
        yield _Page(page("package", package), "package", {"view": view})


def _render(pages: Sequence[_Page], title: str, jobs: int) -> Iterator[list[tuple[str, bytes]]]:
    from cachewatch.render.templates import render  # noqa: PLC0415  nothing to render, nothing to load

    def make(run: Sequence[_Page]) -> list[tuple[str, bytes]]:
        return [
            (
                p.path,
                render(
                    f"site/{p.template}.html.j2", title=title, up="../" * p.path.count("/"), here=p.template, **p.values
                ).encode(),
            )
            for p in run
        ]

    runs = [pages[start : start + _PAGES_AT_ONCE] for start in range(0, len(pages), _PAGES_AT_ONCE)]
    yield from in_processes(lambda: make, runs, jobs)


def _digest_of_templates(title: str) -> str:
    texts = [__version__, title, *(_asset(name).decode() for name in _TEMPLATES)]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _asset(name: str) -> bytes:
    source = resources.template(f"site/{name}")
    assert source is not None, name
    return source.encode()
