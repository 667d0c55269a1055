"""Names that are like one which nobody knows, for the sentence that says so."""

from collections.abc import Iterable
from difflib import get_close_matches


def similar(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` of `names` that are like `name`, the most similar first."""
    return get_close_matches(name, list(names), most)
