"""Read live build caches, as Spack's clients publish them, and record their history as a catalogue.

`mirrors_and_registries.py` fetches the index of a mirror or registry, `indexes_and_published_tags.py` reads its specs
and combines the indexes of a tag, and `recorder.py` writes the specs as revisions of a catalogue.
"""

from cachewatch.hooks import Command, SourceKind, extends


@extends
def commands() -> list[Command]:
    """Return the command `record`."""
    help_line = "Record the current contents of a build cache."
    return [Command("Operate", "record", help_line, f"{__name__}.commands:record")]


@extends
def source_kinds() -> list[SourceKind]:
    """Return the source types `buildcache` and `catalogue` for the configuration of the service."""
    watched, holdings = (
        f"{__name__}.recording_and_suspicion:RecordedHistory",
        f"{__name__}.recording_and_suspicion:holdings",
    )
    return [
        SourceKind("buildcache", f"{__name__}.settings:BuildCacheSource", watched, holdings),
        SourceKind("catalogue", f"{__name__}.settings:CatalogueSource", watched, holdings),
    ]
