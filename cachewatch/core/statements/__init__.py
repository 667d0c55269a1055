"""What happened, said once, with its cause. See values.py for the words and docs/laws.md for the rules.

`items_of` takes a package apart; an Observation sees all packages of a tag; `judge` finds what
happened to the tag as a whole; `statements_of` tells the items that somebody selected.
"""

from cachewatch.core.statements.assembling import statements_of
from cachewatch.core.statements.rebuild_causes import RebuiltSpecs, with_causes
from cachewatch.core.statements.spec_items import items_of
from cachewatch.core.statements.values import CauseCount, Items, Line, Remains, Severity, Statement, StatementKind
from cachewatch.core.statements.whole_tag_changes import Judgement, Observation, Survey, judge

__all__ = [
    "CauseCount",
    "Items",
    "Judgement",
    "Line",
    "Observation",
    "RebuiltSpecs",
    "Remains",
    "Severity",
    "Statement",
    "StatementKind",
    "Survey",
    "items_of",
    "judge",
    "statements_of",
    "with_causes",
]
