"""Where the configuration file is, if nobody says."""

import os
from collections.abc import Iterator
from pathlib import Path

from cachewatch.errors import ConfigError

NAME = "cachewatch.yaml"
VARIABLE = "CACHEWATCH_CONFIG"


def find_config(given: Path | None = None) -> Path:
    """Return the path of the file: `given`, $CACHEWATCH_CONFIG, or the first of `places` that is there."""
    variable = os.environ.get(VARIABLE)
    if given is not None or variable:
        return given or Path(str(variable))
    places = list(_places())
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f"there is no configuration ({', '.join(map(str, places))}); create one with `cachewatch init`,"
        f" or name it with --config or ${VARIABLE}"
    )


def _places() -> Iterator[Path]:
    # A file names programs to run, so one that a stranger put into this folder does not count.
    here = Path(NAME)
    if not here.is_file() or here.stat().st_uid in (0, os.geteuid()):
        yield here
    yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cachewatch" / NAME
    yield Path("/etc/cachewatch") / NAME
