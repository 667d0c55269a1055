"""Why each revision rebuilt what it did, where the catalogue has a dependency graph."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.causes.cause_chains import Chain, find_chains
from cachewatch.causes.rebuilt_specs import rebuilt_in
from cachewatch.causes.step_causes import Step
from cachewatch.core.statements import with_causes
from cachewatch.errors import DocumentError
from cachewatch.report.changes import Report

# Opens the graphs of the two revisions of a report.
OpenStep = Callable[[Report], Step | None]


class PackageCauses(Struct, frozen=True, array_like=True):
    """Why a package was rebuilt the last time, and in which revision."""

    revision: int  # its number
    chains: tuple[Chain, ...]


class RecordedCauses:
    """Adds causes to reports, one revision after the other, and keeps the last ones of each package."""

    def __init__(self, open_step: OpenStep, known: Mapping[str, PackageCauses]) -> None:
        self._open_step = open_step
        self.packages = dict(known)

    def explain(self, reports: Iterable[Report], first: int) -> Iterator[Report]:
        """Yield the reports, of which the first is on the revision of that number, with causes."""
        for number, report in enumerate(reports, first):
            step = self._open_step(report)
            if step is None or not step.is_recorded:
                yield report
                continue
            self._learn(step, number)
            yield replace(report, statements=with_causes(report.statements, rebuilt_in(step), lambda _: True))

    def _learn(self, step: Step, number: int) -> None:
        for package in step.packages:
            with suppress(DocumentError):
                if chains := find_chains(step, package):
                    self.packages[package] = PackageCauses(number, chains)
