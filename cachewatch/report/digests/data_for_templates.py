"""Collect what a digest needs of a comparison, and turn a digest into plain data for templates and JSON.

The data has nothing but dictionaries, lists, strings, numbers and None, so that a user's template can reach nothing
else. A DigestForm limits how much the data contains; what it leaves out is counted.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from cachewatch.core.advice.environment_coverage import is_runnable
from cachewatch.core.advice.verbs_and_reasons import Action, AssessedLoss, Because, Fact, Verb
from cachewatch.core.changesets import Changeset
from cachewatch.core.escaping_and_mentions import safe, safe_name, shortened, web_address
from cachewatch.core.kinds_and_specs import Delta, Kind, Machine, PackageChange, Status
from cachewatch.core.statement_kinds import Line, Severity, StatementKind
from cachewatch.core.statements import Wants, is_wanted, select_statements
from cachewatch.core.versions_spellings_targets import is_newer, newest, runs, that_matter, variant_name
from cachewatch.report.dates_and_totals import accounting
from cachewatch.report.digest_and_message_values import Digest, Example, Span, TagDigest
from cachewatch.report.digests import body_and_table as first_screen
from cachewatch.report.digests.commands import install_examples, mirror_of, platform_of, steps, target_of
from cachewatch.report.digests.todo import advice, still_open, todo
from cachewatch.report.environment_words import Clean, Data, coverage_data
from cachewatch.report.json_and_safe_csv import MOST_CSV, CsvLine, CsvPacker, csv_lines, csv_table, picked
from cachewatch.report.rebuild_cause_words import Reason, reasons_of
from cachewatch.report.words import reason_of
from cachewatch.report.words_file import Words, words

SCHEMA = "cachewatch.digest/2"

_MOST_SPANS = 50
_MOST = 10**9
_LONGEST_LINE = 1000
_FEWEST_SAID = 5


class DigestForm(Struct, frozen=True, kw_only=True):
    """The limits on how much of a digest is shown: numbers of rows, tags and texts, and lengths."""

    rows: int = _MOST  # of each list of each tag
    tags: int = _MOST
    others: int = _MOST  # warnings, commands, reasons, notes
    has_details: bool = True  # where each change happened, and why
    has_links: bool = True
    longest: int = _MOST  # characters of one name


WHOLE = DigestForm()


class Contents:
    """The sentences and rows of a digest, of which each form shows a part."""

    def __init__(self, digest: Digest, words: Words) -> None:
        self.words = words
        self.advice = advice(digest, words)
        self.todo = todo(digest, words)
        self.steps = steps(digest, words)
        self.sections = first_screen.sections(digest, words)
        self.happened = first_screen.happened(digest, words, sum(len(section.rows) for section in self.sections))
        self.still_open = still_open(digest, words)
        self.routine = first_screen.routine(digest, words, self.happened)


def view(digest: Digest, form: DigestForm = WHOLE, *, clean: Clean = str, contents: Contents | None = None) -> Data:
    """Return `digest` as plain data, limited by `form`; `clean` makes text safe; `contents` are made if None."""
    contents = contents or Contents(digest, words())
    made = _Maker(digest, form, clean, contents.words)
    assessment = digest.assessment
    key, commands = contents.steps if form.rows else ("", [])
    steps = {"said": contents.words.text("todo", key), "commands": commands} if commands else None
    has_new_steps = steps is not None and contents.todo[0] != contents.words.text("todo", "nothing_new")
    return {
        "schema": SCHEMA,
        "key": digest.key,
        **made.parts(digest, "subscription", "description", "created"),
        **picked(digest, "period", "zone", "is_urgent", "is_sample"),
        "level": assessment.level.value,
        "advice": clean(contents.advice),
        "actions": [made.action(one) for one in assessment.actions],
        "todo": made.said(contents.todo),
        "has_action": bool(assessment.due) or assessment.is_waiting or has_new_steps,
        "happened": made.said(contents.happened),
        "still_open": made.said(contents.still_open),
        "sections": [made.section(section) for section in (contents.sections if form.tags else ())],
        "routine": made.said(contents.routine),
        "facts": [made.fact(one) for one in assessment.facts[: form.others]],
        "losses": [made.loss(one) for one in (assessment.losses if form is WHOLE else ())],
        "alternative": assessment.alternative and made.plain(assessment.alternative),
        "spans": [made.span(span) for span in digest.spans[:_MOST_SPANS]],
        "more_spans": max(0, len(digest.spans) - _MOST_SPANS),
        "more_sources": max(0, len({span.source for span in digest.spans}) - 1),  # one has a span for each base
        "tags": [made.tag(tag) for tag in digest.tags[: form.tags]],
        "more_tags": max(0, len(digest.tags) - form.tags),
        "environment": assessment.environment and coverage_data(assessment.environment, form.rows, clean),
        "pinned": [
            made.parts(pin, "tag", "source", "is_gone")
            | {"is_near_the_end": pin.is_ending}
            | made.parts(pin, "newest", "newer", "older")
            for pin in digest.pinned[:_MOST_SPANS]
        ],
        "silenced": made.plain(digest.silenced[:_MOST_SPANS]),
        "steps": steps,
        **made.install(),
        "why": made.lines(digest.why, "and {} more"),
        "commands": made.lines(digest.commands, "# and {} more"),
        "archive_url": web_address(digest.archive_url),
        "unsubscribe": web_address(digest.unsubscribe),
        "operator": clean(digest.operator),
    }


class _Maker(Struct, frozen=True):
    """Turns the parts of a digest into plain data, within the limits of a DigestForm."""

    _digest: Digest
    _form: DigestForm
    _clean: Clean
    _words: Words

    def _name(self, text: str) -> str:
        """Return an untrusted name, made safe for display, and cut unless the form is WHOLE, for programs."""
        return self._clean(text if self._form is WHOLE else safe_name(text))

    def _names(self, value: object, *names: str) -> Data:
        """Return the fields `names` of `value`, which are untrusted names."""
        return {name: self._name(getattr(value, name)) for name in names}

    def lines(self, items: tuple[str, ...], rest: str) -> list[str]:
        """Return as many `items` (commands, reasons) as fit, none cut; a last line, `rest`, counts the others."""
        longest = _MOST if self._form.longest == _MOST else _LONGEST_LINE
        told = [safe(item) for item in items if len(item) <= longest][: self._form.others]
        more = len(items) - len(told)
        return told + ([rest.format(more)] if more else [])

    def plain(self, value: Any) -> Any:
        """Return a field or a struct as plain data: structs are dictionaries, times as in JSON, and text is cleaned."""
        if isinstance(value, Struct):
            return self.parts(value, *value.__struct_fields__)
        if isinstance(value, tuple):
            return list(map(self.plain, value))
        if isinstance(value, datetime):
            return moment(value)
        return self._clean(value) if isinstance(value, str) else value

    def parts(self, value: Struct, *names: str) -> Data:
        """Return the fields `names` of `value` as plain data."""
        return {name: self.plain(getattr(value, name)) for name in names}

    def span(self, span: Span) -> Data:
        notes = tuple(note.said(self._words) for note in span.notes)
        names = ("source", "address", "before", "after", "revisions", "newest", "checked", "gaps")
        return {**self.parts(span, *names), "notes": self.lines(notes, "and {} more")}

    def said(self, sentences: Sequence[str]) -> list[str]:
        """Return as many sentences as fit; long ones are shortened unless the form is WHOLE, for programs."""
        most = max(self._form.others, _FEWEST_SAID) if self._form.tags else 1
        texts = list(map(safe, sentences[:most]))
        return texts if self._form is WHOLE else [shortened(text, _LONGEST_LINE) for text in texts]

    def action(self, task: Action) -> Data:
        return {
            "verb": task.verb.value,
            "because": task.because.value,
            **self._names(task, "source", "tag", "name"),
            "names": [self._name(name) for name in task.names[: self._form.rows]],
            "count": task.count,
            "since": task.since or None,
        }

    def fact(self, event: Fact) -> Data:
        """Return a fact as plain data, which names its statement by id."""
        return {
            "kind": str(event.kind),
            "rank": event.rank.name.lower().replace("_", "-"),
            "class": event.worst.value if event.worst else None,
            "statement": event.statement.id if event.statement else None,
            "tags": [self._names(tag, "source", "tag") for tag in event.tags],
            "packages": len(event.packages),
        }

    def loss(self, assessed: AssessedLoss) -> Data:
        """Return a lost place or machine as plain data, with what the tag has instead."""
        lost = assessed.lost
        assert lost.loss is not None
        return {
            **self._names(assessed.tag, "source", "tag"),
            **self._names(lost, "package"),
            **self._names(lost.place, "stack", "target"),
            "system": self._name(f"{lost.machine.platform}-{lost.machine.os}") if lost.machine else None,
            "class": lost.loss.loss_class.value,
            "reason": reason_of(lost.loss, self._words),
            "statement": assessed.statement.id,
        }

    def section(self, section: first_screen.Section) -> Data:
        shown = section.rows[: min(self._form.rows, self._digest.rows)]
        return {
            "name": section.name,
            "heading": section.heading,
            "remark": self._clean(section.remark),
            "is_bad": section.is_bad,
            "packages": len({row.package for row in section.rows}),
            "rows": [self.row(row) for row in shown],
            "more": len(section.rows) - len(shown),
        }

    def row(self, row: first_screen.Row) -> Data:
        has_page = row.kind is not StatementKind.PACKAGE_REMOVED and self._form.has_links
        return {
            "package": self._name(row.package),
            "url": package_url(self._digest.links, row.tag, row.package) if has_page else None,
            "kind": row.kind.value,
            "change": self._clean(row.change),
            "where": self._clean(row.where) if self._form.has_details else "",
            "specs": row.specs,
        }

    def install(self) -> Data:
        """Return a command that installs new packages on one machine, and the number of packages not named in it.

        The command is None if something is more urgent, or if a shell could misread a name.
        """
        assessment = self._digest.assessment
        is_pressing = any(
            one.verb in (Verb.WAIT, Verb.STAY) or one.because is Because.PIN_GONE for one in assessment.actions
        )
        tags = [tag for tag in self._digest.tags if self._examples(tag)]
        # Of one tag, as others have other mirrors: of one that was there before.
        first = max(tags, key=lambda tag: (bool(tag.report.packages.before), len(self._examples(tag))), default=None)
        examples = list(self._examples(first)) if first else []
        platforms = {platform_of(one) for one in examples}
        if is_pressing or (assessment.environment and assessment.actions) or len(platforms) != 1:
            return {"install": None, "install_more": 0}
        examples = _of_one_machine(examples, *platforms)
        command = install_examples(examples, *platforms)
        if command is None:
            return {"install": None, "install_more": 0}
        rest = {package for tag in self._digest.tags for package in tag.installable} - {one.package for one in examples}
        others = sorted({target_of(one) for one in examples} - {""})
        having = [tag for tag in tags if {*examples} <= {*self._examples(tag)}]
        parts = (
            f"for Linux on {', '.join(others)}" if others else "",
            first_screen.in_tags(self._digest, having, self._words),
        )
        where = f"  # {', '.join(filter(None, parts))}" if any(parts) else ""
        return {
            "install": f"{command}{where}",
            "install_more": len(rest) if self._digest.environment is None else 0,  # of an environment, nobody counts
        }

    def tag(self, tag: TagDigest) -> Data:
        """Return totals, causes, examples and warnings of a tag; in the form WHOLE, for programs, also its versions."""
        report = tag.report
        causes = (cause for one in (*tag.statements, *tag.rest) for cause in one.causes)
        return {
            "source": self._name(tag.source),
            "tag": self._name(report.tag),
            "before": self.plain(report.before),
            "after": self.plain(report.after),
            "packages": asdict(report.packages),
            "specs": asdict(report.specs),
            "causes": [self.reason(one) for one in reasons_of(causes, self._words)[: self._form.others]],
            "accounting": accounting((*tag.statements, *tag.rest)),
            "versions": [
                {"package": self._name(package), **self.plain(delta)}
                for package, delta in (tag.versions.items() if self._form is WHOLE else ())
            ],
            "examples": [
                {
                    **self._names(example, "package", "version"),
                    "stacks": [self._name(stack) for stack in example.stacks],
                    "machines": self.plain(example.machines),
                    "command": install_examples([example], platform_of(example)),
                }
                for example in self._examples(tag)
            ],
            "mirror": mirror_of(self._digest, tag.source, report.after.tag or ""),
            "warnings": [
                {"path": self._clean(one.path), "kind": one.kind.value, "message": self._clean(one.message)}
                for one in report.diagnostics[: self._form.others]
            ],
            "is_incomplete": any(diagnostic.is_loss for diagnostic in report.diagnostics),
            "more_warnings": max(0, len(report.diagnostics) - self._form.others),
        }

    def _examples(self, tag: TagDigest) -> tuple[Example, ...]:
        """Return the example packages of a tag; if an environment is watched, only those that its machines run."""
        if self._digest.environment is None:
            return tag.examples
        needs = self._digest.environment.after.environment.needs
        return tuple(one for one in tag.examples if any(is_runnable(need, m) for need in needs for m in one.machines))

    def reason(self, one: Reason) -> Data:
        first = one.causes[0]
        return {
            "what": first.what.value,
            "packages": [self._name(package) for package in sorted({cause.package for cause in one.causes} - {""})],
            **{
                side: [self._clean(each) for each in ((value,) if isinstance(value, str) else value) if each]
                for side, value in (("before", first.before), ("after", first.after))
            },
            "specs": one.specs,
            "rebuilt": [self._name(package) for package in one.packages[: self._form.others]],
            "more_rebuilt": max(0, len(one.packages) - self._form.others),
            "words": one.words,
        }


def _of_one_machine(examples: Sequence[Example], platform: str) -> list[Example]:
    """Return the largest group of examples that one machine of `platform` can install."""
    best: list[Example] = []
    for own in dict.fromkeys(each for one in examples for each in one.machines if each.platform == platform):
        fitting = [
            one
            for one in examples
            if any((m.platform, m.os) == (own.platform, own.os) and runs(own.target, m.target) for m in one.machines)
        ]
        best = max(best, fitting, key=len)
    return best


def cleaner(longest: int) -> Clean:
    """Return a function that makes text safe for display and cuts it to `longest` characters."""
    return lambda text: shortened(safe(text[: longest + 1]), longest)


def moment(time: datetime | None) -> str | None:
    """Return `time` in UTC as JSON has it, `2026-07-27T04:10:00Z`; None for None."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else None


def package_url(links: str, tag: TagDigest, package: str) -> str | None:
    """Return the URL of a package's page below `links`; None if `links` is no URL, or if the tag was removed."""
    name = tag.report.after.tag
    if not links.startswith(("https://", "http://")) or not name:
        return None
    return f"{links.rstrip('/')}/package/{quote(name, safe='')}/{quote(package[:200], safe='')}/specs/"


_MOST_EXAMPLES = 3
_NEW = {Kind.PACKAGE_ADDED, Kind.VERSION_ADDED, Kind.UPGRADED, Kind.PLACE_GAINED}  # what may bring a newest version

Ranked = tuple[int, int, str, Example]


class DigestPart(Struct):
    """What a digest needs of some packages: versions, examples, installable packages and rows of the table."""

    versions: dict[str, Delta] = {}
    examples: list[Ranked] = []  # the best
    installable: list[str] = []  # packages
    csv: bytes = b""


class DigestCollector:
    """A collector for digests; keeps versions, examples and the table of changes, but no statements."""

    def __init__(self, wants: Wants, *, has_table: bool = True) -> None:
        """Collect only changes of kinds that `wants` accepts, and the table of changes only if `has_table`."""
        self._wants = wants
        self._has_table = has_table
        self._part = DigestPart()
        self._lines: list[CsvLine] = []

    def add(self, change: PackageChange) -> None:
        """Keep the versions, the example and the table rows of one package."""
        if not self._wants(change.kinds):
            return
        if delta := change.facts["versions"]:
            self._part.versions[change.package] = delta
        if self._has_table:
            self._lines += csv_lines(change)
        # A reader who asked for neither new packages nor new versions is not offered any.
        if self._wants(change.kinds & _NEW) and (example := _example(change)):
            self._part.installable.append(change.package)
            self._part.examples = _best([*self._part.examples, example])

    def take(self) -> DigestPart:
        """Return the collected parts."""
        self._part.csv = csv_table(self._lines)
        return self._part


def read_tag_digest(
    changeset: Changeset,
    *,
    source: str = "",
    wants: Wants,
    wants_line: Callable[[Line], bool] | None = None,
    room: int | None = None,
) -> TagDigest:
    """Consume all packages of `changeset`, which was made with a DigestCollector, and return the digest of the tag.

    `wants` selects statements about the whole tag and, if `wants_line` is None, also lines. The table of changes may
    have `room` bytes (None: MOST_CSV).
    """
    whole = DigestPart()
    table = CsvPacker(changeset.after.tag or "", MOST_CSV if room is None else room)
    for taken in changeset.collected():
        whole.versions |= taken.versions
        whole.examples = _best([*whole.examples, *taken.examples])
        whole.installable += taken.installable
        table.add(taken.csv)
    report = changeset.report
    wants_line = wants_line or (lambda line: is_wanted(line, wants))
    shown, _ = select_statements(report.statements, wants_line, wants)
    # What is routine is counted in one sentence: all that is so of a package, if some of it is wanted.
    told = {(one.kind, name) for one in shown if one.severity is Severity.ROUTINE for name in one.packages}
    shown, rest = select_statements(
        report.statements, lambda line: wants_line(line) or (line.story.kind, line.package) in told, wants
    )
    return TagDigest(
        source=source,
        report=report.about(wants),
        statements=shown,
        rest=rest,
        versions=whole.versions,
        examples=tuple(example for *_, example in whole.examples),
        installable=tuple(whole.installable),
        table=table.finish(),
        unreadable=report.unreadable,
    )


def _best(examples: Iterable[Ranked]) -> list[Ranked]:
    return heapq.nsmallest(_MOST_EXAMPLES, examples, key=lambda ranked: ranked[:3])


def _example(change: PackageChange) -> Ranked | None:
    """Return the newest version of a package as an example, with a rank; None if no stack newly builds this version."""
    added = {signature: count for signature, count in change.added_hashes.counts.items() if signature.stacks}
    version = newest({version for signature in added for version in signature.versions} or {""})
    had = change.before["versions"]
    if not version or (had and not is_newer(version, newest(had))):
        return None
    # Of a version that is newer than all that were there, every build is new.
    builds = {signature: count for signature, count in added.items() if version in signature.versions}
    others = {
        variant
        for specs in (change.specs_before, change.specs_after)
        for signature in specs.counts
        if version not in signature.versions
        for variant in signature.variants
    }
    # Spack may choose another value if it is not told that there is no build with this one.
    shared = frozenset[str].intersection(*(that_matter(signature.variants) for signature in builds))
    named = {variant_name(variant) for variant in others - shared}
    example = Example(
        package=change.package,
        version=version,
        variants=tuple(sorted(one for one in shared if variant_name(one) in named)),
        stacks=tuple(sorted({stack for signature in builds for stack in signature.stacks})),
        machines=tuple(sorted({Machine(each.platform, each.os, each.target) for each in builds})),
    )
    # New packages come before new versions, then those with more new specs.
    return (0 if change.status is Status.ADDED else 1, -sum(builds.values()), change.package, example)
