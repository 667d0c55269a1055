"""Help for whoever mistypes a command line: error messages with the names that were probably meant, and examples."""

import re
import shlex
from collections.abc import Iterable
from typing import TypeVar

import click
from click.core import ParameterSource

from cachewatch.core.names import similar

# Click keeps the lines of a paragraph as they are if it begins with this.
_AS_IT_IS = "\b"


def examples(*lines: str, title: str = "Examples:") -> str:
    """Return an epilog that shows each of `lines` as an example."""
    return "\n".join([_AS_IT_IS, title, *(f"  $ {line}" for line in lines)])


Value = TypeVar("Value")
_CATALOGUE = "cachewatch.catalogue_options"
_COMMAND = re.compile(r"`cachewatch ([^`\n]+)`")


def note_option(context: click.Context, param: click.Parameter, value: Value) -> Value:
    """Remember an option that says which catalogue is meant, for the commands in messages; return its value."""
    if param.name and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
        context.meta.setdefault(_CATALOGUE, {})[param.opts[-1]] = str(value)
    return value


def in_same_catalogue(message: str, context: click.Context) -> str:
    """Return a message whose commands read the catalogue that the command line named, so that they can be pasted."""
    given: dict[str, str] = context.meta.get(_CATALOGUE, {})

    def complete(match: re.Match[str]) -> str:
        words, command = match[1].split(), context.find_root().command
        for word in words:
            if isinstance(command, click.Group):
                command = command.get_command(context, word) or click.Command(word)
        own = {name: given[name] for param in command.params for name in param.opts if name in given}
        if not own.keys().isdisjoint(words) or not set(own.values()).isdisjoint(words):
            return match[0]
        options = (f" {name} {shlex.quote(value)}" for name, value in own.items())
        return f"`cachewatch {match[1]}{''.join(options)}`"

    return _COMMAND.sub(complete, message) if given else message


_NOT_ONE = re.compile(r"'(.*)' is not one of ", re.DOTALL)
_MOST = 2


class SuggestingGroup(click.Group):
    """A group that knows which command was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones are called nearly so; `help COMMAND` is `COMMAND --help`."""
        name = args[0]
        if name == "help":
            return self.resolve_command(ctx, [*args[1:], "--help"])
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {name}{_meant(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


def explained(error: click.ClickException) -> str:
    """Return the sentences for `error`."""
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.UsageError) or context is None:
        return f"cachewatch: {_lowered(error.format_message())}"
    sentence = f"cachewatch: {_sentence(error, context)}"
    return f"{sentence}\n{_usage(error, context)}See `{context.command_path} --help`."


def _sentence(error: click.UsageError, context: click.Context) -> str:
    command = context.command_path.removeprefix("cachewatch ")
    match error:
        case click.NoSuchOption():
            return f"{command} has no option {error.option_name}{_meant_option(error.option_name, context.command)}"
        case click.MissingParameter() if error.param is not None:
            return f"{command} needs {_named(error.param, context)}"
        case click.BadParameter() if error.param is not None:
            return _bad_value(error, error.param, context)
    message = _lowered(error.format_message())
    return message if message.startswith("there is") else f"{command}: {message}"


def _lowered(message: str) -> str:
    return f"{message[:1].lower()}{message[1:].rstrip('.')}"


def _bad_value(error: click.BadParameter, param: click.Parameter, context: click.Context) -> str:
    found = _NOT_ONE.match(error.message)
    where = _named(param, context)
    if found is None or not isinstance(param.type, click.Choice):
        return f"{where}: {_lowered(error.message)}"
    choices = list(map(str, param.type.choices))
    return f"{where}: {found[0]}{', '.join(choices)}{_meant(found[1], choices)}"


def _named(param: click.Parameter, context: click.Context) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else param.make_metavar(context)


def _usage(error: click.UsageError, context: click.Context) -> str:
    """Return the form of the command where its arguments are wrong, not their values."""
    is_about_form = isinstance(error, click.MissingParameter) or type(error) is click.UsageError
    is_group = isinstance(context.command, click.Group)
    return f"{context.command.get_usage(context)}\n" if is_about_form and not is_group else ""


def _meant_option(name: str, command: click.Command) -> str:
    """Ask for the option that was meant; a format that is written as an option is one of `--format`."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    form = next((option for option in options if "--format" in option.opts), None)
    if form is not None and isinstance(form.type, click.Choice):
        if name.lstrip("-") in form.type.choices:
            return f"; did you mean --format {name.lstrip('-')}?"
        if name == "--as":
            return "; did you mean --format?"
    return _meant(name, ["--help", *(opt for option in options for opt in option.opts)])


def _meant(name: str, names: Iterable[str]) -> str:
    near = similar(name, names, _MOST)
    return f"; did you mean {' or '.join(near)}?" if near else ""
