"""Tell those who run cachewatch of trouble: once when it begins, once when it ends, and never the readers."""

import hashlib
from datetime import datetime

from msgspec import Struct

from cachewatch import digests as digest_values
from cachewatch.channels import open_channel
from cachewatch.deliveries import Letter
from cachewatch.errors import CachewatchError, TemplateError
from cachewatch.render.notices import render_notice
from cachewatch.service.context import Context
from cachewatch.store import digests, health, outbox
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, Stored
from cachewatch.store.moments import to_text
from cachewatch.store.outbox import State

# Stands in the place of a subscription's name, which cannot have such a form.
OPERATORS = "(operators)"


class Notice(Struct, frozen=True, kw_only=True):
    """A trouble, in the words that operators read."""

    topic: str  # the same trouble has the same topic, and is told once
    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # that help
    is_good: bool = False  # it is over
    avoid: str = ""  # the channel that is in trouble itself


def tell(context: Context, notice: Notice) -> None:
    """Tell operators of a trouble, unless they know."""
    with context.database.write() as connection:
        tell_within(connection, context, notice)


def tell_end(context: Context, topic: str, title: str) -> None:
    """Tell operators that a trouble is over, if they know of it."""
    with context.database.read() as connection:
        if not health.has_trouble(connection, topic):
            return
    with context.database.write() as connection:
        end_within(connection, context, topic, title)


def tell_within(connection: Connection, context: Context, notice: Notice) -> None:
    """Tell operators of a trouble, in a transaction that is open."""
    if health.begin_trouble(connection, notice.topic, notice.title, context.clock()):
        _send(connection, context, notice)


def mention_within(connection: Connection, context: Context, notice: Notice) -> None:
    """Tell operators of something that happened and does not last."""
    _send(connection, context, notice)


def end_within(connection: Connection, context: Context, topic: str, title: str) -> datetime | None:
    """Tell operators that a trouble is over, and return since when it lasted; without a title, just forget it."""
    since = health.end_trouble(connection, topic)
    if since is not None and title:
        lines = (f"It began at {since:%Y-%m-%d %H:%M} UTC.",)
        _send(connection, context, Notice(topic=topic, title=title, lines=lines, is_good=True))
    return since


def _send(connection: Connection, context: Context, notice: Notice) -> None:
    now, config = context.clock(), context.config  # one of them, though a reload may bring another
    context.log.warning("operators.told", topic=notice.topic, title=notice.title)
    key = hashlib.sha256(f"{notice.topic}\n{notice.title}\n{to_text(now)}".encode()).hexdigest()
    whom = config.operators
    said = digest_values.Notice(
        key=key,
        created=now,
        title=notice.title,
        is_good=notice.is_good,
        said=notice.lines,
        commands=notice.commands,
        operator=", ".join(whom.to),
    )
    letter = _rendered(context, said)
    is_stored = False
    for name in whom.channels:
        if name == notice.avoid and len(whom.channels) > 1:
            continue
        channel = config.channels[name]
        try:
            parcels = open_channel(channel).pack(letter)
        except CachewatchError as error:
            context.log.error("operators.unreachable", channel=name, error=str(error))
            continue
        if not is_stored:
            digests.add(connection, _stored(notice.topic, letter))
            is_stored = True
        for parcel in parcels:
            outbox.add(connection, name, parcel, state=State.QUEUED, lasting=channel.retry.lasting)


def _rendered(context: Context, notice: digest_values.Notice) -> Letter:
    to, folder = context.config.operators.to, context.config.templates_dir
    try:
        return render_notice(notice, to=to, templates_dir=folder)
    except TemplateError as error:
        context.log.error("template.failed", error=str(error))
        return render_notice(notice, to=to)


def _stored(topic: str, letter: Letter) -> Stored:
    return Stored(
        key=letter.key,
        subscription=OPERATORS,
        track=topic,
        state=DigestState.READY,
        title=letter.title,
        period=letter.period,
        created=letter.created,
        reason="",
        advances=(),
        letter=letter,
        short=letter,
    )
