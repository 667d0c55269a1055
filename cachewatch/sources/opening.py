"""What `diff BEFORE AFTER` was asked to compare: revisions, tags, files, folders, or a mix."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cachewatch.core import tag_names
from cachewatch.core.model import Diagnostic, Side
from cachewatch.core.repository_layout import DOCUMENT, Wanted
from cachewatch.core.tag_pairs import Blob, Comparison, Difference, DocumentPair, Listing, Readers, TagPair
from cachewatch.errors import UsageError
from cachewatch.sources import folders

if TYPE_CHECKING:
    from cachewatch.git.repository import Repository

Choice = Callable[[str], bool]
_MAY_BE_REVISION = re.compile(r"[^/.~][^/.:~^]*(/[^/.:~^]+)*")


def needs_git(before: str, after: str) -> bool:
    """Tell whether one of them is a revision."""
    return not (folders.is_documents(before) and folders.is_documents(after))


@contextmanager
def open_comparison(
    before: str,
    after: str,
    *,
    repository: "str | Repository | Callable[[], Repository]",
    wanted_tag: Choice,
    wanted_package: Wanted,
) -> Iterator[Comparison]:
    """Find what differs between `before` and `after`, and let go of it all at the end.

    `repository` is a path, a URL or a function, and is not opened unless a side needs it; or a repository that
    is open, and stays open.
    """
    documents = {name: _list_documents(name) for name in (before, after) if folders.is_documents(name)}
    if not needs_git(before, after):
        stacks = (partial(folders.stacks_of, before), partial(folders.stacks_of, after))
        yield _compare_listings(_match(documents[before], documents[after], wanted_tag), wanted_package, stacks)
        return
    # Git costs a tenth of a second to load, and two files do not need it.
    from cachewatch.git.catalogue import compare_revisions, list_revision  # noqa: PLC0415
    from cachewatch.git.resolving_revisions import resolve  # noqa: PLC0415

    if isinstance(repository, str):
        from cachewatch.git.clone_cache import open_repository  # noqa: PLC0415

        opened = open_repository(repository)
    else:
        opened = repository() if callable(repository) else repository
    try:
        if documents:
            old, new = (
                documents[name]
                if name in documents
                else [list_revision(opened, resolve(opened, name), wanted_tag=wanted_tag, wanted_package=_all)]
                for name in (before, after)
            )
            yield _compare_listings(_match(old, new, wanted_tag), wanted_package)
        else:
            yield compare_revisions(
                opened,
                resolve(opened, before),
                resolve(opened, after),
                wanted_tag=wanted_tag,
                wanted_package=wanted_package,
            )
    finally:
        if opened is not repository:
            opened.close()


def _list_documents(name: str) -> list[Listing]:
    """List what is at `name`, or raise UsageError saying what to do with a folder that holds no documents."""
    listings = folders.list_path(name, wanted_package=_all)
    folder = Path(name)
    if any(listing.blobs or listing.diagnostics for listing in listings) or not folder.is_dir():
        return listings
    otherwise = f"; if you mean a branch or tag of git, write refs/heads/{name} or refs/tags/{name}"
    raise UsageError(f"{name}: {_what_it_is(folder)}{otherwise if _MAY_BE_REVISION.fullmatch(name) else ''}")


def _what_it_is(folder: Path) -> str:
    if folders.is_build_cache(folder):
        return (
            f"is a build cache and holds no documents; `cachewatch record {folder} --into catalogue.git` records it, "
            "and `cachewatch diff HEAD~1 --repo catalogue.git` compares what was recorded"
        )
    there = "holds no documents" if any(folder.iterdir()) else "is empty"
    return f"{there}; documents are files _cache/<tag>/<package>/specs.md or <package>.md"


def _all(_: str) -> bool:
    """Want every package: what happened to the whole tag is judged on all of it."""
    return True


def _match(old: list[Listing], new: list[Listing], wanted_tag: Choice) -> list[tuple[Listing, Listing]]:
    """Pair the tags of two sides: by name, or the only one of one side with its like."""
    if len(old) == 1 and len(new) == 1:
        return [(old[0], new[0])]
    if len(old) == 1 or len(new) == 1:
        only, many = (old[0], new) if len(old) == 1 else (new[0], old)
        like = [listing for listing in many if listing.side.tag == (only.side.tag or "develop")]
        if not like:
            raise UsageError(
                f"{many[0].side.name} holds several tags; name the folder of the one to compare with {only.side.name}"
            )
        return [(only, like[0]) if only is old[0] else (like[0], only)]
    had, has = ({listing.side.tag or "": listing for listing in side} for side in (old, new))
    return [
        (had.get(tag) or _nothing(old[0], tag), has.get(tag) or _nothing(new[0], tag))
        for tag in tag_names.in_order(had.keys() | has.keys())
        if wanted_tag(tag)
    ]


def _nothing(like: Listing, tag: str) -> Listing:
    return Listing(Side(name=like.side.name, tag=tag), {}, like.reader, ())


def _compare_listings(
    matched: list[tuple[Listing, Listing]],
    wanted: Wanted,
    stacks: tuple[Callable[[], Mapping[str, frozenset[str]]], Callable[[], Mapping[str, frozenset[str]]]] | None = None,
) -> Comparison:
    if not matched:
        raise UsageError("no tag matches")
    pairs = tuple(_compare_two(old, new, wanted) for old, new in matched)
    readers = Readers(matched[0][0].reader, matched[0][1].reader)
    if stacks is None:
        return Comparison(pairs=pairs, readers=readers)
    return Comparison(pairs=pairs, readers=readers, stacks=stacks)


def _compare_two(old: Listing, new: Listing, wanted: Wanted) -> TagPair:
    had, has = old.blobs, new.blobs
    if old.is_one_document and new.is_one_document:
        package = _only_package(old, new)
        had, has = _renamed(had, package), _renamed(has, package)
    elif old.is_one_document and not _is_nothing(new):
        has = _only(has, had)
    elif new.is_one_document and not _is_nothing(old):
        had = _only(had, has)
    names = sorted(had.keys() | has.keys())
    return TagPair(
        before=old.side,
        after=new.side,
        difference=Difference(
            documents=tuple(DocumentPair(name, had.get(name), has.get(name)) for name in names if wanted(name)),
            count_unchanged=lambda: 0,  # all of them are compared
            diagnostics=tuple(
                diagnostic for diagnostic in old.diagnostics + new.diagnostics if _concerns(diagnostic, wanted)
            ),
            others=tuple(DocumentPair(name, had.get(name), has.get(name)) for name in names if not wanted(name)),
        ),
    )


def _concerns(diagnostic: Diagnostic, wanted: Wanted) -> bool:
    """Tell whether a fault is of a document that was asked for, or of none in particular."""
    path = Path(diagnostic.path)
    if path.suffix != ".md":
        return True
    return wanted(path.parent.name if path.name == DOCUMENT else path.stem)


def _is_nothing(listing: Listing) -> bool:
    return listing.side.name == os.devnull


def _only_package(old: Listing, new: Listing) -> str:
    """Return the package of two documents, or raise UsageError if they are of different ones."""
    had, has = (folders.title_of(listing) for listing in (old, new))
    if had and has and had != has:
        raise UsageError(
            f"{old.side.name} is of the package {had}, {new.side.name} of {has}; name two documents of one package"
        )
    return next(filter(None, (has, had, *new.blobs, *old.blobs)), "unknown")


def _renamed(blobs: Mapping[str, Blob], package: str) -> Mapping[str, Blob]:
    (blob,) = blobs.values()
    return {package: blob}


def _only(blobs: Mapping[str, Blob], like: Mapping[str, Blob]) -> Mapping[str, Blob]:
    """Keep the packages that a single document stands for: the others are not missing."""
    return {package: blob for package, blob in blobs.items() if package in like}
