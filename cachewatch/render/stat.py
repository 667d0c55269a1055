"""One line a package, like `git diff --stat`, but of specs."""

from collections.abc import Iterable, Iterator

from cachewatch.changesets import Changeset
from cachewatch.model import PackageChange
from cachewatch.render import words
from cachewatch.safetext import safe

_NAMED = ("rebuilt", "moved", "upgraded", "downgraded", "recompiled", "reconfigured", "new", "gone")


class StatBody:
    """Short lines of packages."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []

    def add(self, change: PackageChange) -> None:
        """Take the line of one package."""
        counts = change.counts
        parts = ", ".join(f"{getattr(counts, name):,} {name}" for name in _NAMED if getattr(counts, name))
        restacked = f"{len(change.restacked):,} in other stacks" if change.restacked else ""
        what = ", ".join(filter(None, (parts, restacked)))
        self._lines.append((change.package, f"{counts.before:>5,} -> {counts.after:<5,}  {what}"))

    def take(self) -> list[tuple[str, str]]:
        """Hand over the lines."""
        taken, self._lines = self._lines, []
        return taken


def write_stat(changesets: Iterable[Changeset]) -> Iterator[bytes]:
    """Yield a line for each package and the totals of each tag."""
    for changeset in changesets:
        if changeset.after.tag:
            yield f"{safe(changeset.after.tag)}\n".encode()
        for lines in changeset.bodies():
            yield "".join(f" {safe(package):<32} |{rest}\n" for package, rest in lines).encode()
        outcome = changeset.outcome
        totals = f"{words.package_totals(outcome.packages)}; {words.spec_totals(outcome.tally.specs)}"
        yield f" {totals}\n".encode()
