"""The pages of tags: what each holds, and how it differs from the one before in its series."""

from collections import Counter
from collections.abc import Iterable, Mapping

from cachewatch.core import tag_names
from cachewatch.core.versions import is_newer, newest
from cachewatch.history import Present
from cachewatch.site.package_lists import package_row
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import Figure, Link, PackageRow, TagPage, TagRow
from cachewatch.site.read_history import Catalogue
from cachewatch.site.shared_phrases import figures, signed


def tag_rows(catalogue: Catalogue) -> tuple[TagRow, ...]:
    """List all tags in the order of the catalogue."""
    all_tags = _by_tag(catalogue)
    rows = []
    for tag in tag_names.in_order(all_tags):
        packages = all_tags[tag]
        before = tag_names.predecessor(tag, all_tags)
        rows.append(
            TagRow(
                Link(shown(tag), page("tag", tag)),
                len(packages),
                sum(present.specs for present in packages.values()),
                note=_difference_note(all_tags[before], packages) if before else "",
            )
        )
    return tuple(rows)


def tag_pages(catalogue: Catalogue) -> Mapping[str, TagPage]:
    """Tell of every tag, and how it differs from the one before in its series."""
    all_tags = _by_tag(catalogue)
    return {tag: _tag_page(tag, all_tags, tag_names.predecessor(tag, all_tags)) for tag in all_tags}


def _by_tag(catalogue: Catalogue) -> dict[str, Mapping[str, Present]]:
    told = {history.package: history.present for history in catalogue.past.packages if history.is_there}
    return {catalogue.past.tag: told, **catalogue.tags}


def _tag_page(tag: str, all_tags: Mapping[str, Mapping[str, Present]], before: str | None) -> TagPage:
    packages = all_tags[tag]
    old = all_tags[before] if before else None
    rows = [_row_of_tag(package, present, old) for package, present in packages.items()]
    if old is not None:
        rows += [
            package_row(package, Present(), up="../", note="gone", tone="gone") for package in old.keys() - packages
        ]
    rows.sort(key=lambda row: row.name.text)
    specs = sum(present.specs for present in packages.values())
    stacks = {stack for present in packages.values() for stack in present.stacks}
    return TagPage(
        name=shown(tag),
        figures=figures(package=len(packages), spec=specs, stack=len(stacks)),
        predecessor=Link(shown(before), "../" + page("tag", before)) if before else None,
        changes=_changes(rows),
        packages=tuple(rows),
    )


def _changes(rows: Iterable[PackageRow]) -> tuple[Figure, ...]:
    tones = Counter(row.tone for row in rows)
    words = {
        "new": "new packages",
        "gone": "gone",
        "upgraded": "with a newer version",
        "downgraded": "with an older one",
        "changed": "with others beside the newest",
    }
    return tuple(Figure(f"{tones[tone]:,}", word) for tone, word in words.items() if tones[tone])


def _row_of_tag(package: str, present: Present, old: Mapping[str, Present] | None) -> PackageRow:
    note = tone = ""
    if old is not None and package not in old:
        note = tone = "new"
    elif old is not None:
        note, tone = _judge(old[package].versions, present.versions)
    return package_row(package, present, up="../", note=note, tone=tone)


def _judge(before: frozenset[str], after: frozenset[str]) -> tuple[str, str]:
    """Say how the versions of a package changed, and in which direction."""
    if before == after:
        return "", ""
    if not before or not after:
        return ("versions came", "changed") if after else ("versions went", "changed")
    old, new = newest(before), newest(after)
    if is_newer(new, old):
        return f"{shown(old, 24)} to {shown(new, 24)}", "upgraded"
    if is_newer(old, new):
        return f"{shown(old, 24)} to {shown(new, 24)}", "downgraded"
    return f"{signed(len(after - before))} {signed(-len(before - after))} versions", "changed"


def _difference_note(before: Mapping[str, Present], after: Mapping[str, Present]) -> str:
    came, went = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    changed = sum(after[p].versions != before[p].versions for p in after.keys() & before.keys())
    parts = [f"+{came:,}"] if came else []
    parts += [f"\N{MINUS SIGN}{went:,}"] if went else []
    parts += [f"{changed:,} with other versions"] if changed else []
    return ", ".join(parts) or "the same versions"
