"""What each revision did, in the statements of digests and of `cachewatch diff`, as kept for the next build of a site.

Also the names of pages. Names of packages come from strangers: a file name is made of few characters, in one case,
so that it means the same on every file system and in every address.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.assessment import Rank
from cachewatch.core.changesets import Report
from cachewatch.core.model import Kind
from cachewatch.core.names import safe_name
from cachewatch.core.statement_values import Severity, Statement, StatementKind
from cachewatch.report.headline import clauses_of_statements
from cachewatch.report.text import Block, Requested, name_of, tell
from cachewatch.report.words import staying, where

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._+-]{0,79}")
# What Windows takes for devices, whatever the extension.
_DEVICES = re.compile(r"(aux|con|nul|prn|com\d|lpt\d)(\..*)?")
_LONGEST_NAME = 80


def page(folder: str, name: str) -> str:
    """Return the path of the page about `name`, relative to the site."""
    return f"{folder}/{file_name(name)}.html"


def file_name(name: str) -> str:
    """Return a file name for `name`: itself where that is harmless, and another for every other name."""
    if _PLAIN.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name[:_LONGEST_NAME].lower()).strip("-")[:40]
    # No plain name holds a ~, so none is taken for another.
    return f"{readable or 'x'}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def shown(text: str, most: int = _LONGEST_NAME) -> str:
    """Return `text` fit to be read: nothing in it is invisible, and of a very long one the two ends."""
    text = safe_name(text)
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} ... {text[-most // 4 :]} ({len(text):,} characters)"


_MOST_FACTS = 12
_LONGEST_STORY = 2000
_LONG_WORD = re.compile(r"[^\s]{81,}")
_MOST_ENTRIES = 100
_ROUTINE = (StatementKind.REBUILT, StatementKind.EXTRA_COPY, StatementKind.SURPLUS, StatementKind.PRUNED)
# What is marked on the axis of a plot.
_MARKED = (
    StatementKind.SUSPICIOUS,
    StatementKind.STACK_REMOVED,
    StatementKind.STACK_ADDED,
    StatementKind.MIGRATION,
    StatementKind.PRUNE,
    StatementKind.REBUILD_WAVE,
)


class Tone(StrEnum):
    """How pages mark what happened: bad news, something that is new, some other change, or what is routine."""

    ATTENTION = "attention"
    NEWS = "news"
    CHANGED = "changed"
    ROUTINE = "routine"


_TONES = {Severity.ATTENTION: Tone.ATTENTION, Severity.NEWS: Tone.CHANGED, Severity.ROUTINE: Tone.ROUTINE}
# What brings something that was not there before.
_ADDING = frozenset(
    {
        StatementKind.TAG_ADDED,
        StatementKind.STACK_ADDED,
        StatementKind.PACKAGE_ADDED,
        StatementKind.UPGRADED,
        StatementKind.PLACE_GAINED,
        StatementKind.EXTENDED,
        StatementKind.WIDENED,
    }
)


def tone_of(kind: StatementKind, severity: Severity) -> Tone:
    """Return how a statement of this kind is marked."""
    return Tone.NEWS if kind in _ADDING else _TONES[severity]


class ToldFact(Struct, frozen=True, array_like=True):
    """One thing that happened, in a clause."""

    tone: Tone
    text: str


class Mark(Struct, frozen=True, array_like=True):
    """Something that happened to the whole tag, as plots mark it."""

    kind: StatementKind
    name: str


class NewVersion(Struct, frozen=True, array_like=True):
    """A package with a version that it did not have anywhere; its name is as documents have it."""

    package: str
    before: str  # empty for a new package
    after: str
    where: str = ""


class RevisionStory(Struct, frozen=True, kw_only=True):
    """All that is told of one revision."""

    facts: tuple[ToldFact, ...] = ()
    total: str = ""
    sections: tuple[Block, ...] = ()
    marks: tuple[Mark, ...] = ()
    versions: tuple[NewVersion, ...] = ()


def story_of(report: Report) -> RevisionStory:
    """Put what a report says into few words."""
    if not report.statements:
        return RevisionStory()
    asked = Requested(most=_MOST_ENTRIES, wants=lambda _: True, names_packages=True)
    told = tell(report, asked)
    return RevisionStory(
        facts=tuple(_facts(report.statements))[:_MOST_FACTS],
        total=told.total,
        sections=tuple(_section(block) for block in told.blocks),
        marks=tuple(Mark(one.kind, _bounded(name_of(one))) for one in report.statements if one.kind in _MARKED),
        versions=tuple(_versions(report.statements)),
    )


def _facts(statements: Sequence[Statement]) -> Iterator[ToldFact]:
    """Yield what happened in sentences, the most important first."""
    for clause in clauses_of_statements(statements):
        tone = tone_of(clause.statement.kind, clause.statement.severity)
        is_harmless = tone is Tone.ATTENTION and clause.first.rank is Rank.HARMLESS
        yield ToldFact(
            Tone.CHANGED if is_harmless else tone,
            _bounded(clause.line),
        )


def _bounded(text: str) -> str:
    """Cut words that nobody could read: names come from documents that strangers wrote."""
    return shown(_LONG_WORD.sub(lambda word: shown(word[0]), text), _LONGEST_STORY)


def _section(block: Block) -> Block:
    """Bound the texts of a block, and leave out the lines of what is routine."""
    is_listed = block.kind not in _ROUTINE
    entries = [replace(e, fact=_bounded(e.fact), where=_bounded(e.where.removeprefix("in "))) for e in block.entries]
    return replace(
        block,
        name=_bounded(block.name),
        total=_bounded(block.total),
        notes=tuple(map(_bounded, block.notes)),
        entries=tuple(entries) if is_listed else (),
        more=block.more.removesuffix(" (--all)") if is_listed else "",
    )


def _versions(statements: Iterable[Statement]) -> Iterator[NewVersion]:
    """Yield what is new to the package, not only to a stack that was behind."""
    for one in statements:
        is_new = one.kind is StatementKind.PACKAGE_ADDED
        if is_new or (one.kind is StatementKind.UPGRADED and Kind.VERSION_ADDED in one.kinds):
            yield NewVersion(one.name, ", ".join(one.before), ", ".join(one.after), _bounded(_beside(one)))


def _beside(statement: Statement) -> str:
    """Say what stays beside a version, and in which stacks it is, unless it is in all that have the package."""
    for line in statement.lines[:1]:
        is_part = len({place.stack for place in line.story.places}) < line.story.of_stacks
        return " ".join(filter(None, (staying(line), where(line).partition(";")[0] if is_part else "")))
    return ""
