"""The streams of digests: each subscription has a regular one, and an urgent one if it is configured.

Each stream has cursors and slots of its own, so that what was told at once is told again in its
place in the regular digest, where its recipients look for it.
"""

from collections.abc import Callable, Collection, Iterator

from msgspec import Struct

from cachewatch.config.model import Config, Source, Subscription
from cachewatch.core.model import Kind
from cachewatch.core.schedule import Schedule, parse_when
from cachewatch.core.selection import Globs

REGULAR = "regular"
URGENT = "urgent"


class Stream(Struct, frozen=True, kw_only=True):
    """One stream of digests of a subscription."""

    subscription: Subscription
    name: str
    changes: frozenset[Kind]
    channels: tuple[str, ...]
    to: tuple[str, ...]
    schedule: Schedule
    sources: tuple[Source, ...]

    @property
    def is_each_revision(self) -> bool:
        """Whether a digest is due with each new revision, and not at times of its own."""
        return not self.schedule.lines

    @property
    def schedule_text(self) -> str:
        """The schedule as a pending slot remembers it, to tell when it was changed."""
        return " | ".join((self.schedule.zone, *self.schedule.lines))

    def wants_tag(self, source: Source) -> Callable[[str], bool]:
        """Return what tells the tags of `source` that it is about."""
        of_source, of_match = Globs(source.tags), Globs(self.subscription.match.tags)
        return lambda tag: of_source(tag) and of_match(tag)

    def depends_on(self, sources: Collection[str]) -> bool:
        """Whether any of these is among its sources."""
        return any(source.name in sources for source in self.sources)

    @property
    def is_urgent(self) -> bool:
        """Whether its digests go out at once."""
        return self.name == URGENT


def streams_of(config: Config) -> Iterator[Stream]:
    """Yield every stream of every subscription."""
    for subscription in config.subscriptions.values():
        wanted = Globs(subscription.match.sources)
        sources = tuple(source for source in config.sources.values() if wanted(source.name))
        yield Stream(
            subscription=subscription,
            name=REGULAR,
            changes=subscription.changes,
            channels=subscription.channels,
            to=subscription.to,
            schedule=parse_when(subscription.when, config.timezone),
            sources=sources,
        )
        urgent = subscription.urgent
        if urgent is not None:
            yield Stream(
                subscription=subscription,
                name=URGENT,
                changes=urgent.changes,
                channels=urgent.channels,
                to=urgent.to or subscription.to,
                schedule=parse_when("each revision", config.timezone),
                sources=sources,
            )
