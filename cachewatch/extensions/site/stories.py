"""The changes of each revision in the statements of `cachewatch diff`, as kept for the next build of a site.

Also the file names of pages. Names of packages are untrusted: a file name has only a few kinds of characters, in lower
case, so that it means the same on every file system and in every URL.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.advice.values import Rank
from cachewatch.core.changesets import Report
from cachewatch.core.model import Kind
from cachewatch.core.names import safe_name
from cachewatch.core.statement_values import Severity, Statement, StatementKind
from cachewatch.report.headline import clauses_of_statements
from cachewatch.report.text import Block, Requested, tell
from cachewatch.report.words import name_of, staying, where

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._+-]{0,79}")
# Names of devices on Windows, with any extension.
_DEVICES = re.compile(r"(aux|con|nul|prn|com\d|lpt\d)(\..*)?")
_LONGEST_NAME = 80


def page(folder: str, name: str) -> str:
    """Return the path of the page about `name` in `folder`, relative to the site."""
    return f"{folder}/{file_name(name)}.html"


def file_name(name: str) -> str:
    """Return a file name for `name`: itself if that is harmless, and otherwise a readable part with a hash."""
    if _PLAIN.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name[:_LONGEST_NAME].lower()).strip("-")[:40]
    # No plain name contains a ~, so two names never get the same file.
    return f"{readable or 'x'}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def shown(text: str, most: int = _LONGEST_NAME) -> str:
    """Return `text` for display: without invisible characters, and shortened in the middle to about `most` of them."""
    text = safe_name(text)
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} ... {text[-most // 4 :]} ({len(text):,} characters)"


_MOST_FACTS = 12
_LONGEST_STORY = 2000
_LONG_WORD = re.compile(r"[^\s]{81,}")
_MOST_ENTRIES = 100
_ROUTINE = (StatementKind.REBUILT, StatementKind.EXTRA_COPY, StatementKind.SURPLUS, StatementKind.PRUNED)
# Kinds of statements that are marked on the axis of a plot.
_MARKED = (
    StatementKind.SUSPICIOUS,
    StatementKind.STACK_REMOVED,
    StatementKind.STACK_ADDED,
    StatementKind.MIGRATION,
    StatementKind.PRUNE,
    StatementKind.REBUILD_WAVE,
)


class Tone(StrEnum):
    """How pages color a change: bad news, something new, another change, or routine."""

    ATTENTION = "attention"
    NEWS = "news"
    CHANGED = "changed"
    ROUTINE = "routine"


_TONES = {Severity.ATTENTION: Tone.ATTENTION, Severity.NEWS: Tone.CHANGED, Severity.ROUTINE: Tone.ROUTINE}
# Kinds of statements about something that was not there before.
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
    """Return the tone of a statement of this kind and severity."""
    return Tone.NEWS if kind in _ADDING else _TONES[severity]


class ToldFact(Struct, frozen=True, array_like=True):
    """One change in words, with its tone."""

    tone: Tone
    text: str


class Mark(Struct, frozen=True, array_like=True):
    """An event that concerned the whole tag, for a mark on plots; `name` is that of the stack or tag."""

    kind: StatementKind
    name: str


class NewVersion(Struct, frozen=True, array_like=True):
    """A new version of a package that no stack had before. The package's name is unchanged, as in documents."""

    package: str
    before: str  # empty for a new package
    after: str
    where: str = ""


class RevisionStory(Struct, frozen=True, kw_only=True):
    """The changes of one revision in words: for lists (`facts`), its page (`sections`), plots and the first page."""

    facts: tuple[ToldFact, ...] = ()
    total: str = ""
    sections: tuple[Block, ...] = ()
    marks: tuple[Mark, ...] = ()
    versions: tuple[NewVersion, ...] = ()


def story_of(report: Report) -> RevisionStory:
    """Return the changes in a report in words."""
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
    """Yield the statements in words, the most important first."""
    for clause in clauses_of_statements(statements):
        tone = tone_of(clause.statement.kind, clause.statement.severity)
        is_harmless = tone is Tone.ATTENTION and clause.first.rank is Rank.HARMLESS
        yield ToldFact(
            Tone.CHANGED if is_harmless else tone,
            _bounded(clause.line),
        )


def _bounded(text: str) -> str:
    """Shorten long words and texts, because names come from documents that strangers wrote."""
    return shown(_LONG_WORD.sub(lambda word: shown(word[0]), text), _LONGEST_STORY)


def _section(block: Block) -> Block:
    """Shorten the texts of a block, and leave out the lines of routine changes."""
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
    """Yield the versions that are new to the package, and not only to a stack that was behind."""
    for one in statements:
        is_new = one.kind is StatementKind.PACKAGE_ADDED
        if is_new or (one.kind is StatementKind.UPGRADED and Kind.VERSION_ADDED in one.kinds):
            yield NewVersion(one.name, ", ".join(one.before), ", ".join(one.after), _bounded(_beside(one)))


def _beside(statement: Statement) -> str:
    """Return which older versions stay beside a new one, and its stacks unless these are all stacks of the package."""
    for line in statement.lines[:1]:
        is_part = len({place.stack for place in line.story.places}) < line.story.of_stacks
        return " ".join(filter(None, (staying(line), where(line).partition(";")[0] if is_part else "")))
    return ""
