"""What templates are given of one tag, made once for all digests that tell the same of it."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from cachewatch.report.digest import TagDigest

Data = dict[str, Any]

_MOST = 1000
# Lines of a tag; what has more takes too much memory.
_MOST_LINES = 50


class TagViews:
    """The views that were asked for last. Templates cannot change them."""

    def __init__(self) -> None:
        # Each with its tag, because the ids of objects that are gone are used again.
        self._views: OrderedDict[Hashable, tuple[TagDigest, Data]] = OrderedDict()

    def get(self, tag: TagDigest, of: Hashable, make: Callable[[TagDigest], Data]) -> Data:
        """Return what `make` makes of `tag`; `of` is all else that decides it."""
        if sum(len(one.lines) for one in (*tag.statements, *tag.rest)) > _MOST_LINES:
            return make(tag)
        key = id(tag), of
        if key in self._views:
            self._views.move_to_end(key)
            return self._views[key][1]
        made = make(tag)
        self._views[key] = tag, made
        if len(self._views) > _MOST:
            self._views.popitem(last=False)
        return made
