"""`cachewatch test`: send a real message through a channel, once and now."""

import click

from cachewatch.channels import open_channel
from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured
from cachewatch.config.addresses import parse_mail
from cachewatch.config.model import Config
from cachewatch.core.delivery import DeliveryOutcome
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import DeliveryError, UsageError
from cachewatch.render.operator_mail import render_notice
from cachewatch.report.digest import Notice
from cachewatch.store.timestamps import utc_now


@click.command(name="test", epilog=examples("cachewatch test mail", "cachewatch test mail --to you@example.org"))
@configured
@click.argument("channel", shell_complete=completing("channels"))
@click.option(
    "--to", multiple=True, metavar="ADDRESS", show_default="the operators", help="Recipient of a test mail; repeatable."
)
def test(*, config: Config, channel: str, to: tuple[str, ...]) -> None:
    """Send a test message through CHANNEL, without retries."""
    if channel not in config.channels:
        raise UsageError(f"no channel {channel!r}; configured: {', '.join(config.channels)}")
    for address in to:
        try:
            parse_mail(address)
        except UsageError as error:
            raise UsageError(f"--to {error}") from error
    opened = open_channel(config.channels[channel])
    now = utc_now()
    notice = Notice(
        key=f"test-{now:%Y%m%dT%H%M%S%f}",
        title="this is a test",
        is_good=True,
        said=(f"The channel {channel} works.", "No action is required."),
        created=now,
        zone=config.timezone,
    )
    rendered = render_notice(notice, to=to or config.operators.to)
    messages = opened.build_messages(rendered)
    if not messages:
        raise UsageError(f"no recipients: use --to ADDRESS, or set `operators: to:` in {config.path}")
    failed = []
    with opened.open(lambda *_: ()) as transport:
        for message in messages:
            answer = transport.deliver(message)
            click.echo(f"{message.target}: {answer.outcome}{': ' + safe(answer.detail) if answer.detail else ''}")
            if answer.outcome is not DeliveryOutcome.SENT:
                failed.append(message.target)
    if failed:
        raise DeliveryError(
            f"the test message did not reach {', '.join(failed)}; fix `channels: {channel}:` in {config.path}"
        )
