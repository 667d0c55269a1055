"""Explain which subscriptions report a package, and why: which patterns decide it, and which silences hide it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_dates import parse_when
from cachewatch.config.settings_and_subscriptions import Config, Match, Silence
from cachewatch.config.sources_and_channels import MailConfig
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Document
from cachewatch.documents.parsing_and_diagnostics import parse
from cachewatch.environments import open_environment
from cachewatch.errors import DocumentError, UnknownRevision, UsageError
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import read_package, tags_of
from cachewatch.git.trees import folders
from cachewatch.report.words import number
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.streams_and_silences import selection_of
from cachewatch.store import health_and_alerts as health

_SPEC_KEYS = ("stacks", "targets", "oses", "compilers", "versions")


class SubscriptionAnswer(Struct, frozen=True, kw_only=True):
    """Whether a subscription reports changes of a package, and why."""

    subscription: str
    is_notified: bool
    reasons: tuple[str, ...]  # each a clause without a full stop
    when: str = ""  # the schedule in words, if changes are reported
    where: tuple[str, ...] = ()  # names of channels; those for mail with the addresses of recipients
    urgent: tuple[str, ...] = ()  # the channels of urgent digests, and the kinds of changes that these report


class UnreadDocument(Struct, frozen=True):
    """A document of a tag that cannot be read, and why."""

    tag: str
    reason: str


def explain(
    config: Config, package: str, documents: Sequence[Document | UnreadDocument], *, day: date
) -> Iterator[SubscriptionAnswer]:
    """Yield whether and why each subscription reports `package`, which has `documents`; name silences of that `day`."""
    for subscription in config.subscriptions.values():
        match, urgent = subscription.match, subscription.urgent
        is_chosen, why = _judge(package, match.packages)
        reasons = [why]
        if is_chosen and match.environment is not None:
            is_chosen, why = _of_environment(config, match.environment, package)
            reasons.append(why)
        if is_chosen:
            lines = [_of_document(document, match) for document in documents]
            reasons += [line for _, line in lines] or _conditions(match)
            is_chosen = not lines or any(is_there for is_there, _ in lines)
        if not is_chosen:
            yield SubscriptionAnswer(subscription=subscription.name, is_notified=False, reasons=tuple(reasons))
            continue
        if match.pinned:
            reasons.append(f"pinned: {match.pinned} is compared with the newest of its series")
        at_once = _where(config, urgent.channels, urgent.to or subscription.to) if urgent else []
        if urgent:
            at_once[-1] += f": {', '.join(sorted(urgent.changes))}"
        yield SubscriptionAnswer(
            subscription=subscription.name,
            is_notified=True,
            reasons=(*reasons, *_silences(config.silences, package, day)),
            when=parse_when(subscription.when, config.timezone).in_words(),
            where=tuple(_where(config, subscription.channels, subscription.to)),
            urgent=tuple(at_once),
        )


def _where(config: Config, channels: Iterable[str], to: Sequence[str]) -> list[str]:
    """Return the names of `channels`; those of channels for mail are followed by the addresses `to`."""
    mail = f" to {', '.join(to)}" if to else ""
    return [f"{name}{mail}" if isinstance(config.channels[name], MailConfig) else name for name in channels]


def _judge(package: str, patterns: Iterable[str]) -> tuple[bool, str]:
    """Return whether `patterns` match `package`, and a clause that names the deciding pattern."""
    globs = Globs(patterns)
    deciding = globs.deciding(package)
    if globs(package):
        return True, f"packages: {deciding} matches" if deciding else "packages: nothing excludes it"
    return False, f"packages: {deciding} excludes it" if deciding else f"packages: none of {_list(patterns)} matches"


def _of_environment(config: Config, path: Path, package: str) -> tuple[bool, str]:
    """Return whether the environment at `path` needs `package`, and a clause with the number of its binaries."""
    try:
        needs = open_environment(path, config.environment_folders).needs
    except UsageError as error:
        return False, f"environment: {error}"
    if count := sum(need.package == package for need in needs):
        return True, f"environment: {path} needs {number(count, 'binary', 'binaries')} of it"
    return False, f"environment: {path} does not need it"


def _of_document(document: Document | UnreadDocument, match: Match) -> tuple[bool, str]:
    """Return whether `match` selects specs of a document, and a clause: how many, or which of its keys excludes all."""
    where = f"in {document.tag}"
    if not Globs(match.tags)(document.tag):
        return False, f"{where}: not one of the tags {_list(match.tags)}"
    if isinstance(document, UnreadDocument):
        said = f"{where}: the document cannot be read ({document.reason})"
        return True, f"{said}; changes in it are reported when it can be read again"
    total = len(document.specs)
    selection = selection_of(match)
    if count := sum(map(selection.chooses, document.specs.values())):
        return True, f"{where}: {count:,} of {number(total, 'spec')}"
    for key in _SPEC_KEYS:
        alone = Selection(**{key: getattr(selection, key)})
        if not any(map(alone.chooses, document.specs.values())):
            return False, f"{where}: none of {number(total, 'present spec')} has {key} {_list(getattr(match, key))}"
    return False, f"{where}: none of {total:,} present specs agrees with all keys of `match:` at once"


def _conditions(match: Match) -> list[str]:
    return [f"if {key} match {_list(getattr(match, key))}" for key in ("tags", *_SPEC_KEYS) if getattr(match, key)]


def _silences(silences: Iterable[Silence], package: str, day: date) -> Iterator[str]:
    for silence in silences:
        if silence.is_active(day) and Globs(silence.match.packages)(package):
            conditions = f", {' and '.join(_conditions(silence.match))}," if _conditions(silence.match) else ""
            some = "" if silence.changes is None else f" ({', '.join(sorted(silence.changes))})"
            yield f"but the silence {silence.name} hides it{some}{conditions} until {silence.until}: {silence.reason}"


def _list(patterns: Iterable[str]) -> str:
    return f"[{', '.join(patterns)}]"


def explain_package(context: Context, package: str) -> tuple[list[SubscriptionAnswer], set[str]]:
    """Explain which subscriptions report `package` in the newest revisions; also return the names of all packages."""
    documents: list[Document | UnreadDocument] = []
    names: set[str] = set()
    for source in context.config.sources.values():
        with context.database.read() as connection:
            newest = health.source(connection, source.name).revision
        if newest is None:
            continue
        with closing(context.open_repository(source)) as repository:
            revision = resolve(repository, newest)
            trees = tags_of(repository, revision).ids
            for tag in filter(Globs(source.tags), trees):
                names |= folders(repository, trees[tag]).ids.keys()
                try:
                    found = read_package(repository, replace(revision, tag=tag), package)
                    # Documents of a new tag may still name the tag that they were copied from.
                    documents.append(replace(parse(found.content, found.path, package=package), tag=tag))
                except UnknownRevision:
                    continue  # the tag does not have the package
                except DocumentError as error:
                    documents.append(UnreadDocument(tag, str(error)))
    return list(explain(context.config, package, documents, day=context.today())), names
