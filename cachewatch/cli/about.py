"""`cachewatch kinds` and `cachewatch schema`: the words and the form of what is reported."""

import click

from cachewatch import resources
from cachewatch.model import Kind

# What each kind means, and whether a digest tells it unless asked not to.
_MEANINGS = {
    Kind.TAG_ADDED: ("a tag appeared; it is compared with its predecessor", True),
    Kind.TAG_REMOVED: ("a tag is gone", True),
    Kind.STACK_EVENT: ("a stack left or joined the whole tag", True),
    Kind.PRUNE: ("a prune removed surplus copies by the thousand", True),
    Kind.SUSPICIOUS: ("so much is gone that publishing may have failed", True),
    Kind.UNREADABLE: ("a document could not be compared", True),
    Kind.PACKAGE_REMOVED: ("a package's document is gone", True),
    Kind.PACKAGE_ADDED: ("a package appeared", True),
    Kind.LAST_COPY_REMOVED: ("a stack has no copy of a version for a target any more", True),
    Kind.LEFT_OVER: ("no stack builds a spec any more; the next prune takes it", True),
    Kind.VERSION_REMOVED: ("a version is gone from the package", True),
    Kind.VERSION_ADDED: ("a version appeared in the package", True),
    Kind.DOWNGRADED: ("a stack, or specs, went to an older version", True),
    Kind.UPGRADED: ("a stack, or specs, went to a newer version", True),
    Kind.STACK_REMOVED: ("a stack builds the package, or specs of it, no more", True),
    Kind.STACK_ADDED: ("a stack builds the package, or specs of it, that did not", True),
    Kind.COMPILER: ("another compiler", True),
    Kind.OS: ("another operating system or platform", True),
    Kind.TARGET: ("another target", True),
    Kind.VARIANT: ("variants that came or went", False),
    Kind.RECONFIGURED: ("specs with other variants in the place of specs", False),
    Kind.MOVED: ("specs rebuilt for other stacks", False),
    Kind.SPEC_ADDED: ("specs that take nobody's place", False),
    Kind.SPEC_REMOVED: ("specs that nothing took the place of", False),
    Kind.REBUILT: ("the same thing built again: only the hash is new", False),
}


@click.command()
def kinds() -> None:
    """List the kinds of change, worst first; a + marks those that digests tell by default."""
    for kind, (meaning, is_default) in _MEANINGS.items():
        click.echo(f"{'+' if is_default else ' '} {kind:<18} {meaning}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of `diff --format json`."""
    click.echo(resources.config("changesets.schema.json"), nl=False)
