"""One pass: ask what is new, tell whoever is due, send what waits.

`once` is this and no more; the daemon does the same things as they fall due.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from cachewatch.service.announcing import announce
from cachewatch.service.context import Context, EndingError
from cachewatch.service.delivering import deliver_all
from cachewatch.service.keeping import keep_house
from cachewatch.service.polling import poll
from cachewatch.service.resuming import recover
from cachewatch.service.sharing import Comparisons, alike_together
from cachewatch.service.tracks import tracks_of


class Result(Struct, frozen=True, kw_only=True):
    """What a pass came to."""

    failed_sources: int
    dead: int


def run_pass(context: Context) -> Result:
    """Do all that is due now; one failing source or channel stops only itself."""
    failed = sum(not poll(context, source) for source in context.config.sources.values())
    tell(context)
    dead = deliver_all(context)
    keep_house(context)
    return Result(failed_sources=failed, dead=dead)


def tell(context: Context, beat: Callable[[], None] = lambda: None) -> None:
    """Make the digest of every track that is due; `beat` hears that we live after each of them."""
    recover(context)
    comparisons = Comparisons()
    with suppress(EndingError):
        for track in alike_together(tracks_of(context.config)):
            context.go_on()
            announce(context, track, comparisons)
            beat()
