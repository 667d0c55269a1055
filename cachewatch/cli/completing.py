"""Completion of the values of options and arguments, which is loaded when a shell asks for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completing(what: str) -> Complete:
    """Return what offers the values that the function `what` of completion_values.py finds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cachewatch.cli import completion_values  # noqa: PLC0415

        offer: Any = getattr(completion_values, what)
        found: list[CompletionItem] = offer(context, parameter, incomplete)
        return found

    return complete
