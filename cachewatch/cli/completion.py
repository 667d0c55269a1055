"""The commands `cachewatch help`: kinds of change, schemas, and completion with the values that a shell offers.

These are names from the catalogue as it was last fetched. Nothing is fetched and no error is printed, since a user who
presses Tab waits for an answer, and can do without one.
"""

import re
from collections.abc import Iterable
from contextlib import closing, suppress

import click
from click.shell_completion import CompletionItem, get_completion_class
from msgspec.structs import replace

from cachewatch.cli import COMPLETING
from cachewatch.cli.catalogue import open_as_fetched
from cachewatch.cli.config import load
from cachewatch.cli.mistakes import SuggestingGroup, examples
from cachewatch.cli.terminal import FORMAT_OPTION, write_json, write_lines
from cachewatch.core import names as tag_names
from cachewatch.core.selection import GROUPS, MEANINGS
from cachewatch.core.spack import sorted_versions
from cachewatch.documents.parsing import parse
from cachewatch.errors import CachewatchError
from cachewatch.git.catalogue import read_package, stacks_of, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.git.trees import folders
from cachewatch.runtime.files import shipped_schemas

# Names that need no quotes in a shell; others are not offered, because names in a catalogue are not trusted.
_HARMLESS = re.compile(r"[A-Za-z0-9._+@:/~-]+")


def offer(what: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the values of `what` that begin with `incomplete`: names, kinds of change, revisions or versions.

    Revisions are offered after `A..`, too, and files if none match; versions after `PACKAGE@`.
    """
    if what == "kinds":
        found = [(str(kind), meaning) for kind, (meaning, _) in MEANINGS.items()]
        found += [(name, "a group of kinds") for name in GROUPS]
        return [CompletionItem(name, help=said) for name, said in found if name.startswith(incomplete)]
    if what == "revisions":
        start, dots, last = incomplete.rpartition("..")
        names = [f"{start}{dots}{name}" for name in _matching(_names(what, context), last)]
        return list(map(CompletionItem, names)) or [CompletionItem(incomplete, type="file")]
    package, at, _ = incomplete.partition("@")
    if what == "package_versions" and not at:
        what = "packages"
    return list(map(CompletionItem, _matching(_names(what, context, package), incomplete)))


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    mark = "!" if incomplete.startswith("!") else ""
    return [mark + name for name in names if (mark + name).startswith(incomplete) and _HARMLESS.fullmatch(name)]


def _names(what: str, context: click.Context, package: str = "") -> list[str]:
    """Return the names in the configuration or in the repository of the command; empty if anything fails."""
    with suppress(CachewatchError, OSError):
        if what in ("subscriptions", "channels"):
            return list(getattr(load(context.params.get("config_file"), with_secrets=False), what))
        repository = open_as_fetched(context.params.get("repo"))
        if repository is not None:
            with closing(repository):
                revision = resolve(repository, context.params.get("rev") or "HEAD")
                tag = context.params.get("tag") or "develop"
                chosen = replace(revision, tag=tag if isinstance(tag, str) else tag[0])
                return _of_catalogue(what, repository, chosen, package)
    return []


def _of_catalogue(what: str, repository: Repository, revision: Revision, package: str) -> list[str]:
    if what == "stacks":
        return sorted({stack for stacks in stacks_of(repository, revision).values() for stack in stacks})
    if what == "package_versions":
        found = read_package(repository, revision, package)
        known = parse(found.content, found.path).specs.counts
        versions = sorted_versions({version for signature in known for version in signature.versions})
        return [f"{package}@{version}" for version in reversed(versions)]
    trees = tags_of(repository, revision).ids
    if what == "packages":
        tree = trees.get(revision.tag or "")
        return sorted(folders(repository, tree).ids) if tree else []
    tags = tag_names.in_order(trees)
    if what == "tags":
        return tags
    refs = repository.run(["for-each-ref", "--format=%(refname:short)"]).decode("utf-8", "replace").split()
    return ["HEAD", "HEAD~1", "yesterday", *refs, *(f"HEAD:{tag}" for tag in tags)]


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
                "kinds": [{"kind": kind, "meaning": said, "default": own} for kind, (said, own) in MEANINGS.items()],
                "groups": {word: [kind for kind in MEANINGS if kind in group] for word, group in GROUPS.items()},
            },
        )
        return
    lines = ["Kinds of change, worst first; + marks those that digests report by default:", ""]
    lines += [f"{'+' if is_default else ' '} {kind:<18} {meaning}" for kind, (meaning, is_default) in MEANINGS.items()]
    lines += ["", "Groups of kinds, for `changes:` of a subscription and `diff --kind`:", ""]
    for word, group in GROUPS.items():
        if word not in ("default", "all"):
            lines.append(f"  {word:<18} {', '.join(kind for kind in MEANINGS if kind in group)}")
    lines += ["", "Lost places and machines with equal builds elsewhere are place-lost and machine-lost, but not lost."]
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
    found = get_completion_class(shell)
    assert found is not None
    root = context.find_root()
    click.echo(found(root.command, {}, "cachewatch", COMPLETING).source())
