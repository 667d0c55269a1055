"""What became of every package, revision by revision: the past that a site tells.

Each document is followed through all revisions by itself (walking.py): deltas of one path
lie together in git, two neighbours at a time are alive, and a document that did not change
is never read. What stays of a package is one small value (records.py), from which arrivals
(arrivals.py) and totals (totals.py) are counted.
"""

from cachewatch.history.arrivals import Interval, Lag, intervals_of, lags_of
from cachewatch.history.totals import Totals, totals_of
from cachewatch.history.values import NO_STACK, Copies, PackageHistory, Present, Step, TagHistory
from cachewatch.history.walk_revisions import read_tag, walk

__all__ = [
    "NO_STACK",
    "Copies",
    "Interval",
    "Lag",
    "PackageHistory",
    "Present",
    "Step",
    "TagHistory",
    "Totals",
    "intervals_of",
    "lags_of",
    "read_tag",
    "totals_of",
    "walk",
]
