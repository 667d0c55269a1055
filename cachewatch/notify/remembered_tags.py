"""What was told of a tag is told again to whoever chooses the same of what changed there.

Most subscriptions that choose other packages choose the same of the few that changed.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from cachewatch.core.selection import Selection
from cachewatch.core.tag_pairs import Comparison
from cachewatch.notify.comparison_notes import TagNews

# Lines, versions and names of packages; what is longer than a share of them is not worth the memory.
_MOST = 50_000
_LARGEST = _MOST // 10


class RememberedTags:
    """The news of tags that were asked for last, as much of them as memory is to take."""

    def __init__(self, most: int = _MOST, largest: int = _LARGEST) -> None:
        """Keep news of about `most` lines in all, and none with more than `largest`."""
        self._most = most
        self._largest = largest
        self._size = 0
        self._news: OrderedDict[Hashable, tuple[TagNews, int]] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], TagNews]) -> TagNews:
        """Return the news that `key` names, which `find` finds if they are not remembered."""
        if key in self._news:
            self._news.move_to_end(key)
            return self._news[key][0]
        news = find()
        size = news.size
        if size <= self._largest:
            self._news[key] = news, size
            self._size += size
            while self._size > self._most:
                _, (_, dropped) = self._news.popitem(last=False)
                self._size -= dropped
        return news


def what_is_asked(comparison: Comparison, selection: Selection) -> Hashable:
    """Return all that decides what is told of the only tag of `comparison`: not the patterns, but what they chose."""
    (pair,) = comparison.pairs
    chosen = pair.difference
    return (
        pair.before,
        pair.after,
        comparison.revisions_between,
        comparison.diagnostics,
        tuple([document.package for document in chosen.documents]),
        len(chosen.others),
        chosen.count_unchanged(),
        chosen.diagnostics,
        chosen.unreadable,
        selection.of_specs,
        selection.kinds.patterns,
    )
