"""Why specs of a recorded build cache, or of two lock files, have other hashes. docs/why.md describes the answers."""

from typing import Any

from cachewatch.hooks import Command, extends, load


@extends
def commands() -> list[Command]:
    """Return the commands."""
    return [
        Command("Compare", "why", "Explain why the specs of a package were rebuilt.", f"{__name__}.commands:why"),
        Command("Compare", "impact", "Show what would be rebuilt if a package changed.", f"{__name__}.commands:impact"),
    ]


@extends
def causes(repository: Any) -> Any:
    """Return what the dependency graphs of a repository say."""
    return load(f"{__name__}.rebuilds:RepositoryCauses")(repository)
