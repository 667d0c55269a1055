"""Why specs of a recorded build cache, or of two lock files, have different hashes; docs/why.md has the answers."""

from typing import Any

from cachewatch.hooks import Command, extends, load


@extends
def commands() -> list[Command]:
    """Return the commands `why` and `impact`."""
    return [
        Command("Compare", "why", "Explain why the specs of a package were rebuilt.", f"{__name__}.commands:why"),
        Command("Compare", "impact", "Show what would be rebuilt if a package changed.", f"{__name__}.commands:impact"),
    ]


@extends
def causes(repository: Any) -> Any:
    """Return an object that finds the causes of rebuilds in the dependency graphs that `repository` records."""
    return load(f"{__name__}.explaining_reports_and_locks:RepositoryCauses")(repository)
