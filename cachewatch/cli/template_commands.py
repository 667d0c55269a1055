"""`cachewatch config template`: list, print, render and check the templates of digests and alerts."""

import difflib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cachewatch.cli.config_commands import CONFIG_OPTION
from cachewatch.cli.help_and_exit_codes import SuggestingGroup, examples
from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.cli.terminal import FORMAT_OPTION, OUTPUT_OPTION, tell, write, write_json, write_lines
from cachewatch.config.reading import read_config, usual_config
from cachewatch.core.escaping_and_mentions import safe, safe_lines
from cachewatch.errors import TemplateError, UsageError
from cachewatch.report.digest_and_message_values import RenderedDigest
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice
from cachewatch.report.template_rendering import source
from cachewatch.report.words_file import entries, values_of

# The built-in files that users can override, and their purposes.
_TEMPLATES = {
    "digest.html.j2": "the mail, as HTML",
    "digest.txt.j2": "the mail, as text",
    "digest.md.j2": "for files, as Markdown",
    "digest.chat.j2": "the bullets of a chat message, one on each line",
    "digest.subject.j2": "the subject, behind the name of the subscription; also the title elsewhere",
    "digest.feed.html.j2": "the entry of a feed",
    "digest.page.html.j2": "the page in an archive, which is never cut",
    "notice.html.j2": "alerts to operators, as HTML",
    "notice.txt.j2": "alerts to operators, as text",
    "notice.md.j2": "alerts to operators, as Markdown",
    "notice.chat.j2": "alerts to operators, as bullets of a chat message",
    "notice.feed.html.j2": "alerts to operators, as the entry of a feed",
    "words.toml": "every sentence of digests; your file replaces single entries",
    "theme.toml": "colours, name, logo and last sentence; your file replaces single entries",
    "_header.html.j2": "above the headline: the name and logo of the theme",
    "_style.html.j2": "widths, and colours in the dark, that e-mail clients accept",
    "_lead.html.j2": "below the headline: what to do, what happened, what is still open",
    "_lists.html.j2": "the table",
    "_footer.html.j2": "the period, why the recipient gets this, how to unsubscribe",
    "_page.css.j2": "the style of pages",
    "_page.js.j2": "the filter of pages",
}


def _own(folder: Path | None) -> set[str]:
    return {file.name for file in folder.iterdir() if file.suffix in (".j2", ".toml")} if folder else set()


TEMPLATES_OPTION = click.option(
    "--templates-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of your own templates (in place of `templates_dir:` of the configuration).",
)


def _of_own_templates(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with `--templates-dir`, whose default is `templates_dir:` of the configuration, if any."""

    @TEMPLATES_OPTION
    @CONFIG_OPTION
    @wraps(command)
    def with_templates(*arguments: Any, templates_dir: Path | None, config_file: Path | None, **options: Any) -> Any:
        if templates_dir is None and (file := config_file or usual_config()):
            templates_dir = read_config(file, with_secrets=False).templates_dir
        return command(*arguments, templates_dir=templates_dir, **options)

    return with_templates


@click.group(cls=SuggestingGroup)
def template() -> None:
    """List, print, render and check message templates."""


@examples("cachewatch config template list", "cachewatch config template list --templates-dir templates")
@template.command("list")
@_of_own_templates
@FORMAT_OPTION
def list_templates(*, templates_dir: Path | None, format_: str) -> None:
    """List all templates; a * marks those that DIR, or `templates_dir:` of the configuration, overrides or adds."""
    own = _own(templates_dir)
    purposes = {**_TEMPLATES, **dict.fromkeys(sorted(own - _TEMPLATES.keys()), "your own")}
    if format_ == "json":
        write_json(
            "templates", [{"name": name, "purpose": said, "own": name in own} for name, said in purposes.items()]
        )
        return
    write_lines(f"{'*' if name in own else ' '} {safe(name):<20} {said}" for name, said in purposes.items())


@examples(
    "cachewatch config template show digest.html.j2",
    "cachewatch config template show _footer.html.j2 > templates/_footer.html.j2",
)
@template.command
@click.argument("name")
@TEMPLATES_OPTION
def show(*, name: str, templates_dir: Path | None) -> None:
    """Print one of cachewatch's own templates, as a starting point, or with --templates-dir one of that folder."""
    shown = source(name, templates_dir)
    if shown is None:
        raise UsageError(f"no template {name}; see `cachewatch config template list`")
    write([shown[0].encode()], None)


@examples(
    "cachewatch config template render digest.html.j2 -o digest.html",
    "cachewatch config template render notice.txt.j2 --templates-dir templates",
)
@template.command
@click.argument("name")
@_of_own_templates
@OUTPUT_OPTION
def render(*, name: str, templates_dir: Path | None, output: str | None) -> None:
    """Render a template with sample data.

    NAME is digest.html.j2, notice.txt.j2 or the like, or one of your own templates.
    """
    write([_rendered(name, templates_dir).encode()], output)


@examples(
    "cachewatch config template diff", "cachewatch config template diff --templates-dir templates -o changes.diff"
)
@template.command
@_of_own_templates
@OUTPUT_OPTION
def diff(*, templates_dir: Path | None, output: str | None) -> None:
    """Show in what your templates differ from cachewatch's own, as `diff -u` does."""
    if templates_dir is None:
        raise UsageError(
            "there are no templates of your own; name their folder by --templates-dir, or in `templates_dir:`"
        )
    lines: list[str] = []
    for name in sorted(_own(templates_dir)):
        ours, theirs = source(name), source(name, templates_dir)
        if ours and theirs and name.endswith(".toml"):
            before, after = (
                [safe(f"{'.'.join((*path, key))} = {value!r}") for path, key, value in values_of(entries(name, folder))]
                for folder in (None, templates_dir)
            )
            lines += difflib.unified_diff(before, after, f"cachewatch/{name}", theirs[1], n=0, lineterm="")
        elif ours and theirs:
            before, after = ours[0].splitlines(), theirs[0].splitlines()
            lines += difflib.unified_diff(before, after, f"cachewatch/{name}", theirs[1], lineterm="")
    write_lines(lines, output)


@examples("cachewatch config template check", "cachewatch config template check --templates-dir templates")
@template.command
@_of_own_templates
def check(*, templates_dir: Path | None) -> int:
    """Render every template with sample data, and report each mistake once."""
    whole = {name for name in _TEMPLATES.keys() | _own(templates_dir) if name[0] != "_" and name.endswith(".j2")}
    mistakes: set[str] = set()
    for name in sorted(whole):
        try:
            _rendered(name, templates_dir, only=name)
        except TemplateError as error:
            if str(error) not in mistakes:  # several templates have the same part
                tell(f"cachewatch: {safe_lines(str(error))}")
            mistakes.add(str(error))
            click.echo(f"{safe(name)}: wrong")
        else:
            click.echo(f"{safe(name)}: ok")
    return TemplateError.exit_code if mistakes else 0


def _rendered(name: str, folder: Path | None, only: str = "") -> str:
    base, _, form = name.removesuffix(".j2").partition(".")
    forms: dict[str, Callable[[RenderedDigest], str]] = {
        "html": lambda digest: digest.html,
        "txt": lambda digest: digest.text,
        "md": lambda digest: digest.markdown,
        "chat": lambda digest: "".join(f"{bullet}\n" for bullet in digest.bullets),
        "subject": lambda digest: f"{digest.title}\n",
        "feed.html": lambda digest: digest.feed,
        "page.html": lambda digest: digest.page,
    }
    if form not in forms or not base or name.startswith("_"):
        raise UsageError(
            f"{name}: only whole templates such as digest.html.j2 can be rendered; parts are rendered as part of them"
        )
    if base == "notice":
        return forms[form](render_notice(sample_notice(), templates_dir=folder, only=only))
    return forms[form](render_digest(sample_digest(), templates_dir=folder, template=f"{base}.html.j2", only=only))
