"""`cachewatch completion`: complete commands, options and names of the catalogue in a shell.

What completes the values of options and arguments is loaded when a shell asks for it (completion_values.py).
"""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from cachewatch.cli import COMPLETING
from cachewatch.cli.mistakes import examples

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completing(what: str) -> Complete:
    """Return what offers the values that the function `what` of completion_values.py finds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cachewatch.cli import completion_values  # noqa: PLC0415

        offer: Any = getattr(completion_values, what)
        found: list[CompletionItem] = offer(context, parameter, incomplete)
        return found

    return complete


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
