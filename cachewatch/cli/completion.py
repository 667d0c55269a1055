"""`cachewatch completion`: what lets a shell complete commands, options and names of the catalogue."""

import click
from click.shell_completion import get_completion_class

from cachewatch.cli.command_table import COMPLETING
from cachewatch.cli.help_examples import examples


@click.command(
    epilog=examples(
        'eval "$(cachewatch completion bash)"',
        "cachewatch completion fish > ~/.config/fish/completions/cachewatch.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print the completion script of a shell.

    Commands, options, tags, packages, stacks, kinds, subscriptions and channels are completed, those of the
    catalogue as it was last fetched. For bash and zsh, put `eval "$(cachewatch completion bash)"` into ~/.bashrc or
    ~/.zshrc; for fish, write the script to ~/.config/fish/completions/cachewatch.fish.
    """
    found = get_completion_class(shell)
    assert found is not None
    root = context.find_root()
    click.echo(found(root.command, {}, "cachewatch", COMPLETING).source())
