"""What comes first: the subject of a digest, as many clauses as there is room for, worst first.

A clause says what happened once of one kind and class: it names what fits, and counts the rest.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from functools import cached_property
from itertools import zip_longest
from zoneinfo import ZoneInfo

from cachewatch.core.assessment import (
    LOSSES,
    Assessment,
    ComparedTag,
    Fact,
    Level,
    Rank,
    assess,
    lacking,
    lost_packages,
    packages_of,
    removed_packages,
)
from cachewatch.core.model import LossClass
from cachewatch.core.names import safe
from cachewatch.core.remembered import AnnouncedWave
from cachewatch.core.statement_values import OwnedLoss, Statement, StatementKind
from cachewatch.report.environments import headlines_of
from cachewatch.report.values import Digest, TagDigest
from cachewatch.report.words import (
    BY_VERSION,
    and_more,
    change_of_values,
    fates,
    main_reason,
    number,
    replacement,
    shares,
    stack_name,
    stacks_named,
    staying,
)
from cachewatch.report.words_file import Words, fill, words

# Of a subject line, with the prefix that the mail adds.
WIDEST = 78
_NARROWEST = 24
_LONGEST_NAME = 48
_MOST_ITEMS = 4
_NEARLY_ALL = 0.9
_CLASSES = tuple(reversed(LossClass))  # the worst first
_OF_BUILDS = (StatementKind.SURPLUS, StatementKind.EXTRA_COPY, StatementKind.PRUNE, StatementKind.PRUNED)


class Clause:
    """Facts of one kind and class, in the words for them."""

    def __init__(self, facts: Sequence[Fact], words: Words, digest: Digest | None = None) -> None:
        """Take `facts` of `digest`; all but statements that are listed are one each."""
        self.facts = facts
        self.first = facts[0]
        self.kind = self.first.kind
        self._words = words
        self._digest = digest
        self.path = ".".join(filter(None, (self.kind, self._class)))

    @property
    def _class(self) -> str:
        if self.kind == StatementKind.SUSPICIOUS:
            own = "" if self.first.rank is Rank.SUSPICION else "confirmed"
            return own if self.statement.packages else "elsewhere"
        if self.kind == StatementKind.STACK_MERGED:
            return "renamed" if len(self.statement.before) == len(self.statement.after) == 1 else ""
        if self.kind == StatementKind.RETURNED:
            return "named" if self.statement.name else ""
        if self.kind == StatementKind.REBUILD_WAVE:
            return "beside" if self.statement.counts.beside > 0 else ""
        if self.kind == StatementKind.TURNOVER:
            return "snapshot" if self.first.tags and self.first.tags[0].base else ""
        return self.first.worst or ""

    @property
    def statement(self) -> Statement:
        """The first statement."""
        assert self.first.statement is not None
        return self.first.statement

    @property
    def is_list(self) -> bool:
        """Whether packages are named one by one."""
        return bool(self._words.text(self.path, "item"))

    @cached_property
    def items(self) -> list[str]:
        """Each package, with what happened to it where that is said."""
        return self._items(says_more=True)

    def _items(self, *, says_more: bool) -> list[str]:
        item = self._words.text(self.path, "item")
        found: dict[str, None] = {}
        for one in self.facts:
            for package in one.packages:
                found |= {self._filled(item, package, one.statement, says_more=says_more): None}
        return list(found)

    def _filled(self, item: str, package: str, one: Statement | None, *, says_more: bool) -> str:
        values = {"package": safe(package)[:_LONGEST_NAME]}
        if one is not None and one.lines:
            line = next((each for each in one.lines if each.package == package), one.lines[0])
            values["after"] = safe(", ".join((one.after or line.story.versions)[-1:]))
            if line.story.kind in BY_VERSION:
                values["change"] = " ".join(filter(None, (replacement(line), staying(line) if says_more else "")))
        return " ".join(fill(item, 2, values).split())

    @property
    def forms(self) -> list[str]:
        """All that it says in a subject, the longest first."""
        words, n = self._words, len(self.items) if self.is_list else 0
        if not self.is_list:
            return self._own_forms()
        found = []
        for count in range(min(n, _MOST_ITEMS), 0, -1):
            more = words.say(self.path, "more", n - count) if n > count else ""
            for items in (self.items, self._items(says_more=False)):
                said = words.forms(self.path, "subject", n, items=", ".join(items[:count]), where=self.where)
                found += ["; ".join(filter(None, (one, more))) for one in said]
        return list(dict.fromkeys((*found, self.counted)))

    @property
    def counted(self) -> str:
        """The same as a number."""
        n = len(self.items) if self.is_list else len(self.facts)
        values = self._values | {"where": self.where, "packages": number(n, "package")}
        return self._words.say(self.path, "counted", n, **values) or (self._own_forms() or [""])[-1]

    def more(self, count: int) -> str:
        """Count so many that are not named, beside others that are."""
        return self._words.say(self.path, "more", count)

    def _own_forms(self) -> list[str]:
        if self.kind == "environment":
            assert self._digest is not None
            return list(headlines_of(self._digest.assessment, self._words))
        if self.kind == StatementKind.STACK_MERGED and len(self.facts) > 1:
            return self._words.forms(self.path, "subject", len(self.facts), **self._values)[-1:]
        if self.kind == "snapshot":
            return self._of_snapshot
        return self._words.forms(self.path, "subject", self._n, **self._values)

    @property
    def _of_snapshot(self) -> list[str]:
        """Name a new snapshot, and say what it lacks."""
        (tag,) = self.first.tags
        said = self._words.forms("snapshot", "subject", tag=safe(tag.tag))
        lost = lost_packages(tag.statements)
        if not lost:
            return said
        packages, some = number(len(lost), "package"), only_for(tag.statements, self._words)
        is_pinned = self._digest is not None and is_pinned_base(self._digest, tag.base)
        lacks, own = (
            [
                form
                for named in dict.fromkeys((f"{packages}{some}", packages))
                for form in self._words.forms("snapshot", key, len(lost), packages=named, tag=safe(tag.tag))
            ]
            for key in (("moving", "moving") if is_pinned else ("lacks", "it_lacks"))
        )
        return [*(f"{said[0]}: {one}" for one in own), *lacks]

    @property
    def said(self) -> str:
        """The sentence that says it in a digest."""
        words = self._words
        if not self.is_list:
            values = self._values
            key = "announced" if "announced" in values else "said"
            return capitalized(words.say(self.path, key, self._n, **values))
        n = len(self.items)
        listed = ", ".join(self.items[:_MOST_ITEMS])
        listed += f", {words.say('other', 'more', n - _MOST_ITEMS)}" if n > _MOST_ITEMS else ""
        builds = number(sum(one.statement.counts.kept for one in self.facts if one.statement), "build")
        return capitalized(words.say(self.path, "said", n, items=listed, where=self.where, builds=builds))

    @property
    def line(self) -> str:
        """What it says in a list of what happened."""
        return self.forms[0] if self.is_list else self.said.rstrip(".")

    @cached_property
    def where(self) -> str:
        """The stacks or machines that lost packages."""
        statements = [one.statement for one in self.facts if one.statement]
        found = [lost for one in statements for lost in one.losses if _is_of(lost, self.first.worst)]
        if self.kind == StatementKind.MACHINE_LOST:
            systems = sorted({lost.machine.os for lost in found if lost.machine})
            if systems:
                return ", ".join(map(safe, systems[:2])) if len(systems) <= 2 else number(len(systems), "system")
        stacks = {lost.place.stack for lost in found} or {place.stack for one in statements for place in one.places}
        if len(stacks) == 1:
            return stack_name(*stacks)[:_LONGEST_NAME]
        return number(len(stacks), "stack")

    @property
    def _values(self) -> dict[str, object]:
        """What the sentences about one statement may name."""
        pin = self.first.pin
        if pin is not None:
            return {
                "tag": safe(pin.tag)[:_LONGEST_NAME],
                "newest": f"; the newest is {safe(pin.newest)}" if pin.newest else "",
            }
        one = self.first.statement
        if one is None:
            return {}
        packages = self.first.packages if one.kind in LOSSES else one.packages
        values: dict[str, object] = {
            "name": safe(one.name)[:_LONGEST_NAME],
            "packages": number(len(packages), "package"),
            "names": and_more(packages, self._words),
            "few": and_more(packages, self._words, 2),
            "change": change_of_values(one),
            "tag": " and ".join(safe(tag.tag)[:_LONGEST_NAME] for tag in self.first.tags),
            "day": day_of(self.first.tags[0].day) if self.first.tags else "",
            "where": self._where_all(one),
            "lost": number(len(packages_of(one.losses, LossClass.GONE)), "package"),
            "going": number(len(packages_of(one.losses, LossClass.GOING)), "package"),
            "other": number(len(packages_of(one.losses, LossClass.OTHER)), "package"),
            "builds": number(one.counts.vanished or one.counts.kept or one.counts.new, "binary", "binaries"),
            "in_stacks": f" in {stacks_named(one.stacks)}" if one.stacks else "",
            "fates": fates(one, self._words),
            "still": self._still(one),
            "why": f"{' ' if (why := main_reason(one)) else ''}{why}"
            if self.kind != StatementKind.REBUILT
            else reason_of(one),
        }
        if one.kind is StatementKind.PRUNE and (wave := self._announced(one)):
            more = one.counts.vanished - wave.count
            values |= {"announced": day_of(wave.day), "old": number(wave.count, "old build")}
            values["more"] = f", and {number(more, 'binary', 'binaries')} more" if more else ""
        if one.kind is StatementKind.REBUILD_WAVE:
            values |= self._wave(one)
        if one.kind is StatementKind.TURNOVER:
            values |= self._turnover(one)
        if one.kind is StatementKind.RETURNED:
            values |= self._returned(one)
        if one.kind is StatementKind.STACK_MERGED:
            values |= {
                name: ", ".join(map(stack_name, side)) for name, side in (("old", one.before), ("new", one.after))
            }
        if self.kind == "missing":
            values["since"] = day_of(one.before[-1])
        return values

    @property
    def _n(self) -> int:
        """How many there are of what the verb of a sentence is about."""
        one = self.first.statement
        if one is None:
            return 2
        if one.kind is StatementKind.REBUILD_WAVE:
            return 1 if len(one.packages) >= _NEARLY_ALL * one.of_packages else 2
        if one.kind in _OF_BUILDS:
            return max(one.counts.vanished, one.counts.new)
        return len(self.first.packages)

    def _announced(self, one: Statement) -> AnnouncedWave | None:
        """Return the old builds that were announced to go, if so many went."""
        (tag, *_) = self.first.tags or (None,)
        wave = self._digest.remembered.wave(tag.source, tag.tag) if self._digest and tag else None
        return wave if wave and wave.count <= one.counts.vanished else None

    def _where_all(self, one: Statement) -> str:
        stacks = {place.stack for place in one.places} or set(one.stacks)
        return f"in {stacks_named(stacks)}" if 0 < len(stacks) <= 3 else self._words.text("other", "in_all")

    def _still(self, one: Statement) -> str:
        if not one.exceptions:
            return ""
        old = safe(" ".join(value.partition("@")[2] or value for value in one.before))
        word = (
            "still with"
            if one.kind is StatementKind.NO_LONGER
            else "only"
            if one.kind is StatementKind.BESIDE
            else "still on"
        )
        where = f" in {stacks_named(one.stacks)}" if len(one.stacks) == 1 else ""
        return f"; {and_more(one.exceptions, self._words)} {word} {old}{where}"

    def _wave(self, one: Statement) -> dict[str, object]:
        share = len(one.packages) / max(1, one.of_packages)
        is_all = share >= _NEARLY_ALL
        much = self._words.say("other", "everything" if is_all else "part", percent=f"{share:.0%}")
        return {
            "much": much,
            "old": number(one.counts.beside, "old build"),
            "why": (why := f" {told}" if (told := shares(one)) else ""),
            "because": why or self._words.text("other", "not_recorded"),
        }

    def _turnover(self, one: Statement) -> dict[str, object]:
        found = one.turnover
        if found is None:
            return {}
        share = found.gone / max(1, found.before)
        percent = f"{share:.0%}"
        shares_ = {name: getattr(found, name) / max(1, found.before) for name in ("rebuilt", "pruned", "others")}
        said = {name: f"{part:.0%}" for name, part in shares_.items() if part >= 0.005}
        alone = f"{next(iter(said))}_alone" if len(said) == 1 else "several"
        parts = [self._words.say("turnover", name, percent=part) for name, part in said.items() if len(said) > 1]
        told = "all" if found.gone == found.before else "most" if share >= _NEARLY_ALL else "some"
        hashes = self._words.say("turnover", told, percent=percent)
        is_explained = any(each.causes for tag in self.first.tags for each in tag.statements)
        because = "" if is_explained or 2 * found.rebuilt <= found.gone else self._words.text("other", "not_recorded")
        much = {"all": "all", "most": "nearly all"}.get(told, percent)
        since = day_of(self.first.tags[0].since) if self.first.tags and self.first.tags[0].since else ""
        return {
            "share": much,
            "hashes": hashes,
            "became": self._words.text("turnover", alone),
            "fates": f" ({', '.join(parts)})" if parts else "",
            "of": f"of {since} " if since else "",
            "because": because,
        }

    def _returned(self, one: Statement) -> dict[str, object]:
        words, n, of = self._words, len(one.packages), max(one.of_packages, len(one.packages))
        last, missing = (*map(day_of, one.before), "", "")[:2]
        is_tag = any(one.name == tag.tag for tag in self.first.tags)
        kind = "package" if one.packages == (one.name,) else "tag" if is_tag else "stack"
        is_part = kind == "stack" and n < _NEARLY_ALL * of
        form = "several" if not one.name else "stack_part" if is_part else kind
        values = {"name": safe(one.name)[:_LONGEST_NAME], "of": f"{of:,}"}
        but = words.say(
            "returned", "but" if one.exceptions else "unchanged", last=last, exceptions=and_more(one.exceptions, words)
        )
        back = words.say("returned", form, n, **values)
        return {
            "of": f"{of:,}",
            "back": back,
            "last": last,
            "missing": missing,
            "unchanged": but,
            "still": "" if n == of else words.say("returned", "still", of - n),
            "name": one.name,
        }


def is_pinned_base(digest: Digest, tag: str) -> bool:
    """Tell whether readers stay with this snapshot, from which they would move."""
    return any(pin.tag == tag and not pin.is_gone for pin in digest.pinned)


def _is_of(lost: OwnedLoss, wanted: LossClass | None) -> bool:
    return wanted is None or (lost.loss is not None and lost.loss.loss_class is wanted)


def reason_of(one: Statement) -> str:
    """Say why specs were rebuilt, behind their number."""
    told = shares(one)
    return f"{': ' if told[:1].isdigit() else ' '}{told}" if told else ""


def only_for(statements: Iterable[Statement], words: Words) -> str:
    """Say for which machines a new snapshot lacks packages that it has for others: ` (11 only for x86_64_v3)`."""
    statements = list(statements)
    whole = removed_packages(statements)
    part = {*lacking(statements)} - whole
    lost = (lost for one in statements for lost in one.losses if lost.package in part and _is_of(lost, LossClass.GONE))
    targets = sorted({one.place.target for one in lost})
    machines = safe(targets[0]) if len(targets) == 1 else words.text("snapshot", "several")
    return words.say("snapshot", "for_some" if whole else "for_all", len(part), machines=machines) if part else ""


def clauses_of(digest: Digest | None, facts: Iterable[Fact], words: Words) -> list[Clause]:
    """Put facts of one kind and class together, in their order."""
    groups: dict[object, list[Fact]] = {}
    for number_, one in enumerate(facts):
        is_listed = bool(words.text(f"{one.kind}.{one.worst or ''}".rstrip("."), "item"))
        key = (one.rank, one.kind, one.worst) if is_listed else number_
        groups.setdefault(key, []).append(one)
    return [Clause(group, words, digest) for group in groups.values()]


def clauses_of_statements(statements: Iterable[Statement]) -> list[Clause]:
    """Put statements of one tag together likewise, where there is no digest."""
    facts = assess([ComparedTag(source="", tag="", statements=tuple(statements))]).facts
    return clauses_of(None, facts, words())


def title(digest: Digest, words: Words) -> str:
    """Return what a subject line says: the first fact, the second if it fits, and the number of the commonest others; ASCII."""
    told = told_in_subject(digest.assessment)
    room = _room(digest.subscription, is_urgent=digest.is_urgent)
    found = clauses_of(digest, told, words)
    if not found:
        return fitted(_nothing(digest, words), digest.subscription)
    said, rest = "", list(found)
    most = 3 if found[0].kind == "snapshot" else 2
    for clause, following in zip_longest(found[:most], found[1:most]):
        between = "; " if said else ""
        if said and clause is found[1] and found[0].kind == "snapshot" and ":" not in said:
            between = ": "
        left = room - len(said) - len(between)
        forms = [form for form in clause.forms if len(form) <= left]
        if not said and clause.kind == "snapshot":
            forms = [form for form in forms if form.startswith(clause.forms[0].partition(":")[0])]
        if not forms:
            break
        # What stays is left out if the next thing fits then.
        least = len("; ") + len(following.forms[-1]) if following else 0
        spare = clause.forms[: clause.forms.index(forms[0]) + 2]
        fitting = next((form for form in spare if form in forms and len(form) + least <= left), forms[0])
        said += between + fitting
        rest.remove(clause)
    if not said:
        return fitted(found[0].forms[-1], digest.subscription)
    if rest and len(rest) < len(found):
        commonest = max(rest, key=lambda one: len(one.items) if one.is_list else 0)
        counted = f"; {commonest.counted}" if commonest.is_list else ""
        said += counted if len(said) + len(counted) <= room else ""
    return _ascii(said)


def told_in_subject(found: Assessment) -> list[Fact]:
    """Return the facts, without those that are harmless or routine where there are others."""
    loud = [one for one in found.facts if one.rank < Rank.HARMLESS]
    new = [tag for one in found.facts if one.kind == "snapshot" for tag in one.tags]
    has_wave = any(one.kind == StatementKind.REBUILD_WAVE for one in loud)
    return [
        one
        for one in loud or found.facts
        # What a new snapshot lacks is counted behind its name, and what was rebuilt is gone.
        if not (one.kind != "snapshot" and one.worst is LossClass.GONE and one.tags and set(one.tags) <= set(new))
        and not (one.kind == StatementKind.PACKAGE_REMOVED and one.tags and set(one.tags) <= set(new))
        and not (one.kind == StatementKind.TURNOVER and (has_wave or (new and len(loud) > len(new) + 1)))
    ]


def _nothing(digest: Digest, words: Words) -> str:
    if any(span.is_unknown for span in digest.spans):
        return words.text("other", "unknown")
    unread = [safe(package) for span in digest.spans for package in span.unread]
    if unread:
        many = words.say("other", "unread_many", n=len(unread))
        return words.say("other", "unread", name=unread[0][:_LONGEST_NAME]) if len(unread) == 1 else many
    own = digest.assessment.environment
    if digest.assessment.still_open and digest.assessment.level is not Level.ALARM:
        first = digest.assessment.still_open[0]
        return words.say("other", "open", what=words.say("todo.verbs", first.verb, tag=safe(first.tag)))
    if own is not None:
        return words.forms(
            "environment",
            "as_before",
            binaries=number(len(own.change.after.needs), "binary", "binaries"),
            there=f"{own.change.after.met:,}",
        )[0]
    return words.text("other", "none")


def fitted(title: str, subscription: str) -> str:
    """Return `title` in ASCII, cut to what a subject line holds."""
    title, room = _ascii(safe(title)), _room(subscription)
    return title if len(title) <= room else f"{title[: room - 3].rstrip()}..."


def _room(subscription: str, *, is_urgent: bool = False) -> int:
    return max(_NARROWEST, WIDEST - len(f"[{'URGENT ' if is_urgent else ''}{subscription}] "))


def sentence(digest: Digest, words: Words) -> str:
    """Return what stands above everything where there is a heading: two facts at most."""
    found = clauses_of(digest, told_in_subject(digest.assessment), words)[:2]
    return capitalized("; ".join(one.forms[0] for one in found) or _nothing(digest, words))


# Names keep their small letters.
_WORDS = frozenset(
    {
        "all",
        "against",
        "everything",
        "missing",
        "moving",
        "nearly",
        "new",
        "no",
        "of",
        "older",
        "only",
        "package",
        "pinned",
        "publishing",
        "stack",
        "suspicious:",
        "tag",
        "the",
        "what",
        "your",
    }
)


def capitalized(text: str) -> str:
    """Return a sentence with a capital letter, unless it begins with a name."""
    first, _, rest = text.partition(" ")
    return f"{first.capitalize() if first in _WORDS else first}{' ' if rest else ''}{rest}"


def subtitle(digest: Digest) -> str:
    """Say of which tags and days the digest is."""
    where = scope(digest.tags) if digest.tags else ""
    bases = {tag.report.before.tag if tag.report.before.tag != tag.report.after.tag else None for tag in digest.tags}
    base = f"compared with {safe(bases.pop() or '')[:_LONGEST_NAME]}" if len(bases) == 1 and None not in bases else ""
    return ", ".join(filter(None, (where, base, _days(digest))))


def scope(tags: Iterable[TagDigest]) -> str:
    """Name the tags, or count them."""
    found = sorted({safe(tag.report.after.tag or tag.report.before.tag or tag.report.after.name) for tag in tags})
    return found[0][:_LONGEST_NAME] if len(found) == 1 else f"{len(found):,} tags"


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


def day_of(text: str) -> str:
    """Return a day as people write it, without the year: 27 November; what is no day as it is."""
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return safe(text)
    return f"{day.day} {day:%B}"


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
