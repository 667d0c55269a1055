"""RESULTS.md: everything that was measured, as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.answers import Answer
from benchmarks.bars import Bar
from benchmarks.history import History
from benchmarks.history_index import HistoryIndex
from benchmarks.history_index import section as index_section
from benchmarks.measuring import Figures
from benchmarks.passes import Cost
from benchmarks.suites import FLOOR, IGNORE_ORDER, PASS, Reads, Suite
from benchmarks.tables import spread, table
from benchmarks.year import Year


@dataclass(slots=True)
class Results:
    """All that one run found out."""

    facts: list[tuple[str, str]]
    bars: list[Bar] = field(default_factory=list)
    suites: list[Suite] = field(default_factory=list)
    growth: list[Suite] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    history: History | None = None
    reads: Reads | None = None
    deliveries: dict[int, Figures] = field(default_factory=dict)  # by how many old digests each reader had
    passes: dict[str, Cost] = field(default_factory=dict)
    year: Year | None = None
    index: HistoryIndex | None = None
    phases: dict[str, dict[str, Figures]] = field(default_factory=dict)  # by title of the suite
    imports: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write(results: Results) -> str:
    """Return the whole page."""
    parts = [_head(results), _bars(results.bars), *map(_suite, results.suites)]
    if results.growth:
        parts.append(_growth(results.growth))
    if results.history:
        parts.append(_history(results.history))
    if results.reads:
        parts.append(_reads(results.reads))
    if results.deliveries:
        parts.append(_deliveries(results.deliveries))
    if results.passes:
        parts.append(_passes(results.passes))
    if results.year:
        parts.append(_year(results.year))
    if results.index:
        parts.append(index_section(results.index))
    parts += [_answers(results.answers), _phases(results), _imports(results.imports)]
    return "\n".join(line for part in parts for line in (*part, ""))


def _head(results: Results) -> Iterator[str]:
    yield "# Results of the benchmarks"
    yield ""
    yield f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC; never edited."
    yield ""
    yield from table(("what", "which"), results.facts)
    yield ""
    yield "Every figure is of whole processes, start-up included, in rounds where each command runs once;"
    yield "a ratio is taken within a round. Shown is the median (least to most, rounds)."
    yield f"The {FLOOR} is `git diff-tree -r` piped into `git cat-file --batch --buffer`, to /dev/null, without Python."
    yield "What has used up its seconds sits out the rounds that are left, so slow commands have fewer."
    yield "cachewatch is a copy made when the run began, compiled as an installed one is."
    for note in results.notes:
        yield ""
        yield f"**Note.** {note}"


def _bars(bars: Sequence[Bar]) -> Iterator[str]:
    yield f"## Bars: {sum(bar.is_reached for bar in bars)} of {len(bars)} reached"
    yield ""
    rows = [
        (
            str(bar.number),
            bar.promise,
            bar.limit_text,
            spread(bar.measured, bar.form),
            "yes" if bar.is_reached else "**no**",
        )
        for bar in sorted(bars, key=lambda bar: bar.number)
    ]
    yield from table(("bar", "what", "limit", "measured", "reached"), rows)


def _suite(suite: Suite) -> Iterator[str]:
    yield f"## {suite.title}"
    yield ""
    yield suite.about
    yield ""
    yield from table(("command", "over the floor", "seconds", *_MEMORY), _rows(suite))


def _growth(growth: Sequence[Suite]) -> Iterator[str]:
    yield "## Growth"
    yield ""
    yield "Far revisions of repositories of three sizes. Between sizes only medians are compared."
    yield ""
    rows = [(suite.title, *row) for suite in growth for row in _rows(suite)]
    yield from table(("packages", "command", "over the floor", "seconds", *_MEMORY), rows)


_MEMORY = ("all processes, MB", "Python processes, MB", "largest Python, MB", "git and sh, MB")


def _rows(suite: Suite) -> Iterator[tuple[str, ...]]:
    floor = suite.seconds[FLOOR]
    for name, seconds in suite.seconds.items():
        memory = suite.memory.get(name)
        sizes = (memory.tree, memory.pythons, memory.largest_python, memory.git) if memory else ()
        shown = [f"{size:.0f}" if size else "-" for size in sizes] or [""] * len(_MEMORY)
        yield (name, spread(seconds.over(floor), "{:.2f} x"), spread(seconds, "{:.3f}"), *shown)


def _passes(passes: Mapping[str, Cost]) -> Iterator[str]:
    yield "## Passes of the service"
    yield ""
    yield "A few packages change in every tag, and each subscription asks for another part of it: see passes.py."
    yield "Processor time is that of all processes, git and the program that takes the mails included."
    yield ""
    rows = [
        (
            name,
            f"{c.processor:.1f}",
            f"{c.seconds:.1f}",
            f"{c.megabytes:.0f}",
            f"{c.digests:,}",
            f"{c.beyond_text / 1000:.1f}",
        )
        for name, c in passes.items()
    ]
    heads = ("what", "processor, s", "s", "Python processes, MB", "digests", "state a digest beyond its text, kB")
    yield from table(heads, rows)


def _year(year: Year) -> Iterator[str]:
    yield "## A year"
    yield ""
    yield f"A pass each morning for {year.days} days, each with a digest for {year.readers} readers: see year.py."
    yield ""
    rows = [("the whole state, without the clone", f"{year.megabytes:.1f}")]
    rows += [(f"of that: {name}", f"{size:.1f}") for name, size in year.tables.items()]
    yield from table((f"after {year.digests:,} digests", "MB"), rows)


def _history(history: History) -> Iterator[str]:
    yield "## History"
    yield ""
    yield f"All revisions of develop. cachewatch compares each with the one before, a process for each ({history.our_versions:,}"
    yield f"versions of documents, `--jobs 1`, json); git-history reads {history.documents} documents, from small to large, a"
    yield f"process for each ({history.their_versions} versions, with `--wal`, told how to find the JSON in the text)."
    yield ""
    without_start = history.theirs.minus(history.their_start)
    rows = [
        ("cachewatch", spread(_milliseconds(history.ours), "{:.2f}")),
        ("git-history", spread(_milliseconds(history.theirs), "{:.2f}")),
        ("git-history without its start-up", spread(_milliseconds(without_start), "{:.2f}")),
    ]
    yield from table(("program", "ms a version of a document"), rows)


def _reads(reads: Reads) -> Iterator[str]:
    yield "## What is read"
    yield ""
    yield f"Of {reads.differing} documents that differ between HEAD and its predecessor over all dated tags, cachewatch asked"
    yield f"git for {reads.distinct}, in {reads.asked} requests; {reads.others} requests were for other files."


def _deliveries(deliveries: Mapping[int, Figures]) -> Iterator[str]:
    yield "## Deliveries"
    yield ""
    yield "One digest goes to 100 readers through a program that does nothing, in one process; CPU seconds without that program."
    yield ""
    rows = [(f"{old:,}", spread(seconds, "{:.2f}")) for old, seconds in deliveries.items()]
    yield from table(("old digests of each reader", "seconds"), rows)


def _answers(answers: Sequence[Answer]) -> Iterator[str]:
    yield "## Answers"
    yield ""
    rows = [(answer.what, f"{answer.same} of {answer.all}", answer.first_other) for answer in answers]
    yield from table(("compared", "the same", "first that is not"), rows or [("nothing: there are no peers", "", "")])


def _phases(results: Results) -> Iterator[str]:
    yield "## Where the time goes"
    yield ""
    yield "What one process does, by phase (phases.py), in seconds and over the floor of the same suite. Python itself,"
    yield "printing and the end are not in it; with two processors, git reads while Python works, what compares loads"
    yield "while git is asked, and two processes share what comes after that."
    yield ""
    floors = {suite.title: suite.seconds[FLOOR].middle for suite in results.suites}
    rows = [
        (title, phase, f"{seconds.middle:.3f}", f"{seconds.middle / floors[title]:.2f} x")
        for title, phases in results.phases.items()
        for phase, seconds in phases.items()
    ]
    yield from table(("suite", "phase", "seconds", "over the floor"), rows)
    yield ""
    yield from _limits(results)


def _limits(results: Results) -> Iterator[str]:
    """Say what the bars that are not reached leave room for."""
    far, small, *_ = results.suites
    floor, start = far.seconds[FLOOR].middle, small.seconds[PASS].middle
    for bar in results.bars:
        if bar.number == 1 and not bar.is_reached:
            yield f"- {bar.promise}: {bar.limit:.1f} x leaves {bar.limit * floor:.2f} s, of which starting Python takes"
            yield f"  {start:.2f} s; all other phases have to share what is left."
        if bar.number == 4 and not bar.is_reached and IGNORE_ORDER in small.seconds:
            allowed = small.seconds[IGNORE_ORDER].middle / bar.limit
            yield f"- {bar.promise}: {bar.limit:.0f} x leaves {allowed:.3f} s; Python alone takes {start:.3f} s to start."


def _imports(imports: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield "## Start-up"
    yield ""
    yield "`python -X importtime` of the small commit, by top-level package, its own time, in both processes (slower than without `-X`)."
    yield ""
    rows = [(f"`{name}`", f"{milliseconds:.1f}") for name, milliseconds in imports[:15]]
    rows += [("all others", f"{sum(ms for _, ms in imports[15:]):.1f}"), ("all", f"{sum(ms for _, ms in imports):.1f}")]
    yield from table(("package", "ms"), rows)


def _milliseconds(seconds: Figures) -> Figures:
    return Figures(tuple(value * 1000 for value in seconds.values))
