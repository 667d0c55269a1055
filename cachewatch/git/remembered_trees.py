"""Trees of packages that were compared, remembered for whoever compares them next."""

from collections import OrderedDict

from cachewatch.git.repository import Repository
from cachewatch.git.trees import TreeDifference, compare_trees

# Packages: a hundred bytes each.
_MOST = 150_000

_Name = tuple[str, str | None, str | None]


class RememberedTrees:
    """Compares trees of one repository as `compare_trees` does, each pair of them once while there is room."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Name, TreeDifference] = OrderedDict()
        self._packages = 0

    def __call__(self, repository: Repository, tag: str, before: str | None, after: str | None) -> TreeDifference:
        """Return what differs between two trees of packages."""
        name = tag, before, after
        if name in self._known:
            self._known.move_to_end(name)
            return self._known[name]
        found = self._known[name] = compare_trees(repository, tag, before, after)
        self._packages += found.entries
        while self._packages > _MOST and len(self._known) > 1:
            self._packages -= self._known.popitem(last=False)[1].entries
        return found
