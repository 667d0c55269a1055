"""The commands for operators of the service: `status`, `deliveries`, `state` and `backup`."""

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import click

from cachewatch.cli.config_commands import configured, configured_without_secrets, page, reading, working_on
from cachewatch.cli.help_and_exit_codes import SuggestingGroup, examples
from cachewatch.cli.terminal import FORMAT_OPTION, palette, tell, width, with_options, write_json, write_lines
from cachewatch.config.schedules_and_quiet_times import minute
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.value_types_and_secrets import PostgresAddress, Secret, StatePlace, read_secret_file, state_named
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.errors import AnotherInstance, StateError, UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.operators.status_problems_explanations import find_problems, read_status
from cachewatch.report.tables_and_listings import Table, text_lines
from cachewatch.report.words import number as number_of
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.streams_starts_silences import in_a_row
from cachewatch.store import delivery_queue_and_order as outbox
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import transactions_and_sqlite as store
from cachewatch.store.delivery_queue_and_order import OPEN, WAITING, Delivery, DeliveryState, all_suppressed
from cachewatch.store.schema import utc_now


@examples("cachewatch status", "cachewatch status --check --format json")
@click.command
@configured_without_secrets
@click.option(
    "--check", "is_check", is_flag=True, help="Print only problems and warnings; exit with 1 if there is a problem."
)
@FORMAT_OPTION
def status(*, config: Config, is_check: bool, format_: str) -> int:
    """Show the health of sources and channels, and what is due.

    It warns of a source without news only after watching it for `stale_after`, and until then shows its newest revision.
    """
    with reading(config) as context:
        state = read_status(context)
    now = utc_now().astimezone(ZoneInfo(config.timezone))
    problems = find_problems(state, config, now)
    if format_ == "json":
        write_json("problems" if is_check else "status", problems if is_check else state)
    elif is_check:
        grades = {"problem": problems.problems, "warning": problems.warnings}
        lines = [f"{grade}: {': '.join(filter(None, (p.what, p.detail)))}" for grade in grades for p in grades[grade]]
        failed = [f"{source.name} {in_a_row(source.failures)}" for source in state.sources if source.failures]
        write_lines(map(safe, lines or ["; ".join(("no problems", *failed))]))
    else:
        colours = palette()
        for_titles = {"PROBLEMS": "red", "WARNINGS": "yellow"}
        write_lines(
            colours.paint(line, "" if line.startswith(" ") else for_titles.get(line, "bold"))
            for line in page("status.txt.j2", now, status=state, problems=problems)
        )
    return int(is_check and not problems.is_ready)


_MOST = 50
_STATES = {"dead": (DeliveryState.DEAD, DeliveryState.SUPPRESSED), "open": OPEN, "held": (DeliveryState.HELD,)}
_FILTERS = with_options(
    click.option("--dead", "state", flag_value="dead", help="Only deliveries that failed permanently."),
    click.option("--open", "state", flag_value="open", help="Only deliveries that are waiting or being sent."),
    click.option("--channel", metavar="NAME", help="Only deliveries through this channel."),
    click.option("--target", metavar="ADDRESS", help="Only deliveries to this address, file or webhook."),
)


class _ListingGroup(SuggestingGroup):
    """A group that runs its command `list`, with the given options, if no command is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` before the options if no command is given."""
        is_named = any(not arg.startswith("-") for arg in args[:1]) or set(args) & set(ctx.help_option_names)
        return super().parse_args(ctx, args if is_named or ctx.resilient_parsing else ["list", *args])


@click.group(cls=_ListingGroup)
def deliveries() -> None:
    """List, retry, release or drop deliveries; without a command, list them.

    There is one delivery for each digest and each of its recipients, files or webhooks; one Maildir takes one for all of
    its recipients.
    """


@examples("cachewatch deliveries list --open", "cachewatch deliveries list --dead --channel mail --format json")
@deliveries.command(name="list")
@configured_without_secrets
@_FILTERS
@click.option("--held", "state", flag_value="held", help="Only deliveries held for an operator's decision.")
@click.option("--all", "is_all", is_flag=True, help=f"All deliveries, not only the newest {_MOST}.")
@FORMAT_OPTION
def list_(*, config: Config, state: str | None, is_all: bool, format_: str, **filters: str | None) -> None:
    """List deliveries, newest first."""
    states, limit = _STATES.get(state or "", ()), None if is_all else _MOST
    with reading(config) as context, context.database.read() as connection:
        listed = outbox.find(connection, states=states, limit=limit, **filters)
    if format_ == "json":
        write_json("deliveries", listed)
        return
    if not listed:
        tell("no deliveries")
        return
    rows = [_cells(each, config) for each in listed]
    table = Table(("number", "created", "state", "channel -> target"), rows)
    write_lines(text_lines(table, palette(), width()))


@examples("cachewatch deliveries show 17", "cachewatch deliveries show 17 --raw > message.eml")
@deliveries.command
@configured_without_secrets
@click.argument("number", type=int)
@click.option("--raw", is_flag=True, help="Print only the message, byte for byte.")
@FORMAT_OPTION
def show(*, config: Config, number: int, raw: bool, format_: str) -> None:
    """Show one delivery and its history."""
    with reading(config) as context, context.database.read() as connection:
        delivery = outbox.delivery(connection, number)
        if delivery is None:
            raise UsageError(f"no delivery {number}; see `cachewatch deliveries list`")
        if raw:
            sys.stdout.buffer.write(alerts_summary_actions.message_of(connection, context, number).payload)
            return
        stored = digests.find(connection, delivery.digest)
        entries = outbox.history(connection, number)
    if format_ == "json":
        history = [{"at": at, "event": event, "detail": said} for at, event, said in entries]
        write_json("delivery", {"delivery": delivery, "history": history})
        return
    cells, now = _cells(delivery, config), utc_now().astimezone(ZoneInfo(config.timezone))
    about = {"delivery": delivery, "is_open": delivery.state in OPEN, "digest": stored, "history": entries}
    write_lines(page("delivery.txt.j2", now, cells=cells, **about))


@examples("cachewatch deliveries retry 17 18 --force", "cachewatch deliveries retry --dead --channel mail")
@deliveries.command
@configured
@click.argument("numbers", type=int, nargs=-1)
@_FILTERS
@click.option(
    "--force", "is_forced", is_flag=True, help="Include deliveries that are being sent; they may arrive twice."
)
def retry(*, config: Config, numbers: tuple[int, ...], is_forced: bool, **filters: str | None) -> None:
    """Retry deliveries that were not sent.

    The same bytes are due now. Name deliveries by their numbers, or choose them by options.
    """
    act = partial(alerts_summary_actions.retry, is_forced=is_forced)
    _each(config, numbers or _chosen(config, **filters), "due now", act)


@examples("cachewatch deliveries resend 17", "cachewatch deliveries resend 17 18 19")
@deliveries.command
@configured
@click.argument("numbers", type=int, nargs=-1, required=True)
def resend(*, config: Config, numbers: tuple[int, ...]) -> None:
    """Send delivered messages again.

    Each goes out as a new message that refers to the old one.
    """
    _each(config, numbers, "queued again", alerts_summary_actions.resend)


@examples("cachewatch deliveries release my-packages", "cachewatch deliveries release my-packages/urgent")
@deliveries.command
@configured_without_secrets
@click.argument("names", nargs=-1, required=True, metavar="DIGEST|SUBSCRIPTION...")
def release(*, config: Config, names: tuple[str, ...]) -> None:
    """Release held digests for delivery.

    Name each digest by its key or its subscription. If a subscription has several held digests, write
    SUBSCRIPTION/regular or SUBSCRIPTION/urgent.
    """
    _each(config, names, "released", alerts_summary_actions.release)


@examples(
    "cachewatch deliveries drop my-packages --reason 'a test upstream'",
    "cachewatch deliveries drop --dead --target kim@example.org --reason 'has left'",
)
@deliveries.command
@configured_without_secrets
@click.argument("names", nargs=-1, metavar="[DELIVERY|DIGEST|SUBSCRIPTION]...")
@_FILTERS
@click.option("--reason", required=True, help="Why; stored with the digest or delivery.")
def drop(*, config: Config, names: tuple[str, ...], reason: str, **filters: str | None) -> None:
    """Drop held digests or unsent deliveries.

    Name digests as for `release`; a number names a delivery. Options choose deliveries.
    """

    def act(context: Context, name: str) -> None:
        # A longer number is the key of a digest: nobody has so many deliveries.
        if name.isdecimal() and len(name) < 10:
            alerts_summary_actions.drop_delivery(context, int(name), reason)
        else:
            alerts_summary_actions.drop_digest(context, name, reason)

    _each(config, names or tuple(map(str, _chosen(config, **filters))), "dropped", act)


@examples("cachewatch deliveries restore mail kim@example.org", "cachewatch deliveries restore mail")
@deliveries.command
@configured_without_secrets
@click.argument("channel")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
def restore(*, config: Config, channel: str, targets: tuple[str, ...]) -> None:
    """Deliver again to suppressed addresses, and send what was kept for them.

    An address is suppressed after it has refused digests for days. Without TARGET, all addresses of the channel are
    restored.
    """
    with reading(config) as context, context.database.read() as connection:
        targets = targets or tuple(each.target for each in all_suppressed(connection) if each.channel == channel)
    if not targets:
        raise UsageError(f"no address is suppressed in {channel}")
    act = alerts_summary_actions.restore
    _each(config, targets, "receives digests again", lambda context, target: act(context, channel, target))


def _chosen(config: Config, *, state: str | None, channel: str | None, target: str | None) -> tuple[int, ...]:
    """Return the ids of the deliveries that match the options, oldest first. Raises UsageError if none match."""
    if not (state or channel or target):
        raise UsageError("name a delivery by its number, or choose some by --dead, --open, --channel or --target")
    with reading(config) as context, context.database.read() as connection:
        states = _STATES[state] if state else (*_STATES["dead"], *WAITING)
        rows = outbox.find(connection, states=states, channel=channel, target=target)
    if not rows:
        raise UsageError("there is no such delivery; `cachewatch deliveries list` takes the same options")
    return tuple(each.id for each in reversed(rows))


def _each(config: Config, items: tuple[object, ...], done: str, act: Callable[..., object]) -> None:
    with working_on(config, store.open_database(config.database, must_exist=True)) as context:
        for item in items:
            act(context, item)
            click.echo(f"{item}: {done}")


def _cells(delivery: Delivery, config: Config) -> tuple[int, str, str, str]:
    where = f"{delivery.channel} -> {delivery.target}"
    where += f" digest {delivery.digest[:12]}" if delivery.state is DeliveryState.HELD else ""
    where += " maybe delivered" if delivery.may_have_arrived and delivery.state is not DeliveryState.SENT else ""
    where += f"  ({delivery.said})" if delivery.said else ""
    is_unknown = delivery.state in OPEN and delivery.channel not in config.channels
    where += "  (the channel is no longer configured)" if is_unknown else ""
    return delivery.id, minute(delivery.created, config.timezone), str(delivery.state), where


@click.group(cls=SuggestingGroup)
def state() -> None:
    """Check, back up or move the state: cursors, digests and deliveries."""


@examples("cachewatch state check", "cachewatch state check --config /etc/cachewatch/cachewatch.yaml")
@state.command
@configured_without_secrets
def check(*, config: Config) -> None:
    """Look through the whole state for damage.

    The service may keep running. Exits with 5 if anything is damaged. The service itself sets damaged rows aside
    and reports them; a backup has what was stored.
    """
    with reading(config) as context:
        context.database.check()
        with context.database.read() as connection:
            damage = list(digests.problems(connection))
            of_digests, of_deliveries = digests.counts(connection)
    if damage:
        raise StateError("\n".join(map(safe, damage)))
    said = f"{number_of(of_digests, 'digest')} and {number_of(of_deliveries, 'delivery', 'deliveries')}, no damage"
    write_lines([f"{safe(str(config.database))}: {said}"])


@examples(
    "cachewatch state move /var/lib/cachewatch postgresql://cachewatch@db.example.org/cachewatch",
    "cachewatch state move backup.db postgresql://cachewatch@db.example.org/cachewatch",
    "cachewatch state move postgresql://cachewatch@db.example.org/cachewatch ./state",
)
@state.command
@click.argument("source")
@click.argument("target")
@click.option("--password-file", metavar="FILE", help="File that contains the password for the database.")
def move(*, source: str, target: str, password_file: str | None) -> None:
    """Copy the state SOURCE into TARGET, which must be empty.

    Each is the folder of a state, or the address of a PostgreSQL database; SOURCE can also be a backup. Stop the
    service first. SOURCE stays as it is. All rows are compared at the end: TARGET has all of them, or none. Clones
    are not copied; they are made again where they are missing.
    """
    os.umask(0o077)
    password = Secret(read_secret_file(password_file, Path.cwd())) if password_file else None
    here, there = (
        PostgresAddress(place.url, password) if isinstance(place, PostgresAddress) else place
        for place in (state_named(text, Path.cwd()) for text in (source, target))
    )
    with ExitStack() as stack:
        _check_places(here, there)
        old = _unused(stack.enter_context(closing(_source_state(here, stack))))
        if isinstance(there, Path):
            stack.enter_context(store.only_one(there))
        new = _unused(stack.enter_context(closing(store.open_database(there))))
        with old.read() as reader, new.write() as writer:
            if store.has_rows(writer):
                raise UsageError(f"{new.place}: is not empty; choose another database, or delete its tables")
            count = store.copy_rows(reader, writer)
            store.check_same(reader, writer, new.place)
    tell(f"{safe(new.place)}: {count:,} rows copied and compared; name it in `state:`")


def _check_places(source: StatePlace, target: StatePlace) -> None:
    """Raise UsageError if there is no state at `source`, or if `target` is the same place."""
    if isinstance(source, Path) and not source.is_file() and not store.has_state(source):
        raise UsageError(f"{source}: there is no such state")
    folder = source.parent if isinstance(source, Path) and source.name == store.NAME else source
    is_same = isinstance(folder, Path) and isinstance(target, Path) and folder.resolve() == target.resolve()
    if target in (source, folder) or is_same:
        raise UsageError(f"{target}: source and target are the same; choose another target")


def _source_state(place: StatePlace, stack: ExitStack) -> store.Database:
    """Open the state at `place` for reading: a folder locked until `stack` ends, a backup copied and upgraded first."""
    if isinstance(place, Path) and place.is_file():
        folder, backup = Path(stack.enter_context(TemporaryDirectory(prefix="cachewatch-"))), place
        shutil.copyfile(backup, folder / store.NAME)
        try:
            with closing(store.open_database(folder, is_checked=True)) as database:
                if database.is_new:
                    raise StateError(f"{backup}: is empty; name a state, or a backup of one")
        except StateError as error:
            raise StateError(str(error).replace(str(folder / store.NAME), str(backup))) from error
        return store.open_to_read(folder)
    if isinstance(place, Path) and store.has_state(place):
        stack.enter_context(store.only_one(place))
    return store.open_to_read(place)


def _unused(database: store.Database) -> store.Database:
    if (leader := database.leader()) is not None:
        raise AnotherInstance(f"{database.place}: {leader} works on this state; stop it first")
    return database


@examples(
    "cachewatch state backup /srv/backup/cachewatch.db",
    "cachewatch state backup today.db --config /etc/cachewatch/cachewatch.yaml",
)
@click.command
@configured_without_secrets
@click.argument("file", type=click.Path(path_type=Path))
def backup(*, config: Config, file: Path) -> None:
    """Back up the state database to FILE, which must not exist.

    The service may keep running. FILE is an SQLite database, also if the state is in PostgreSQL. To restore a backup,
    stop the service, move `cachewatch.db` and all files whose names begin with `cachewatch.db` out of the state
    folder, and copy FILE there as `cachewatch.db`. Into an empty PostgreSQL database, `cachewatch state move FILE
    ADDRESS` restores it.
    """
    if os.path.lexists(file):
        raise UsageError(f"{file}: already exists; choose another file name")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such folder")
    os.umask(0o077)
    with reading(config) as context:
        context.database.back_up(file)
