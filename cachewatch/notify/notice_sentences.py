"""Short sentences that digests and notices share."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from cachewatch.config.model import Match
from cachewatch.core.change_kinds import GROUPS
from cachewatch.core.model import Kind
from cachewatch.core.showing_times import minute
from cachewatch.notify.digest_streams import Stream
from cachewatch.render.elapsed_time import how_long
from cachewatch.report.digest import Span
from cachewatch.store.cursors import Unread

REWRITTEN = "upstream rewrote its history in between; the two states are compared anyway"

_OPTIONS = {
    "tags": "tag",
    "packages": "package",
    "stacks": "stack",
    "targets": "target",
    "oses": "os",
    "compilers": "compiler",
    "versions": "versions",
}

# How `changes:` and `--kind` say what they take and what they leave.
_SIGNS = {"+": "", "-": "!"}


def days(duration: timedelta) -> str:
    """Say how long that is: 5 days, 3 hours, 20 minutes."""
    return how_long(duration.total_seconds())


def impossible_date(revision: str) -> str:
    """Say that a revision has a date that no calendar holds."""
    return f"revision {revision[:10]} has an impossible date, which is shown as 30 December 9999"


def lost(revisions: Iterable[str]) -> tuple[str, ...]:
    """Say that what changed cannot be known."""
    names = ", ".join(revision[:10] for revision in revisions)
    return (
        f"the last reported state, {names}, no longer exists anywhere",
        "upstream rewrote its history, and our copy was lost: what changed since then cannot be known",
        "digests continue from here",
    )


_MOST_NAMES = 20


def unread(left: Mapping[str, Collection[Unread]]) -> Iterator[str]:
    """Say which documents could not be read, and since which revision."""
    for (tag, since), names in _by_tag(left, lambda entry: entry.since).items():
        yield f"documents of {tag} cannot be read since revision {since[:10]}: {names}; changes in them are reported later"


def read_again(resolved: Mapping[str, Collection[Unread]]) -> Iterator[str]:
    """Say which documents can be read again, and what they are compared with."""
    for (tag, base), names in _by_tag(resolved, lambda entry: entry.base).items():
        yield f"documents of {tag} can be read again: {names}, compared with revision {base[:10]}"


def unknown(packages: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Say which documents have no earlier version that can be read."""
    for tag, names in sorted(packages.items()):
        yield (
            f"no earlier version of these documents of {tag} can be read: {_listed(sorted(names))}; "
            "what changed in them cannot be known"
        )


def _by_tag(
    entries: Mapping[str, Collection[Unread]], revision_of: Callable[[Unread], str]
) -> dict[tuple[str, str], str]:
    packages: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for tag, those in entries.items():
        for entry in those:
            packages[tag, revision_of(entry)].append(entry.package)
    return {key: _listed(sorted(names)) for key, names in sorted(packages.items())}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def returned(tags: Mapping[str, datetime], zone: str) -> Iterator[str]:
    """Say which tags are back, and what they are compared with."""
    for tag, moment in sorted(tags.items()):
        since = minute(moment, zone)
        yield f"{tag} is back; it was gone since {since}, and is compared with its state before that"


def why(stream: Stream) -> tuple[str, ...]:
    """Say what a subscription is about: tags develop; packages py-*; changes upgraded, removed."""
    match = stream.subscription.match
    lines = [f"{key} {', '.join(patterns)}" for key, patterns in _patterns(match)]
    if match.environment is not None:
        lines.append(f"environment {match.environment.name}")
    if match.pinned is not None:
        lines.append(f"pinned {match.pinned}")
    return (*lines, f"changes {', '.join(_kinds(stream.changes))}")


def commands(stream: Stream, spans: Sequence[Span], resolved: Mapping[str, Collection[Unread]]) -> Iterator[str]:
    """Yield the commands that show the same changes, also of documents that can be read again."""
    for span in spans:
        yield command(stream, span)
    if stream.subscription.match.environment is not None:
        return
    by_base = defaultdict[tuple[str, str], list[str]](list)
    for tag, entries in sorted(resolved.items()):
        for entry in entries:
            if entry.base_tag == tag:
                by_base[tag, entry.base].append(entry.package)
    for (tag, base), packages in by_base.items():
        yield command(stream, spans[0], base, {"tags": (tag,), "packages": tuple(sorted(packages))})


def command(stream: Stream, span: Span, base: str = "", only: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return the command that shows the same changes, perhaps from another revision, and `only` of some packages.

    It is empty where readers have no access to the repository.
    """
    if not span.address:
        return ""
    before, after = base or span.before.revision or span.before.name, span.after.revision or span.after.name
    match = stream.subscription.match
    if match.environment is not None:
        # The changes are those of its packages, of which there may be hundreds.
        words = ["cachewatch", "coverage", match.environment.name, "--repo", span.address, "--rev", after[:12]]
        return shlex.join([*words, *(["--tag", *match.tags] if _is_one_tag(match) else [])])
    words = ["cachewatch", "diff", before[:12], after[:12], "--repo", span.address]
    for key, patterns in {**dict(_patterns(match)), **(only or {})}.items():
        words += [f"--{_OPTIONS[key]}={pattern}" for pattern in patterns]
    words += [f"--kind={_SIGNS.get(kind[0], kind[0])}{kind[1:]}" for kind in _kinds(stream.changes)]
    return shlex.join(words)


def _is_one_tag(match: Match) -> bool:
    return len(match.tags) == 1 and not set(match.tags[0]) & set("*?[]!/")


def _kinds(changes: frozenset[Kind]) -> list[str]:
    """Name kinds as a configuration does, in as few words as there are: default, +rebuilt, -compiler."""
    ways = [
        [word, *(f"+{kind}" for kind in sorted(changes - kinds)), *(f"-{kind}" for kind in sorted(kinds - changes))]
        for word, kinds in GROUPS.items()
    ]
    return min([*ways, sorted(changes)], key=len)


def _patterns(match: Match) -> list[tuple[str, tuple[str, ...]]]:
    return [(key, patterns) for key in _OPTIONS if (patterns := getattr(match, key))]


def in_a_row(failures: int) -> str:
    """Say how often something failed."""
    return "failed once" if failures == 1 else f"failed {failures} times in a row"
