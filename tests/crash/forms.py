"""A form of the database that is yet to come, beside those that there are."""

from pathlib import Path

from cachewatch.store.migrations import REVISIONS
from cachewatch.store.schema import FORM

NEXT_FORM = FORM + 1
NEXT_FOLDERS = (REVISIONS, Path(__file__).with_name("revisions"))
