"""What comes first: the subject of a digest and its first sentence, names before counts, worst first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import zip_longest
from zoneinfo import ZoneInfo

from msgspec import Struct

from cachewatch.core.names import safe
from cachewatch.core.statement_values import Statement, StatementKind
from cachewatch.report.environments import headlines_of, unchanged
from cachewatch.report.first_screen import is_beside, rebuilt
from cachewatch.report.values import Digest, TagDigest
from cachewatch.report.words import fact, main_reason, number, replaced, replacement, stack_name, staying

# Of a subject line, with the prefix that the mail adds.
WIDEST = 78
_NARROWEST = 24
_MOST_FACTS = 6
_IN_HEADING = 2
_LONGEST_NAME = 48
_FEW_NAMES = 2
_MOST_UPGRADES = 3


class Fact(Struct, frozen=True):
    """One thing to say, in as many words as there is room for: the longest first."""

    forms: tuple[str, ...]
    spare: int = 0  # how many of the longest are left out if there is then room for the next fact

    @property
    def whole(self) -> str:
        """All that it says."""
        return self.forms[0]


def title(digest: Digest) -> str:
    """Return what a subject line says: as many facts as there is room for, worst first; ASCII."""
    facts = _facts(digest)
    where = f"{scope(digest.tags)}: " if len(_tags(digest.tags)) > 1 or _is_snapshot(digest) else ""
    room = _room(digest.subscription, is_urgent=digest.is_urgent) - len(where)
    said: list[str] = []
    for one, following in zip_longest(facts[:_MOST_FACTS], facts[1:_MOST_FACTS]):
        left = room - len("; ".join([*said, ""])) if said else room
        fitting = [form for form in one.forms if len(form) <= left]
        if not fitting:
            break
        least = len(f"; {following.forms[-1]}") if following else 0
        said.append(next((form for form in one.forms[: one.spare + 1] if len(form) + least <= left), fitting[0]))
    if not said:
        return fitted(where + facts[0].forms[-1], digest.subscription)
    return _ascii(where + "; ".join(said))


def fitted(title: str, subscription: str) -> str:
    """Return `title` in ASCII, cut to what a subject line holds."""
    title, room = _ascii(safe(title)), _room(subscription)
    return title if len(title) <= room else f"{title[: room - 3].rstrip()}..."


def _room(subscription: str, *, is_urgent: bool = False) -> int:
    return max(_NARROWEST, WIDEST - len(f"[{'URGENT ' if is_urgent else ''}{subscription}] "))


def sentence(digest: Digest) -> str:
    """Return what to read first, whoever reads no more than that: two facts at most."""
    said = "; ".join(one.whole for one in _facts(digest)[:_IN_HEADING])
    first, _, rest = said.partition(" ")
    # Names keep their small letters.
    return f"{first.capitalize() if first in _WORDS else first}{' ' if rest else ''}{rest}."


# The patterns of a subscription that leave something out.
_SELECTING = ("packages", "stacks", "targets", "oses", "compilers", "versions", "environment")
_WORDS = {"everything", "new", "no", "of", "pinned", "routine", "stack", "suspicious:", "tag", "what", "your"}


def subtitle(digest: Digest) -> str:
    """Say of which tags and days the digest is."""
    where = scope(digest.tags) if digest.tags else ""
    # Of several tags, only some may be compared with another one: then each says so.
    bases = {tag.report.before.tag if tag.report.before.tag != tag.report.after.tag else None for tag in digest.tags}
    base = f"compared with {safe(bases.pop() or '')[:_LONGEST_NAME]}" if len(bases) == 1 and None not in bases else ""
    span = ", ".join(filter(None, (where, base, _days(digest))))
    selected = "; ".join(safe(line) for line in digest.why if line.partition(" ")[0] in _SELECTING)
    return f"{span}. In your selection: {selected}" if selected else span


def _facts(digest: Digest) -> list[Fact]:
    statements = _once(one for tag in digest.tags for one in tag.statements)
    if digest.environment is not None:
        # Binaries are installed from whatever stack built them: what is lost, the environment says.
        statements = [one for one in statements if one.kind is not StatementKind.PLACE_LOST]
    facts = [*_own_facts(digest), *facts_of(statements), *_new_snapshots(digest)]
    if facts:
        return facts
    if digest.environment is not None and any(tag.statements for tag in digest.tags):
        return [Fact((unchanged(digest.environment),))]
    if any(span.is_unknown for span in digest.spans):
        return [Fact(("what changed cannot be known",))]
    unread = [safe(package) for span in digest.spans for package in span.unread]
    if unread:
        which = unread[0][:_LONGEST_NAME] if len(unread) == 1 else f"{len(unread)} documents"
        return [Fact((f"{which} could not be read",))]
    return [Fact(("no changes",))]


def _once(statements: Iterable[Statement]) -> list[Statement]:
    """Return what several tags have in common once: a new snapshot often says what its branch says."""
    return list({(one.kind, one.name, one.before, one.after, one.packages): one for one in statements}.values())


def _own_facts(digest: Digest) -> Iterator[Fact]:
    """Yield what became of the reader's own: binaries of the environment, and a pinned snapshot that is gone."""
    yield from (Fact((f"pinned {safe(pin.tag)[:_LONGEST_NAME]} gone",)) for pin in digest.pinned if pin.is_gone)
    change = digest.environment
    if change is None:
        return
    if forms := headlines_of(change):
        yield Fact(forms)


def _new_snapshots(digest: Digest) -> Iterator[Fact]:
    """Name the snapshots of which nothing else is told: each is new, even if it is equal to the one before."""
    reports = [tag.report for tag in digest.tags if not tag.statements]
    names = [safe(each.after.tag or "")[:_LONGEST_NAME] for each in reports if each.before.tag != each.after.tag]
    if names:
        yield _listed([f"new snapshot {name}" for name in names], "", number(len(names), "new snapshot"))


def facts_of(statements: Iterable[Statement]) -> Iterator[Fact]:
    """Yield what happened, worst first.

    A loss that nobody misses is named where nothing else happened.
    """
    news = list(statements)
    found: dict[StatementKind, list[Statement]] = {}
    for one in [one for one in news if not one.is_harmless] or news:
        found.setdefault(one.kind, []).append(one)
    for kind, say in _SAYINGS.items():
        if kind in found:
            yield from say(found[kind])


def _each(words: str, short: str = "") -> Callable[[Sequence[Statement]], Iterator[Fact]]:
    """Say each statement by its name and its packages."""

    def say(found: Sequence[Statement]) -> Iterator[Fact]:
        for one in found:
            packages = number(len(one.packages), "package")
            name = safe(one.name)[:_LONGEST_NAME]
            yield Fact(
                (words.format(name=name, packages=packages), (short or words).format(name=name, packages=packages))
            )

    return say


def _removed(found: Sequence[Statement]) -> Iterator[Fact]:
    names = [safe(one.name)[:_LONGEST_NAME] for one in found]
    yield _listed(names, "removed", number(len(names), "package") + " removed")


def _added(found: Sequence[Statement]) -> Iterator[Fact]:
    names = [safe(" ".join((one.name, *one.after[-1:])))[:_LONGEST_NAME] for one in found]
    yield _listed([f"new {name}" for name in names], "", number(len(names), "new package"))


def _listed(names: Sequence[str], fate: str, counted: str) -> Fact:
    """Name two, or one, or none of several."""
    forms = []
    for count in (2, 1):
        more = len(names) - count
        if more >= 0:
            told = f"{', '.join(names[:count])}{f' and {more:,} more' if more else ''}"
            forms.append(f"{told} {fate}".strip())
    return Fact((*forms, counted))


def _downgraded(found: Sequence[Statement]) -> Iterator[Fact]:
    for one in found:
        yield Fact((f"{_replacement(one)} (downgrade)",))


def _upgraded(found: Sequence[Statement]) -> Iterator[Fact]:
    """Name as many as there is room for, and what stays beside them."""
    forms: list[str] = []
    rest = ""
    for count in range(min(len(found), _MOST_UPGRADES), 0, -1):
        named = found[:count]
        more = len({one.name for one in found} - {one.name for one in named})
        rest = f"; {number(more, 'more upgrade')}" if more else ""
        plain = [_replacement(one) for one in named]
        whole = [" ".join(filter(None, (said, staying(one.lines[0])))) for said, one in zip(plain, named, strict=True)]
        forms += dict.fromkeys((f"{', '.join(whole)}{rest}", f"{', '.join(plain)}{rest}"))
    newest = f"{safe(found[0].name)[:_LONGEST_NAME]} {safe(''.join(found[0].after[-1:]))}{rest}"
    yield Fact((*forms, newest, number(len({one.name for one in found}), "upgrade")), spare=len(forms) - 1)


def _replacement(one: Statement) -> str:
    return f"{safe(one.name)[:_LONGEST_NAME]} {replacement(one.lines[0])}"


def _places(found: Sequence[Statement]) -> Iterator[Fact]:
    packages = sorted({package for one in found for package in one.packages})
    stacks = sorted({place.stack for one in found for place in one.places})
    lost = number(len(packages), "package")
    where = stack_name(stacks[0])[:_LONGEST_NAME] if len(stacks) == 1 else number(len(stacks), "stack")
    named = ", ".join(safe(name)[:_LONGEST_NAME] for name in packages)
    forms = [f"{named} lost in {where}"] if len(packages) <= _FEW_NAMES else []
    yield Fact((*forms, f"{lost} lost in {where}", f"{lost} lost"))


def _migrated(found: Sequence[Statement]) -> Iterator[Fact]:
    for one in found:
        yield Fact((f"{replaced(one)[: 2 * _LONGEST_NAME]} ({number(len(one.packages), 'package')})", replaced(one)))


def _wave(found: Sequence[Statement]) -> Iterator[Fact]:
    for one in found:
        said = rebuilt(one).replace(" was ", " ").replace(" were ", " ")
        why = [f"{said} {reason}"] if (reason := main_reason(one)) else []
        if is_beside(one):
            yield Fact((*why, f"{said}, old builds go at the next prune", f"{said} beside the old builds", said))
        else:
            yield Fact((*why, f"{said} ({number(len(one.packages), 'package')})", said))


def _rebuilt(found: Sequence[Statement]) -> Iterator[Fact]:
    for said in _packages("rebuilt", says_more=False)(found):
        reason = main_reason(found[0]) if len(found) == 1 else ""
        yield Fact((f"{said.forms[-1]} {reason}", *said.forms)) if reason else said


def _prune(found: Sequence[Statement]) -> Iterator[Fact]:
    yield Fact((f"routine prune of {number(sum(one.counts.vanished for one in found), 'old build')}",))


def _packages(words: str, *, says_more: bool = True) -> Callable[[Sequence[Statement]], Iterator[Fact]]:
    """Say of how many packages something is true, and of which if it is one.

    Where a line `says_more` than versions, it says what happened without `words`.
    """

    def say(found: Sequence[Statement]) -> Iterator[Fact]:
        packages = {package for one in found for package in one.packages}
        lines = [line for one in found for line in one.lines]
        counted = f"{number(len(packages), 'package')} {words}"
        if len(lines) == 1:
            said = " ".join(filter(None, (safe(lines[0].package), fact(lines[0]))))[: 2 * _LONGEST_NAME]
            yield Fact((said if says_more else f"{said} {words}", counted))
        else:
            yield Fact((counted,))

    return say


_SAYINGS: Mapping[StatementKind, Callable[[Sequence[Statement]], Iterator[Fact]]] = {
    StatementKind.SUSPICIOUS: _each("suspicious: {name}", "suspicious loss"),
    StatementKind.TAG_REMOVED: _each("tag {name} removed"),
    StatementKind.STACK_REMOVED: _each("stack {name} disappeared ({packages})", "stack {name} disappeared"),
    StatementKind.PACKAGE_REMOVED: _removed,
    StatementKind.PLACE_LOST: _places,
    StatementKind.DOWNGRADED: _downgraded,
    StatementKind.MIGRATION: _migrated,
    StatementKind.TAG_ADDED: _each("new tag {name}"),
    StatementKind.UPGRADED: _upgraded,
    StatementKind.STACK_ADDED: _each("new stack {name} ({packages})", "new stack {name}"),
    StatementKind.PACKAGE_ADDED: _added,
    StatementKind.REBUILD_WAVE: _wave,
    StatementKind.PRUNE: _prune,
    StatementKind.UNREFERENCED: _packages("with builds that go at the next prune"),
    StatementKind.PLACE_GAINED: _packages("in more places", says_more=False),
    StatementKind.RETIRED: _packages("with older versions retired"),
    StatementKind.EXTENDED: _packages("with older versions added"),
    StatementKind.NARROWED: _packages("with fewer configurations"),
    StatementKind.WIDENED: _packages("with more configurations"),
    StatementKind.RECONFIGURED: _packages("built in another way"),
    StatementKind.MOVED: _packages("moved between stacks"),
    StatementKind.PRUNED: _packages("pruned", says_more=False),
    StatementKind.SURPLUS: _packages("with fewer copies of the same build", says_more=False),
    StatementKind.EXTRA_COPY: _packages("with more copies of the same build", says_more=False),
    StatementKind.REBUILT: _rebuilt,
}


def scope(tags: Iterable[TagDigest]) -> str:
    """Name the tags, or count them."""
    names = _tags(tags)
    return names.pop()[:_LONGEST_NAME] if len(names) == 1 else f"{len(names):,} tags"


def _tags(tags: Iterable[TagDigest]) -> set[str]:
    return {safe(tag.report.after.tag or tag.report.before.tag or tag.report.after.name) for tag in tags}


def _is_snapshot(digest: Digest) -> bool:
    """Tell whether the one tag is new: its name is news."""
    return any(one.kind is StatementKind.TAG_ADDED for tag in digest.tags for one in tag.statements) or any(
        tag.report.before.tag != tag.report.after.tag for tag in digest.tags
    )


def _days(digest: Digest) -> str:
    """Say from when to when: 25 May to 1 June 2025; empty if that is unknown."""
    afters = [day for span in digest.spans if (day := _day(span.after.time, digest.zone))]
    if not afters:
        return ""
    last = max(afters)
    first = min((day for span in digest.spans if (day := _day(span.before.time, digest.zone))), default=last)
    end = f"{last.day} {last:%B %Y}"
    if first >= last:
        return end
    if first.year != last.year:
        return f"{first.day} {first:%B %Y} to {end}"
    if first.month != last.month:
        return f"{first.day} {first:%B} to {end}"
    return f"{first.day} to {end}"


def _day(time: str | None, zone: str) -> date | None:
    return datetime.fromisoformat(time).astimezone(ZoneInfo(zone)).date() if time else None


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
