"""`cachewatch explain`: who is notified of a package, and why."""

from collections.abc import Iterator

import click

from cachewatch.cli.load_configuration import configured_without_secrets
from cachewatch.cli.open_state import elsewhere, reading
from cachewatch.cli.output import write_lines
from cachewatch.config.model import Config
from cachewatch.core.untrusted_text import safe
from cachewatch.notify.explaining import Explanation
from cachewatch.notify.package_queries import explain_package
from cachewatch.store.database import has_state


@click.command()
@configured_without_secrets
@click.argument("package")
def explain(*, config: Config, package: str) -> None:
    """Show which subscriptions report changes of PACKAGE.

    Lists why, when and through which channels; and for the other subscriptions, why not.
    """
    # Before the first pass there is no state.
    with (reading if has_state(config.state) else elsewhere)(config) as context:
        lines = [line for found in explain_package(context, package) for line in _lines(found)]
    write_lines(map(safe, lines))


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{found.subscription}  {'is notified' if found.is_told else 'is not notified'}"
    yield from (f"  {reason}" for reason in found.reasons)
    if found.is_told:
        yield f"  {found.when}, through {'; '.join(found.where)}"
    if found.urgent:
        yield f"  at once through {'; '.join(found.urgent)}"
