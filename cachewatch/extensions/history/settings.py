"""The section `history:` of the configuration."""

from cachewatch.config.section import ConfigSection, key
from cachewatch.config.types import Glob, Several


class HistorySettings(ConfigSection):
    """Which history indexes are kept up to date."""

    sources: Several[Glob] = key(
        "sources whose history index is kept up to date after each poll ([history.md](history.md#build))",
        (),
        if_left_out="none",
    )
