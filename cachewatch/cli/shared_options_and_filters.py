"""The options that commands share, their completion, and filters that match nothing in what was compared."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from cachewatch.cli.terminal import warn, with_options
from cachewatch.core.changesets import Blob, Changeset, Comparison, Reader
from cachewatch.core.escaping_and_mentions import safe, safe_name
from cachewatch.core.filters_and_spec_patterns import GROUPS, Globs, every_compiler, is_plain
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.names_and_layouts import PUBLIC_REPOSITORY, Layout, did_you_mean
from cachewatch.core.versions_spellings_targets import Versions
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.errors import DocumentError, UsageError
from cachewatch.hooks import load
from cachewatch.report.words import MOST_NAMES, first_of

VARIABLE = "CACHEWATCH_REPO"
PUBLIC = "public"
_LAYOUT = "cachewatch.layout"
# Names that need no quotes in a shell; others are not offered, because names in a catalogue are not trusted.
_HARMLESS = re.compile(r"[A-Za-z0-9._+@:/~-]+")


def completing(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes values of `what`: "kinds", "revisions" (also `A..B`), "tags" and so on.

    The function fetches nothing and prints no error: a user who presses Tab waits for it, and can do without an answer.
    """
    return lambda context, _, incomplete: _offered(what, context, incomplete)


def _offered(what: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    if what == "kinds":
        found = [(str(kind), kind.meaning) for kind in Kind]
        found += [(name, "a group of kinds") for name in GROUPS]
        return [CompletionItem(name, help=said) for name, said in found if name.startswith(incomplete)]
    package, at, _ = incomplete.partition("@")
    if what == "package_versions" and not at:
        what = "packages"
    start = "!" if incomplete.startswith("!") else ""
    if what == "revisions":
        start = "".join(incomplete.rpartition("..")[:2])
    names_of = load("cachewatch.cli.chosen_repository:names_of")  # which loads what reads git
    names = [f"{start}{name}" for name in names_of(what, context, package) if _HARMLESS.fullmatch(name)]
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return items or ([CompletionItem(incomplete, type="file")] if what == "revisions" else [])


def in_full(_context: click.Context, _param: click.Parameter, address: str | None) -> str | None:
    """Return `address`, or the URL of Spack's public catalogue if it is `public` and no file here has this name."""
    return PUBLIC_REPOSITORY if address == PUBLIC and not os.path.lexists(PUBLIC) else address


def _note_layout(context: click.Context, _param: click.Parameter, pattern: str | None) -> None:
    if pattern is not None:
        context.meta[_LAYOUT] = Layout.parse(pattern)


def layout_asked_for() -> Layout | None:
    """Return the layout of documents that the option --documents gave, or None if it was not used."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_LAYOUT) if context else None


REPO_OPTION = with_options(
    click.option(
        "--repo",
        envvar=VARIABLE,
        show_envvar=True,
        show_default="the one you stand in, the configured one, or one in this folder",
        metavar="PATH|URL",
        callback=in_full,
        help=f"Catalogue: a git repository or a folder of documents; `{PUBLIC}` is that of Spack's public cache.",
    ),
    click.option(
        "--documents",
        metavar="PATTERN",
        expose_value=False,
        callback=_note_layout,
        help="Where documents are, if not found by what they are: 'docs/{tag}/{package}.md'.",
    ),
)


def rev_option(about: str = "Revision or date.") -> Callable[[Any], Any]:
    """Return a decorator that adds the option --rev, a revision (by default HEAD); `about` is its help."""
    complete = completing("revisions")
    return click.option("--rev", default="HEAD", metavar="REVISION", shell_complete=complete, help=about)


def _one_tag(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value and not is_plain(value):
        listing = f"`cachewatch tags '{safe(value)}'` lists what matches"
        raise UsageError(f"--tag {safe(value)}: takes one tag and no glob here; {listing}")
    return value


def tag_option(about: str, **default: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds --tag, which takes one tag; `about` is its help, `default` is for click.option."""
    complete = completing("tags")
    return click.option("--tag", metavar="TAG", callback=_one_tag, shell_complete=complete, help=about, **default)


TAG_OPTION = tag_option("Tag to read.", default="develop")
# For each filter of a command, the name of its values in the facts of a document, and its name in a selection.
FACTS = {"stack": "stacks", "target": "targets", "os": "oses", "compiler": "compilers", "versions": "versions"}
SELECTED = {"tag": "tags", "package": "packages", **FACTS}
Values = Mapping[str, set[str]]  # by filter, the values that exist
Asked = Sequence[tuple[str, str]]  # pairs of a filter and one of its patterns


def check_names(filters: Mapping[str, Sequence[str]], comparison: Comparison, done: Sequence[Changeset]) -> None:
    """Warn of patterns in `filters` that match nothing in the catalogue.

    Raises UsageError instead for a plain name that is surely in no document.
    `done` are the changesets of `comparison`; what they have is searched first.
    """
    asked = [(name, pattern) for name in ("package", *FACTS) for pattern in filters[name]]
    if not asked:
        return
    seen = [changeset.tally.seen.facts for changeset in done]
    values = {name: set[str]().union(*(facts.get(fact, ()) for facts in seen)) for name, fact in FACTS.items()}
    values["package"] = {document.package for pair in comparison.pairs for document in pair.difference.all_documents}
    left = unmatched(asked, values)  # the whole catalogue is read only for these
    if any(name == "stack" for name, _ in left):  # the tags' own lists may have it
        values["stack"].update(stack for ask in comparison.stacks for stacks in ask().values() for stack in stacks)
        left = unmatched(left, values)
    if not left:
        return
    others: Iterable[Blob] | None = ()
    values["package"].update(comparison.packages())
    if any(name in FACTS for name, _ in left):
        others = comparison.other_documents()
        for difference in (pair.difference for pair in comparison.pairs):
            sides = [(document.before, document.after) for document in difference.all_documents]
            add_facts(values, [before for before, _ in sides if before], comparison.readers.before)
            after = [*(after for _, after in sides if after), *difference.unchanged()]
            add_facts(values, after, comparison.readers.after)
        add_facts(values, list(others or ()), comparison.readers.after)
    has_losses = any(changeset.report.is_partial for changeset in done)
    for name, pattern in unmatched(left, values):
        # Documents that were not read, or are unreadable, may have it.
        is_unread = others is None and name in FACTS
        tags = first_of([safe_name(str(pair.after.tag)) for pair in comparison.pairs])
        unsearched = f"in {tags}; other tags did not change, and were not searched (--tag)"
        where = unsearched if is_unread else "on either side"
        sentence = f"--{name} {pattern}: {nothing_has(name, pattern, values, where)}"
        # A version is part of a range, unless it is a word.
        is_name = pattern.removeprefix("@").isalpha() if name == "versions" else is_plain(pattern)
        if is_name and not pattern.startswith("!") and not has_losses and not is_unread:
            raise UsageError(sentence)
        warn(sentence)


def nothing_has(name: str, pattern: str, values: Values, where: str) -> str:
    """Return the message that no value of the filter `name` matches `pattern` at `where`; suggest similar `values`."""
    known = values[name] | ({value.partition("@")[0] for value in values[name]} if name == "compiler" else set())
    return f"no {'version' if name == 'versions' else name} matches {where}{did_you_mean(pattern, sorted(known), MOST_NAMES)}"


def unmatched(asked: Asked, values: Values) -> Asked:
    """Return those of `asked`, pairs of filter and pattern, that match none of `values`; a leading ! is ignored."""

    def is_among(name: str, pattern: str) -> bool:
        globs = every_compiler([pattern]) if name == "compiler" else [pattern]
        return any(map(Versions(globs) if name == "versions" else Globs(globs), values.get(name, ())))

    return [(name, pattern) for name, pattern in asked if not is_among(name, pattern.removeprefix("!"))]


def add_facts(values: dict[str, set[str]], blobs: Sequence[Blob], reader: Reader) -> None:
    """Add the versions, stacks and so on of the readable documents in `blobs` to `values`, sets by filter, in place."""
    for blob, content in zip(blobs, reader.read(blobs), strict=True):
        if isinstance(content, bytes):
            with suppress(DocumentError):
                document = parse(content, blob.path)
                for name, fact in FACTS.items():
                    values[name] |= document.facts[fact]
