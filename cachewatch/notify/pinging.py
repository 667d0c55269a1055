"""Ping the URL of a service that raises an alarm when pings stop: after a pass that was whole."""

import re
from urllib.parse import urlsplit, urlunsplit

from cachewatch.channels.escaping import without_secret_url
from cachewatch.config.model import Config
from cachewatch.errors import CachewatchError
from cachewatch.http import post
from cachewatch.runtime.log import Log

_SECONDS = 20
# A check of healthchecks.io, or of a server of one's own that runs its software: by its UUID, or by a key and a name.
_HEALTHCHECKS = re.compile(
    r"https?://(?:hc-ping\.com|[^/?#]+/ping)/(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}/[\w-]+)/?"
)


def ping(config: Config, log: Log, *, is_whole: bool) -> None:
    """Ping the configured URL; after a pass that failed, tell healthchecks so, and others by silence."""
    url = config.monitor.ping_url
    address = url and (url.reveal() if is_whole else _of_failure(url.reveal()))
    if url is None or not address:
        return

    try:
        status = post(address, b"", seconds=_SECONDS).status
        said = f"the server answered {status}" if status >= 300 else ""
    except CachewatchError as error:
        said = without_secret_url(str(error), url.reveal())
    if said:
        log.warning("ping.failed", error=said)


def _of_failure(url: str) -> str:
    """Return the URL that says that something failed; empty for a service that knows none."""
    parts = urlsplit(url)
    plain = urlunsplit(parts._replace(query="", fragment=""))
    if not _HEALTHCHECKS.fullmatch(plain):
        return ""
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
