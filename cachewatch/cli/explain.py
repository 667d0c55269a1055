"""`cachewatch explain`: who is notified of a package, and why."""

from collections.abc import Iterator

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured_without_secrets
from cachewatch.cli.open_state import elsewhere, reading
from cachewatch.cli.output import FORMAT_OPTION, write_json, write_lines
from cachewatch.config.model import Config
from cachewatch.core.similar_names import similar
from cachewatch.core.untrusted_text import safe
from cachewatch.notify.explaining import Explanation
from cachewatch.notify.package_queries import explain_package, packages_now
from cachewatch.store.opening import has_state


@click.command(
    epilog=examples("cachewatch explain py-torch", "cachewatch explain hdf5 --config /etc/cachewatch/cachewatch.yaml")
)
@configured_without_secrets
@click.argument("package", shell_complete=completing("packages"))
@FORMAT_OPTION
def explain(*, config: Config, package: str, format_: str) -> None:
    """Show which subscriptions report changes of PACKAGE.

    Lists why, when and through which channels; and for the other subscriptions, why not.
    """
    # Before the first pass there is no state.
    with (reading if has_state(config.database) else elsewhere)(config) as context:
        found = list(explain_package(context, package))
        names = packages_now(context)
    if names and package not in names:
        _warn(package, names)
    if format_ == "json":
        write_json(found)
        return
    write_lines(safe(line) for each in found for line in _lines(each))


def _warn(package: str, names: set[str]) -> None:
    """Say that no source has the package: what follows holds if it comes, or the name is mistyped."""
    near = similar(package, sorted(names))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    click.echo(f"cachewatch: warning: no source has a package {safe(package)} now{safe(hint)}", err=True)


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{found.subscription}  {'would be notified' if found.is_notified else 'would not be notified'}"
    yield from (f"  {reason}" for reason in found.reasons)
    if found.is_notified:
        yield f"  {found.when}, through {'; '.join(found.where)}"
    if found.urgent:
        yield f"  at once through {'; '.join(found.urgent)}"
