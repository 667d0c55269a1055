"""Questions about packages: when each version was in each stack, what each revision changed, what changes most."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from itertools import chain, product
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from cachewatch.core.advice.verbs_and_reasons import Rank
from cachewatch.core.comparison.kept_and_reused_hashes import spellings_of
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Place, Signature, grouped
from cachewatch.core.statement_kinds import Line, Statement, StatementKind
from cachewatch.core.statements import select_statements
from cachewatch.core.versions_spellings_targets import version_key
from cachewatch.extensions.history.index_lookup import Index, IndexPoint, days_between
from cachewatch.extensions.history.restored_documents import EVERYTHING, TagStates
from cachewatch.report.diff_blocks_and_colours import colour_of
from cachewatch.report.digest_and_message_values import newest_day
from cachewatch.report.digests.subject import clauses_of_statements
from cachewatch.report.json_and_safe_csv import statement_values
from cachewatch.report.tables_and_listings import Coloured, Row, Table
from cachewatch.report.words import and_more, names, number, places_named, stacks_named
from cachewatch.report.words_file import words

OPEN = 2**60  # the end of a span that lasts still; so is every end after the last revision that is wholly indexed

Span = tuple[int, int]  # numbers of the first revision and of the first one after the span

_SUMS = "sum(added), sum(removed), sum(added) - sum(rebuilt), sum(removed) - sum(rebuilt)"
_MOST_FIRST = "HAVING sum(added) + sum(removed) > 0 ORDER BY sum(added) + sum(removed) DESC, name"
QUERIES = {
    # Each package by its own range of the key, so that a short range of revisions costs little.
    "package": f"""
        SELECT package.name, {_SUMS} FROM package CROSS JOIN step ON step.tag = :tag AND step.package = package.id
        WHERE revision > :since AND revision <= :until GROUP BY package.id {_MOST_FIRST}""",  # noqa: S608  our own text
    "stack": f"""
        SELECT stack.name, {_SUMS} FROM (
            SELECT stacks, sum(added) AS added, sum(removed) AS removed, sum(rebuilt) AS rebuilt FROM tally
            WHERE tag = :tag AND revision > :since AND revision <= :until GROUP BY stacks
        ) JOIN stack USING (stacks) GROUP BY stack.name {_MOST_FIRST}""",  # noqa: S608
}


class WhenRow(Struct, frozen=True):
    """An uninterrupted period in which one version was in one stack for one target."""

    version: str
    stack: str | None  # None: no stack builds it, so it may be pruned at any time
    target: str
    first: IndexPoint
    baseline: bool  # whether the version was added in `first` or before
    last: IndexPoint | None  # the first revision without it; None while it is there
    lag_days: float | None  # after the first stack that had this version; None if unknown, or if the version is back
    lag_is_minimum: bool  # the lag may be longer, for the first stack had the version in the baseline


class When(Struct, frozen=True, tag_field="schema", tag="cachewatch.when/1"):
    """The answer to `cachewatch history when`."""

    indexed: IndexPoint
    package: str
    tag: str
    rows: tuple[WhenRow, ...]


def find_when(index: Index, package: str, tag: str, selection: Selection = EVERYTHING) -> When:
    """Return when each selected version of `package` was in each selected stack of `tag`, by target.

    A lag counts from the first stack that had the version for the selected targets and compilers. Specs that differ
    only in compiler, variants or the spelling of their version share a row.
    """
    ids = index.known_id("package", package), index.known_id("tag", tag)
    spans = grouped(
        ((version, stack, specs.target), span)
        for specs, span in presences(index, *ids, index.newest)
        if selection.targets(specs.target) and selection.compilers(specs.compiler)
        for version, stack in product(filter(selection.versions, specs.versions), specs.stacks or ("",))
    )
    periods = {key: joined(found) for key, found in spans.items()}
    begins: dict[str, int] = {}  # in which revision the first stack had each version
    for (version, stack, _), ((first, _), *_) in periods.items():
        if stack:
            begins[version] = min(begins.get(version, first), first)
    baseline = baseline_of(index, *ids)
    rows = []
    chosen = [(*key, span) for key, found in periods.items() if selection.stacks(key[1]) for span in found]
    chosen.sort(key=lambda row: (version_key(row[0]), not row[1], row[3][0], row[1], row[2]))
    for version, stack, target, (first, last) in chosen:
        begin, end = index.point(first), index.point(last) if last <= index.newest else None
        is_known = bool(stack) and first == periods[version, stack, target][0][0] and first != baseline
        lag = days_between(index.point(begins[version]), begin) if is_known else None
        is_least = is_known and begins[version] == baseline
        rows.append(WhenRow(version, stack or None, target, begin, first == baseline, end, lag, is_least))
    return When(index.indexed, package, tag, tuple(rows))


def when_table(answer: When, is_for_people: bool) -> Table:
    """Return a table of periods; if `is_for_people`, stacks with the same version, target and dates share a row."""
    rows: list[Row] = [
        (
            row.version,
            row.stack or "(no stack)",
            row.target,
            f"<= {row.first.day}" if row.baseline else row.first.day,
            row.first.revision[:10],
            f">= {row.lag_days}" if row.lag_is_minimum else row.lag_days,
            row.last.day if row.last else None,
        )
        for row in answer.rows
    ]
    after = ("",) * bool(rows) + (answer.indexed.as_last,)
    if not is_for_people:
        return Table(("version", "stack", "target", "first", "revision", "lag (days)", "until"), rows, after=after)
    stacks = grouped(
        ((version, target, first, lag, until), stack) for version, stack, target, first, _, lag, until in rows
    )
    merged = [(*same, ", ".join(map(str, names))) for same, names in stacks.items()]
    return Table(("version", "target", "first", "lag (days)", "until", "stacks"), merged, after=after)


def baseline_of(index: Index, package: int, tag: int) -> int | None:
    """Return the first revision where the document of these ids was readable, if its specs may be older; else None."""
    query = "SELECT baseline FROM document WHERE package = ? AND tag = ?"
    return next((number for (number,) in index.rows(query, (package, tag))), None)


def presences(index: Index, package: int, tag: int, until: int) -> Iterator[tuple[Signature, Span]]:
    """Yield signature and span of each group of specs that came and went together, and came by revision `until`.

    `package` and `tag` are ids. Equal versions are spelled alike. The span ends at OPEN if the specs are still there.
    """
    query = """SELECT DISTINCT build, stacks, first, coalesce(last, ?) FROM interval
        WHERE package = ? AND tag = ? AND first <= ?"""
    found = index.rows(query, (OPEN, package, tag, until))
    rows = [(index.signature(build, stacks), (first, last)) for build, stacks, first, last in found]
    spellings = spellings_of(version for specs, _ in rows for version in specs.versions)
    for specs, span in rows:
        yield replace(specs, versions=tuple(spellings.get(version, version) for version in specs.versions)), span


def find_presence(
    index: Index, package: str, tag: str, number: int, chooses: Callable[[str, str, str], bool]
) -> Span | None:
    """Return the span around revision `number` that always has a spec that `chooses` accepts; None if there is none.

    `chooses` gets a version, a stack ("" for a spec in no stack) and a target.
    """
    ids = index.id_of("package", package), index.id_of("tag", tag)
    spans = [
        span
        for specs, span in presences(index, *ids, index.newest)
        if any(chooses(version, stack, specs.target) for version in specs.versions for stack in specs.stacks or ("",))
    ]
    around = (span for span in joined(spans) if span[0] <= number < span[1])
    return next(around, None) if number <= index.newest else None


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return `spans` in order, with spans that overlap or adjoin merged into one."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


class LogRevision(Struct, frozen=True):
    """The changes of one revision."""

    revision: str
    time: str | None
    facts: tuple[Coloured, ...]  # the statements in words, the most important first
    statements: tuple[dict[str, Any], ...]  # the statements as values for JSON
    unreadable: tuple[dict[str, str], ...]  # the `package` of each document that could not be read, and the reason


class RevisionLog(Struct, frozen=True, tag_field="schema", tag="cachewatch.log/2"):
    """The answer to `cachewatch log`, newest revision first."""

    indexed: IndexPoint
    tag: str
    revisions: tuple[LogRevision, ...]
    earlier: int  # number of earlier revisions with changes, which were left out


def find_log(index: Index, tag: str, package: str | None, since: int, until: int, *, most: int | None) -> RevisionLog:
    """Return the newest revisions after `since`, up to `until`, that changed `tag`: at most `most`, or all if None.

    Unless `package` is None, only revisions that changed this package count.
    """
    package_id = None if package is None else index.known_id("package", package)
    values = {"since": since, "until": until, "tag": index.known_id("tag", tag), "package": package_id}
    numbers = sorted(_revisions(index, values), reverse=True)
    unread = """SELECT name, message FROM diagnostic JOIN package ON id = package
        WHERE tag = ? AND revision = ? AND name = coalesce(?, name) ORDER BY name"""
    selection = Selection(packages=Globs([package] if package else []))
    revisions = []
    for n in numbers[:most]:
        facts, statements = facts_of(index, tag, n, selection)
        rows = index.rows(unread, (values["tag"], n, package))
        unreadable = tuple({"package": name, "message": message} for name, message in rows)
        point = index.point(n)
        revisions.append(LogRevision(point.revision, point.time, facts, tuple(statements), unreadable))
    earlier = len(numbers[most:]) if most else 0
    return RevisionLog(index.indexed, tag, tuple(revisions), earlier)


def _revisions(index: Index, values: Mapping[str, int | None]) -> set[int]:
    """Return the revisions that changed specs or had an unreadable document; `values` has the SQL parameters."""
    of_tag = "tag = :tag AND revision > :since AND revision <= :until"
    if values["package"] is None:
        changed = f"SELECT DISTINCT revision FROM tally WHERE {of_tag}"  # noqa: S608  our own text, as below
        baseline = None
    else:
        changed = " UNION ".join(
            f"SELECT {column} FROM interval WHERE package = :package AND tag = :tag"  # noqa: S608
            f" AND +{column} > :since AND +{column} <= :until"
            for column in ("first", "last")
        )
        baseline = baseline_of(index, values["package"], values["tag"] or 0)
    unread = f"SELECT DISTINCT revision FROM diagnostic WHERE {of_tag} AND (:package IS NULL OR package = :package)"  # noqa: S608
    changes, unreadable = ({number for (number,) in index.rows(query, values)} for query in (changed, unread))
    return changes - {0, baseline} | unreadable


def last_day(
    index: Index, package: str, tag: str, number: int, chooses: Callable[[str, Signature], object] = lambda *_: True
) -> str | None:
    """Return when `tag` lost its last spec that `chooses` accepts; None if it has one at `number`, or never had one."""
    query = "SELECT build, stacks, coalesce(last, ?) FROM interval WHERE package = ? AND tag = ? AND first <= ?"
    rows = index.rows(query, (OPEN, index.id_of("package", package), index.id_of("tag", tag), number))
    return _day_of(index, number, (end for *ids, end in rows if chooses("", index.signature(*ids))))


def _day_of(index: Index, number: int, ends: Iterable[int]) -> str | None:
    end = max(ends, default=OPEN)
    return (index.point(end).time or "")[:10] if end <= number else None


def returned(index: Index, tag: str, number: int, statements: Iterable[Statement]) -> Mapping[str, str]:
    """Return, by id of statement, a text for each package or stack that came back: until when the tag had it before.

    `statements` tell what changed after revision `number`. What was away for more than 400 days is left out.
    """
    in_stack = """SELECT coalesce(last, ?) FROM interval JOIN stack USING (stacks)
        WHERE tag = ? AND name = ? AND first <= ?"""
    said, now = {}, (index.point(number).time or "")[:10]
    for one in statements:
        day = last_day(index, one.name, tag, number) if one.kind is StatementKind.PACKAGE_ADDED else None
        if one.kind is StatementKind.STACK_ADDED:
            ends = index.rows(in_stack, (OPEN, index.id_of("tag", tag), one.name, number))
            day = _day_of(index, number, (end for (end,) in ends))
        if day and now <= f"{date.fromisoformat(day) + timedelta(days=400)}":
            is_package = one.kind is StatementKind.PACKAGE_ADDED
            versions = [version for line in one.lines for version in line.story.after if version and is_package]
            named = f" ({and_more(versions, words())})" if versions else ""
            name, stacks = safe(one.name), stacks_named(one.stacks)
            said[one.id] = words().say(
                one.kind, "back", name=name, versions=named, stacks=stacks, tag=safe(tag), day=day
            )
    return said


def _has(place: Place, _: str, one: Signature) -> bool:
    return place in one.places


def _was_there(index: Index, tag: str, number: int, line: Line) -> bool:
    """Tell whether `line` is about places that have the package again: `tag` had it there before revision `number`."""
    days = (last_day(index, line.package, tag, number, partial(_has, place)) for place in line.story.places)
    return line.story.kind is StatementKind.PLACE_GAINED and bool(line.story.places) and all(days)


def facts_of(
    index: Index, tag: str, n: int, selection: Selection, concerns: Callable[[Statement | Line], bool] = lambda _: True
) -> tuple[tuple[Coloured, ...], list[dict[str, Any]]]:
    """Return the selected changes of revision `n`: sentences on what `concerns` accepts, and values of all for JSON."""
    if not n:
        return (), []
    _, report = TagStates(index, tag, n - 1, lambda _: True).advance_and_compare(selection)
    told = list(filter(concerns, select_statements(report.statements, concerns, lambda *_: True)[0]))
    again, told = map(list, select_statements(told, partial(_was_there, index, tag, n - 1), lambda *_: False))
    back = returned(index, tag, n - 1, told)
    facts = []
    for clause in clauses_of_statements(told, tag, newest_day(report), without=back):
        is_harmless = clause.first.rank is Rank.HARMLESS
        colour = "" if is_harmless else colour_of(clause.statement.kind, clause.statement.severity)
        facts.append(Coloured(clause.line, colour))
    lines = chain.from_iterable(one.lines for one in again)
    of_places = grouped((line.story.places, line.package) for line in lines)
    for places, own in of_places.items():
        said = words().say(StatementKind.PLACE_GAINED, "back", len(own), names=names(own), where=places_named(places))
        facts.append(Coloured(said, "green"))
    facts += [Coloured(said, "green") for said in back.values()]
    return tuple(facts), [statement_values(one) for one in report.statements]


def log_table(answer: RevisionLog, package: str | None, is_for_people: bool) -> Table:
    """Return a table of changes, of `package` if given; if `is_for_people`, rows of one revision name it only once."""
    rows: list[Row] = []
    for revision in answer.revisions:
        unread = [Coloured("{package} is unreadable: {message}".format(**one), "yellow") for one in revision.unreadable]
        for place, fact in enumerate((*revision.facts, *unread)):
            is_told = place and is_for_people
            rows.append((" ", " ", fact) if is_told else ((revision.time or "")[:10], revision.revision[:10], fact))
    after = [""] if rows else [f"no changes of {f'{package} in ' if package else ''}{answer.tag} in that range"]
    if answer.earlier:
        after.append(f"{number(answer.earlier, 'earlier revision')} with changes; --most N shows more")
    return Table(("date", "revision", "what happened"), rows, after=(*after, answer.indexed.as_last))


class ChurnRow(Struct, frozen=True):
    """How many specs of one package or stack were added and removed."""

    name: str
    added: int
    removed: int
    net_added: int  # without rebuilt specs
    net_removed: int


class Churn(Struct, frozen=True, tag_field="schema", tag="cachewatch.churn/1"):
    """The answer to `cachewatch history churn`; rows with more added and removed specs come first."""

    indexed: IndexPoint
    tag: str
    by: str
    since: IndexPoint | None  # None: from the beginning
    until: IndexPoint
    revisions: int  # number of revisions in that range
    rows: tuple[ChurnRow, ...]
    others: int  # number of rows that were left out


def find_churn(index: Index, tag: str, by: str, since: int, until: int, *, most: int | None = None) -> Churn:
    """Count the specs that `tag` gained and lost after revision `since`, up to `until`, for each package or stack.

    `by` is "package" or "stack"; `most` is the greatest number of rows, or None for all.
    """
    values = {"tag": index.known_id("tag", tag), "since": max(since, 0), "until": until}
    rows = [ChurnRow(*row) for row in index.rows(QUERIES[by], values)]
    begin, revisions = index.point(since) if since >= 0 else None, max(until - max(since, 0), 0)
    others = len(rows[most:]) if most else 0
    return Churn(index.indexed, tag, by, begin, index.point(until), revisions, tuple(rows[:most]), others)


def churn_table(answer: Churn) -> Table:
    """Return a table with a row for each package or stack."""
    since = "the beginning" if answer.since is None else answer.since.named
    title = f"{answer.tag}: {number(answer.revisions, 'revision')}, from {since} to {answer.until.named}"
    columns = (answer.by, "added", "removed", "net added", "net removed")
    after = [f"and {answer.others:,} more; --most N shows more"] if answer.others else []
    after += [] if answer.rows else ["Nothing changed."]
    return Table(columns, [astuple(row) for row in answer.rows], (title, ""), (*after, "", answer.indexed.as_last))
