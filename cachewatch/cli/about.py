"""`cachewatch kinds` and `cachewatch schema`: the words and the form of what is reported."""

import click

from cachewatch import resources
from cachewatch.kinds import GROUPS, MEANINGS


@click.command()
def kinds() -> None:
    """List the kinds of change, worst first; a + marks those that digests tell by default."""
    for kind, (meaning, is_default) in MEANINGS.items():
        click.echo(f"{'+' if is_default else ' '} {kind:<18} {meaning}")
    click.echo("\nIn `changes:` of a subscription, these words mean several of them:\n")
    for word, group in GROUPS.items():
        if word not in ("default", "all"):
            click.echo(f"  {word:<18} {', '.join(kind for kind in MEANINGS if kind in group)}")


@click.command()
@click.argument("what", type=click.Choice(["changesets", "digest"]), default="changesets")
def schema(*, what: str) -> None:
    """Print the JSON Schema of `diff --format json`, or that of a digest."""
    click.echo(resources.config(f"{what}.schema.json"), nl=False)
