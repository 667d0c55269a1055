"""What became of every package, revision by revision: the past that a site tells.

Each document is followed through all revisions by itself (walk_revisions.py): deltas of one path
lie together in git, two neighbours at a time are alive, and a document that did not change
is never read. What stays of a package is one small value (values.py), from which arrivals
(arrivals.py) and totals (totals.py) are counted. What each revision did to the whole tag is
put together at the end (sightings.py, revision_reports.py).
"""

from cachewatch.history.arrivals import Interval, Lag, intervals_of, lags_of, lost_by
from cachewatch.history.revision_reports import reports_of
from cachewatch.history.sightings import Revisions
from cachewatch.history.totals import Totals, totals_of
from cachewatch.history.values import NO_STACK, Build, Copies, PackageHistory, Present, Step, TagHistory
from cachewatch.history.walk_revisions import read_tag, walk

__all__ = [
    "NO_STACK",
    "Build",
    "Copies",
    "Interval",
    "Lag",
    "PackageHistory",
    "Present",
    "Revisions",
    "Step",
    "TagHistory",
    "Totals",
    "intervals_of",
    "lags_of",
    "lost_by",
    "read_tag",
    "reports_of",
    "totals_of",
    "walk",
]
