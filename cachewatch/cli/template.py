"""`cachewatch config template`: list, print, render and check the templates of digests and alerts."""

from pathlib import Path

import click

from cachewatch.cli.mistakes import SuggestingGroup, examples
from cachewatch.cli.terminal import FORMAT_OPTION, OUTPUT_OPTION, write, write_json, write_lines
from cachewatch.core.names import safe, safe_lines
from cachewatch.errors import TemplateError, UsageError
from cachewatch.report.digest_mail import render_digest, render_notice
from cachewatch.report.samples import sample_digest, sample_notice
from cachewatch.report.templates import source

# What there is to override, and what it is for.
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
    "_style.html.j2": "colours and widths that e-mail clients accept",
    "_lead.html.j2": "below the first sentence: how much and how new",
    "_needs.j2": "the sentences about environments and pinned snapshots",
    "_needs.html.j2": "the same, as HTML",
    "_needs.txt.j2": "the same, as text",
    "_needs.md.j2": "the same, as Markdown",
    "_tag.html.j2": "what else changed in one tag",
    "_lists.html.j2": "the lists and the table",
    "_footer.html.j2": "the period, why the recipient gets this, how to unsubscribe",
    "_lists.txt.j2": "the lists of the text",
    "_lists.md.j2": "the tables of the Markdown",
}

_folder = click.option(
    "--templates-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of your own templates (`templates_dir:` in the configuration).",
)


@click.group(cls=SuggestingGroup)
def template() -> None:
    """List, print, render and check message templates."""


@template.command(
    "list",
    epilog=examples("cachewatch config template list", "cachewatch config template list --templates-dir templates"),
)
@_folder
@FORMAT_OPTION
def list_templates(*, templates_dir: Path | None, format_: str) -> None:
    """List all templates; a * marks those that DIR overrides or adds."""
    own = {file.name for file in templates_dir.glob("*.j2")} if templates_dir else set()
    if format_ == "json":
        purposes = {**_TEMPLATES, **dict.fromkeys(sorted(own - _TEMPLATES.keys()), "your own")}
        write_json(
            "templates", [{"name": name, "purpose": said, "own": name in own} for name, said in purposes.items()]
        )
        return
    lines = [f"{'*' if name in own else ' '} {name:<20} {purpose}" for name, purpose in _TEMPLATES.items()]
    write_lines([*lines, *(f"* {safe(name):<20} your own" for name in sorted(own - _TEMPLATES.keys()))])


@template.command(
    epilog=examples(
        "cachewatch config template show digest.html.j2",
        "cachewatch config template show _footer.html.j2 > templates/_footer.html.j2",
    )
)
@click.argument("name")
@_folder
def show(name: str, templates_dir: Path | None) -> None:
    """Print the source of a template, as a starting point for your own."""
    found = source(name, templates_dir)
    if found is None:
        raise UsageError(f"no template {name}; see `cachewatch config template list`")
    write([found[0].encode()], None)


@template.command(
    epilog=examples(
        "cachewatch config template render digest.html.j2 -o digest.html",
        "cachewatch config template render notice.txt.j2 --templates-dir templates",
    )
)
@click.argument("name")
@_folder
@OUTPUT_OPTION
def render(name: str, templates_dir: Path | None, output: str | None) -> None:
    """Render a template with sample data.

    NAME is digest.html.j2, notice.txt.j2 or the like, or one of your own templates.
    """
    write([_rendered(name, templates_dir).encode()], output)


@template.command(
    epilog=examples("cachewatch config template check", "cachewatch config template check --templates-dir templates")
)
@_folder
@click.pass_context
def check(context: click.Context, templates_dir: Path | None) -> None:
    """Render every template with sample data, and report errors."""
    own = {file.name for file in templates_dir.glob("*.j2")} if templates_dir else set()
    whole = [name for name in {*_TEMPLATES, *own} if not name.startswith("_")]
    failed = 0
    for name in sorted(whole):
        try:
            _rendered(name, templates_dir)
        except TemplateError as error:
            failed += 1
            click.echo(f"cachewatch: {safe_lines(str(error))}", err=True)
        else:
            click.echo(f"{safe(name)}: ok")
    context.exit(TemplateError.exit_code if failed else 0)


def _rendered(name: str, folder: Path | None) -> str:
    base, _, form = name.removesuffix(".j2").partition(".")
    if (
        name.startswith("_")
        or form not in ("html", "txt", "md", "chat", "subject", "feed.html", "page.html")
        or not base
    ):
        raise UsageError(
            f"{name}: only whole templates such as digest.html.j2 can be rendered; parts are rendered as part of them"
        )
    if base == "notice":
        rendered = render_notice(sample_notice(), templates_dir=folder)
    else:
        rendered = render_digest(sample_digest(), templates_dir=folder, template=f"{base}.html.j2")
    chat = "".join(f"{bullet}\n" for bullet in rendered.bullets)
    forms = {
        "html": rendered.html,
        "txt": rendered.text,
        "md": rendered.markdown,
        "chat": chat,
        "subject": f"{rendered.title}\n",
    }
    return {**forms, "feed.html": rendered.feed, "page.html": rendered.page}[form]
