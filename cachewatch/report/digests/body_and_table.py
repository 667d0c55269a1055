"""Put the body of a digest into words: what happened, one table, and what is routine. `todo` says what to do."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.advice.actions import ENVIRONMENT, was_lost
from cachewatch.core.advice.urgency_and_levels import told_alike
from cachewatch.core.advice.verbs_and_reasons import AssessedLoss, Because, ComparedTag, Fact, Rank, Verb
from cachewatch.core.escaping_and_mentions import safe, safe_name
from cachewatch.core.kinds_and_specs import LossClass, grouped
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import (
    LOSSES,
    OF_REBUILDS,
    Counts,
    Line,
    Severity,
    Statement,
    StatementKind,
    lost_packages,
    packages_of,
    removed_packages,
)
from cachewatch.core.versions_spellings_targets import falls, sorted_versions
from cachewatch.report import words as phrases
from cachewatch.report.dates_and_totals import there_since
from cachewatch.report.digest_and_message_values import Digest, TagDigest, base_of, newest_day
from cachewatch.report.digests.subject import Clause, capitalized, clauses_of, is_rebuilt_again, lacking_only_for
from cachewatch.report.words import MOST_NAMES, and_more, number, only_for, stack_name, stacks_named
from cachewatch.report.words_file import Words

_MOST_SAID = 5
_MANY_ROWS = 10  # of the table: what it lists is then said above it, too
_FEW_MACHINES = 3
_FEW_STACKS = 3
_LONGEST_TAG = 48
# Statements of which a snapshot's sentence has the clauses; those of whole tags have sentences of their own.
_CLAUSES = (StatementKind.DOWNGRADED, StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED)
_NAME_TAGS = (StatementKind.TAG_REMOVED, StatementKind.TAG_ADDED, "snapshot", "suspicious.elsewhere")
# Routine, unless they are why binaries of an environment are missing.
_PRUNES = (StatementKind.PRUNE, StatementKind.PRUNED)
_CAUSES = (*OF_REBUILDS, *_PRUNES)
# Listed in the table, and said above it, too.
_LOUD = (StatementKind.UNREFERENCED,)
_IN_TABLE = (*_CLAUSES, StatementKind.PACKAGE_REMOVED, *LOSSES)


class Row(Struct, frozen=True, kw_only=True):
    """One row of the table: a package, what happened to the package, and where."""

    package: str
    change: str
    where: str = ""
    kind: StatementKind
    specs: int = 0
    tag: TagDigest


class Section(Struct, frozen=True, kw_only=True):
    """The rows of one kind of change, with a heading."""

    name: str  # gone, upgraded, place-gained
    heading: str
    remark: str
    is_bad: bool
    rows: tuple[Row, ...]


def happened(digest: Digest, words: Words, rows: int) -> list[str]:
    """Return sentences on the most important events; `rows` is the number of rows in the table below the sentences.

    If there are at most ten rows, most sentences that only list packages are left out, because the table has them.
    """
    loud = [one for one in digest.assessment.facts if one.rank < Rank.HARMLESS and one.kind != "environment"]
    open_losses = _open_losses(digest)
    loud += [*_prunes(digest, is_news=True), *_harmless_stacks(digest), *open_losses]
    news = {tag for one in loud if one.kind == "snapshot" for tag in one.tags}
    has_turnover = any(one.kind == StatementKind.TURNOVER for one in loud)
    sentences: list[str] = []
    in_table = set[str]()  # sentences on what the table lists, too
    last_of: dict[object, int] = {}  # the last sentence about the same tags
    for clause in clauses_of(digest, loud, words, by_tags=True):
        tags = clause.first.tags
        is_of_new = bool(tags) and news.issuperset(tags)
        is_left_out = clause.is_list and clause.kind not in _LOUD and (rows <= _MANY_ROWS or is_of_new)
        is_left_out &= clause.first not in open_losses
        if clause.kind == StatementKind.REBUILD_WAVE and has_turnover and not clause.statement.causes:
            continue  # the share of the hashes already says that it was rebuilt
        if is_left_out or (clause.path == "stack-removed.gone" and is_of_new):
            continue  # the table names its packages
        if clause.path == "turnover.snapshot" and tags in last_of:
            sentences[last_of[tags]] += f" {clause.said}"
            continue
        is_pin_apart = digest.pinned and not all(is_snapshot(tag.tag) for tag in tags)
        said = _snapshot(digest, clause, words) if clause.kind == "snapshot" else clause.said
        names_tags = not {clause.kind, clause.path}.isdisjoint(_NAME_TAGS)
        sentences.append(said if names_tags else _of_tags(said, tags, digest, words, is_named=bool(is_pin_apart)))
        in_table |= {sentences[-1]} if clause.is_list else set()
        last_of[tags] = len(sentences) - 1
    if any(one.because in ENVIRONMENT for one in digest.assessment.due) or is_rebuilt_again(digest):  # and this is why
        causes = [one for one in _quiet(digest) if one.kind in _CAUSES]
        sentences += _sentences(digest, causes, words)
    change = digest.environment
    for key, found in (("restored_said", change.restored), ("came_said", change.added)) if change else ():
        names = and_more([f"{one.need.package} {one.need.version}".strip() for one in found], words)
        sentences += [words.say("environment", key, len(found), names=names)] if found else []
    missing = (each.still_missing for each in digest.tags if each.still_missing)
    sentences += (words.say("snapshot", "still", len(each), packages=and_more(each, words)) for each in missing)
    if any(span.is_unknown for span in digest.spans):
        sentences.insert(0, capitalized(words.text("other", "unknown")) + ".")
    if unread := sum(len(span.unread) for span in digest.spans):
        sentences.append(words.say("other", "unread_note", unread))
    sentences = list(dict.fromkeys(filter(None, map(str.strip, sentences))))
    if len(sentences) > _MOST_SAID + 1:
        left = len({*sentences[_MOST_SAID:]} - in_table)
        sentences[_MOST_SAID:] = [words.say("other", "more_said", left)] if left else []
    return sentences


def _of_tags(said: str, tags: Collection[ComparedTag], digest: Digest, words: Words, *, is_named: bool = False) -> str:
    """Return `said`, preceded by the names of `tags` if `is_named`, or if the digest has more tags than these."""
    names = list(dict.fromkeys(tag_name(digest, tag.source, tag.tag, words) for tag in tags))
    return f"{' and '.join(names)}: {said}" if names and (is_named or len(names) < _number_of_tags(digest)) else said


def _sentences(digest: Digest, facts: Iterable[Fact], words: Words) -> list[str]:
    """Return the sentences on `facts`, with tags if the digest has several; what several tags share is said once."""
    clauses = clauses_of(digest, facts, words, by_tags=True)
    unnamed = (clause for clause in clauses if clause.kind not in _NAME_TAGS)
    alike = grouped((clause.said, tag) for clause in unnamed for tag in clause.first.tags)
    return [_of_tags(said, alike.get(said, ()), digest, words) for said in dict.fromkeys(one.said for one in clauses)]


def _open_losses(digest: Digest) -> list[Fact]:
    """Return the facts on harmless losses whose packages are outdated in lock files, as a still open action says."""
    outdated = {name for one in digest.assessment.still_open for name, _ in one.outdated}
    facts = (one for one in digest.assessment.facts if one.kind in LOSSES and one.rank is Rank.HARMLESS)
    return [one for one in facts if not outdated.isdisjoint(one.packages)]


def _snapshot(digest: Digest, clause: Clause, words: Words) -> str:
    """Return a sentence on what the new snapshot in `clause` has and lacks; "" if there is nothing to say."""
    (tag,) = clause.first.tags
    lost = lost_packages(tag.statements)
    facts = [one for one in digest.assessment.facts if tag in one.tags and one.kind in _CLAUSES]
    parts = [f"{number(len(lost), 'package')} gone{lacking_only_for(tag.statements, words)}"] if lost else []
    for part in clauses_of(digest, facts, words):
        shown = part.items[:2] if part.kind != StatementKind.PACKAGE_ADDED else []
        more = len(part.items) - len(shown)
        parts += [", ".join(shown)] if shown else []
        parts += [part.more(more) if shown else part.counted] if more else []
    if not parts:
        is_same = all(one.kind is StatementKind.TAG_ADDED for one in tag.statements)
        has_more = {(one.source, one.report.tag) for one in digest.tags if one.silenced or one.rest}
        key = "alone" if (tag.source, tag.tag) in has_more else "same"
        return words.say("snapshot", key, tag=safe(tag.tag)) if is_same else ""
    said_of = "said" if is_snapshot(tag.tag) else "new"
    return words.say("snapshot", said_of, tag=safe(tag.tag), base=safe(tag.base), clauses=", ".join(parts))


def lacked(statements: Sequence[Statement], words: Words) -> str:
    """Return, in words, what a snapshot lacks: packages, newer versions of packages, and packages of removed stacks."""
    whole, losses = removed_packages(statements), [lost for one in statements for lost in one.losses]
    with_stacks: dict[str, list[str]] = {}
    for one in statements:
        if one.kind is StatementKind.STACK_REMOVED and (names := {*packages_of(one.losses, LossClass.GONE)} - whole):
            with_stacks[stack_name(one.name)] = sorted(names)
    others = {*lost_packages(statements)}.difference(*with_stacks.values())
    said = sorted(others, key=lambda name: (name not in whole, name))
    found = [f"{and_more(said, words)}{only_for(losses, others - whole, words, is_part=bool(whole))}"] if said else []
    key = "or_newer_than" if others or with_stacks else "only_older"
    older = [
        words.say("todo", key, name=safe_name(line.package), version=safe_name(line.story.pairs[-1][1]))
        for one in statements
        for line in one.lines
        if one.kind is StatementKind.DOWNGRADED and line.story.pairs
    ]
    found += [and_more(older, words)] if older else []
    for stack, packages in with_stacks.items():
        machines = only_for(losses, {*packages}, words, is_part=False)
        key = "with_stack" if len(packages) <= MOST_NAMES else "with_stack_counted"
        values = {"names": and_more(packages, words), "machines": machines, "stack": stack}
        found.append(words.say("todo", key, len(packages), **values))
    return ", or ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def _rest(digest: Digest) -> list[tuple[TagDigest, Statement]]:
    """Return the statements that the digest only counts, each with its tag.

    A new snapshot has none here if most of its hashes are new. A statement whose packages are all silenced is left out
    unless it is routine.
    """
    snapshots, turned_over = (
        {(tag.source, tag.tag) for one in digest.assessment.facts if one.kind == kind for tag in one.tags}
        for kind in ("snapshot", StatementKind.TURNOVER)
    )
    # Of new snapshots of which most hashes differ, the digest says so.
    shown = [tag for tag in digest.tags if (tag.source, tag.report.tag) not in snapshots & turned_over]
    found = (
        (tag, _without_returned(one, tag))
        for tag in shown
        for one in tag.rest
        if _is_routine(one) or not tag.silenced >= {*one.packages}
    )
    return [(tag, one) for tag, one in found if one.packages]


def _without_returned(one: Statement, tag: TagDigest) -> Statement:
    """Return `one`; from a statement on rebuilt specs, drop packages that were reported as lost and are back."""
    if one.kind is not StatementKind.REBUILT:
        return one
    lines = tuple(line for line in one.lines if not was_lost(line, tag.report.tag, tag.statements))
    left = {line.package for line in lines}
    packages = tuple(name for name in one.packages if name in left)
    return replace(one, lines=lines, packages=packages, counts=sum((line.counts for line in lines), start=Counts()))


def _is_routine(one: Statement) -> bool:
    return one.kind in OF_REBUILDS or one.kind.severity is Severity.ROUTINE


def _is_quiet(one: Statement) -> bool:
    return _is_routine(one) or one.kind is StatementKind.NARROWED


def _quiet(digest: Digest) -> list[Fact]:
    """Return facts on prunes, on rebuilds, and on versions that lost some of their compilers, systems or variants."""
    found = digest.assessment
    hidden: dict[object, tuple[Statement, list[ComparedTag]]] = {}
    for tag, one in _rest(digest):
        if _is_quiet(one):
            own = ComparedTag(source=tag.source, tag=tag.report.tag, day=newest_day(tag.report))
            hidden.setdefault(told_alike(one), (one, []))[1].append(own)
    facts = [Fact(rank=Rank.PRUNE, kind=one.kind, statement=one, tags=(*tags,)) for one, tags in hidden.values()]
    if any(one.kind == StatementKind.TURNOVER for one in found.facts):  # which says it
        facts = [one for one in facts if one.kind != StatementKind.REBUILD_WAVE]
    # Of what was pruned as announced, more is said elsewhere.
    said = {name for one in found.due if one.because is Because.PRUNED for name in one.names}
    copied = {one.subject for one in digest.remembered.actions if one.verb == Verb.COPY}
    gone = found.environment.of(LossClass.GONE, is_new=True) if found.environment else ()
    said |= {one.need.package for one in gone if one.need.package in copied}
    facts = [*_prunes(digest, is_news=False), *facts]
    facts = [one for one in facts if one.kind not in _PRUNES or not said >= {*one.packages}]
    # Of one tag, some may be reported, and others only counted.
    pruned = grouped(
        (tuple((tag.source, tag.tag) for tag in one.tags), one) for one in facts if one.kind == StatementKind.PRUNED
    )
    together = [_as_one(own) for own in pruned.values()]
    return [*(one for one in facts if one.kind != StatementKind.PRUNED), *together]


def _as_one(facts: Sequence[Fact]) -> Fact:
    """Return one fact on all that `facts`, of one kind and tag, are about."""
    statements = [one.statement for one in facts if one.statement]
    packages = tuple(sorted({name for one in statements for name in one.packages}))
    counts = sum((one.counts for one in statements), start=Counts())
    return replace(facts[0], statement=replace(statements[0], packages=packages, counts=counts))


def routine(digest: Digest, words: Words, above: Collection[str]) -> list[str]:
    """Return sentences on facts that need no action; leave out each sentence that a sentence in `above` ends with."""
    sentences = _sentences(digest, [*_harmless_stacks(digest), *_quiet(digest)], words)
    texts = [said for said in sentences if not any(each.endswith(said) for each in above)]
    others = {package for _, one in _rest(digest) if not _is_quiet(one) for package in one.packages}
    others -= {package for tag in digest.tags for package in tag.silenced}  # which are counted by themselves
    told = [one for tag in digest.tags for one in tag.statements]
    listed = {package for one in told if not one.kind.is_of_tag for package in one.packages}
    # Of what is back, it says what is not as it was.
    others -= {package for one in told if one.kind is StatementKind.RETURNED for package in one.exceptions}
    if others - listed:
        texts.append(words.say("other", "unlisted", names=and_more(sorted(others - listed), words)))
    if too := sorted(others & listed):
        texts.append(words.say("other", "unlisted_too", names=and_more(too, words)))
    own = digest.assessment.environment
    if own is not None and own.not_here:
        texts.append(words.say("binaries", "not_here", len(own.not_here)))
    for silence in digest.silenced:
        packages, reason = number(silence.packages, "package"), safe(silence.reason).rstrip(".")
        name, until = safe(silence.name), safe(silence.until)
        texts.append(words.say("other", "hidden", packages=packages, name=name, until=until, reason=reason))
    zone = ZoneInfo(digest.zone)
    for gap in (gap for span in digest.spans for gap in span.gaps):
        since, until = (f"{day.day} {day:%B %Y}" for day in (gap.since.astimezone(zone), gap.until.astimezone(zone)))
        texts.append(words.say("other", "gap", since=since, until=until))
    return list(dict.fromkeys(filter(None, texts)))


def _prunes(digest: Digest, *, is_news: bool) -> list[Fact]:
    """Return the facts on prunes that are news or, if not `is_news`, all other facts of the rank of prunes.

    A prune is news if all facts are harmless or routine, or if readers should act now because builds were pruned.
    """
    facts = digest.assessment.facts
    is_told = all(one.rank >= Rank.HARMLESS for one in facts)
    is_told |= any(one.because is Because.PRUNED_BUILDS for one in digest.assessment.due)
    return [one for one in facts if one.rank is Rank.PRUNE and (is_told and one.kind == "prune") is is_news]


def _harmless_stacks(digest: Digest) -> list[Fact]:
    """Return the facts on removed stacks whose binaries are all in other stacks; they are not in the table."""
    facts = digest.assessment.facts
    return [one for one in facts if one.kind == StatementKind.STACK_REMOVED and one.rank is Rank.HARMLESS]


def sections(digest: Digest, words: Words) -> list[Section]:
    """Return the table in sections: losses by class, changes of versions, other changes, and harmless losses."""
    found = digest.assessment
    waiting = {one.statement for one in found.facts if one.rank is Rank.SUSPICION}
    losses = [one for one in found.losses if one.statement not in waiting]
    made = [_losses(losses, (one,), digest, words) for one in (LossClass.GONE, LossClass.GOING, LossClass.OTHER)]
    kinds = {one.kind for tag in digest.tags for one in tag.statements if one.severity is not Severity.ROUTINE}
    others = [kind for kind in kinds if not kind.is_of_tag and kind not in _IN_TABLE]
    made += [_changes(kind, digest, words) for kind in (*_CLAUSES, *sorted(others, key=lambda kind: kind.rank))]
    made.append(_losses(losses, (LossClass.KEPT, LossClass.EQUAL), digest, words))
    return [one for one in made if one.rows]


def _losses(losses: Iterable[AssessedLoss], classes: Sequence[LossClass], digest: Digest, words: Words) -> Section:
    # The sentence on a whole stack says where its packages are now.
    own = [one for one in losses if one.loss_class in classes and (one.statement.kind in LOSSES or len(classes) == 1)]
    is_snapshot = bool(own) and all(digest.is_pinned_to(one.tag.base) for one in own)
    is_harmless = len(classes) > 1
    name = "harmless" if is_harmless else classes[0].value
    key = "gone_snapshot" if name == "gone" and is_snapshot else name
    is_whole = any(one.statement.kind is StatementKind.PACKAGE_REMOVED for one in own)
    machines = {one.lost.machine_name for one in own}
    machine = machines.pop() if len(machines) == 1 and not is_whole and not is_harmless else ""
    by_package = grouped(
        ((one.lost.package, one.tag.source, one.tag.tag, one.loss_class if is_harmless else name), one) for one in own
    )
    tags = {(tag.source, tag.report.tag): tag for tag in digest.tags}
    rows = []
    for (package, source, tag, _), group in by_package.items():
        lost = [loss for one in group if one.lost.loss for loss in (one.lost.loss, *one.lost.loss.older)]
        versions = sorted_versions({loss.version for loss in lost})
        statements = {id(one.statement): one.statement for one in group}.values()
        lines = [line for one in statements for line in one.lines if line.package == package]
        where = _lost_where(group, words, is_named=bool(machine), has_targets=not is_harmless)
        there = {one.lost.outside for one in group}
        filtered = phrases.outside(there.pop(), words) if len(there) == 1 else ""
        is_going = LossClass.GOING in classes  # the heading says what becomes of builds of no stack
        reasons = "" if is_going else phrases.reasons_of_versions(lost, words)
        unbuilt = 0 if is_going else sum(line.here.without_stack for line in lines)
        old = words.say("stacks", "unbuilt", unbuilt) if unbuilt else ""
        since = dict.fromkeys(map(there_since, lines))
        moved = {phrases.moved_to(one.lost, (package,)).lstrip(";, ") for one in group}
        now = moved.pop() if len(moved) == 1 and not is_harmless else ""
        rows.append(
            Row(
                package=package,
                change=safe(", ".join(filter(None, versions))),
                where="; ".join(filter(None, (where, now, filtered, reasons, old, *since))),
                kind=group[0].statement.kind,
                specs=sum(line.counts.specs for line in lines),
                tag=tags[source, tag],
            )
        )
    named = words.say("sections", "machines", machines=safe(machine)) if machine else ""
    remark = "; ".join(filter(None, (named, words.text("sections", f"{key}_remark"))))
    return _section(digest, words, rows, name=name, heading=words.text("sections", key), remark=remark)


def _lost_where(group: Sequence[AssessedLoss], words: Words, *, is_named: bool, has_targets: bool) -> str:
    """Return, in words, the stacks that lost a package, with systems and, if `has_targets`, with targets.

    If `is_named`, systems and targets are left out, because the heading of the section names them.
    """
    if any(one.statement.kind is StatementKind.PACKAGE_REMOVED for one in group):
        return words.text("sections", "everywhere")
    lost, first = [one.lost for one in group], group[0]
    is_stack = first.statement.kind is StatementKind.STACK_REMOVED and first.tag.base
    stacks = stacks_named({one.place.stack for one in lost}, _FEW_STACKS)
    text = words.say("sections", "with_stack", name=safe(first.statement.name)) if is_stack else stacks
    targets = sorted({one.place.target for one in lost})
    if not has_targets:  # but a stack that lost the package and still builds it does so for another target
        builders = {stack for one in lost if one.loss for stack in one.loss.stacks}
        has_targets = any(one.is_elsewhere or one.moved_to or one.place.stack in builders for one in lost)
    apart = grouped((one.machine_name, one.place.stack) for one in lost)
    is_apart = has_targets and not (is_named or is_stack) and len({*map(frozenset, apart.values())}) > 1
    if is_apart and len(apart) <= _FEW_MACHINES:  # no stack lost all of these
        return ", ".join(f"{stacks_named({*own}, _FEW_STACKS)} ({safe(machine)})" for machine, own in apart.items())
    oses = {one.machine.os if one.machine else ", ".join(one.systems) for one in lost}
    machines = [] if is_named or "" in oses else sorted(oses)  # of some targets, all systems lost it
    machines += targets if has_targets and not is_named and len(targets) <= _FEW_MACHINES else []
    return text + (f" ({', '.join(map(safe, machines))})" if machines else "")


def _changes(kind: StatementKind, digest: Digest, words: Words) -> Section:
    lines = lines_of(digest, kind)
    rows = []
    for line, tag in lines:
        fall = words.text(kind, "mistake") if any(falls(*pair) for pair in line.story.pairs) else ""
        rows.append(
            Row(
                package=line.package,
                change=phrases.fact(line),
                where="; ".join(filter(None, (phrases.in_column(phrases.where(line)), there_since(line), fall))),
                kind=line.story.kind,
                specs=line.counts.specs,
                tag=tag,
            )
        )
    remark = ""
    # The earlier one of two snapshots has the old versions.
    if kind is StatementKind.UPGRADED and not all(base_of(tag.report) for _, tag in lines):
        yours = words.text("sections", "for_yours") if digest.environment is not None else ""
        if not any(line.story.still_there for line, _ in lines):
            remark = words.say("sections", "no_old", for_yours=yours)
    heading = words.text("sections", kind) if kind in _CLAUSES else words.text(kind, "heading")
    return _section(digest, words, rows, name=kind.value, heading=heading, remark=remark)


def lines_of(digest: Digest, kind: StatementKind) -> list[tuple[Line, TagDigest]]:
    """Return the lines of all statements of `kind`, each with the tag that the line is about."""
    return [(line, tag) for tag in digest.tags for one in tag.statements if one.kind is kind for line in one.lines]


def _section(digest: Digest, words: Words, rows: Iterable[Row], *, name: str, heading: str, remark: str) -> Section:
    """Return a section of `rows`; rows that differ only in their tags become one row.

    A row that is about only some tags of the digest names these tags. If all rows are about the same tags, `remark`
    names them instead.
    """
    alike = grouped(((row.package, row.change, row.where), row) for row in rows)
    # Readers who move to another snapshot do not lose the packages that the newest one lacks.
    is_named = any(pin.best for pin in digest.pinned)
    tags = [in_tags(digest, [row.tag for row in group], words, is_named=is_named) for group in alike.values()]
    shown = [group[0] for group in alike.values()]
    if len({*tags}) == 1:
        remark = "; ".join(filter(None, (remark, tags[0])))
    else:
        own = zip(shown, tags, strict=True)
        shown = [replace(row, where="; ".join(filter(None, (row.where, tag)))) for row, tag in own]
    is_bad = name in (LossClass.GONE, StatementKind.DOWNGRADED)
    return Section(name=name, heading=heading, remark=remark, is_bad=is_bad, rows=tuple(shown))


def in_tags(digest: Digest, tags: Collection[TagDigest], words: Words, *, is_named: bool = False) -> str:
    """Return `tags` in words, `in develop and v1.0`; "" if these are all tags of the digest and not `is_named`."""
    is_part = len(tags) < _number_of_tags(digest) or len({tag.source for tag in tags}) < len(digest.sources)
    named = (tag_name(digest, tag.source, tag.report.tag, words) for tag in tags)
    return f"in {' and '.join(named)}" if is_part or is_named else ""


def tag_name(digest: Digest, source: str, tag: str, words: Words) -> str:
    """Return the name of a tag, with its source if the digest has several sources."""
    is_one = not (tag and source) or len(digest.sources) < 2
    name = safe_name(tag)
    return name if is_one else words.say("sections", "of_source", tag=name, source=safe_name(source))


def _number_of_tags(digest: Digest) -> int:
    return len({(tag.source, tag.report.after.tag or tag.report.before.tag) for tag in digest.tags})


def subtitle(digest: Digest) -> str:
    """Return the tags and days that the digest covers."""
    reports = [tag.report for tag in digest.tags]
    tags = sorted({safe(one.tag) for one in reports})
    where = tags[0][:_LONGEST_TAG] if len(tags) == 1 else f"{len(tags):,} tags" if tags else ""
    bases = {one.before.tag if one.before.tag != one.after.tag else None for one in reports}
    base = f"compared with {safe(bases.pop() or '')[:_LONGEST_TAG]}" if len(bases) == 1 and None not in bases else ""
    return ", ".join(filter(None, (where, base, _days(digest))))


def _days(digest: Digest) -> str:
    """Return the first and last day of the digest, `25 May to 1 June 2025`; "" if the days are unknown."""
    zone = ZoneInfo(digest.zone)
    befores, afters = (
        [datetime.fromisoformat(side.time).astimezone(zone).date() for side in sides if side.time]
        for sides in ([span.before for span in digest.spans], [span.after for span in digest.spans])
    )
    if not afters:
        return ""
    last = max(afters)
    first = min(befores, default=last)
    end = f"{last.day} {last:%B %Y}"
    if first >= last:
        return end
    other = " %B %Y" if first.year != last.year else " %B" if first.month != last.month else ""
    return f"{first.day}{first.strftime(other)} to {end}"
