"""What comes first: the title of a digest and its first sentence, bad news before good."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

from msgspec import Struct

from cachewatch.digests import Digest, TagDigest
from cachewatch.model import Event, Kind
from cachewatch.render.words import number
from cachewatch.report.topics import Topic, TopicReport
from cachewatch.safetext import safe

# Of a subject line, with the prefix that the mail adds.
WIDEST = 78
_NARROWEST = 24
_FEW_FACTS = 2
_MOST_FACTS = 4  # of a title
_MOST_TOLD = 6  # of a sentence
_LONGEST_NAME = 48

# What became of packages, in the order of telling.
_FATES = {
    Topic.GONE: "gone",
    Topic.LOST: "gone from stacks",
    Topic.LEFT_OVER: "left over",
    Topic.DOWNGRADED: "downgraded",
    Topic.UPGRADED: "upgraded",
    Topic.NEW: "new",
    Topic.ADDED: "with new binaries",
    Topic.RETIRED: "with older versions retired",
    Topic.STACKS: "moved between stacks",
    Topic.COMPILERS: "recompiled",
    Topic.VARIANTS: "reconfigured",
}
# Told only where there is little else to tell.
_QUIET_FATES = {Topic.FEWER: "with fewer copies", Topic.MORE: "with more copies", Topic.REBUILT: "rebuilt"}

_EVENTS_BEFORE = {
    Kind.SUSPICIOUS: ("suspicious loss: {}", "{} suspicious losses"),
    Kind.TAG_REMOVED: ("tag {} gone", "{} tags gone"),
    Kind.STACK_REMOVED: ("stack {} gone", "{} stacks gone"),
}
_EVENTS_BEHIND = {
    Kind.PRUNE: ("prune of {} specs", "{} prunes"),
    Kind.TAG_ADDED: ("new tag {}", "{} new tags"),
    Kind.STACK_ADDED: ("new stack {}", "{} new stacks"),
    Kind.COMPILER: ("compiler {}", "{} compilers replaced"),
    Kind.OS: ("operating system {}", "{} operating systems replaced"),
    Kind.TARGET: ("target {}", "{} targets replaced"),
}


class Fact(Struct, frozen=True):
    """One thing to say, with as many packages as it is about."""

    words: str
    packages: int = 0  # 0 where packages are not what is counted
    named: str = ""  # the same in other words, where it is about one package


def title(digest: Digest) -> str:
    """Return what a subject line says: facts, then where, then when, as far as there is room; ASCII."""
    facts = _facts(digest)
    room = _room(digest.subscription)
    for line in _titles(digest, facts[:_MOST_FACTS]):
        if len(line) <= room:
            return _ascii(line)
    return fitted(_told(facts[:1], named=0)[0], digest.subscription)


def _titles(digest: Digest, facts: list[Fact]) -> Iterator[str]:
    """Yield titles, each saying less than the one before; two facts are worth more than where and when."""
    where = f" - {scope(digest.tags)}" if digest.tags else ""
    when = f" - {days}" if (days := _days(digest, month="%b", to="-", has_year=False)) else ""
    few = min(2, len(facts))
    for tail, least in ((where + when, few), (where, few), ("", 1)):
        for count in range(len(facts), least - 1, -1):
            for named in (count, 1, 0):
                yield ", ".join(_told(facts[:count], named)) + tail


def fitted(title: str, subscription: str) -> str:
    """Return `title` in ASCII, cut to what a subject line holds."""
    title, room = _ascii(safe(title)), _room(subscription)
    return title if len(title) <= room else f"{title[: room - 3].rstrip()}..."


def _room(subscription: str) -> int:
    return max(_NARROWEST, WIDEST - len(f"[cachewatch {subscription}] "))


def sentence(digest: Digest) -> str:
    """Return what to read first, whoever reads no more than that."""
    facts = _facts(digest)[:_MOST_TOLD]
    told = _told(facts, named=1)
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
    where = f" in {scope(digest.tags)}" if digest.tags else ""
    when = f", {days}" if (days := _days(digest)) else ""
    return f"{listed if facts[0].named else listed[0].upper() + listed[1:]}{where}{when}."


def _facts(digest: Digest) -> list[Fact]:
    if facts := [*_own_facts(digest), *facts_of(digest.tags)]:
        return facts
    if any(span.is_unknown for span in digest.spans):
        return [Fact("what changed cannot be known")]
    unread = [safe(package) for span in digest.spans for package in span.unread]
    if unread:
        which = unread[0][:_LONGEST_NAME] if len(unread) == 1 else f"{len(unread)} documents"
        return [Fact(f"{which} could not be read")]
    return [Fact("no changes")]


def _own_facts(digest: Digest) -> Iterator[Fact]:
    """Yield what became of the reader's own: binaries of the environment, and a pinned snapshot that is gone."""
    yield from (Fact(f"pinned {safe(pin.tag)[:_LONGEST_NAME]} gone") for pin in digest.pinned if pin.is_gone)
    change = digest.environment
    if change is None:
        return
    fates = {"gone": change.gone, "rebuilt": change.rebuilt, "left over": change.newly_left_over}
    told = [(len(listed), fate) for fate, listed in fates.items() if listed]
    if not told and change.came:
        told = [(len(change.came), "newly cached")]
    total = number(len(change.after.needs), "binary", "binaries")
    for place, (count, fate) in enumerate(told):
        yield Fact(f"{count:,} {fate}" if place else f"{count:,} of your {total} {fate}")


def facts_of(tags: Iterable[TagDigest]) -> Iterator[Fact]:
    """Yield what happened, worst first."""
    tags = list(tags)
    events = [event for tag in tags for event in tag.report.events]
    packages: Counter[Topic] = Counter()
    for tag in tags:
        packages.update({report.topic: report.packages for report in tag.topics})
    yield from _event_facts(events, _EVENTS_BEFORE)
    loud = [Fact(words, packages[t], _name(tags, t)) for t, words in _FATES.items() if packages[t]]
    yield from (fact for fact in loud if fact.words in _WORST)
    yield from _event_facts(events, _EVENTS_BEHIND)
    yield from (fact for fact in loud if fact.words not in _WORST)
    if len(loud) + len(events) < _FEW_FACTS:
        yield from (Fact(words, packages[t], _name(tags, t)) for t, words in _QUIET_FATES.items() if packages[t])


_WORST = {_FATES[topic] for topic in (Topic.GONE, Topic.LOST, Topic.LEFT_OVER, Topic.DOWNGRADED)}


def scope(tags: Iterable[TagDigest]) -> str:
    """Name the tags, or count them."""
    names = {safe(tag.report.after.tag or tag.report.before.tag or tag.report.after.name) for tag in tags}
    return names.pop()[:_LONGEST_NAME] if len(names) == 1 else f"{len(names):,} tags"


def _told(facts: list[Fact], named: int) -> list[str]:
    """Say each fact, the first `named` of them by name; the first that counts packages says so."""
    told = []
    has_noun = True
    for place, fact in enumerate(facts):
        if place < named and fact.named:
            told.append(fact.named)
        elif fact.packages:
            told.append(f"{number(fact.packages, 'package') if has_noun else f'{fact.packages:,}'} {fact.words}")
            has_noun = False
        else:
            told.append(fact.words)
    return told


def _event_facts(events: list[Event], words: dict[Kind, tuple[str, str]]) -> Iterator[Fact]:
    for kind, (one, several) in words.items():
        found = [event for event in events if event.kind is kind]
        if kind is Kind.PRUNE and found:
            yield Fact(one.format(f"{sum(event.specs for event in found):,}"))
        elif found:
            yield Fact(
                one.format(safe(found[0].name)[:_LONGEST_NAME]) if len(found) == 1 else several.format(len(found))
            )


def _name(tags: Iterable[TagDigest], topic: Topic) -> str:
    """Name the one package that a topic is about, and what became of it; empty if that takes too long."""
    reports = [report for tag in tags for report in tag.topics if report.topic is topic and report.packages]
    if len(reports) != 1 or reports[0].packages != 1 or len(reports[0].rows) != 1:
        return ""
    named = _named(reports[0])
    return named if len(named) <= _LONGEST_NAME else ""


def _named(report: TopicReport) -> str:
    row = report.rows[0]
    package, before, after = safe(row.package), safe(row.before), safe(row.after)
    if before and after:
        return f"{package} {before} -> {after}" + (" (downgrade)" if report.topic is Topic.DOWNGRADED else "")
    version = before or after
    fate = {
        Topic.GONE: "gone",
        Topic.LOST: "gone from stacks",
        Topic.UPGRADED: f"{version} added",
        Topic.DOWNGRADED: f"{version} {'added' if after else 'gone'}",
        Topic.LEFT_OVER: f"{version} left over",
        Topic.NEW: f"{version} new",
        Topic.ADDED: f"{version} added",
        Topic.RETIRED: f"{version} retired" if Kind.RETIRED in row.kinds else "",
        Topic.REBUILT: "rebuilt",
    }.get(report.topic)
    return f"{package} {fate}" if fate else ""


def _days(digest: Digest, *, month: str = "%B", to: str = " to ", has_year: bool = True) -> str:
    """Say from when to when: 25 May to 1 June 2025; empty if that is unknown."""
    afters = [day for span in digest.spans if (day := _day(span.after.time))]
    if not afters:
        return ""
    last = max(afters)
    first = min((day for span in digest.spans if (day := _day(span.before.time))), default=last)
    return _between(first, last, month, to, has_year=has_year)


def _between(first: date, last: date, month: str, to: str, *, has_year: bool) -> str:
    """Say from when to when, and nothing twice."""
    end = f"{last.day} {last.strftime(month)}{f' {last.year}' if has_year else ''}"
    if first >= last:
        return end
    if has_year and first.year != last.year:
        return f"{first.day} {first.strftime(month)} {first.year}{to}{end}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}{to}{end}"
    return f"{first.day} {first.strftime(month)}{to}{end}"


def _day(time: str | None) -> date | None:
    return datetime.fromisoformat(time).astimezone(UTC).date() if time else None


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
