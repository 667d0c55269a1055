"""Generate a static site about a catalogue and its history. Start reading at `building_and_feeds.py`."""

from cachewatch.hooks import Command, extends


@extends
def commands() -> list[Command]:
    """Return the command `site`."""
    return [Command("Operate", "site", "Generate a static site about a catalogue.", f"{__name__}.commands:site")]
