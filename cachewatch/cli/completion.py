"""`cachewatch help completion`, and the values that a shell offers for options and arguments.

They are names from the catalogue as it was last fetched. Nothing is fetched and no error is printed, since a user who
presses Tab waits for an answer, and can do without one.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from cachewatch.cli import COMPLETING
from cachewatch.cli.catalogue import open_as_fetched
from cachewatch.cli.config import load
from cachewatch.cli.mistakes import examples
from cachewatch.core import names as tag_names
from cachewatch.core.model import Document
from cachewatch.core.selection import GROUPS, MEANINGS
from cachewatch.core.spack import sorted_versions
from cachewatch.documents.parsing import parse
from cachewatch.errors import CachewatchError
from cachewatch.git.catalogue import list_revision, read_documents, read_package, stacks_of, tags_of
from cachewatch.git.revisions import resolve
from cachewatch.git.trees import folders

if TYPE_CHECKING:
    from cachewatch.config.model import Config
    from cachewatch.git.repository import Repository
    from cachewatch.git.revisions import Revision

# Names that need no quotes in a shell; others are not offered, because names in a catalogue are not trusted.
_HARMLESS = re.compile(r"[A-Za-z0-9._+@:/~-]+")
# Reading more documents than these takes longer than anybody waits.
_MOST_DOCUMENTS = 300


def revisions(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer names of revisions, tags after a colon, and both after `A..`; files if none match."""
    start, dots, last = incomplete.rpartition("..")
    found = _matching(_of_catalogue(context, _revision_names), last)
    return [CompletionItem(f"{start}{dots}{item.value}") for item in found] or [CompletionItem(incomplete, type="file")]


def tags(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the tags of the catalogue."""
    return _matching(_of_catalogue(context, _tags), incomplete)


def packages(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the packages of the tag on the command line, or of develop."""
    return _matching(_of_catalogue(context, _packages), incomplete)


def package_versions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer packages, and after `PACKAGE@` the versions of that package."""
    package, at, _ = incomplete.partition("@")
    if not at:
        return packages(context, parameter, incomplete)
    return _matching(_of_catalogue(context, lambda *asked: _versions(package, *asked)), incomplete)


def stacks(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the stacks of the catalogue."""
    return _matching(_of_catalogue(context, _stacks), incomplete)


def kinds(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the kinds of change with their meanings, and the groups of kinds."""
    found = [(str(kind), meaning) for kind, (meaning, _) in MEANINGS.items()]
    found += [(name, "a group of kinds") for name in GROUPS]
    return [CompletionItem(name, help=said) for name, said in found if name.startswith(incomplete)]


def subscriptions(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the subscriptions of the configuration."""
    return _matching(_of_configuration(context, lambda config: config.subscriptions), incomplete)


def channels(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the channels of the configuration."""
    return _matching(_of_configuration(context, lambda config: config.channels), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    mark = "!" if incomplete.startswith("!") else ""
    return [
        CompletionItem(mark + name)
        for name in names
        if (mark + name).startswith(incomplete) and _HARMLESS.fullmatch(name)
    ]


def _of_catalogue(
    context: click.Context, ask: "Callable[[Repository, Revision, click.Context], Iterable[str]]"
) -> list[str]:
    """Return the names that `ask` finds in the repository of the command; empty if anything fails."""
    try:
        repository = open_as_fetched(context.params.get("repo"))
        if repository is None:
            return []
        with closing(repository):
            return list(ask(repository, resolve(repository, context.params.get("rev") or "HEAD"), context))
    except (CachewatchError, OSError):
        return []


def _of_configuration(context: click.Context, ask: "Callable[[Config], Iterable[str]]") -> list[str]:
    try:
        return list(ask(load(context.params.get("config_file"), with_secrets=False)))
    except (CachewatchError, OSError):
        return []


def _tags(repository: "Repository", revision: "Revision", _: Any = None) -> list[str]:
    return tag_names.in_order(tags_of(repository, revision).ids)


def _revision_names(repository: "Repository", revision: "Revision", _: click.Context) -> list[str]:
    refs = repository.run(["for-each-ref", "--format=%(refname:short)"]).decode("utf-8", "replace").split()
    return ["HEAD", "HEAD~1", "yesterday", *refs, *(f"HEAD:{tag}" for tag in _tags(repository, revision))]


def _tag_named(context: click.Context) -> str:
    """Return the tag on the command line so far, or develop."""
    named = context.params.get("tag") or "develop"
    return str(named) if isinstance(named, str) else str(named[0])


def _packages(repository: "Repository", revision: "Revision", context: click.Context) -> list[str]:
    tree = tags_of(repository, revision).ids.get(_tag_named(context))
    return sorted(folders(repository, tree).ids) if tree else []


def _versions(package: str, repository: "Repository", revision: "Revision", context: click.Context) -> list[str]:
    found = read_package(repository, resolve(repository, f"{revision.commit}:{_tag_named(context)}"), package)
    known = parse(found.content, found.path).specs.counts
    versions = {version for signature in known for version in signature.versions}
    return [f"{package}@{version}" for version in reversed(sorted_versions(versions))]


def _stacks(repository: "Repository", revision: "Revision", context: click.Context) -> list[str]:
    """Return the stacks in the list of tags; if there is none, those in documents, unless these are too many."""
    declared = {stack for stacks in stacks_of(repository, revision).values() for stack in stacks}
    if declared:
        return sorted(declared)
    listing = list_revision(repository, resolve(repository, f"{revision.commit}:{_tag_named(context)}"), lambda _: True)
    if len(listing.blobs) > _MOST_DOCUMENTS:
        return []
    read = read_documents(listing, progress=lambda _: None)
    found = [document for document in read if isinstance(document, Document)]
    return sorted({stack for each in found for signature in each.specs.counts for stack in signature.stacks})


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
