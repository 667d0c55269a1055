"""What it means that a file of a channel cannot be written."""

import errno
from pathlib import Path

from cachewatch.channels.escaping import one_line
from cachewatch.core.delivery import DeliveryOutcome, DeliveryResult

# What somebody has to mend, and no waiting will.
_OURS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


def of_error(error: OSError, path: Path) -> DeliveryResult:
    """Return what it means that `path` cannot be written."""
    said = one_line(f"{path}: {error.strerror or error}", 300)
    if error.errno in _OURS:
        return DeliveryResult(
            outcome=DeliveryOutcome.BLOCKED, detail=f"{said}; create the folder and give cachewatch write access"
        )
    return DeliveryResult(outcome=DeliveryOutcome.DEFERRED, detail=said)
