"""Notices: messages to the operators of cachewatch, never to the recipients of digests."""

import hashlib

from msgspec import Struct

from cachewatch.channels import open_channel
from cachewatch.core.delivery import RenderedDigest
from cachewatch.errors import TemplateError
from cachewatch.notify.pass_context import Context
from cachewatch.render.operator_mail import render_notice
from cachewatch.report import digest as digest_values
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.store import digests, outbox
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestRecord, DigestState
from cachewatch.store.outbox import State
from cachewatch.store.timestamps import to_text

# Stands in the place of a subscription's name, which cannot have such a form.
OPERATORS = "(operators)"


class Notice(Struct, frozen=True, kw_only=True):
    """A message to operators."""

    topic: str  # what it is about, in the list of digests
    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # that help
    is_good: bool = False  # something is over
    facts: tuple[tuple[str, str], ...] = ()  # one line each, with a name
    avoid: tuple[str, ...] = ()  # channels that do not work


def notify_within(connection: Connection, context: Context, notice: Notice) -> None:
    """Queue a notice in a transaction that is open, and log it."""
    queue_within(connection, context, notice)
    context.log_within(connection).warning("operators.notified", topic=notice.topic, title=notice.title)


def queue_within(connection: Connection, context: Context, notice: Notice) -> None:
    """Queue a notice, in a transaction that is open."""
    now, config = context.clock(), context.config  # one of them, though a reload may bring another
    key = hashlib.sha256(f"{notice.topic}\n{notice.title}\n{to_text(now)}".encode()).hexdigest()
    whom = config.operators
    said = digest_values.Notice(
        key=key,
        created=now,
        title=notice.title,
        is_good=notice.is_good,
        said=notice.lines,
        facts=notice.facts,
        commands=notice.commands,
        zone=config.timezone,
        operator=", ".join(whom.to),
    )
    rendered = _rendered(context, said)
    is_stored = False
    for name in [name for name in whom.channels if name not in notice.avoid] or whom.channels:
        channel = config.channels[name]
        try:
            messages = open_channel(channel).build_messages(rendered)
        except Exception as error:  # noqa: BLE001  a channel that cannot pack a notice must not silence the others
            log = context.log_within(connection).bind(channel=name)
            log.error("operators.unreachable", error=said_of(error), traceback=traceback_of(error))
            continue
        if not is_stored:
            digests.add(connection, _stored(notice.topic, rendered))
            is_stored = True
        for message in messages:
            outbox.add(connection, name, message, state=State.QUEUED, lasting=channel.retry.lasting)


def _rendered(context: Context, notice: digest_values.Notice) -> RenderedDigest:
    to, folder = context.config.operators.to, context.config.templates_dir
    try:
        return render_notice(notice, to=to, templates_dir=folder)
    except TemplateError as error:
        context.log.error("template.failed", error=str(error))
        return render_notice(notice, to=to)


def _stored(topic: str, rendered: RenderedDigest) -> DigestRecord:
    return DigestRecord(
        key=rendered.key,
        subscription=OPERATORS,
        stream=topic,
        state=DigestState.READY,
        title=rendered.title,
        period=rendered.period,
        created=rendered.created,
        reason="",
        advances=(),
        rendered=rendered,
        short=rendered,
    )
