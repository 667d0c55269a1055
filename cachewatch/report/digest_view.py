"""A digest as plain data: what templates are given, and what JSON says.

Nothing but dictionaries, lists, strings, numbers and None, so that a template of a user can
reach nothing else. A DigestForm says how much of it is there; what a form leaves out it counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict, replace

from cachewatch.core import spellings
from cachewatch.core.coverage import Need
from cachewatch.core.model import Diagnostic, Machine, Side
from cachewatch.core.names import safe, safe_name
from cachewatch.core.statement_values import RANKS, Line, Severity, Statement, StatementKind, is_of_tag, severity_of
from cachewatch.report.environments import (
    acts_of,
    advice_of,
    calm_of,
    coverage_data,
    hit_packages,
    move_data,
    pinned_data,
)
from cachewatch.report.first_screen import (
    act,
    ignore,
    know,
    part_routine,
    reasons,
    sentence_of_tag,
)
from cachewatch.report.values import Digest, Example, Report, Span, TagDigest
from cachewatch.report.words import HEADINGS, Reason, accounting, fact, remaining, there_since, where

Data = dict[str, Any]

SCHEMA = "cachewatch.digest/2"

# Rows of the one table that most readers look at.
_CHANGES = (
    StatementKind.PACKAGE_REMOVED,
    StatementKind.DOWNGRADED,
    StatementKind.UPGRADED,
    StatementKind.PACKAGE_ADDED,
)

# Upstream's own catalogue, and where Spack installs what it lists.
_PUBLIC_CATALOGUE = "github.com/spack/cache.spack.io"
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")
_LONGEST_WORD = 100
_USUAL_PLATFORM = "linux"
_MOST_SPANS = 50
_MOST = 10**9
_LONGEST_LINE = 1000

Clean = Callable[[str], str]


class DigestForm(Struct, frozen=True, kw_only=True):
    """How much of a digest is told."""

    rows: int = _MOST  # of each list of each tag
    tags: int = _MOST
    others: int = _MOST  # warnings, commands, reasons, notes
    has_details: bool = True  # where, and why
    has_links: bool = True
    longest: int = _MOST  # characters of one name

    @property
    def longest_line(self) -> int:
        """Characters of one command or reason."""
        return _MOST if self.longest == _MOST else _LONGEST_LINE


WHOLE = DigestForm()


def view(digest: Digest, form: DigestForm = WHOLE, *, clean: Clean = str) -> Data:
    """Return `digest` as plain data; `clean` is applied to all text from outside."""
    made = _Maker(digest, form, clean)
    return {
        "schema": SCHEMA,
        "key": digest.key,
        "subscription": clean(digest.subscription),
        "description": clean(digest.description),
        "created": moment(digest.created),
        "period": digest.period,
        "zone": digest.zone,
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
    }


def same_as(tag: TagDigest, tags: Iterable[TagDigest]) -> str:
    """Return the first of `tags` whose changes are those of `tag`; empty if that is `tag` itself."""
    told = (tag.source, tag.statements, tag.rest)
    first = next(one for one in tags if (one.source, one.statements, one.rest) == told)
    return "" if first is tag or not tag.statements else _name(first.report)


class _Maker:
    def __init__(self, digest: Digest, form: DigestForm, clean: Clean) -> None:
        self._digest = digest
        self._form = form
        self._clean = clean

    def _name(self, text: str) -> str:
        """Return a name of strangers'; all of it where nobody but a program reads it."""
        return self._clean(text if self._form is WHOLE else safe_name(text))

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
        same = same_as(tag, self._digest.tags)
        if not same or self._form is WHOLE:
            return self._whole_tag(tag, same)
        # What differs is with what it is compared, and what follows from that.
        alike = self._whole_tag(replace(tag, statements=(), rest=(), examples=()), same)
        acts = act(self._acted_on(tag))
        return alike | {
            "act": [safe(said) for said in act(self._acted_on(tag), _base(tag.report)) if said not in acts],
            "nothing_to_do": "",
        }

    def _whole_tag(self, tag: TagDigest, same: str) -> Data:
        report, base = tag.report, _base(tag.report)
        acts = act(self._acted_on(tag), base, self._own(tag))
        # What is routine is news if it is why readers have to act.
        (behind, routine), (behind_rest, routine_rest) = (
            part_routine(found, self._hit) for found in (tag.statements, tag.rest)
        )
        return {
            "source": self._name(tag.source),
            "tag": self._name(_name(report)),
            "same_as": self._name(same),
            "before": self.side(report.before),
            "after": self.side(report.after),
            "packages": asdict(report.packages),
            "specs": asdict(report.specs),
            "act": [safe(said) for said in acts],
            "nothing_to_do": "" if acts else safe(self._nothing_to_do(tag)),
            "know": safe("; ".join(filter(None, (know(tag.statements), ignore(behind, behind_rest))))),
            "ignore": ignore(routine, routine_rest),
            "causes": [self.reason(one) for one in reasons(tag.statements, tag.rest)[: self._form.others]],
            "events": [self.event(one, base) for one in tag.statements if is_of_tag(one.kind)],
            "changes": self.listed([one for one in tag.statements if one.kind in _CHANGES], tag),
            "losses": self.losses(tag),
            "others": [self.other(kind, tag) for kind in _others(tag.statements)],
            "move": None if tag.move is None else move_data(tag.move, self._rows, self._clean),
            "accounting": accounting((*tag.statements, *tag.rest)),
            "versions": [
                {"package": self._name(one.package), "added": list(one.added), "removed": list(one.removed)}
                for one in (tag.versions if self._form is WHOLE else ())
            ],
            "examples": [
                {
                    "package": self._name(example.package),
                    "version": self._name(example.version),
                    "stacks": [self._name(stack) for stack in example.stacks],
                    "machines": [self.plain(machine) for machine in example.machines],
                    "command": install_line(example.package, example.version, platform=_platform(example)),
                }
                for example in self._examples(tag)
            ],
            "mirror": mirror_of(self._digest, tag),
            "warnings": self.many(report.diagnostics, self.warning),
            "is_incomplete": any(diagnostic.is_loss for diagnostic in report.diagnostics),
            "more_warnings": max(0, len(report.diagnostics) - self._form.others),
        }

    def _acted_on(self, tag: TagDigest) -> tuple[Statement, ...]:
        """Return what readers have to act on: of an environment, its binaries say what is lost of packages."""
        if self._digest.environment is None:
            return tag.statements
        return tuple(one for one in tag.statements if is_of_tag(one.kind) or one.severity is not Severity.ATTENTION)

    def _own(self, tag: TagDigest) -> list[str]:
        """Return what to do about the environment, once."""
        change = self._digest.environment
        return acts_of(change) if change is not None and tag is self._digest.tags[0] else []

    def _nothing_to_do(self, tag: TagDigest) -> str:
        """Say that there is nothing to do, where something happened, and why if it is about the environment."""
        change = self._digest.environment
        if change is not None and tag is self._digest.tags[0]:
            return f"Nothing to do: {calm_of(change)}."
        return "Nothing to do." if tag.statements else ""

    def _examples(self, tag: TagDigest) -> tuple[Example, ...]:
        """Return what to install: for an environment, what its machines run, unless there is something to do first."""
        change = self._digest.environment
        if change is None:
            return tag.examples
        if advice_of(change):
            return ()
        needs = change.after.environment.needs
        return tuple(one for one in tag.examples if any(serves(need, one.machines) for need in needs))

    @property
    def _hit(self) -> frozenset[str]:
        """The packages of the environment of which binaries were removed, or will be."""
        change = self._digest.environment
        return frozenset() if change is None else hit_packages(change)

    def reason(self, one: Reason) -> Data:
        """Return why specs were rebuilt."""
        first = one.causes[0]
        return {
            "what": first.what.value,
            "packages": [self._name(package) for package in sorted({cause.package for cause in one.causes} - {""})],
            "before": self._value(first.before),
            "after": self._value(first.after),
            "specs": one.specs,
            "rebuilt": [self._name(package) for package in one.packages[: self._form.others]],
            "more_rebuilt": max(0, len(one.packages) - self._form.others),
            "words": one.words,
        }

    def _value(self, value: str | tuple[str, ...]) -> list[str]:
        return [self._clean(each) for each in ((value,) if isinstance(value, str) else value) if each]

    def event(self, one: Statement, base: str) -> Data:
        """Return what happened to the whole tag."""
        return {
            "kind": one.kind.value,
            "severity": one.severity.value,
            "name": self._name(one.name),
            "packages": len(one.packages),
            "names": [self._name(package) for package in one.packages[: self._rows]],
            "more": max(0, len(one.packages) - self._rows),
            "specs": one.counts.specs,
            "is_bad": one.severity is Severity.ATTENTION,
            "sentence": safe(sentence_of_tag(one, base)),
        }

    def listed(self, statements: Sequence[Statement], tag: TagDigest) -> Data:
        """Return the lines of these statements, as many as there is room for, and what is said of the rest."""
        lines = [line for one in statements for line in one.lines]
        shown = lines[: self._rows]
        return {
            "packages": len({line.package for line in lines}),
            "lines": len(lines),
            "specs": sum(line.counts.specs for line in lines),
            "rows": [self.row(line, tag) for line in shown],
            "more_lines": len(lines) - len(shown),
            "more_specs": sum(line.counts.specs for line in lines[len(shown) :]),
        }

    def row(self, line: Line, tag: TagDigest) -> Data:
        """Return what happened to one package."""
        kind = line.story.kind
        return {
            "package": self._name(line.package),
            "url": None if kind is StatementKind.PACKAGE_REMOVED else self.url(line.package, tag),
            "kind": kind.value,
            "fact": self._clean(fact(line)),
            "before": self._name(", ".join(line.story.before)),
            "after": self._name(", ".join(line.story.after)),
            "where": self._clean("; ".join(filter(None, (where(line), there_since(line)))))
            if self._form.has_details
            else "",
            "specs": line.counts.specs,
            "is_bad": severity_of(kind) is Severity.ATTENTION,
        }

    def losses(self, tag: TagDigest) -> Data:
        """Return the places that lost packages, each with their names."""
        found = [one for one in tag.statements if one.kind is StatementKind.PLACE_LOST]
        shown = found[: self._rows]
        return {
            "packages": len({package for one in found for package in one.packages}),
            "places": len(found),
            "is_bad": any(not one.is_harmless for one in found),
            "rows": [
                {
                    "place": self._name(one.name),
                    "is_bad": not one.is_harmless,
                    "packages": len(one.packages),
                    "names": [self._name(package) for package in one.packages[: self._rows]],
                    "more": max(0, len(one.packages) - self._rows),
                    "remaining": self._clean(remaining(one)),
                }
                for one in shown
            ],
            "more_places": len(found) - len(shown),
        }

    def other(self, kind: StatementKind, tag: TagDigest) -> Data:
        """Return the lines of one kind of statement under its heading."""
        found = [one for one in tag.statements if one.kind is kind]
        severity = severity_of(kind)
        listed = self.listed(found if severity is not Severity.ROUTINE else (), tag)
        return {"name": kind.value, "heading": HEADINGS[kind], "severity": severity.value, **listed}

    @property
    def _rows(self) -> int:
        return min(self._form.rows, self._digest.rows)

    def warning(self, diagnostic: Diagnostic) -> Data:
        return {
            "path": self._clean(diagnostic.path),
            "kind": diagnostic.kind.value,
            "message": self._clean(diagnostic.message),
        }

    def url(self, package: str, tag: TagDigest) -> str | None:
        return package_url(self._digest.links, tag, package) if self._form.has_links else None


def _name(report: Report) -> str:
    return report.after.tag or report.before.tag or ""


def _base(report: Report) -> str:
    """Name the snapshot that a new one is compared with."""
    before, after = report.before.tag, report.after.tag
    return before if before and after and before != after else ""


def _others(statements: Sequence[Statement]) -> Iterator[StatementKind]:
    """Yield the kinds that are told in lists of their own; what is routine is a number on the first screen."""
    kinds = {one.kind for one in statements if one.severity is Severity.NEWS and not is_of_tag(one.kind)}
    yield from sorted(kinds.difference(_CHANGES, {StatementKind.PLACE_LOST}), key=RANKS.__getitem__)


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
    """Return the page of a package in the catalogue, if there are such pages; a tag that is gone has none."""
    name = tag.report.after.tag
    if not links.startswith(("https://", "http://")) or not name:
        return None
    return f"{links.rstrip('/')}/package/{quote(name, safe='')}/{quote(package[:200], safe='')}/specs/"


def mirror_of(digest: Digest, tag: TagDigest) -> str | None:
    """Return the address from which Spack installs what `tag` has, where it is known."""
    name = tag.report.after.tag
    for span in digest.spans:
        mirror = span.mirror or public_mirror(span.address)
        if span.source == tag.source and mirror and name and is_plain(name):
            return web_address(mirror.replace("{tag}", name))
    return None


def serves(need: Need, machines: Iterable[Machine]) -> bool:
    """Tell whether the machine of `need` runs what is built for one of `machines`; what is not known may be any."""
    return any(
        need.platform in ("", one.platform)
        and need.os in ("", one.os)
        and (not need.target or spellings.runs(need.target, one.target))
        for one in machines
    )


def _platform(example: Example) -> str:
    """Return the platform that an install has to name: the only one, or the usual one."""
    platforms = {machine.platform for machine in example.machines}
    return platforms.pop() if len(platforms) == 1 else _USUAL_PLATFORM


def install_line(package: str, version: str, *, spec_hash: str = "", platform: str = _USUAL_PLATFORM) -> str | None:
    """Return the command that installs a version, or one build of it; None where its names could mean more to a shell.

    It names the platform if that is not Linux.
    """
    if not all(map(is_plain, (package, version, platform, *([spec_hash] if spec_hash else ())))):
        return None
    build = f"/{spec_hash[:7]}" if spec_hash else ""
    system = "" if platform == _USUAL_PLATFORM else f" platform={platform}"
    return f"spack install --cache-only {package}@{version}{build}{system}"


def is_plain(name: str) -> bool:
    """Tell whether a shell takes `name` for no more than a word."""
    return 0 < len(name) <= _LONGEST_WORD and not name.startswith("-") and not set(name) - _PLAIN


def public_mirror(catalogue: str) -> str | None:
    """Return where Spack installs what `catalogue` lists, with {tag}, if that is upstream's own."""
    return _PUBLIC_MIRROR if _is_public(catalogue) else None


def _is_public(address: str) -> bool:
    return address.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_CATALOGUE)


def is_cut(data: Mapping[str, Any]) -> bool:
    """Tell whether there are lines that are counted and not there."""
    return any(
        tag["changes"]["more_lines"]
        or tag["losses"]["more_places"]
        or any(row["more"] for row in tag["losses"]["rows"])
        or any(other["more_lines"] for other in tag["others"])
        for tag in data["tags"]
    ) or bool(data["more_tags"])
