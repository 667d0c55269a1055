"""Compare the two sides of `diff BEFORE AFTER`: revisions, a range `A..B` of git, tags, files or folders."""

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import Blob, Comparison, Difference, DocumentPair, Listing, Readers, TagPair
from cachewatch.core.filters_and_spec_patterns import Selection, no_tag_matches
from cachewatch.core.kinds_and_specs import Diagnostic, Side
from cachewatch.core.names_and_layouts import ANYWHERE, DEFAULT_TAG, DOCUMENT, ENDINGS, Layout, Wanted
from cachewatch.errors import UsageError
from cachewatch.sources import folders_and_unreadable_files as folders

if TYPE_CHECKING:
    from cachewatch.git.local_repository import Repository


def needs_git(before: str, after: str) -> bool:
    """Tell whether at least one of `before` and `after` is a git revision, not a path."""
    return not (folders.is_documents(before) and folders.is_documents(after))


def compare_sides(
    before: str, after: str, selection: Selection, *, repository: "Repository | None", layout: Layout = ANYWHERE
) -> Comparison:
    """Return the comparison of selected documents of `before` and `after`; `repository` may be None for two paths."""
    wanted_tag, wanted_package = selection.tags, selection.packages
    paths = {name: folders.list_path(name, layout) for name in (before, after) if folders.is_documents(name)}
    if repository is None or not needs_git(before, after):
        stacks = (partial(folders.stacks_of, before), partial(folders.stacks_of, after))
        return _compare_listings(_match(paths[before], paths[after], wanted_tag), wanted_package, stacks=stacks)
    from cachewatch.git.revision_names_and_times import resolve  # noqa: PLC0415  a comparison of paths needs no git
    from cachewatch.git.tags_and_documents import compare_revisions  # noqa: PLC0415  as above

    for name, listings in paths.items():
        for ref in (f"refs/heads/{name}", f"refs/tags/{name}"):
            if repository.objects().get(f"{ref}^{{commit}}"):
                note = f"taken as a path; write {ref} for what git calls so"
                listings[0] = folders.with_note(listings[0], name, note)
    files = {name: [found] for name in {before, after} - paths.keys() if (found := _file_of(repository, name))}
    documents = paths | files
    if not documents:
        revisions = resolve(repository, before), resolve(repository, after)
        return compare_revisions(repository, *revisions, wanted_tag=wanted_tag, wanted_package=wanted_package)
    sides = [
        documents.get(name) or _list_revision(repository, name, documents[other], wanted_tag)
        for name, other in ((before, after), (after, before))
    ]
    return _compare_listings(_match(sides[0], sides[1], wanted_tag), wanted_package)


def _file_of(repository: "Repository", name: str) -> Listing | None:
    """Return a listing of the one document that `name` (REVISION:PATH) means; None if there is no such file."""
    from cachewatch.git.revision_names_and_times import file_of  # noqa: PLC0415  as above
    from cachewatch.git.tags_and_documents import GitReader  # noqa: PLC0415  as above

    found = file_of(repository, name)
    if found is None:
        return None
    revision, path, file = found
    package, tag = folders.identified(path, file.content)
    blobs, side = {package: Blob(file.id, len(file.content), folder=path)}, replace(revision.side(tag), name=name)
    return Listing(side, blobs, GitReader(repository), (), is_one_document=True)


def _list_revision(repository: "Repository", name: str, others: list[Listing], wanted_tag: Wanted) -> list[Listing]:
    """Return listings of revision `name`: of its tag, else of the only tag of the side `others`, else of wanted."""
    from cachewatch.git.revision_names_and_times import resolve  # noqa: PLC0415  as above
    from cachewatch.git.tags_and_documents import list_revision, tags_of  # noqa: PLC0415  as above

    revision, other = resolve(repository, name), others[0]
    wanted = [tag for tag in tags_of(repository, revision).ids if wanted_tag(tag)]
    like = other.side.tag or DEFAULT_TAG
    left: list[str] = []
    if revision.tag:
        tags = [revision.tag]
    elif len(others) == 1 and len(wanted) > 1 and not _is_nothing(other):
        tags, left = [like], [tag for tag in wanted if tag != like]
    else:
        tags = wanted or [like]
    # All packages are listed, because changes of the whole tag are derived from all of them.
    listings = [list_revision(repository, replace(revision, tag=tag), lambda _: True) for tag in tags]
    if left and not (other.is_one_document or other.is_one_tag):
        named = f"{', '.join(tag_names.in_order(left)[:5])}{', ...' if len(left) > 5 else ''}"
        note = f"not compared: {named}, of which {other.side.name} has nothing"
        listings[0] = folders.with_note(listings[0], name, note)
    return [replace(listing, is_one_tag=len(tags) == 1) for listing in listings]


def _match(old: list[Listing], new: list[Listing], wanted_tag: Wanted) -> list[tuple[Listing, Listing]]:
    """Return pairs of `old` and `new` listings, of each wanted tag or the only two. Raises UsageError if none match."""
    old, new = folders.with_unread(old, new), folders.with_unread(new, old)
    if len(old) == 1 and len(new) == 1:
        pair = old[0], new[0]
        # A user who names a file or a tag has already chosen what to compare.
        is_chosen = any(side.is_one_document or side.is_one_tag for side in pair)
        if is_chosen or any(wanted_tag(side.side.tag or "") for side in pair):
            return [pair]
    for only, many in ((old, new), (new, old)):
        if len(only) == 1 and (only[0].is_one_document or only[0].is_one_tag):
            tag = only[0].side.tag or DEFAULT_TAG
            for like in many:
                if like.side.tag == tag:
                    return [(only[0], like) if only is old else (like, only[0])]
            raise UsageError(
                f"{many[0].side.name} holds several tags, and none is {tag}; "
                f"name the folder of the one to compare with {only[0].side.name}"
            )
    had, has = ({it.side.tag or "": it for it in side if not _is_nothing(it)} for side in (old, new))
    tags = tag_names.in_order(had.keys() | has.keys())
    wanted = [tag for tag in tags if wanted_tag(tag)]
    if not wanted:
        raise UsageError(no_tag_matches(wanted_tag, tags))
    return [(had.get(tag) or _nothing(old[0], tag), has.get(tag) or _nothing(new[0], tag)) for tag in wanted]


def _nothing(like: Listing, tag: str) -> Listing:
    return Listing(Side(name=like.side.name, tag=tag), {}, like.reader, ())


def _is_nothing(listing: Listing) -> bool:
    return listing.side.name == os.devnull


def _compare_listings(matched: list[tuple[Listing, Listing]], wanted: Wanted, **more: Any) -> Comparison:
    pairs = tuple(_compare_two(old, new, wanted) for old, new in matched)
    return Comparison(pairs=pairs, readers=Readers(matched[0][0].reader, matched[0][1].reader), **more)


def _compare_two(old: Listing, new: Listing, wanted: Wanted) -> TagPair:
    had, has = old.blobs, new.blobs
    if old.is_one_document and new.is_one_document:
        before, after = (folders.title_of(listing) for listing in (old, new))
        if before and after and before != after:
            raise UsageError(
                f"{old.side.name} is of the package {before}, {new.side.name} of {after}; "
                "name two documents of one package"
            )
        package = next(filter(None, (after, before, *has, *had)), "unknown")
        had, has = ({package: blob} for blobs in (had, has) for blob in blobs.values())
    # A single document is compared with that of its package; other packages are not reported as removed.
    elif old.is_one_document and not _is_nothing(new):
        has = {package: blob for package, blob in has.items() if package in had}
    elif new.is_one_document and not _is_nothing(old):
        had = {package: blob for package, blob in had.items() if package in has}
    pairs = [DocumentPair(name, had.get(name), has.get(name)) for name in sorted(had.keys() | has.keys())]

    def concerns(diagnostic: Diagnostic) -> bool:
        path = Path(diagnostic.path)
        return path.suffix not in ENDINGS or wanted(path.parent.name if path.name == DOCUMENT else path.stem)

    is_by_name = not any(side.is_one_document or side.is_one_tag or _is_nothing(side) for side in (old, new))
    diagnostics = tuple(filter(concerns, old.diagnostics + new.diagnostics))
    return TagPair(
        before=old.side,
        after=new.side,
        is_new_tag=is_by_name and not had,
        is_lost_tag=is_by_name and not has,
        difference=Difference(all_documents=tuple(pairs), takes=wanted, diagnostics=diagnostics),
    )


NEWEST = "HEAD"
_RANGE = re.compile(r"(.*?)(\.{2,})(.*)", re.DOTALL)


def split_range(text: str) -> tuple[str, str] | None:
    """Return A and B of a range of revisions `A..B`; None for other texts. Raises UsageError for `A...B` and paths."""
    match = _RANGE.fullmatch(text)
    # Paths and searches for words (:/words) may have dots; names of revisions cannot.
    if match is None or re.search(r"(^|/)\.\.(/|$)", text) or text.startswith(":/") or os.path.exists(text):  # noqa: PTH110  a name that is too long for a file is no error
        return None
    names = before, after = match[1] or NEWEST, match[3] or NEWEST
    if any(map(folders.is_documents, names)):
        raise UsageError(f"{text}: of paths, write `cachewatch diff {before} {after}`")
    if match[2] != "..":
        raise UsageError(f"{text}: write {before}..{after}, which compares the two themselves")
    return names
