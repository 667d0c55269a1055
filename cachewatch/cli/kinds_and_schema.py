"""`cachewatch kinds` and `cachewatch schema`: the words and the form of what is reported."""

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.output import FORMAT_OPTION, write_json, write_lines
from cachewatch.core.change_kinds import GROUPS, MEANINGS
from cachewatch.runtime import resources


@click.command(epilog=examples("cachewatch kinds", "cachewatch kinds --format json"))
@FORMAT_OPTION
def kinds(*, format_: str) -> None:
    """List the kinds of change, worst first.

    A + marks the kinds that digests report by default.
    """
    if format_ == "json":
        write_json(
            {
                "kinds": [{"kind": kind, "meaning": said, "default": own} for kind, (said, own) in MEANINGS.items()],
                "groups": {word: [kind for kind in MEANINGS if kind in group] for word, group in GROUPS.items()},
            }
        )
        return
    lines = ["Kinds of change, worst first; + marks those that digests report by default:", ""]
    lines += [f"{'+' if is_default else ' '} {kind:<18} {meaning}" for kind, (meaning, is_default) in MEANINGS.items()]
    lines += ["", "Groups of kinds, for `changes:` of a subscription and `diff --kind`:", ""]
    for word, group in GROUPS.items():
        if word not in ("default", "all"):
            lines.append(f"  {word:<18} {', '.join(kind for kind in MEANINGS if kind in group)}")
    write_lines(lines)


@click.command(epilog=examples("cachewatch schema > changesets.schema.json", "cachewatch schema digest"))
@click.argument("what", type=click.Choice(["changesets", "digest", "why", "impact"]), default="changesets")
def schema(*, what: str) -> None:
    """Print the JSON Schema of `diff --format json`, of a digest, or of `why` or `impact` with `--format json`."""
    click.echo(resources.config(f"{what}.schema.json"), nl=False)
