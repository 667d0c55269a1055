"""The section `history:` of the configuration."""

from cachewatch.config.sections import ConfigSection, key
from cachewatch.config.value_types_and_secrets import Glob, Several


class HistorySettings(ConfigSection):
    """Which history indexes are kept up to date."""

    sources: Several[Glob] = key(
        "sources whose history index is kept up to date after each poll ([history.md](history.md#build))",
        (),
        if_left_out="none",
    )
