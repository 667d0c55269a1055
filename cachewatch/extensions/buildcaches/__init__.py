"""Build caches as Spack's clients publish them, read at their index.

`address.py` says what an address means and how files are got from there, `layouts.py` finds the index in a mirror of
layout 2 or 3, and `oci.py` finds the index in a registry. `index.py` makes
specs of the records of an index and keeps them in a temporary file. `opening.py` puts the specs of several indexes
together and reads the list of all of Spack's public caches; `recorder.py` keeps the history.
"""

from cachewatch.hooks import Command, SourceKind, extends


@extends
def commands() -> list[Command]:
    """Return the commands."""
    return [
        Command("Operate", "record", "Record the current contents of a build cache.", f"{__name__}.commands:record"),
    ]


@extends
def source_kinds() -> list[SourceKind]:
    """Return the types of sources."""
    watched, holdings = f"{__name__}.recorder:RecordedHistory", f"{__name__}.recorder:holdings"
    return [
        SourceKind("buildcache", f"{__name__}.address:BuildCacheSource", watched, holdings),
        SourceKind("catalogue", f"{__name__}.address:CatalogueSource", watched, holdings),
    ]
