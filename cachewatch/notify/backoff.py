"""How long to wait before something that failed is tried again."""

import random
from datetime import timedelta

# Minutes between attempts; the last one repeats.
_MINUTES = (1, 5, 15, 60, 240)
_LEAST, _MOST = 0.9, 1.2
# Whatever the other side asks for, and what a channel rests that somebody has to mend.
LONGEST_ASKED = BLOCKED = timedelta(hours=1)
LONGEST_PAUSE = timedelta(minutes=_MINUTES[-1]) * _MOST


def pause(attempts: int) -> timedelta:
    """Return how long to wait after so many attempts; not to the second, or what failed together comes back together."""
    minutes = _MINUTES[min(attempts, len(_MINUTES)) - 1]
    return timedelta(minutes=minutes) * random.uniform(_LEAST, _MOST)  # noqa: S311  nothing is to be kept secret
