"""Build the subject of a digest from clauses, the most serious first; each names what fits, and counts the rest."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, product, zip_longest

from msgspec.structs import replace

from cachewatch.core.advice.urgency_and_levels import assess
from cachewatch.core.advice.verbs_and_reasons import Assessment, Because, ComparedTag, Fact, Level, Rank, Verb
from cachewatch.core.escaping_and_mentions import safe, safe_name, shortened
from cachewatch.core.kinds_and_specs import Kind, LossClass, Place
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import (
    Counts,
    Line,
    OwnedLoss,
    Statement,
    StatementKind,
    Turnover,
    lacking,
    lost_packages,
    packages_of,
    removed_packages,
)
from cachewatch.core.statements import BY_VERSION
from cachewatch.core.versions_spellings_targets import USUAL_TARGET, falls, runs, sorted_versions, version_key
from cachewatch.report import words as phrases
from cachewatch.report.digest_and_message_values import Digest
from cachewatch.report.environment_words import headlines_of
from cachewatch.report.rebuild_cause_words import reasons
from cachewatch.report.words import (
    MOST_NAMES,
    NEARLY_ALL,
    and_more,
    number,
    old_values,
    places_named,
    stack_name,
    stacks_named,
)
from cachewatch.report.words_file import Words, fill, words

# Of a subject line, with the prefix that the mail adds.
WIDEST = 78
_LONGEST_PREFIX = 40
_LONGEST_NAME = 48
_MOST_ITEMS = 4
_TAGS = (StatementKind.TAG_REMOVED, StatementKind.TAG_ADDED)
_OF_BUILDS = (StatementKind.SURPLUS, StatementKind.EXTRA_COPY, StatementKind.PRUNE, StatementKind.PRUNED)


class Clause:
    """Facts of one kind and class, and the words that describe them."""

    def __init__(self, facts: Sequence[Fact], words: Words, digest: Digest | None = None) -> None:
        """Describe `facts` of `digest`; there may be several facts only if the clause lists packages."""
        self.facts = facts
        self.first = facts[0]
        self.kind = self.first.kind
        self._words = words
        self._digest = digest
        self.path = ".".join(filter(None, (self.kind, self._class)))

    @property
    def _class(self) -> str:
        """The end of the clause's entry in words.toml, such as `gone` of `stack-removed.gone`; "" if it has none."""
        one = self.first.statement
        if one is None:
            return self.first.worst or ""
        if one.kind is StatementKind.SUSPICIOUS:
            own = "" if self.first.rank is Rank.SUSPICION else "confirmed"
            return own if one.packages else "elsewhere"
        if one.kind is StatementKind.PLACE_GAINED:
            return "one" if len(self._places) == 1 else ""
        if one.turnover:
            if self.first.tags and self.first.tags[0].base:
                return "snapshot"
            is_copied = any(task.is_copy for task in self._digest.assessment.actions) if self._digest else False
            return "unbuilt" if is_copied and one.turnover.gone == one.turnover.before else ""
        worst = self.first.worst
        older = (each for lost in one.losses if lost.loss for each in lost.loss.older)
        if worst is LossClass.KEPT and any(each.loss_class is not worst for each in older):
            worst = LossClass.EQUAL
        return {
            StatementKind.STACK_MERGED: phrases.entry_of(one).partition(".")[2],
            StatementKind.RETURNED: "named" if one.name else "",
            StatementKind.REBUILD_WAVE: "beside" if one.counts.beside > 0 else "",
            StatementKind.UNREFERENCED: "new" if one.counts.never_built == one.counts.without_stack > 0 else "",
            StatementKind.STACK_REMOVED: worst if worst and self._losses_of(worst) else "",
        }.get(one.kind, worst or "")

    def _losses_of(self, wanted: LossClass) -> list[str]:
        """Return the packages of the statement whose worst loss has the class `wanted`, but for removed packages."""
        removed = removed_packages(one for tag in self.first.tags for one in tag.statements)
        return [name for name in packages_of(self.statement.losses, wanted) if name not in removed]

    @property
    def all_back(self) -> str:
        """The number of packages that are back, as all clauses of the digest on such packages say."""
        facts = self._digest.assessment.facts if self._digest else self.facts
        returned = (one for one in facts if one.kind == StatementKind.RETURNED)
        return number(len({name for one in returned for name in one.packages}), "package")

    @property
    def _places(self) -> set[Place]:
        """The places that the statements name."""
        return {place for one in self.facts if one.statement for place in one.statement.places}

    @property
    def statement(self) -> Statement:
        """The statement of the first fact."""
        assert self.first.statement is not None
        return self.first.statement

    @property
    def is_list(self) -> bool:
        """Whether the clause names packages one by one."""
        return bool(self._words.text(self.path, "item"))

    @property
    def packages(self) -> set[str]:
        """The packages of all facts."""
        return {package for one in self.facts for package in one.packages}

    @cached_property
    def items(self) -> list[str]:
        """The packages in words, each with what happened to it if `item`, a text in words.toml, can hold that."""
        return self._items(says_staying=True)

    def _items(self, *, says_staying: bool, says_where: bool = False, most: int = 2) -> list[str]:
        """Return the packages in words, with old versions that stay, or stacks, if asked for; `most` limits names."""
        item = self._words.text(self.path, "item")
        items = []
        for fact in self.facts:
            statement = fact.statement
            if statement is None:
                continue
            for package in fact.packages:
                own = [line for line in statement.lines if line.package == package]
                noun = "new build" if self.path == "unreferenced.new" else "build"
                builds = number(own[0].here.without_stack or own[0].counts.specs, noun) if own else ""
                values = {"package": safe(package)[:_LONGEST_NAME], "of_stacks": "", "builds": builds, "instead": ""}
                sides = (line.story.before if self.path == "retired" else line.story.after for line in own)
                versions = set[str]().union(*sides)
                values["versions"] = phrases.names(sorted_versions(versions)) or phrases.NO_VERSION
                if not any(Kind.VERSION_REMOVED in line.kinds for line in own):
                    stacks = {place.stack for line in own for place in line.story.places}
                    values["of_stacks"] = f" of {stacks_named(stacks)}" if stacks else ""
                gone = [
                    f"{phrases.fact(line)} {phrases.where(line)}" if line.story.remaining else phrases.fact(line)
                    for line in own
                    if line.story.kind is StatementKind.NARROWED and line.story.after and says_staying
                ]
                values["gone"] = f"({phrases.first_of(gone, most, '; {:,} more', by='; ')})" if gone else ""
                for line in [*own, *statement.lines][:1]:
                    story = line.story
                    values["after"] = safe(", ".join((statement.after or story.versions)[-1:]))
                    there = phrases.names(story.remaining)
                    if story.kind is StatementKind.EXTENDED and there and says_staying:
                        values["instead"] = self._words.say(story.kind, "instead", there=there)
                    if story.kind in BY_VERSION:
                        where = self._part(line, most)
                        if says_where and story.behind:
                            where = f" {phrases.where(line).partition(';')[0]}"
                        stays = phrases.staying(line, says_removed=True) if says_staying else ""
                        is_fall = any(falls(*pair) for pair in story.pairs)
                        older = self._words.text(self.path, "mistake" if is_fall else "older")
                        values["older"] = f"{stays[1:-1]}; {older}" if stays else older
                        values["change"] = f"{phrases.replacement(line)}{where} {'' if older else stays}"
                if says_where and own and own[0].story.kind in (StatementKind.RECONFIGURED, StatementKind.WIDENED):
                    values["package"] += f" ({phrases.fact(own[0])} {phrases.where(own[0])})"
                items.append(" ".join(fill(item, 2, values).split()))
        return list(dict.fromkeys(items))

    def _part(self, line: Line, most: int) -> str:
        """Return the stacks or targets to which a change is limited, ` for e4s`, at most `most`; "" if it is not."""
        story = line.story
        stacks = sorted({place.stack for place in story.places})
        targets = sorted({place.target for place in story.places if place.target})
        if story.is_in_some and len(stacks) > most:
            return self._words.say("other", "of_stacks", len(stacks), of=f"{story.of_stacks:,}")
        if story.is_in_some:
            return self._words.say("todo", "for_machine", machine=" and ".join(map(stack_name, stacks)))
        # A target is named if no usual machine has it, and all stacks that have the package for it changed.
        if story.targets or not 0 < len(targets) <= 2 or any(runs(USUAL_TARGET, one) for one in targets):
            return ""
        return self._words.say("todo", "for_machine", machine=safe(", ".join(targets)))

    @property
    def forms(self) -> list[str]:
        """All wordings of the clause for a subject, the longest first."""
        if self.is_list:
            return self._listed([self.items, *(self._items(says_staying=False, most=most) for most in (2, 0))])
        if self.kind == "environment":
            assert self._digest is not None
            return list(headlines_of(self._digest.assessment, self._words))
        if self.kind == "snapshot":
            return self._of_snapshot()
        return self._words.forms(self.path, "subject", self._n, **self._values)

    def _listed(self, variants: Sequence[Sequence[str]]) -> list[str]:
        """Return wordings that name ever fewer packages and count the others; `variants` are longer and shorter item lists."""
        n = len(self.items)
        wordings = []
        for outside, count in product((self._outside(), ""), range(min(n, _MOST_ITEMS), 0, -1)):
            more = self.more(n - count) if n > count else ""
            for items in variants:
                where = self.where(items[:count]) + outside
                said = self._words.forms(self.path, "subject", self._n, items=", ".join(items[:count]), where=where)
                wordings += ["; ".join(filter(None, (one, more))) for one in said]
        return list(dict.fromkeys((*wordings, self.counted)))

    @property
    def counted(self) -> str:
        """The wording that only counts the packages of a list: `2 upgrades`."""
        n = len(self.items)
        return self._words.say(self.path, "counted", n, where=self.where(), packages=number(n, "package"))

    def more(self, count: int) -> str:
        """Return words for `count` more packages, to put behind the names of others."""
        return self._words.say(self.path, "more", count)

    def _of_snapshot(self) -> list[str]:
        """Return wordings that name a new snapshot and say what it lacks."""
        (tag,) = self.first.tags
        is_best = self._digest is not None and any(pin.best == tag.tag for pin in self._digest.pinned)
        wordings = self._words.forms("snapshot", "best" if is_best else "subject", tag=safe(tag.tag))
        n = len(lost_packages(tag.statements))
        if not n:
            return wordings
        machines = dict.fromkeys(lacking_only_for(tag.statements, self._words, is_short=one) for one in (False, True))
        if removed_packages(tag.statements):
            machines[""] = None
        # Where another snapshot lacks nothing, readers are asked to move there.
        digest = self._digest
        is_moving = digest and digest.is_pinned_to(tag.base) and not any(pin.best for pin in digest.pinned)
        counted = [f"{number(n, 'package')}{one}" for one in machines]
        own, lacks = (
            [form for one in counted for form in self._words.forms("snapshot", key, n, packages=one, tag=safe(tag.tag))]
            for key in (("moving", "moving") if is_moving else ("it_lacks", "lacks"))
        )
        return [*(f"{wordings[0]}: {one}" for one in own), *lacks]

    @property
    def said(self) -> str:
        """The clause as a sentence for the body of a digest."""
        words = self._words
        if not self.is_list:
            values, key, pin = self._values, "said", self.first.pin
            if "announced" in values:
                key = "announced"
            elif self.kind == StatementKind.REBUILT and self._digest is not None and not self.statement.causes:
                key = "unexplained"  # only in a digest: the lists of events count binaries without reasons
            elif self.kind == StatementKind.TAG_REMOVED and is_snapshot(self.statement.name):
                key = "withdrawn" if self.statement.after else "old"
            elif pin and pin.newest and version_key(pin.newest) < version_key(pin.tag):
                key = "withdrawn"
            return capitalized(words.say(self.path, key, self._n, **values))
        n = len(self.items)
        more = words.say("other", "more", n - _MOST_ITEMS) if n > _MOST_ITEMS else ""
        listed = ", ".join(filter(None, (*self.items[:_MOST_ITEMS], more)))
        return capitalized(words.say(self.path, "said", self._n, items=listed, where=self.where() + self._outside()))

    @property
    def line(self) -> str:
        """The clause as an entry in a list of events."""
        if not self.is_list:
            return self.said.rstrip(".")
        now = {phrases.moved_to(lost, self.packages) for lost in self._losses()}
        if self.path == "place-lost.kept":
            now = {f" in {stacks_named(lost.loss.stacks)}" for lost in self._losses() if lost.loss}
        return self._listed([self._items(says_staying=True, says_where=True)])[0] + (now.pop() if len(now) == 1 else "")

    def _losses(self, items: Sequence[str] = ()) -> list[OwnedLoss]:
        return [
            lost
            for one in self.facts
            for lost in (one.statement.losses if one.statement else ())
            if self.first.worst in (None, lost.loss and lost.loss.loss_class)
            and (not items or safe(lost.package)[:_LONGEST_NAME] in items)
        ]

    def _outside(self) -> str:
        """Return, in words, which builds of gone packages are left but unselected; "" if none, or if places differ."""
        there = {lost.outside for lost in self._losses()} if self.first.worst is LossClass.GONE else set()
        said = phrases.there_outside(there.pop(), self._words) if len(there) == 1 else ""
        return f", {said}" if said else ""

    def where(self, items: Sequence[str] = ()) -> str:
        """Return, in words, the stacks or machines that lost the packages `items` or, if that is empty, any package."""
        if self.kind == StatementKind.PLACE_GAINED:
            return places_named(self._places)
        losses = self._losses(items)
        systems = sorted({lost.machine.os for lost in losses if lost.machine})
        if systems and self.kind == StatementKind.MACHINE_LOST:
            # Another stack may have its packages for this system on another target.
            others = {lost.place.target for lost in losses}
            machine = [*systems, *(others if len(systems) == len(others) == 1 else ())]
            said = ", ".join(map(safe, machine)) if len(systems) <= 2 else number(len(systems), "system")
            stacks = {lost.place.stack for lost in losses} if self.first.worst is not LossClass.GONE else ()
            return f"{said} in {stacks_named(stacks)}" if stacks else said
        stacks = {place.stack for place in [lost.place for lost in losses] or self._places}
        named = stack_name(*stacks)[:_LONGEST_NAME] if len(stacks) == 1 else number(len(stacks), "stack")
        # Where a stack has a package for other targets, it is not without it.
        places: dict[str, set[tuple[str, str]]] = {}
        for lost in losses:
            target = lost.place.target if lost.is_elsewhere else ""
            places.setdefault(lost.package, set()).add((lost.place.stack, target))
        targets = sorted({target for own in places.values() for _, target in own})
        if len({*map(frozenset, places.values())}) > 1 or (any(targets) and not all(targets)):
            if any(targets):
                key = "some_machines_of" if len(stacks) == 1 else "some_machines"
                return self._words.say("other", key, where=named)
            counts = {len(own) for own in places.values()}
            return self._words.say("other", "stacks_each" if len(counts) == 1 else "some_stacks", counts.pop())
        on = safe(", ".join(targets)) if len(targets) <= 2 else number(len(targets), "target")
        return f"{named} on {on}" if any(targets) else named

    @property
    def _values(self) -> dict[str, object]:
        """The values for the placeholders of a sentence about one statement or pinned snapshot."""
        pin = self.first.pin
        if pin is not None:
            newest = safe(pin.newest)
            return {
                "tag": safe(pin.tag)[:_LONGEST_NAME],
                "newest": newest and f"; the newest is {newest}",
                "left": newest,
            }
        one = self.first.statement
        if one is None:
            return {}
        words, tags, packages = self._words, self.first.tags, self.first.packages
        stacks = {place.stack for place in one.places} or set(one.stacks)
        why = reasons(one, words)
        is_of_environment = self._digest is not None and self._digest.environment is not None
        colon = ":" if self.kind == StatementKind.REBUILT and why[:1].isdigit() else ""
        old = phrases.unbuilt(one, words)
        versions = phrases.retired(one.lines, words) if one.kind is StatementKind.PRUNE else ""
        counted = {"lost": LossClass.GONE, "going": LossClass.GOING, "other": LossClass.OTHER}
        is_tag = one.kind in _TAGS
        counted_packages = number(max(len(packages), one.of_packages) if is_tag else len(packages), "package")
        if is_tag and self._digest is not None and any(tag.report.is_part for tag in self._digest.tags):
            counted_packages += words.text("fates", "selected")
        return {
            "name": safe(one.name)[:_LONGEST_NAME],
            "packages": counted_packages,
            "names": and_more(packages, words),
            "few": and_more(packages, words, 2),
            "change": phrases.change_of_values(one),
            "tag": " and ".join(safe(tag.tag)[:_LONGEST_NAME] for tag in tags),
            "day": day_of(tags[0].day) if tags else "",
            "where": f"in {stacks_named(stacks)}" if 0 < len(stacks) <= MOST_NAMES else words.text("other", "in_all"),
            "builds": number(one.counts.vanished or one.counts.kept or one.counts.new, "binary", "binaries"),
            "in_stacks": self._in_stacks(one),
            "fates": phrases.fates(one, words, is_of_environment=is_of_environment) + (f"; {old}" if old else ""),
            "older": words.say("prune", "older", versions=versions) if versions else "",
            "own": "" if one.of is None else f"{len(packages):,}",
            "still": self._still(one),
            "others": f"; {others}" if (others := phrases.other_values(one, words, ("binary", "binaries"))) else "",
            "also": self._also(one),
            "back": words.say(self.path, "back", old=old_values(one)) if self.first.rank > Rank.VALUES else "",
            "yours": words.text("other", "yours") if is_of_environment else "",
            "in_cache": words.text("other", "in_cache") if is_of_environment else "",
            "why": f"{colon} {why}" if why else "",
            "because": f" {why}" if why else words.text("other", "not_recorded"),
            **{key: number(len(self._losses_of(each)), "package") for key, each in counted.items()},
            **self._values_of_kind(one),
        }

    def _values_of_kind(self, one: Statement) -> dict[str, object]:
        """Return the values for placeholders that only sentences about statements of this kind have."""
        if one.turnover:
            return self._turnover(one.turnover)
        if one.kind is StatementKind.RETURNED:
            return self._returned(one)
        if one.kind is StatementKind.STACK_MERGED:
            return {"old": ", ".join(map(stack_name, one.before)), "new": ", ".join(map(stack_name, one.after))}
        if one.kind is StatementKind.REBUILD_WAVE:
            percent = f"{len(one.packages) / max(1, one.of_packages):.0%}"
            said = self._words.say("other", self._much(one), len(one.packages), percent=percent)
            return {"much": said, "old": number(one.counts.beside, "old build")}
        if one.kind is StatementKind.PRUNE and self._digest and self.first.tags:
            tag = self.first.tags[0]
            wave = self._digest.remembered.wave(tag.source, tag.tag)
            if wave and wave.count <= one.counts.vanished:  # as many were removed as were announced
                rest = one.counts.vanished - wave.count
                more = f", and {number(rest, 'binary', 'binaries')} more" if rest else ""
                return {"announced": day_of(wave.day), "old": number(wave.count, "old build"), "more": more}
        return {"since": day_of(one.before[-1])} if self.kind == "missing" else {}

    @property
    def _n(self) -> int:
        """The number that decides between singular and plural in a sentence."""
        one = self.first.statement
        if self.is_list:
            has_several = one is not None and one.kind is StatementKind.UNREFERENCED and one.counts.without_stack > 1
            return 2 if has_several else len(self.items)
        if one is None:
            return 2
        if one.kind in _OF_BUILDS:
            return max(one.counts.vanished, one.counts.new)
        is_all = one.kind is StatementKind.REBUILD_WAVE and self._much(one) in ("everything", "nearly")
        return 1 if is_all else len(self.first.packages)

    def _much(self, wave: Statement) -> str:
        """Return the key of words for the share of packages that `wave` rebuilt; `counted` if it cannot be known."""
        share = len(wave.packages) / max(1, wave.of_packages)
        if share == 1:
            return "everything"
        return "counted" if wave.of is not None else "nearly" if share >= NEARLY_ALL else "part"

    def _also(self, one: Statement) -> str:
        """Return a text on packages that got the new values of `one` with another version; "" if there are none."""
        names = {
            line.package
            for tag in self.first.tags
            for each in tag.statements
            for line in each.lines
            if each.kind in BY_VERSION and set(one.after) & set(line.values)
        }
        named = and_more(sorted(map(safe_name, names)), self._words)
        return self._words.say(self.path, "also", len(names), names=named) if names else ""

    def _in_stacks(self, one: Statement) -> str:
        """Return the stacks where values changed: ` in e4s`; "" if all stacks with the old values have got new ones."""
        is_named = one.kind is StatementKind.NO_LONGER or not one.is_everywhere
        return f" in {stacks_named(one.stacks)}" if is_named and one.stacks else ""

    def _still(self, one: Statement) -> str:
        if not one.exceptions:
            return ""
        word = "still with" if one.kind is StatementKind.NO_LONGER else "still on"
        where = f" in {stacks_named(one.stacks)}" if len(one.stacks) == 1 and not self._in_stacks(one) else ""
        return f"; {and_more(one.exceptions, self._words)} {word} {old_values(one)}{where}"

    def _turnover(self, turnover: Turnover) -> dict[str, object]:
        words, tags, before = self._words, self.first.tags, max(1, turnover.before)
        shares = {name: getattr(turnover, name) / before for name in ("rebuilt", "pruned", "others")}
        parts = {name: round(100 * share) for name, share in shares.items() if share >= 0.005}
        # Rounded parts add up to the rounded whole: the one that was rounded most to the other side is corrected.
        off = round(100 * turnover.gone / before) - sum(parts.values())
        parts[max(parts, key=lambda name: off * (100 * shares[name] - parts[name]))] += off
        fates = ", ".join(words.say("turnover", name, percent=f"{part}%") for name, part in parts.items())
        # The share is of what the verb says: "all were rebuilt" is said only if no other binary is gone.
        gone = getattr(turnover, next(iter(parts))) if len(parts) == 1 else turnover.gone
        share, percent = gone / before, f"{gone / before:.0%}"
        much = "all" if gone == before else "most" if share >= NEARLY_ALL else "some"
        is_explained = any(each.causes for tag in tags for each in tag.statements)
        is_unexplained = 2 * turnover.rebuilt > turnover.gone and not is_explained
        reason = words.text("turnover", "unknown") if is_unexplained else ""
        told = "; ".join(filter(None, (fates if len(parts) > 1 else "", reason)))
        return {
            "binaries": words.text("turnover", "selected" if turnover.is_part else "binaries"),
            "share": {"all": "all", "most": "nearly all", "some": percent}[much],
            "hashes": words.say("turnover", much, percent=percent),
            "became": words.text("turnover", f"{next(iter(parts))}_alone" if len(parts) == 1 else "several"),
            "fates": f" ({told})" if told else "",
            "of": f"of {day_of(tags[0].since)} " if tags and tags[0].since else "",
        }

    def _returned(self, one: Statement) -> dict[str, object]:
        words, n, of = self._words, len(one.packages), max(one.of_packages, len(one.packages))
        last, missing = (*map(day_of, one.before), "", "")[:2]
        is_tag = any(one.name == tag.tag for tag in self.first.tags)
        is_place = " (" in one.name
        stack = "stack" if n >= NEARLY_ALL * of else "stack_part"
        form = "package" if one.packages == (one.name,) else "tag" if is_tag else "place" if is_place else stack
        is_in_stack = form in ("place", stack) and bool(one.name)
        there = words.text("returned", "there") if is_in_stack and form != "stack" else ""
        kept = set(one.packages).difference(one.exceptions)
        how = "unchanged" if not one.exceptions else "but" if kept else "changed"
        lines = (line for tag in self.first.tags for each in tag.statements for line in each.lines)
        own_lines = (line for line in lines if line.package == one.name and line.story.kind in BY_VERSION)
        change = ", ".join(dict.fromkeys(map(phrases.replacement, own_lines)))
        how = "replaced" if change and how == "changed" and form == "package" else how
        own = {"name": safe(one.name)[:_LONGEST_NAME], "names": and_more(one.packages, words), "of": f"{of:,}"}
        return {
            "of": f"{of:,}",
            "all": self.all_back,
            "back": words.say("returned", form if one.name else "several", n, **own),
            "which": words.say("returned", "which", names=own["names"]) if form == "stack_part" and one.name else "",
            "there": there,
            "in_stack": words.say("returned", "in_stack", name=own["name"]) if is_in_stack else "",
            "missing": missing,
            "unchanged": words.say(
                "returned",
                how,
                1 if is_in_stack and form == "stack" else n,
                last=last,
                change=change,
                exceptions=and_more(one.exceptions, words),
            ),
            "still": (words.say("returned", "still", of - n, there=there) if n < of else "")
            + (
                words.say("returned", "still_in", stacks=stacks_named({p.stack for p in one.places}))
                if one.places
                else ""
            ),
            "failed": words.text("returned", "failed") if self._digest and self._digest.assessment.is_wait_over else "",
        }


def lacking_only_for(statements: Iterable[Statement], words: Words, *, is_short: bool = False) -> str:
    """Return the machines for which a new snapshot lacks packages that it has for others: ` for x86_64_v3`.

    If it lacks other packages for all machines, the number of packages is given: ` (11 only for x86_64_v3)`. If
    `is_short`, no machine is named.
    """
    statements = list(statements)
    whole = removed_packages(statements)
    losses = [lost for one in statements for lost in one.losses]
    return phrases.only_for(losses, {*lacking(statements)} - whole, words, is_part=bool(whole), is_short=is_short)


def clauses_of(digest: Digest | None, facts: Iterable[Fact], words: Words, *, by_tags: bool = False) -> list[Clause]:
    """Return clauses on `facts`; `digest` is the one they are from, or None outside of digests.

    A clause that lists packages has all facts of its kind or, if `by_tags`, of its kind and tags.
    """
    groups: dict[object, list[Fact]] = {}
    for number_, fact in enumerate(each for one in facts for each in _by_past(one)):
        own = Clause([fact], words, digest)
        key = (fact.rank, own.path, by_tags and fact.tags) if own.is_list else number_
        groups.setdefault(key, []).append(fact)
    return [Clause(group, words, digest) for group in groups.values()]


def _by_past(fact: Fact) -> Iterator[Fact]:
    """Yield two facts, on old and on new builds, for a fact on builds without a stack; yield other facts unchanged."""
    one = fact.statement
    if one is None or one.kind is not StatementKind.UNREFERENCED:
        yield fact
        return
    old, new = list[Line](), list[Line]()
    for line in one.lines:
        here, n = line.here, line.here.never_built
        if here.without_stack > n or not n:
            old.append(replace(line, here=replace(here, new=here.new - n, unbuilt_new=here.unbuilt_new - n)))
        if n:
            new.append(replace(line, here=Counts(new=n, unbuilt_new=n)))
    for lines in filter(None, (old, new)):
        own = {line.package: line.here for line in lines}
        packages = tuple(name for name in one.packages if name in own)
        counts = sum(own.values(), Counts())
        yield replace(fact, statement=replace(one, lines=tuple(lines), packages=packages, counts=counts))


def clauses_of_statements(
    statements: Iterable[Statement], tag: str, day: str, without: Collection[str] = ()
) -> list[Clause]:
    """Return clauses on `statements` about `tag` on `day`, except those whose ids are in `without`."""
    told = tuple(one for one in statements if one.id not in without)
    facts = assess([ComparedTag(source="", tag=tag, day=day, statements=told)]).facts
    return clauses_of(None, facts, words())


def title(digest: Digest, words: Words) -> str:
    """Return the mail subject in ASCII: the first clauses that fit, then the package count of the longest other one."""
    facts = facts_of_subject(digest.assessment)
    prefix = subject_prefix(digest.subscription, is_urgent=digest.is_urgent)
    room = WIDEST - len(prefix)
    clauses = clauses_of(digest, facts, words)
    text = _pruned(digest, words)
    if text:  # then upgrades, for which nothing is to be done, are not next
        clauses.sort(key=lambda one: one.kind != StatementKind.TURNOVER)
    if not clauses:
        return as_subject(text or _nothing(digest, words), prefix)
    if clauses[0].kind == "snapshot" and clauses[0].first.worst is None:
        # That a snapshot is out is no reason to leave out what a branch lost.
        lost = next((one for one in clauses if one.first.rank is Rank.MISSED and not one.first.tags[0].base), None)
        if lost and len("; ".join(min(one.forms, key=len) for one in (clauses[0], lost))) > room:
            clauses = [lost, *(one for one in clauses if one is not lost)]
    rest = list(clauses)
    most = 3 if clauses[0].kind == "snapshot" else 2
    for clause, following in zip_longest(clauses[:most], clauses[1:most]):
        if text and _is_named(clause, text, digest):
            rest.remove(clause)
            continue
        is_of_snapshot = clause in clauses[1:2] and clauses[0].kind == "snapshot" and ":" not in text
        is_of_snapshot = is_of_snapshot and all(one.tags == clauses[0].first.tags for one in clause.facts)
        between = "" if not text else ": " if is_of_snapshot else "; "
        of_snapshot = _of_snapshot(clause, digest, words)
        left = room - len(text) - len(between) - len(of_snapshot)
        fitting = _fitting(clause, following, left, is_first=not text)
        if not fitting:
            break
        text += between + fitting + of_snapshot
        rest.remove(clause)
    if not text:
        return as_subject(clauses[0].forms[-1], prefix)
    # A package that is back in another version is not counted as an upgrade, too.
    back = {package for one in facts if one.kind == StatementKind.RETURNED for package in one.packages}
    rest = [one for one in rest if one.kind != StatementKind.UPGRADED or not back >= one.packages]
    rest = [one for one in rest if not _is_named(one, text, digest)]
    # A loss is always counted.
    missed = [one for one in rest if one.first.rank in (Rank.GONE, Rank.MISSED) and one.is_list]
    if rest and len(rest) < len(clauses):
        commonest = max(missed or rest, key=lambda one: len(one.items) if one.is_list else 0)
        losses = [words.say("other", "more_losses", len({*chain(*(one.items for one in missed))}))] if missed else []
        counted = [f"; {said}" for said in ([commonest.counted] if commonest.is_list else []) + losses]
        text += next((said for said in counted if len(text) + len(said) <= room), "")
    return text.encode("ascii", "replace").decode()


def _of_snapshot(clause: Clause, digest: Digest, words: Words) -> str:
    """Return ` in TAG` if `clause` is about a snapshot alone, and `digest` about other tags, too; else ""."""
    tags = {tag.tag for tag in clause.first.tags if not tag.base}
    others = {tag.report.tag for tag in digest.tags if any(one.kind not in _TAGS for one in tag.statements)} - tags
    is_named = len(tags) == 1 and others and is_snapshot(min(tags)) and clause.kind not in ("snapshot", *_TAGS)
    return words.say("todo", "in_tag", tag=safe_name(min(tags))) if is_named else ""


def _is_named(clause: Clause, text: str, digest: Digest) -> bool:
    """Tell whether `text` counts what is back with `clause`, or has all its items (of an environment, packages)."""
    if clause.kind == StatementKind.RETURNED:
        return text.endswith(f"{clause.all_back} back")
    if not clause.is_list or digest.environment is None:
        return clause.is_list and all(item in text for item in clause.items)
    return clause.packages.issubset(re.findall(r"[^\s,;:]+", text))


def _fitting(clause: Clause, following: Clause | None, room: int, *, is_first: bool) -> str:
    """Return the longest wording of `clause` that fits in `room` characters together with the clause `following`.

    If no wording fits together with it, return the longest one that fits alone; "" if there is none, either.

    The first clause (`is_first`), if it is about a new snapshot, keeps the beginning of its longest wording.
    """
    fitting = [form for form in clause.forms if len(form) <= room]
    if is_first and clause.kind == "snapshot":
        leading = clause.forms[0].partition(":")[0]
        # What another tag lost is more urgent than that the snapshot is out.
        shorter = fitting if following and following.first.rank is Rank.MISSED else []
        fitting = [form for form in fitting if form.startswith(leading)]
    else:
        # "1 package" would be read as another one than that of the clause behind it.
        shorter = fitting[: 1 if clause.is_list and len(clause.items) == 1 else 2]
    least = len("; ") + min(map(len, following.forms)) if following else 0
    return next((form for form in shorter or fitting[:2] if len(form) + least <= room), next(iter(fitting), ""))


def _pruned(digest: Digest, words: Words) -> str:
    """Return words about pruned builds that readers were asked to copy; "" if there are none."""
    action = next((one for one in digest.assessment.due if one.because is Because.PRUNED), None)
    if action is None:
        return ""
    machine = words.say("todo", "for_machine", machine=safe_name(action.machine)) if action.machine else ""
    said = words.say("todo", "pruned_subject", versions=and_more(action.versions, words), for_machines=machine)
    return safe(said)[:_LONGEST_NAME]


def facts_of_subject(assessment: Assessment) -> list[Fact]:
    """Return the facts for a subject; harmless and routine facts only if there are no others, but removed stacks."""
    loud = [one for one in assessment.facts if one.rank < Rank.HARMLESS]
    if assessment.environment is None:
        stacks = [one for one in assessment.facts if one.kind == StatementKind.STACK_REMOVED and one not in loud]
        loud = sorted([*loud, *stacks], key=lambda one: Rank.DOWNGRADED if one in stacks else one.rank)
    new = [tag for one in assessment.facts if one.kind == "snapshot" for tag in one.tags]
    has_wave = any(one.kind == StatementKind.REBUILD_WAVE for one in loud)
    return [
        one
        for one in loud or assessment.facts
        # The packages that a new snapshot lacks are counted after its name, and rebuilt hashes count as gone.
        if not (new and one.kind == "snapshot-named")
        and not (one.kind != "snapshot" and one.worst is LossClass.GONE and one.tags and set(one.tags) <= set(new))
        and not (one.kind == StatementKind.PACKAGE_REMOVED and one.tags and set(one.tags) <= set(new))
        and not (one.kind == StatementKind.TURNOVER and (has_wave or (new and len(loud) > len(new) + 1)))
    ]


def _nothing(digest: Digest, words: Words) -> str:
    if any(span.is_unknown for span in digest.spans):
        return words.text("other", "unknown")
    unread = [safe(package) for span in digest.spans for package in span.unread]
    if unread:
        key = "unread" if len(unread) == 1 else "unread_many"
        return words.say("other", key, len(unread), name=unread[0][:_LONGEST_NAME])
    assessment = digest.assessment
    has_others = any(not one.kind.is_of_tag for tag in digest.tags for one in tag.rest)
    nothing = words.text("other", "none_of_kinds" if has_others else "none")
    if assessment.lifted and assessment.level is not Level.ALARM:
        return words.say("other", "lifted", names=and_more(lifted_names(digest, words), words))
    if assessment.still_open and assessment.level is not Level.ALARM:
        first = assessment.still_open[0]
        table, key = ("todo", "again_subject") if is_rebuilt_again(digest) else ("other", "open")
        what = words.say("todo.verbs", Verb.COPY if first.is_copy else first.verb, tag=safe(first.tag))
        return words.say(table, key, nothing=nothing, what=what)
    if assessment.environment is not None:
        after = assessment.environment.change.after
        binaries = number(len(after.needs), "binary", "binaries")
        return words.forms("environment", "as_before", binaries=binaries, there=f"{after.met:,}")[0]
    return nothing


def lifted_names(digest: Digest, words: Words) -> list[str]:
    """Return packages that earlier digests asked to require and that need no requirement now, `hdf5 for e4s only`."""
    return [f"{safe_name(name)}{only_on(where, words)}" for name, where in digest.assessment.lifted]


def only_on(machine: str, words: Words) -> str:
    """Return `machine`, the machines or stacks that need a requirement, as ` for e4s only`; "" for ""."""
    return words.say("todo", "only_for", machine=safe_name(machine)) if machine else ""


def is_rebuilt_again(digest: Digest) -> bool:
    """Tell whether nearly all was rebuilt or migrated while readers are still asked to re-concretize a lock file."""
    found = digest.assessment
    is_asked = any(one.verb is Verb.RECONCRETIZE for one in found.due)
    is_open = any(one.verb is Verb.RECONCRETIZE for one in found.still_open)
    return (
        digest.environment is not None
        and is_open
        and not (found.is_waiting or is_asked)
        and any(
            ((one.kind is StatementKind.REBUILD_WAVE and not one.counts.beside) or one.kind is StatementKind.MIGRATION)
            and len(one.packages)
            >= NEARLY_ALL * (one.of_packages or len(digest.environment.after.environment.packages))
            for tag in digest.tags
            for one in (*tag.statements, *tag.rest)  # routine where nothing else of it is told
            if tag.report.before.tag == tag.report.after.tag
        )
    )


def as_subject(title: str, prefix: str) -> str:
    """Return `title` in ASCII, cut so that it fits a subject line after `prefix`."""
    return shortened(safe(title).encode("ascii", "replace").decode(), WIDEST - len(prefix))


def subject_prefix(subscription: str, *, is_urgent: bool = False, is_notice: bool = False) -> str:
    """Return the beginning of a mail's subject: `[URGENT ml] ` or, if `is_notice`, `[cachewatch] `."""
    if is_notice:
        return "[cachewatch] "
    name = subscription if len(subscription) <= _LONGEST_PREFIX else f"{subscription[: _LONGEST_PREFIX - 3]}..."
    return f"[{'URGENT ' if is_urgent else ''}{name}] "


def sentence(digest: Digest, words: Words) -> str:
    """Return the heading of a digest: the clauses on its first two facts."""
    found = clauses_of(digest, facts_of_subject(digest.assessment), words)[:2]
    return capitalized("; ".join(one.forms[0] for one in found) or _nothing(digest, words))


# All that a sentence begins with but names, which keep their small letters.
_WORDS = re.compile(
    r"(all|against|everything|missing|moving|nearly|new|no|of|older|only|package|pinned|publishing|stack|suspicious:|tag"
    r"|the|what|your)( |$)"
)


def capitalized(text: str) -> str:
    """Return the sentence `text`, with a capital letter unless its first word is a name."""
    return f"{text[0].upper()}{text[1:]}" if _WORDS.match(text) else text


def day_of(text: str) -> str:
    """Return an ISO date as day and month (and time, if given), `27 November`; any other text is only made safe."""
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return safe(text)
    return f"{day.day} {day:%B}" + (f", {day:%H:%M} UTC" if "T" in text else "")
