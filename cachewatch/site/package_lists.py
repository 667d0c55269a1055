"""Packages in lists."""

from cachewatch.history import PackageHistory, Present
from cachewatch.site.page_names import shown
from cachewatch.site.page_values import PackageRow
from cachewatch.site.read_history import Catalogue
from cachewatch.site.shared_phrases import Times, newest_versions, package_link


def package_rows(catalogue: Catalogue, times: Times) -> tuple[PackageRow, ...]:
    """List all packages that there ever were, in any tag, by name."""
    histories = _histories(catalogue)
    return tuple(_row(package, histories[package], times) for package in sorted(histories))


def package_names(catalogue: Catalogue) -> list[str]:
    """Return all packages that there ever were, in the order of the list."""
    return sorted(_histories(catalogue))


def _histories(catalogue: Catalogue) -> dict[str, PackageHistory | None]:
    """Return all packages; those that only other tags have, without a history."""
    elsewhere = dict.fromkeys(package for packages in catalogue.tags.values() for package in packages)
    return {**elsewhere, **{history.package: history for history in catalogue.past.packages}}


def _row(package: str, history: PackageHistory | None, times: Times) -> PackageRow:
    if history is None:
        return package_row(package, Present(), note="in other tags")
    day = times.moments[history.trail[-1][0]].day
    return package_row(package, history.present, day=day, note="" if history.is_there else "gone")


def package_row(package: str, present: Present, *, up: str = "", **more: str) -> PackageRow:
    """Return a package as one row of a list."""
    versions, more_versions = newest_versions(present.versions)
    return PackageRow(
        name=package_link(package, up),
        versions=versions,
        more_versions=more_versions,
        specs=present.specs,
        stacks=len(present.stacks),
        targets=", ".join(shown(target, 24) for target in sorted(present.targets)),
        **more,
    )
