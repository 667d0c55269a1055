"""Links from the page of one digest to the one before it and the one after it.

A page is final when it is made, and which ones are beside it is not known yet. So it has an empty
place for these links, which whoever keeps the pages fills and fills again.
"""

import re
from html import escape

from msgspec import Struct

PLACE = "<!-- neighbours --><!-- /neighbours -->"
_PLACE = re.compile("<!-- neighbours -->.*?<!-- /neighbours -->", re.DOTALL)


class Neighbours(Struct, frozen=True):
    """The addresses of the digests before and after one; None where there is none."""

    previous: str | None = None
    next: str | None = None


def with_neighbours(page: str, neighbours: Neighbours) -> str:
    """Return `page` with links to these in their place."""
    links = [
        f'<a rel="{rel}" href="{escape(address)}">{words}</a>'
        for rel, address, words in (
            ("prev", neighbours.previous, "Previous digest"),
            ("next", neighbours.next, "Next digest"),
        )
        if address
    ]
    said = f'<nav class="neighbours" aria-label="Digests">{" ".join(links)}</nav>' if links else ""
    return _PLACE.sub(lambda _: PLACE.replace("--><!--", f"-->{said}<!--"), page, count=1)


def without_neighbours(page: str) -> str:
    """Return `page` as it was made."""
    return _PLACE.sub(PLACE, page, count=1)
