"""A report is what people read of a changeset: its statements, and totals that add up."""

from collections.abc import Mapping

from msgspec import Struct, field

from cachewatch.core.model import Delta, Diagnostic, Event, PackageCounts, Side, SpecCounts
from cachewatch.core.statements import Statement


class Report(Struct, frozen=True, kw_only=True):
    """Everything that a text or a template says about one pair of tags."""

    before: Side
    after: Side
    revisions_between: int | None
    packages: PackageCounts
    specs: SpecCounts
    events: tuple[Event, ...]
    diagnostics: tuple[Diagnostic, ...]
    statements: tuple[Statement, ...] = ()  # of all that was selected, of whatever kind
    is_part: bool = False  # not everything was selected
    # Which values of each fact came and went, by package; of reports that name them all.
    facts: Mapping[str, Mapping[str, Delta]] = field(default_factory=dict)

    @property
    def losses(self) -> int:
        """How many documents could not be compared, or not wholly."""
        return len({diagnostic.path for diagnostic in self.diagnostics if diagnostic.is_loss})
