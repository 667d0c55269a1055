"""The list of revisions: what each one did to the whole tag."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from cachewatch.core.versions import sorted_versions
from cachewatch.history import PackageHistory, TagHistory, Totals
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import Happening, Link
from cachewatch.site.shared_phrases import Times, counts_of

_MOST_NAMED = 40


def happenings(past: TagHistory, totals: Totals, times: Times, *, most_named: int) -> tuple[Happening, ...]:
    """Tell what each revision did, the newest first."""
    came: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    went: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for history in past.packages:
        for revision, arrived, left in _turnover(history):
            came[revision] += [(history.package, version) for version in arrived]
            went[revision] += [(history.package, version) for version in left]
    return tuple(
        Happening(
            moment=times.moments[revision],
            counts=counts_of({kind: numbers[revision] for kind, numbers in totals.churn.items()}),
            specs=f"{totals.specs[revision]:,}",
            came=tuple(named(came[revision][:most_named], "")),
            went=tuple(named(went[revision][:most_named], "")),
            more_came=max(0, len(came[revision]) - most_named),
            more_went=max(0, len(went[revision]) - most_named),
            packages=totals.changed[revision],
        )
        for revision in range(len(times.moments) - 1, 0, -1)
    )


def revision_list(past: TagHistory, totals: Totals, times: Times) -> tuple[Happening, ...]:
    """Tell what each revision did, at length."""
    return happenings(past, totals, times, most_named=_MOST_NAMED)


def _turnover(history: PackageHistory) -> Iterable[tuple[int, list[str], list[str]]]:
    """Yield (revision, versions that came to the tag, versions that left it)."""
    copies: Counter[str] = Counter()  # in how many stacks each version is
    for step in history.steps:
        before = {version for version, count in copies.items() if count}
        copies.update(version for _, version in step.came)
        copies.subtract(version for _, version in step.went)
        after = {version for version, count in copies.items() if count}
        if not step.is_baseline and before != after:
            yield step.revision, sorted_versions(after - before), sorted_versions(before - after)


def named(found: Iterable[tuple[str, str]], up: str) -> Iterable[Link]:
    """Return links to packages that name a version of each."""
    for package, version in found:
        yield Link(f"{shown(package)} {shown(version, 24)}", up + page("package", package))
