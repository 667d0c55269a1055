"""The command `help`, examples in the help of commands, errors that suggest the right name, and exit codes."""

import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn, TypeVar

import click
from click.shell_completion import get_completion_class

from cachewatch.cli.terminal import FORMAT_OPTION, tell, write_json, write_lines
from cachewatch.core.escaping_and_mentions import safe, safe_lines
from cachewatch.core.filters_and_spec_patterns import GROUPS
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.names_and_layouts import did_you_mean
from cachewatch.errors import CachewatchError, SourceError, UsageError
from cachewatch.hooks import Command, load
from cachewatch.runtime.files_and_locks import shipped_schemas

# The environment variable with which a shell asks for completions; click derives it from the program's name.
COMPLETING = "_CACHEWATCH_COMPLETE"
# A paragraph that begins with this keeps its lines in click.
AS_IT_IS = "\b"

C = TypeVar("C", bound=click.Command)


def examples(*lines: str, title: str = "Examples:") -> Callable[[C], C]:
    """Return a decorator that adds `lines` as examples, below `title`, to the end of a command's help."""

    def add(command: C) -> C:
        command.epilog = "\n".join([AS_IT_IS, title, *(f"  $ {line}" for line in lines)])
        return command

    return add


_NOT_ONE = re.compile(r"'(.*)' is not one of ", re.DOTALL)


class SuggestingGroup(click.Group):
    """A group that loads a command when it is called, and suggests a similar name if there is no such command."""

    rows: Mapping[str, Command] = MappingProxyType({})  # the commands and subcommands to load, by name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands of this group, sorted, without those of its subgroups."""
        return sorted({*super().list_commands(ctx), *(name for name in self.rows if " " not in name)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load and return the command `name`, None if there is none; a group gets the subcommands that it can load."""
        row = self.rows.get(name)
        command = load(row.object) if row else super().get_command(ctx, name)
        if isinstance(command, SuggestingGroup) and row:
            begin = f"{name} "
            command.rows = {key.removeprefix(begin): one for key, one in self.rows.items() if key.startswith(begin)}
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands to the help, by section, without loading them."""
        rows = {name: (row.section, row.summary) for name, row in self.rows.items() if " " not in name}
        rows |= {name: ("", one.get_short_help_str(100)) for name, one in self.commands.items()}
        width = max(map(len, rows), default=0)
        for section in dict.fromkeys(section for section, _ in rows.values()):
            with formatter.section(section or "Commands"):
                own = [(name.ljust(width), said) for name, (where, said) in rows.items() if where == section]
                formatter.write_dl(own if section else sorted(own))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` name; `help X` becomes `X --help`. Raises UsageError if there is none."""
        name = args[0]
        if name == "help" and self.rows and f"help {(args[1:] or [''])[0]}" not in self.rows:
            return self.resolve_command(ctx, [*args[1:], "--help"])
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            moved = [key for key in self.rows if key.endswith(f" {name}")]
            hint = f"; did you mean {moved[0]}?" if moved else did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"there is no command {name}{hint}", ctx)
        return super().resolve_command(ctx, args)


def run_and_exit(command: click.Group) -> NoReturn:
    """Run `command`, and exit with its status; print an expected error as one sentence, and exit with its code."""
    try:
        status = command.main(prog_name="cachewatch", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        _fail(error.exit_code, error.format_message())
    except click.ClickException as error:
        _fail(error.exit_code, safe_lines(_explained(error)))
    except CachewatchError as error:
        # Missing permissions have one exit code, whether for a source, an output or a state.
        code = UsageError.exit_code if isinstance(error.__cause__, PermissionError) else error.exit_code
        _fail(code, f"cachewatch: {safe_lines(str(error))}")
    except OSError as error:
        named = f"{safe(str(error.filename))}: " if error.filename else ""
        code = UsageError.exit_code if isinstance(error, PermissionError) else SourceError.exit_code
        _fail(code, f"cachewatch: {named}{error.strerror}")
    sys.exit(status if isinstance(status, int) else 0)


def _fail(code: int, text: str) -> NoReturn:
    tell(text)
    sys.exit(code)


def _explained(error: click.ClickException) -> str:
    """Return the message for `error`, with the usage of the command if it has an argument too few or too many."""
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.UsageError) or context is None:
        return f"cachewatch: {_lowered(error.format_message())}"
    lines = [f"cachewatch: {_sentence(error, context)}", f"See `{context.command_path} --help`."]
    is_about_form = isinstance(error, click.MissingParameter) or type(error) is click.UsageError
    if is_about_form and not isinstance(context.command, click.Group):  # an argument is missing or superfluous
        lines.insert(1, context.command.get_usage(context))
    return "\n".join(lines)


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
    match, where = _NOT_ONE.match(error.message), _named(param, context)
    if match is None or not isinstance(param.type, click.Choice):
        return f"{where}: {_lowered(error.message)}"
    choices = list(map(str, param.type.choices))
    shortened = re.compile(".*".join(map(re.escape, match[1])))  # md for markdown
    meant = did_you_mean(match[1], choices) or did_you_mean(next(filter(shortened.match, choices), ""), choices)
    return f"{where}: {match[0]}{', '.join(choices)}{meant}"


def _named(param: click.Parameter, context: click.Context) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else param.make_metavar(context)


# How to write in a spec for `show` what other commands take as an option.
_IN_SPECS = {name: f"{name}=VALUE" for name in ("stack", "target", "os")} | {"compiler": "%NAME", "versions": "@RANGE"}


def _meant_option(name: str, command: click.Command) -> str:
    """Return what the unknown option `name` of `command` probably meant, as the end of a message; "" if unclear."""
    word = name.lstrip("-")
    options = {opt: one for one in command.params if isinstance(one, click.Option) for opt in one.opts}
    form = options["--format"].type if "--format" in options else None
    if isinstance(form, click.Choice) and word in form.choices:
        return f"; did you mean --format {word}?"
    if name == "--repo" and "--config" in options:
        return "; it reads the sources of a configuration, which --config names"
    if command.name == "show" and word in _IN_SPECS:
        return f"; write {_IN_SPECS[word]} behind the package"
    return did_you_mean(name, options)


@examples("cachewatch help diff", "cachewatch help config check", "cachewatch help kinds")
@click.group(name="help", cls=SuggestingGroup)
def help_() -> None:
    """Show the help of a command, the kinds of change, JSON Schemas, or how commands are completed."""


@examples("cachewatch help kinds", "cachewatch help kinds --format json")
@click.command
@FORMAT_OPTION
def kinds(*, format_: str) -> None:
    """List the kinds of change, worst first.

    A + marks the kinds that digests report by default.
    """
    if format_ == "json":
        write_json(
            "kinds",
            {
                "kinds": [{"kind": kind, "meaning": kind.meaning, "default": kind.is_default} for kind in Kind],
                "groups": {word: [kind for kind in Kind if kind in group] for word, group in GROUPS.items()},
            },
        )
        return
    lines = ["Kinds of change, worst first; + marks those that digests report by default:", ""]
    lines += [f"{'+' if kind.is_default else ' '} {kind:<18} {kind.meaning}" for kind in Kind]
    lines += ["", "Groups of kinds, for `changes:` of a subscription and `diff --kind`:", ""]
    groups = [(word, group) for word, group in GROUPS.items() if word not in ("default", "all")]
    lines += [f"  {word:<18} {', '.join(kind for kind in Kind if kind in group)}" for word, group in groups]
    lines += ["", "Lost places and machines with equal builds elsewhere are place-lost and machine-lost, but not lost."]
    lines.append("A version that a place lost while it kept others is retired or downgraded: not gone, going or other.")
    lines.append(
        "In JSON, statements of the kind reconfigured are also about compilers and systems; see their `kinds`."
    )
    lines.append("Digests sum up rebuilds, and kinds that they do not report, in their line Routine.")
    lines.append(
        "In CSV, place- begins what happened to one stack and target, from the versions `before` to those `after`;"
    )
    lines.append("rebuilt, upgraded, recompiled, ... count specs with a counterpart, unmatched- those without one.")
    write_lines(lines)


_SCHEMAS = {name: file for name, file in shipped_schemas().items() if name != "cachewatch"}  # of `config schema`


@examples("cachewatch help schema > changesets.schema.json", "cachewatch help schema digest")
@click.command
@click.argument("what", type=click.Choice([*_SCHEMAS]), default="changesets")
def schema(*, what: str) -> None:
    """Print the JSON Schema of `diff --format json`, of a digest, or of `why` or `impact` with `--format json`."""
    click.echo(_SCHEMAS[what].read_text("utf-8"), nl=False)


@examples(
    'eval "$(cachewatch help completion bash)"',
    "cachewatch help completion fish > ~/.config/fish/completions/cachewatch.fish",
)
@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print the completion script of a shell.

    Commands, options, tags, packages, stacks, kinds, subscriptions and channels are completed, those of the
    catalogue as it was last fetched. For bash and zsh, put `eval "$(cachewatch help completion bash)"` into ~/.bashrc or
    ~/.zshrc; for fish, write the script to ~/.config/fish/completions/cachewatch.fish.
    """
    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(context.find_root().command, {}, "cachewatch", COMPLETING).source())
