"""What is asked of servers, what they answer, and how long anybody waits for it."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf

from msgspec import Struct, field


class Limits(Struct, frozen=True, kw_only=True):
    """How long and how much."""

    seconds: float = 600.0  # for one answer, with all attempts and pauses
    total: float = inf  # seconds for all answers to one client, without what is done between them
    silence: float = 30.0  # seconds without a byte after which an attempt is given up
    size: int = 512 * 2**20  # bytes of one answer, unpacked
    attempts: int = 4
    redirects: int = 5
    pause: float = 1.0  # seconds before the second attempt; doubled for each that follows
    longest_pause: float = 60.0


class Answer(Struct, frozen=True):
    """What a server said."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    is_cut: bool = False  # there was more than was asked for
    url: str = ""  # that answered in the end

    def retry_after(self, now: datetime | None = None) -> float | None:
        """Return how many seconds the server asks to wait, if it does."""
        return _seconds(self.headers.get("retry-after", ""), now or datetime.now(UTC))


class Request(Struct, frozen=True):
    """What to ask for."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    expected: Collection[int] = ()  # what may be answered besides 200 and is no failure
    size: int | None = None  # bytes at most, if fewer than the limits allow
    named_by: str = ""  # the address whose server named this one, if one did


def _seconds(text: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After means: a number of them, or a date."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
