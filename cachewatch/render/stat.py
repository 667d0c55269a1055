"""One line a package, like `git diff --stat`, but of specs."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from cachewatch.core.changesets import Changeset
from cachewatch.core.model import PackageChange, PackageCounts
from cachewatch.core.statements import Statement
from cachewatch.core.statements.values import Counts
from cachewatch.core.untrusted_text import safe_name
from cachewatch.render.compared_revisions import tags_named
from cachewatch.render.diff_totals import Shares, Wants, chosen_lines, signed, total
from cachewatch.render.report_formats import report_of
from cachewatch.render.statement_phrases import BY_VERSION, SHARES, fact
from cachewatch.report.changes import Report

_Numbers = tuple[str, int, int]  # a package, and its specs before and after


class StatCollector:
    """Packages with their numbers of specs."""

    def __init__(self) -> None:
        self._packages: list[_Numbers] = []

    def add(self, change: PackageChange) -> None:
        """Take the numbers of one package."""
        self._packages.append((change.package, change.counts.before, change.counts.after))

    def take(self) -> list[_Numbers]:
        """Hand over the numbers."""
        taken, self._packages = self._packages, []
        return taken


def write_stat(changesets: Iterable[Changeset], *, wants: Wants, width: int) -> Iterator[bytes]:
    """Yield a line for each package and the totals of each tag."""
    found: dict[tuple[tuple[_Numbers, ...], PackageCounts, tuple[Statement, ...]], list[Report]] = {}
    for changeset in changesets:
        packages = tuple(numbers for body in changeset.collected() for numbers in body)
        report = report_of(changeset.outcome, wants)
        found.setdefault((packages, report.packages, report.statements), []).append(report)
    for (packages, *_), reports in found.items():
        report = reports[0]
        if report.after.tag:
            yield f"{tags_named(reports)}\n".encode()
        yield "".join(f" {line}\n" for line in _lines(packages, report.statements, wants)).encode()
        wrapped = textwrap.wrap(
            total(report, wants), width, initial_indent=" ", subsequent_indent="   ", break_on_hyphens=False
        )
        yield "".join(f"{line}\n" for line in wrapped).encode()


def _lines(packages: Sequence[_Numbers], statements: Iterable[Statement], wants: Wants) -> Iterator[str]:
    shares: defaultdict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for one in statements:
        for line in chosen_lines(one, wants):
            shares[line.package][SHARES[one.kind]] += line.counts
            if one.kind in BY_VERSION:
                versions[line.package].append(fact(line))
    width = max((len(safe_name(name)) for name, _, _ in packages), default=0)
    for name, before, after in packages:
        said = "; ".join(filter(None, (_told(shares[name]), *versions[name])))
        yield f"{safe_name(name):<{min(width, 32)}} | {before:>5,} -> {after:<5,}  {said}".rstrip()


def _told(shares: Shares) -> str:
    return ", ".join(f"{signed(counts)} {name}" for name, counts in shares.items() if counts.total)
