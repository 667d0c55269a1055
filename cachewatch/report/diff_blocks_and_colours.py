"""Turn a report into blocks, the sections that all formats show; fit text to the width of a terminal; colour it."""

import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import groupby, takewhile
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import Report
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.graphs_and_attribution import Cause
from cachewatch.core.kinds_and_specs import Delta, Kind, LossClass, kind_of_fact
from cachewatch.core.statement_kinds import LOSSES, OF_VALUES, Counts, Line, Severity, Statement, StatementKind
from cachewatch.core.statements import Wants, is_wanted
from cachewatch.core.versions_spellings_targets import NO_COMPILER
from cachewatch.report import words
from cachewatch.report.dates_and_totals import chosen_lines, nothing, signed, total
from cachewatch.report.rebuild_cause_words import change_in_words, reason_lines
from cachewatch.report.words import FEW_NAMES, MOST_NAMES, first_of, names, number
from cachewatch.report.words_file import words as wording

_CODE = re.compile(r"(\x1b\[\d+m)")
_RESET = "\x1b[0m"
_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
# The words for states, by the colour of what they mean: good, to be watched, or bad.
_STATES = {
    "green": "sent|up to date|no damage|no mistakes|no problems|would be notified",
    "yellow": "queued|sending|deferred|held|blocked|nothing fetched yet|not complete yet|not up to date|revisions? behind"
    "|warning",
    "red": "dead|suppressed|failed|last error|problem",
}
# Where a state stands in a line: first, in a column, or behind a number or a sign.
_ANY_STATE = "|".join(f"(?P<{colour}>{states})" for colour, states in _STATES.items())
_STATE = re.compile(rf"(?:^|(?<=  )|(?<=[\d:,] ))(?:{_ANY_STATE})(?=$|[ ,:;])")


class Palette(Struct, frozen=True, kw_only=True):
    """Colours text, unless colours are off."""

    is_on: bool

    def paint(self, text: str, colour: str) -> str:
        """Return `text` in `colour` (red, green, yellow, cyan, bold or dim; "": no colour)."""
        return f"\x1b[{_CODES[colour]}m{text}{_RESET}" if self.is_on and text and colour else text

    def change(self, before: str, after: str) -> str:
        """Return `before -> after`, with colours only where the two differ."""
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        both = "".join(character for character, _ in alike)
        same = 0 if both == before else max(map(both.rfind, ".@_-")) + 1
        old, new = self.paint(before[same:], "red"), self.paint(after[same:], "green")
        return f"{before[:same]}{old} -> {after[:same]}{new}"

    def changes(self, lines: Iterable[str], causes: Iterable[Cause]) -> Iterator[str]:
        """Yield `lines`; where a line names the change of one of `causes`, as `old -> new`, the change is coloured."""
        known = sorted(map(change_in_words, set(causes) if self.is_on else ()), key=len, reverse=True)
        named = re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, known)) or '(?!)'})(?![\w.])")
        return (named.sub(lambda found: self.change(*found[0].split(" -> ", 1)), line) for line in lines)

    def states(self, line: str) -> str:
        """Return `line` of a listing, with states such as `sent` coloured; a line that has colours is left as it is."""
        return line if "\x1b" in line else _STATE.sub(lambda found: self.paint(found[0], found.lastgroup or ""), line)


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return `text` as lines of at most `width` columns (None: one line); lines after the first begin with `indent`."""
    if width is None or len(plain := _CODE.sub("", text)) <= width:
        return [text]
    lines = textwrap.wrap(plain, width, subsequent_indent=indent, break_on_hyphens=False) or [plain[:width]]
    return lines if plain == text else list(_coloured_again(lines, text, indent))


def _coloured_again(lines: Iterable[str], text: str, indent: str) -> Iterator[str]:
    """Yield `lines`, into which `text` was wrapped without its colours, with these colours; `indent` gets none."""
    code, coloured = "", list[tuple[str, str]]()
    for part in _CODE.split(text):
        if part.startswith("\x1b"):
            code = "" if part == _RESET else code + part
        else:
            coloured += ((code, character) for character in part)
    start, plain = 0, "".join(character for _, character in coloured)
    for place, line in enumerate(lines):
        begin = indent if place else ""
        own = line.removeprefix(begin)
        start = plain.index(own, start)
        parts = groupby(coloured[start : start + len(own)], key=itemgetter(0))
        said = ((code, "".join(character for _, character in some)) for code, some in parts)
        yield begin + "".join(f"{code}{some}{_RESET}" if code else some for code, some in said)
        start += len(own)


def fitted(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield `lines`, broken at `width` columns (None: never); continuation lines get four more columns of indent."""
    for line in lines:
        begin = len(line) - len(line.lstrip())
        yield from wrapped(line, width, " " * (min(begin, (width or 0) // 2) + 4))


ALL = sys.maxsize

_MANY_NAMES = 12  # stacks that are named in one place where there is room


class Requested(Struct, frozen=True, kw_only=True):
    """What a report is to show: at most `most` lines in a section, and the kinds of change that `wants` accepts."""

    most: int
    wants: Wants
    names_packages: bool = False  # also those that a terminal only counts

    @property
    def is_whole(self) -> bool:
        """Whether no section is cut."""
        return self.most == ALL

    @property
    def names_kinds(self) -> bool:
        """Whether only some kinds of change are wanted."""
        return not self.wants(frozenset())

    @property
    def lists_all(self) -> bool:
        """Whether the report names all packages, also in places where it usually gives only their number."""
        return self.is_whole or self.names_kinds or self.names_packages

    @property
    def most_names(self) -> int:
        """The greatest number of names to list in one place, of stacks or of values such as versions and compilers."""
        return ALL if self.is_whole else _MANY_NAMES if self.names_packages else MOST_NAMES

    @property
    def few_names(self) -> int:
        """The greatest number of packages to name in one place."""
        return ALL if self.is_whole else FEW_NAMES


# Statements about something that was not there before.
_ADDING = ("tag-added", "stack-added", "package-added", "upgraded", "place-gained", "extended", "widened")
ADDING = frozenset(map(StatementKind, _ADDING))
_TO_BE_WATCHED = (StatementKind.UNREFERENCED, StatementKind.REBUILD_WAVE)
_GRADES = dict.fromkeys(ADDING, "good") | dict.fromkeys(_TO_BE_WATCHED, "care")


class BlockEntry(Struct, frozen=True, kw_only=True):
    """One line of a block: a package or place, what happened there, the numbers of specs, and where builds are."""

    name: str
    fact: str = ""
    counts: Counts = Counts()
    where: str = ""
    is_harmless: bool = False  # readers miss nothing, whatever the heading says

    @property
    def specs(self) -> str:
        """The numbers of added, removed and kept specs: `+12 -3, 1 spec kept`."""
        return signed(self.counts)


class Block(Struct, frozen=True, kw_only=True):
    """A section of a report, or one statement about the whole tag."""

    kind: StatementKind
    severity: Severity
    title: str
    name: str = ""  # the subject of a statement on the whole tag
    total: str = ""
    notes: tuple[str, ...] = ()  # each a clause
    named: str = ""  # the names of packages
    entries: tuple[BlockEntry, ...] = ()
    more: str = ""  # the number of entries that are left out
    packages: int = 0

    @property
    def is_by_place(self) -> bool:
        """Whether the entries are about places (a stack and a target) instead of packages."""
        return self.kind in LOSSES

    @property
    def grade(self) -> str:
        """How good the news is, for colours of a page: bad, care (to be watched), good, or "" for neither."""
        return "bad" if self.severity is Severity.ATTENTION else _GRADES.get(self.kind, "")


class Chosen(Struct, frozen=True):
    """A statement with the lines to show; `wanted`: packages with changes of the kinds asked for, None if all are."""

    statement: Statement
    lines: tuple[Line, ...]
    wanted: frozenset[str] | None = None  # packages with changes of the kinds that were asked for, if any were

    @property
    def counts(self) -> Counts:
        """The sum of the counts of the chosen lines."""
        return sum((line.counts for line in self.lines), Counts())

    @property
    def packages(self) -> Sequence[str]:
        """The packages to name: those of the chosen lines or, if all lines are chosen, those of the statement."""
        if len(self.lines) == len(self.statement.lines) and not self.statement.kind.is_of_tag:
            found = self.statement.packages
            return found if self.wanted is None else tuple(name for name in found if name in self.wanted)
        others = self.statement.packages if self.statement.elsewhere and self.wanted is None else ()
        return tuple(dict.fromkeys((*(line.package for line in self.lines), *others)))


# Effects that a statement of this kind has by what it is.
_OWN_EFFECTS = {
    StatementKind.STACK_REMOVED: StatementKind.PLACE_LOST,
    StatementKind.STACK_ADDED: StatementKind.PLACE_GAINED,
}


def _block_of_tag(chosen: Chosen, report: Report, asked: Requested) -> Block:
    """Return the block for the statement of `chosen`, which is about the whole tag; `asked` limits names in lists."""
    statement, packages = chosen.statement, chosen.packages
    parts = [number(len(packages), "package"), signed(chosen.counts)] if packages else []
    if statement.kind in OF_VALUES:
        parts.append(f"in {words.stacks_named(statement.stacks, asked.most_names)}")
        others = {stack for line in chosen.lines for stack in line.stacks}.difference(statement.stacks)
        shared = words.stacks_named(others, asked.most_names)
        parts += [wording().say("stacks", "shared", names=shared)] if others else []
    return Block(
        kind=statement.kind,
        severity=statement.severity,
        title=wording().text(words.entry_of(statement), "title"),
        name=words.name_of(statement),
        total=", ".join(filter(None, parts)),
        notes=tuple(filter(None, _notes(chosen, report, asked))),
        named=names(packages, asked.most) if _names_all(packages, asked) else "",
        packages=len(packages),
    )


def _names_all(packages: Collection[str], asked: Requested) -> bool:
    return asked.lists_all or len(packages) <= FEW_NAMES


# What a prune takes.
_OF_PRUNES = (StatementKind.SURPLUS, StatementKind.PRUNED, StatementKind.PACKAGE_REMOVED, StatementKind.RETIRED)

# On which side a document that cannot be read may have a stack that no other has there.
_UNKNOWN_WHERE_UNREAD = {StatementKind.STACK_ADDED: "before", StatementKind.STACK_REMOVED: "after"}


def _notes(chosen: Chosen, report: Report, asked: Requested) -> Iterator[str]:
    statement, counts = chosen.statement, chosen.counts
    is_wave = statement.kind is StatementKind.REBUILD_WAVE
    still_there = ""
    if is_wave and counts.beside > 0:
        old = f"{number(counts.beside, 'old build')} are" if counts.vanished else "the old builds are"
        goes = " and may be pruned at any time" if tag_names.is_mutable(report.after.tag) else ""
        still_there = f"; {old} still there{goes}"
    yield wording().text(statement.kind, "remark") + still_there
    if statement.kind is StatementKind.PRUNE:
        kinds = {one.story.kind for one in chosen.lines}
        versions = words.retired(chosen.lines, wording(), asked.few_names, asked.most_names)
        parts = (wording().say("prune", kind, versions=versions) for kind in _OF_PRUNES if kind in kinds)
        yield "; ".join(filter(None, parts))
    yield from reason_lines(statement, asked.few_names) if is_wave else ()
    yield words.other_values(statement, wording(), ("spec", "specs"), asked.few_names)
    yield words.fates(statement, wording()).removeprefix("; ")
    yield words.unbuilt(statement, wording())
    side = _UNKNOWN_WHERE_UNREAD.get(statement.kind)
    if side and any(one.is_loss and one.side in (side, "both") for one in report.diagnostics):
        yield wording().text("stacks", f"unread_{side}")
    yield _elsewhere(chosen)
    if statement.kind is StatementKind.STACK_REMOVED and counts.new > counts.unbuilt_new:
        yield wording().say("stacks", "rebuilt", counts.new - counts.unbuilt_new)
    if statement.of and statement.of > statement.counts.total and statement.kind is not StatementKind.STACK_REMOVED:
        yield f"in the whole tag, this is about {number(statement.of, 'spec')}: added, removed and kept ones together"
    if statement.exceptions:
        exceptions = names(statement.exceptions, asked.few_names)
        yield wording().say(statement.kind, "note", old=words.old_values(statement), exceptions=exceptions)
    goes_without_saying: Collection[StatementKind | None] = (_OWN_EFFECTS.get(statement.kind),)
    if statement.kind in OF_VALUES:  # who has another target has another place
        goes_without_saying = _OWN_EFFECTS.values() if Kind.TARGET in statement.kinds else ()
    packages = set(chosen.packages)
    for effect in statement.effects:
        affected = tuple(name for name in effect.packages if name in packages)
        if affected and not effect.attribute and effect.kind not in goes_without_saying:
            is_all = 1 < len(packages) == len(affected) and _names_all(packages, asked)
            yield f"{wording().text(effect.kind, 'effect')}: {'all of them' if is_all else names(affected, asked.few_names)}"


_SEVERITIES = tuple(Severity)
_PLAIN = StatementKind.REBUILT
# The facts, in the order in which their values are named.
_FACTS = ("versions", "compilers", "oses", "platforms", "targets", "variants", "stacks")
_ENDS = re.compile(r",?[ ;()]+")
_ROUTINE_SHARE = 4  # of the lines of a section, what is routine gets one in so many


def blocks_of(report: Report, asked: Requested) -> tuple[tuple[Block, ...], str]:
    """Return the blocks of `report` that `asked` selects, the most severe first, and a last sentence with totals."""
    chosen = [Chosen(one, chosen_lines(one, asked.wants)) for one in report.statements]
    chosen = [one for one in chosen if one.lines or is_wanted(one.statement, asked.wants)]
    if asked.names_kinds:
        wanted = frozenset(line.package for one in chosen for line in one.lines)
        chosen = [replace(one, wanted=wanted, statement=_narrowed(one, asked)) for one in chosen]
    of_kinds = ([one for one in chosen if one.statement.kind is kind] for kind in StatementKind if kind is not _PLAIN)
    blocks = [
        *(_block_of_tag(one, report, asked) for one in chosen if one.statement.kind.is_of_tag),
        *(_section(own, asked) for own in of_kinds if own and not own[0].statement.kind.is_of_tag),
        *_rebuilt(report, chosen, asked),
        *_other_values(report, chosen, asked),
    ]
    blocks.sort(key=lambda block: _SEVERITIES.index(block.severity))
    return tuple(blocks), total(report, asked.wants) if chosen else nothing(report)


def _narrowed(chosen: Chosen, asked: Requested) -> Statement:
    """Return the statement of `chosen`; one on changed values without losses and other values that `asked` excludes."""
    one, packages = chosen.statement, set(chosen.packages)
    if one.kind not in OF_VALUES:
        return one
    effects = tuple(each for each in one.effects if not each.attribute or asked.wants({each.attribute}))
    return replace(one, losses=tuple(lost for lost in one.losses if lost.package in packages), effects=effects)


def _section(own: Sequence[Chosen], asked: Requested) -> Block:
    kind = own[0].statement.kind
    severity = min((one.statement.severity for one in own), key=_SEVERITIES.index)
    entries = [entry for one in own for entry in _entries(one, asked)]  # each with its counts, in words only if shown
    most = asked.most
    if severity is Severity.ROUTINE and not asked.is_whole and not asked.names_kinds:
        most //= _ROUTINE_SHARE
    packages = {name for one in own for name in one.packages}
    counts = sum((one.counts for one in own), Counts())
    is_shared = kind in LOSSES and counts != sum((each for each, _ in entries), Counts())
    counted = ", ".join(filter(None, (number(len(packages), "package"), signed(counts))))
    counted += wording().text(kind, "shared") if is_shared else ""
    shown, more = tuple(make() for _, make in entries[:most]), _more([each for each, _ in entries[most:]])
    heading, n = wording().text(kind, "heading"), len(packages)
    return Block(kind=kind, severity=severity, title=heading, total=counted, entries=shown, more=more, packages=n)


def _more(left_out: Sequence[Counts]) -> str:
    if not left_out:
        return ""
    counts = signed(sum(left_out, Counts()))
    return f"... and {len(left_out):,} more{f', {counts}' if counts else ''} (--all)"


def _entries(chosen: Chosen, asked: Requested) -> Iterator[tuple[Counts, Callable[[], BlockEntry]]]:
    if chosen.statement.kind in LOSSES and chosen.statement.name:
        counts = sum((line.here for line in chosen.lines), Counts())
        # The place comes first, because readers look for it.
        yield (
            counts,
            lambda: BlockEntry(
                name=words.place_name(chosen.statement),
                fact=_lost(chosen, asked),
                counts=counts,
                where=_reasons(chosen, asked),
                is_harmless=chosen.statement.is_harmless,
            ),
        )
    else:
        yield from ((line.counts, partial(_entry_of_line, line, asked, _elsewhere(chosen))) for line in chosen.lines)


def _entry_of_line(line: Line, asked: Requested, elsewhere: str = "") -> BlockEntry:
    return BlockEntry(
        name=safe_name(line.package),
        fact=words.fact(line, asked.most_names),
        counts=line.counts,
        where="; ".join(filter(None, (words.where(line, asked.most_names), elsewhere))),
    )


def _elsewhere(chosen: Chosen) -> str:
    n = chosen.statement.elsewhere
    return wording().say("stacks", "elsewhere", n) if n else ""


def _lost(chosen: Chosen, asked: Requested) -> str:
    if asked.is_whole and len(chosen.lines) > 1:  # each with its versions
        own = [replace(chosen, lines=(line,), wanted=frozenset({line.package})) for line in chosen.lines]
        others = [name for name in chosen.packages if all(name not in one.packages for one in own)]
        return "; ".join((*(_lost(one, asked) for one in own), *map(safe_name, others)))
    losses = [lost for lost in chosen.statement.losses if lost.package in chosen.packages]
    moved_to = {words.moved_to(lost, chosen.packages) for lost in losses}
    on = moved_to.pop() if len(moved_to) == 1 else ""
    there = {lost.outside for lost in losses}
    outside = words.outside(there.pop(), wording()) if len(there) == 1 else ""
    on += f"; {outside}" if outside else ""
    if len(chosen.packages) == len(chosen.lines) == 1:
        line = chosen.lines[0]
        now = words.moves(replace(line, left=frozenset()), asked.most_names)
        return f"{safe_name(line.package)} {words.fact(line)}".strip() + (f", {now}" if now else on)
    return names(chosen.packages, asked.few_names) + on


def _reasons(statement: Chosen, asked: Requested) -> str:
    """Return what builds the tag still has of packages that a place lost (`statement`); equal texts are joined."""
    chosen, own = set(statement.packages), wording()
    by_reason: defaultdict[str, dict[str, None]] = defaultdict(dict)
    classes = set[LossClass]()
    for lost in statement.statement.losses:
        if lost.package in chosen and lost.loss is not None:
            classes.add(lost.loss.loss_class)
            reason = words.reasons_of_versions((lost.loss, *lost.loss.older), own)
            by_reason[reason][lost.package] = None
    here = sum((line.here for line in statement.lines), Counts())
    is_said = classes == {LossClass.GOING} and here.without_stack == here.specs
    old = own.say("stacks", "unbuilt", here.without_stack) if here.without_stack and not is_said else ""
    if len(by_reason) == 1:
        return "; ".join(filter(None, (*by_reason, old)))
    most = ALL if asked.is_whole else MOST_NAMES
    said = [f"{names(list(packages), most)}: {reason}" for reason, packages in by_reason.items() if reason]
    return "; ".join(filter(None, (first_of(said, most, "; {} more reasons", by="; "), old)))


def _rebuilt(report: Report, chosen: Sequence[Chosen], asked: Requested) -> Iterator[Block]:
    """Yield a block that counts rebuilt specs, if any; the block names packages only if `asked` lists all."""
    counted = chosen if asked.names_kinds else [Chosen(one, one.lines) for one in report.statements]
    is_wave_told = any(one.statement.kind is StatementKind.REBUILD_WAVE for one in chosen)
    kinds = {_PLAIN} if is_wave_told else {_PLAIN, StatementKind.REBUILD_WAVE}
    hidden = [one for one in counted if one.statement.kind in kinds]
    if not hidden:
        return
    packages = {line.package for one in hidden for line in one.lines}
    specs = sum(one.counts.new for one in hidden)
    wanted = [one for one in chosen if one.statement.kind is _PLAIN]
    block = Block(kind=_PLAIN, severity=Severity.ROUTINE, title=wording().text(_PLAIN, "heading"))
    is_listed = bool(wanted) and asked.lists_all
    is_counted = is_listed or len(packages) > MOST_NAMES
    yield replace(
        _section(wanted, asked) if is_listed else block,
        total=f"{number(specs, 'spec')} of {number(len(packages), 'package') if is_counted else names(sorted(packages))}",
        notes=tuple(note for one in hidden for note in reason_lines(one.statement, FEW_NAMES)),
        packages=len(packages),
    )


def _other_values(report: Report, chosen: Sequence[Chosen], asked: Requested) -> Iterator[Block]:
    """Yield a block on gained or lost values that no block of `chosen` names; yield nothing if there are none."""
    # A tag that was added or removed is about all values of its packages.
    own = [one for one in chosen if one.statement.kind not in (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED)]
    packages = {package for one in own for package in one.packages}
    named = _words_used(own, asked) if report.facts else {}
    entries = [
        BlockEntry(name=safe_name(package), fact=fact)
        for package, facts in report.facts.items()
        if package in packages and (fact := "; ".join(_unnamed(facts, named.get(package, frozenset()), asked)))
    ]
    if entries:
        yield Block(
            kind=StatementKind.RECONFIGURED,
            severity=Severity.ROUTINE,
            title="Also added or removed",
            total=number(len(entries), "package"),
            entries=tuple(entries[: asked.most]),
            more=_more([entry.counts for entry in entries[asked.most :]]),
        )


def _words_used(chosen: Sequence[Chosen], asked: Requested) -> Mapping[str, frozenset[str]]:
    """Return, by package, the words that the blocks of the statements in `chosen` say about the package."""
    # Whatever else changed in a renamed stack.
    renamed = (block.statement for block in chosen if block.statement.kind is StatementKind.STACK_MERGED)
    stacks = [name for one in renamed for name in (*one.before, *one.after)]
    texts: defaultdict[str, list[str]] = defaultdict(stacks.copy)
    for block in chosen:
        if block.statement.kind.is_of_tag or block.statement.kind in LOSSES:
            own = [words.name_of(block.statement), *block.statement.before, *block.statement.after]
            for effect in block.statement.effects:
                for package in effect.packages:
                    texts[package] += (*effect.before, *effect.after)
            if not block.statement.kind.is_of_tag:
                own = [text for _, make in _entries(block, asked) for text in (make().name, make().fact)]
            for package in block.packages:
                texts[package] += own
        elif block.statement.kind is not _PLAIN:
            for line in block.lines:
                entry = _entry_of_line(line, asked)
                texts[line.package] += (entry.fact, entry.where)
    return {package: frozenset(_ENDS.split(" ".join(said))) for package, said in texts.items()}


def _unnamed(facts: Mapping[str, Delta], named: Set[str], asked: Requested) -> Iterator[str]:
    """Yield `compiler gcc@13.2.0 added` and the like for wanted values in `facts` (by attribute) that `named` lacks."""
    for name in _FACTS:
        parts = []
        for values, is_added in ((facts[name].added, True), (facts[name].removed, False)):
            shown = [safe_name(value) for value in values if value not in ("", NO_COMPILER)]
            new = [value for value in shown if value not in named]
            if new and asked.wants({kind_of_fact(name, is_added=is_added)}):
                parts.append(f"{', '.join(new)} {'added' if is_added else 'removed'}")
        if parts:
            yield f"{'operating system' if name == 'oses' else name.removesuffix('s')} {', '.join(parts)}"


_BAD = (StatementKind.PACKAGE_REMOVED, StatementKind.DOWNGRADED, StatementKind.PLACE_LOST)
COLOURS_OF_KINDS = dict.fromkeys(_BAD, "red") | dict.fromkeys(ADDING, "green") | dict.fromkeys(_TO_BE_WATCHED, "yellow")


def colour_of(kind: StatementKind, severity: Severity = Severity.NEWS) -> str:
    """Return the colour of `kind`; if it has none, red if `severity` is attention, else "" (no colour)."""
    return COLOURS_OF_KINDS.get(kind, "red" if severity is Severity.ATTENTION else "")
