"""A digest as plain data: what templates are given, and what JSON says.

Nothing but dictionaries, lists, strings, numbers and None, so that a template of a user can
reach nothing else. A Form says how much of it is there; what a form leaves out it counts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from cachewatch.digests import Digest, Span, TagDigest
from cachewatch.model import Event, Fault, Kind, Side
from cachewatch.render.needs import coverage_data, pinned_data
from cachewatch.render.words import event_sentence, number
from cachewatch.report.cover import name_stacks
from cachewatch.report.places import Entry, TableGroup
from cachewatch.report.rows import Row, Section
from cachewatch.report.topics import ATTENTION, Topic, TopicReport
from cachewatch.safetext import safe
from cachewatch.spelling import NO_COMPILER

SCHEMA = "cachewatch.digest/1"
# Topics that are told line by line; the others are numbers.
LISTED = ("gone", "lost", "left-over", "downgraded", "new", "added", "stacks", "variants")

# Topics of which every line has the same note, which the heading says.
_TOLD = (Topic.GONE, Topic.LEFT_OVER, Topic.NEW)

# Upstream's own catalogue, and where Spack installs what it lists.
_PUBLIC_CATALOGUE = "github.com/spack/cache.spack.io"
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")
_LONGEST_WORD = 100
_COMMA = re.compile(r",(?![^{}]*\})")  # outside of braces
_MOST_SPANS = 50
_MOST = 10**9
_LONGEST_LINE = 1000
_BAD_EVENTS = {Kind.TAG_REMOVED, Kind.STACK_REMOVED, Kind.SUSPICIOUS}

Data = dict[str, Any]
Clean = Callable[[str], str]


class Form(Struct, frozen=True, kw_only=True):
    """How much of a digest is told."""

    rows: int = _MOST  # of each topic of each tag
    group_rows: int = _MOST  # of the table of all stacks together, for each tag
    tags: int = _MOST
    others: int = _MOST  # warnings, commands, reasons, notes
    has_details: bool = True  # where, and why
    has_links: bool = True
    longest: int = _MOST  # characters of one name

    @property
    def longest_line(self) -> int:
        """Characters of one command or reason."""
        return _MOST if self.longest == _MOST else _LONGEST_LINE


WHOLE = Form()


def view(digest: Digest, form: Form = WHOLE, *, clean: Clean = str) -> Data:
    """Return `digest` as plain data; `clean` is applied to all text from outside."""
    made = _Maker(digest, form, clean)
    return {
        "schema": SCHEMA,
        "key": digest.key,
        "subscription": clean(digest.subscription),
        "description": clean(digest.description),
        "created": moment(digest.created),
        "period": digest.period,
        "is_urgent": digest.is_urgent,
        "is_sample": digest.is_sample,
        "spans": [made.span(span) for span in digest.spans[:_MOST_SPANS]],
        "more_spans": max(0, len(digest.spans) - _MOST_SPANS),
        "tags": [made.tag(tag) for tag in digest.tags[: form.tags]],
        "more_tags": max(0, len(digest.tags) - form.tags),
        "environment": None if digest.environment is None else coverage_data(digest.environment, form.rows, clean),
        "pinned": [pinned_data(pinned, form.rows, clean) for pinned in digest.pinned[:_MOST_SPANS]],
        "silenced": [made.plain(silence) for silence in digest.silenced[:_MOST_SPANS]],
        "more_silenced": max(0, len(digest.silenced) - _MOST_SPANS),
        "why": made.lines(digest.why, "and {} more"),
        "commands": made.lines(digest.commands, "# and {} more"),
        "archive_url": web_address(digest.archive_url),
        "unsubscribe": web_address(digest.unsubscribe),
        "operator": clean(digest.operator),
        "group_by": digest.group_by,
    }


class _Maker:
    def __init__(self, digest: Digest, form: Form, clean: Clean) -> None:
        self._digest = digest
        self._form = form
        self._clean = clean

    def many(self, items: tuple[Any, ...], make: Callable[[Any], Any]) -> list[Any]:
        return [make(item) for item in items[: self._form.others]]

    def lines(self, items: tuple[str, ...], rest: str) -> list[str]:
        """Return whole ones only: half a command or reason says something else."""
        told = [safe(item) for item in items if len(item) <= self._form.longest_line][: self._form.others]
        more = len(items) - len(told)
        return told + ([rest.format(more)] if more else [])

    def plain(self, value: Struct) -> Data:
        return {name: self._clean(field) if isinstance(field, str) else field for name, field in asdict(value).items()}

    def side(self, side: Side) -> Data:
        return self.plain(side)

    def span(self, span: Span) -> Data:
        return {
            "source": self._clean(span.source),
            "address": self._clean(span.address),
            "before": self.side(span.before),
            "after": self.side(span.after),
            "revisions": span.revisions,
            "newest": moment(span.newest),
            "checked": moment(span.checked),
            "gaps": [{"since": moment(gap.since), "until": moment(gap.until)} for gap in span.gaps],
            "notes": self.lines(span.notes, "and {} more"),
        }

    def tag(self, tag: TagDigest) -> Data:
        report = tag.report
        mirror = mirror_of(self._digest, tag)
        return {
            "source": self._clean(tag.source),
            "tag": self._clean(report.after.tag or report.before.tag or ""),
            "before": self.side(report.before),
            "after": self.side(report.after),
            "packages": asdict(report.packages),
            "specs": asdict(report.specs),
            "events": [self.event(event) for event in report.events],
            "topics": [self.topic(topic, tag) for topic in tag.topics],
            "places": self.places(tag),
            "examples": [
                {
                    **self.plain(example),
                    "stacks": [self._clean(stack) for stack in example.stacks],
                    "command": install_line(example.package, example.version, example.hash),
                }
                for example in tag.examples
            ],
            "mirror": mirror,
            "warnings": self.many(report.faults, self.warning),
            "more_warnings": max(0, len(report.faults) - self._form.others),
        }

    def event(self, event: Event) -> Data:
        return {
            "kind": event.kind.value,
            "name": self._clean(event.name),
            "packages": event.packages,
            "specs": event.specs,
            "is_bad": event.kind in _BAD_EVENTS,
            "sentence": self._clean(event_sentence(event)),
        }

    def topic(self, report: TopicReport, tag: TagDigest) -> Data:
        shown = report.rows[: self._form.rows]
        return {
            "name": report.topic.value,
            "is_bad": report.topic in ATTENTION,
            "packages": report.packages,
            "specs": report.specs,
            "lines": report.lines,
            "explained_specs": report.explained_specs,
            "rows": [self.row(row, report.topic, tag) for row in shown],
            "more_packages": report.packages - len({row.package for row in shown}),
            "more_specs": report.specs - sum(row.count or 0 for row in shown),
            "more_lines": report.lines - sum(row.count is None for row in shown),
        }

    def row(self, row: Row, topic: Topic, tag: TagDigest) -> Data:
        return {
            "package": self._clean(row.package),
            "url": self.url(row.package, tag),
            "before": self._clean(row.before),
            "after": self._clean(row.after),
            "count": row.count,
            "where": self._clean(where_of(row, self._form.longest)) if self._form.has_details or row.move else "",
            "note": "" if topic in _TOLD else self._clean(row.note),
            "is_version_gone": Kind.VERSION_REMOVED in row.kinds,
        }

    def places(self, tag: TagDigest) -> Data:
        groups = tag.places
        shown = groups[: self._form.group_rows]
        most = _share(self._form.group_rows, shown)
        return {
            "packages": tag.place_packages,
            "lines": sum(group.lines for group in groups),
            "groups": [self.group(group, most, tag) for group in shown],
            "more_groups": len(groups) - len(shown),
            "more_lines": sum(group.lines for group in groups[len(shown) :]),
        }

    def group(self, group: TableGroup, most: int, tag: TagDigest) -> Data:
        shown = group.rows[:most]
        return {
            "names": [self._clean(name) for name in group.names],
            "name": self._clean(_listed(group.names, self._form.longest)),
            "lines": group.lines,
            "rows": [self.entry(entry, tag) for entry in shown],
            "more": group.lines - len(shown),
        }

    def entry(self, entry: Entry, tag: TagDigest) -> Data:
        return {
            "package": self._clean(entry.package),
            "url": self.url(entry.package, tag),
            "direction": entry.direction.value if entry.direction else None,
            "gone": [self._clean(version) for version in entry.gone],
            "came": [self._clean(version) for version in entry.came],
            "stayed": [self._clean(version) for version in entry.stayed],
            "compilers": [self.swap(*swap) for swap in entry.compilers],
            "targets": [self.swap(*swap) for swap in entry.targets],
            "where": self._clean(name_stacks(entry.stacks)) if entry.stacks and self._form.has_details else "",
        }

    def swap(self, old: str, new: str) -> Data:
        old, new = ("no compiler" if name == NO_COMPILER else name for name in (old, new))
        return {"before": self._clean(old), "after": self._clean(new)}

    def warning(self, fault: Fault) -> Data:
        return {"path": self._clean(fault.path), "kind": fault.kind.value, "message": self._clean(fault.message)}

    def url(self, package: str, tag: TagDigest) -> str | None:
        return package_url(self._digest.links, tag, package) if self._form.has_links else None


def _share(most: int, groups: Sequence[TableGroup]) -> int:
    """Return how many lines each group may have, so that all of them have no more than `most`."""
    longest = max((len(group.rows) for group in groups), default=0)
    fitting = (share for share in range(longest, 1, -1) if sum(min(share, group.lines) for group in groups) <= most)
    return next(fitting, 1)


def where_of(row: Row, longest: int) -> str:
    """Say where: `in e4s, radiuss on x86_64_v3`, `for aarch64`, or `joined e4s, left radiuss`."""
    if row.section is Section.STACKS:
        joined, left = (name_stacks(stacks) if stacks else "" for stacks in (row.cause.gained, row.cause.lost))
        return ", ".join(filter(None, (joined and f"joined {joined}", left and f"left {left}")))
    if not row.where:
        return ""
    stacks = {stack for _, found in row.spots for stack in found}
    where = ("in " if row.move or stacks else "for ") + _COMMA.sub(", ", row.where.replace("|", " on "))
    if len(where) <= longest or row.move:
        return where
    targets = number(len({target for target, _ in row.spots}), "target")
    return f"in {number(len(stacks), 'stack')} on {targets}" if stacks else f"for {targets}"


def _listed(names: Sequence[str], longest: int) -> str:
    """Return as many names as there is room for, and how many more there are."""
    for count in range(len(names), 1, -1):
        more = len(names) - count
        listed = ", ".join(names[:count]) + (f" and {more} more" if more else "")
        if len(listed) <= longest:
            return listed
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def cleaner(longest: int) -> Clean:
    """Return what makes text harmless, and no longer than a reader will bear."""

    def clean(text: str) -> str:
        text = safe(text[: longest + 1])
        return text if len(text) <= longest else f"{text[: longest - 3]}..."

    return clean


def moment(time: datetime | None) -> str | None:
    """Return a time as JSON has it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else None


def web_address(address: str | None) -> str | None:
    """Return `address` if it is one that a mail may link to."""
    allowed = ("https://", "http://", "mailto:")
    return safe(address) if address and address.startswith(allowed) else None


def package_url(links: str, tag: TagDigest, package: str) -> str | None:
    """Return the page of a package in the catalogue, if there are such pages."""
    name = tag.report.after.tag or tag.report.before.tag
    if not links.startswith(("https://", "http://")) or not name:
        return None
    return f"{links.rstrip('/')}/package/{quote(name, safe='')}/{quote(package[:200], safe='')}/specs/"


def mirror_of(digest: Digest, tag: TagDigest) -> str | None:
    """Return the address from which Spack installs what `tag` has, where it is known."""
    name = tag.report.after.tag
    for span in digest.spans:
        mirror = span.mirror or (_PUBLIC_MIRROR if _is_public(span.address) else None)
        if span.source == tag.source and mirror and name and is_plain(name):
            return web_address(mirror.replace("{tag}", name))
    return None


def install_line(package: str, version: str, spec_hash: str) -> str | None:
    """Return the command that installs one binary; None where its names could mean more to a shell."""
    if not all(map(is_plain, (package, version, spec_hash))):
        return None
    return f"spack install --cache-only {package}@{version}/{spec_hash[:7]}"


def is_plain(name: str) -> bool:
    """Tell whether a shell takes `name` for no more than a word."""
    return 0 < len(name) <= _LONGEST_WORD and not name.startswith("-") and not set(name) - _PLAIN


def _is_public(address: str) -> bool:
    return address.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_CATALOGUE)


def is_cut(data: Mapping[str, Any]) -> bool:
    """Tell whether there are lines that are counted and not there."""
    return any(
        tag["places"]["more_groups"]
        or any(topic["more_specs"] or topic["more_lines"] for topic in tag["topics"] if topic["name"] in LISTED)
        or any(group["more"] for group in tag["places"]["groups"])
        for tag in data["tags"]
    ) or bool(data["more_tags"])
