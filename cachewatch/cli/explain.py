"""`cachewatch explain`: who hears of a package, and why."""

import click

from cachewatch.cli.configured import configured_without_secrets
from cachewatch.cli.serving import working_on
from cachewatch.config.model import Config
from cachewatch.safetext import safe
from cachewatch.service.asking import explain_package


@click.command()
@configured_without_secrets
@click.argument("package")
def explain(*, config: Config, package: str) -> None:
    """Say which subscriptions hear of PACKAGE, why, when and where; and why the others do not."""
    with working_on(config, must_exist=False) as context:
        for found in explain_package(context, package):
            click.echo(safe(f"{found.subscription}  {'is told' if found.is_told else 'is not told'}"))
            for reason in found.reasons:
                click.echo(safe(f"  {reason}"))
            if found.is_told:
                click.echo(safe(f"  {found.when}, through {', and '.join(found.where)}"))
            if found.urgent:
                click.echo(safe(f"  at once through {', and '.join(found.urgent)}"))
