"""`cachewatch deliveries`: what was sent, what waits and what failed, and to do something about it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured, configured_without_secrets
from cachewatch.cli.open_state import reading, working_on
from cachewatch.cli.output import FORMAT_OPTION, write_json, write_lines
from cachewatch.cli.usage_errors import SuggestingGroup
from cachewatch.config.model import Config
from cachewatch.core.showing_times import minute, second
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import UsageError
from cachewatch.notify import operator_actions
from cachewatch.notify.pass_context import Context
from cachewatch.store import digests, outbox
from cachewatch.store.outbox import OPEN, Delivery, State
from cachewatch.store.suppressions import all_suppressed

_MOST = 50
_HEADING = ("number", "created", "state", "channel -> target")


_STATES = {"dead": (State.DEAD, State.SUPPRESSED), "open": OPEN, "held": (State.HELD,)}
# What can be retried or dropped, where a filter names no state.
_UNSENT = (State.DEAD, State.SUPPRESSED, State.QUEUED, State.DEFERRED)


def _filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose deliveries."""
    for option in (
        click.option("--target", metavar="ADDRESS", help="Only deliveries to this address, file or webhook."),
        click.option("--channel", metavar="NAME", help="Only deliveries through this channel."),
        click.option("--open", "state", flag_value="open", help="Only deliveries that are waiting or being sent."),
        click.option("--dead", "state", flag_value="dead", help="Only deliveries that failed permanently."),
    ):
        command = option(command)
    return command


class _ListingGroup(SuggestingGroup):
    """A group that lists without a command: what it is called with are the options of `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Call `list` where no command is named."""
        is_named = any(not arg.startswith("-") for arg in args[:1]) or set(args) & set(ctx.help_option_names)
        return super().parse_args(ctx, args if is_named or ctx.resilient_parsing else ["list", *args])


@click.group(cls=_ListingGroup)
def deliveries() -> None:
    """List, retry, release or drop deliveries; without a command, list them.

    There is one delivery for each digest and each of its recipients, files or webhooks.
    """


@deliveries.command(
    name="list",
    epilog=examples(
        "cachewatch deliveries list --open", "cachewatch deliveries list --dead --channel mail --format json"
    ),
)
@configured_without_secrets
@_filters
@click.option("--held", "state", flag_value="held", help="Only deliveries held for an operator's decision.")
@click.option("--all", "is_all", is_flag=True, help=f"All deliveries, not only the newest {_MOST}.")
@FORMAT_OPTION
def list_(
    *, config: Config, state: str | None, channel: str | None, target: str | None, is_all: bool, format_: str
) -> None:
    """List deliveries, newest first."""
    states = _STATES.get(state or "", ())
    with reading(config) as context, context.database.read() as connection:
        found = outbox.find(connection, states=states, channel=channel, target=target, limit=None if is_all else _MOST)
    if format_ == "json":
        write_json(found)
        return
    unknown = [each.id for each in found if each.state in OPEN and each.channel not in config.channels]
    note = "  (the channel is no longer configured)"
    if not found:
        click.echo("no deliveries", err=True)
        return
    write_lines(_table(found, config.timezone, dict.fromkeys(unknown, note)))


@deliveries.command(
    epilog=examples("cachewatch deliveries show 17", "cachewatch deliveries show 17 --raw > message.eml")
)
@configured_without_secrets
@click.argument("number", type=int)
@click.option("--raw", is_flag=True, help="Print only the message, byte for byte.")
@FORMAT_OPTION
def show(*, config: Config, number: int, raw: bool, format_: str) -> None:
    """Show one delivery and its history."""
    with reading(config) as context, context.database.read() as connection:
        found = outbox.delivery(connection, number)
        if found is None:
            raise UsageError(f"no delivery {number}; see `cachewatch deliveries list`")
        if raw:
            sys.stdout.buffer.write(operator_actions.message_of(connection, context, number).payload)
            return
        stored = digests.find(connection, found.digest)
        story = outbox.story(connection, number)
    if format_ == "json":
        history = [{"at": at, "event": event, "detail": said} for at, event, said in story]
        write_json({"delivery": found, "history": history})
        return
    click.echo(safe("  ".join(_cells(found, config.timezone))))
    if stored is not None:
        click.echo(safe(f"  {stored.title}"))
        click.echo(safe(f"  digest {stored.key[:12]} of {stored.subscription}, {stored.period}, {stored.state}"))
    if found.message_id:
        click.echo(safe(f"  Message-ID {found.message_id}"))
    click.echo(f"  {_attempts(found, config.timezone)}")
    if found.state is State.SENDING and found.lease_until is not None:
        until = minute(found.lease_until, config.timezone)
        click.echo(safe(f"  being sent by {found.lease_owner}, until {until} at most"))
    for at, event, said in story:
        click.echo(safe(f"  {second(at, config.timezone)} {event}{': ' + said if said else ''}"))


@deliveries.command(
    epilog=examples("cachewatch deliveries retry 17 18 --force", "cachewatch deliveries retry --dead --channel mail")
)
@configured
@click.argument("numbers", type=int, nargs=-1)
@_filters
@click.option(
    "--force", "is_forced", is_flag=True, help="Include deliveries that are being sent; they may arrive twice."
)
def retry(
    *,
    config: Config,
    numbers: tuple[int, ...],
    state: str | None,
    channel: str | None,
    target: str | None,
    is_forced: bool,
) -> None:
    """Retry deliveries that were not sent.

    The same bytes are due now. Name deliveries by their numbers, or choose them by options.
    """
    act = partial(operator_actions.retry, is_forced=is_forced)
    _each(config, numbers or _chosen(config, state, channel, target), "due now", act)


@deliveries.command(epilog=examples("cachewatch deliveries resend 17", "cachewatch deliveries resend 17 18 19"))
@configured
@click.argument("numbers", type=int, nargs=-1, required=True)
def resend(*, config: Config, numbers: tuple[int, ...]) -> None:
    """Send delivered messages again.

    Each goes out as a new message that refers to the old one.
    """
    _each(config, numbers, "queued again", operator_actions.resend)


@deliveries.command(
    epilog=examples("cachewatch deliveries release my-packages", "cachewatch deliveries release my-packages/urgent")
)
@configured_without_secrets
@click.argument("names", nargs=-1, required=True, metavar="DIGEST|SUBSCRIPTION...")
def release(*, config: Config, names: tuple[str, ...]) -> None:
    """Release held digests for delivery.

    Name each digest by its key or its subscription. If a subscription has several held digests, write
    SUBSCRIPTION/regular or SUBSCRIPTION/urgent.
    """
    _each(config, names, "released", operator_actions.release)


@deliveries.command(
    epilog=examples(
        "cachewatch deliveries drop my-packages --reason 'a test upstream'",
        "cachewatch deliveries drop --dead --target kim@example.org --reason 'has left'",
    )
)
@configured_without_secrets
@click.argument("names", nargs=-1, metavar="[DELIVERY|DIGEST|SUBSCRIPTION]...")
@_filters
@click.option("--reason", required=True, help="Why; stored with the digest or delivery.")
def drop(
    *,
    config: Config,
    names: tuple[str, ...],
    state: str | None,
    channel: str | None,
    target: str | None,
    reason: str,
) -> None:
    """Drop held digests or unsent deliveries.

    Name digests as for `release`; a number names a delivery. Options choose deliveries.
    """
    chosen = names or tuple(map(str, _chosen(config, state, channel, target)))
    _each(config, chosen, "dropped", lambda context, name: _drop(context, name, reason))


def _drop(context: Context, name: str, reason: str) -> None:
    # Keys of digests are long; nobody has so many deliveries.
    if name.isdecimal() and len(name) < 10:
        operator_actions.drop_delivery(context, int(name), reason)
    else:
        operator_actions.drop_digest(context, name, reason)


@deliveries.command(
    epilog=examples(
        "cachewatch deliveries restore mail kim@example.org",
        "cachewatch deliveries restore mail",
    )
)
@configured_without_secrets
@click.argument("channel")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
def restore(*, config: Config, channel: str, targets: tuple[str, ...]) -> None:
    """Deliver again to suppressed addresses, and send what was kept for them.

    An address is suppressed after it has refused digests for days. Without TARGET, all addresses of the channel are
    restored.
    """
    with working_on(config) as context:
        with context.database.read() as connection:
            suppressed = [each.target for each in all_suppressed(connection) if each.channel == channel]
        if not targets and not suppressed:
            raise UsageError(f"no address is suppressed in {channel}")
        for target in targets or suppressed:
            operator_actions.restore(context, channel, target)
            click.echo(f"{target}: receives digests again")


def _chosen(config: Config, state: str | None, channel: str | None, target: str | None) -> tuple[int, ...]:
    """Return the numbers of the deliveries that options choose, oldest first."""
    if not (state or channel or target):
        raise UsageError("name a delivery by its number, or choose some by --dead, --open, --channel or --target")
    with reading(config) as context, context.database.read() as connection:
        states = _STATES[state] if state else _UNSENT
        found = outbox.find(connection, states=states, channel=channel, target=target)
    if not found:
        raise UsageError("there is no such delivery; `cachewatch deliveries list` takes the same options")
    return tuple(each.id for each in reversed(found))


def _each(config: Config, items: tuple[object, ...], done: str, act: Callable[..., object]) -> None:
    with working_on(config) as context:
        for item in items:
            act(context, item)
            click.echo(f"{item}: {done}")


def _table(found: Sequence[Delivery], zone: str, notes: Mapping[int, str]) -> Iterator[str]:
    """Yield a heading and a line for each delivery, with times in the time zone of the configuration."""
    rows = [_cells(each, zone, notes.get(each.id, "")) for each in found]
    *widths, _ = (max(map(len, column)) for column in zip(_HEADING, *rows, strict=True))
    for number, (first, *rest, last) in enumerate((_HEADING, *rows)):
        cells = (text.ljust(width) for text, width in zip(rest, widths[1:], strict=True))
        yield safe("  ".join((first.rjust(widths[0]) if number else first, *cells, last)))


def _cells(delivery: Delivery, zone: str, note: str = "") -> tuple[str, str, str, str]:
    marks = f" digest {delivery.digest[:12]}" if delivery.state is State.HELD else ""
    marks += " maybe delivered" if delivery.may_have_arrived and delivery.state is not State.SENT else ""
    said = f"  ({delivery.said})" if delivery.said else ""
    where = f"{delivery.channel} -> {delivery.target}{marks}{said}{note}"
    return str(delivery.id), minute(delivery.created, zone), str(delivery.state), where


def _attempts(delivery: Delivery, zone: str) -> str:
    made = f"{delivery.attempts} attempt{'' if delivery.attempts == 1 else 's'}"
    return f"{made}, expires at {minute(delivery.give_up, zone)}" if delivery.state in OPEN else made
