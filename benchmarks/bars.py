"""What was promised, and whether it is kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks import suites
from benchmarks.answers import Answer
from benchmarks.history import History
from benchmarks.measuring import Figures
from benchmarks.passes import Cost
from benchmarks.suites import Reads, Suite
from benchmarks.year import Year


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One promise, what was measured, and the form both are shown in."""

    number: int
    promise: str
    limit: float
    measured: Figures
    form: str
    is_least: bool = False  # the limit is the least, not the most

    @property
    def is_reached(self) -> bool:
        """Tell whether the median keeps the promise."""
        middle = self.measured.middle
        return middle >= self.limit if self.is_least else middle <= self.limit

    @property
    def limit_text(self) -> str:
        """Say the limit."""
        return f"{'≥' if self.is_least else '≤'} {self.form.format(self.limit)}"


# What comparing far revisions may take over the floor: where ten specs share a record text, and where 2.5 do.
ALIKE = {suites.TEXT_1: 5.8, suites.TEXT_2: 4.5, suites.JSON_2: 5.4}
VARIED = {suites.TEXT_1: 10.5, suites.TEXT_2: 7.0, suites.JSON_2: 7.0}


def bars_of_far(far: Suite, limits: Mapping[str, float]) -> Iterator[Bar]:
    """Bar 1, and the memory of bar 3."""
    floor = far.seconds[suites.FLOOR]
    for name, limit in limits.items():
        yield Bar(
            number=1,
            promise=f"{far.title.lower()}, {name}, over the floor",
            limit=limit,
            measured=far.seconds[name].over(floor),
            form="{:.2f} x",
        )
    for name in (suites.TEXT_1, suites.TEXT_2, suites.JSON_2):
        measured = Figures((far.memory[name].largest_python,))
        promise = f"{far.title.lower()}, {name}, peak memory of the largest Python process"
        yield Bar(number=3, promise=promise, limit=120, measured=measured, form="{:.0f} MB")


def bars_of_start_up(start_up: Suite) -> Iterator[Bar]:
    """The third part of bar 2: what loading takes where there is nothing to do."""
    for name, seconds in start_up.seconds.items():
        if name != suites.PASS:
            more = seconds.minus(start_up.seconds[suites.PASS])
            yield Bar(number=2, promise=f"{name}, more than {suites.PASS}", limit=0.06, measured=more, form="{:.3f} s")


def bars_of_passes(passes: Mapping[str, Cost]) -> Iterator[Bar]:
    """Bar 7: a pass of the service for many subscriptions."""
    for name, cost in passes.items():
        limit = 12.0 if cost.load.tags > 1 else 60.0
        yield _bar_of_pass(f"{name}, processor time", limit, cost.processor, "{:.1f} s")
        yield _bar_of_pass(f"{name}, memory of all Python processes", 200, cost.megabytes, "{:.0f} MB")
        yield _bar_of_pass(f"{name}, state a digest beyond its text", 12, cost.beyond_text / 1000, "{:.1f} kB")


def bars_of_year(year: Year) -> Iterator[Bar]:
    """Bar 7, too: the state after a year."""
    yield _bar_of_pass(
        f"state after {year.days} days of digests for {year.readers} readers", 200, year.megabytes, "{:.0f} MB"
    )


def _bar_of_pass(promise: str, limit: float, measured: float, form: str) -> Bar:
    return Bar(number=7, promise=promise, limit=limit, measured=Figures((measured,)), form=form)


def bars_of_small(small: Suite) -> Iterator[Bar]:
    """Bar 2, and the first half of bar 4."""
    seconds, ours = small.seconds, small.seconds["cachewatch, text"]
    more = ours.minus(seconds[suites.STAT])
    yield Bar(number=2, promise="small, text, more than git diff --stat", limit=0.09, measured=more, form="{:.3f} s")
    promise = f"small, text, over {suites.IMPORT_GIT}"
    yield Bar(number=2, promise=promise, limit=1.6, measured=ours.over(seconds[suites.IMPORT_GIT]), form="{:.2f} x")
    if suites.IGNORE_ORDER in seconds:
        faster = seconds[suites.IGNORE_ORDER].over(seconds["cachewatch, json"])
        promise = "small, faster than DeepDiff ignore_order through python-frontmatter"
        yield Bar(number=4, promise=promise, limit=100, measured=faster, form="{:.1f} x", is_least=True)


def bars_of_growth(growth: Sequence[Suite]) -> Iterator[Bar]:
    """The second half of bar 3: time within 1.15 of linear, memory flat."""
    for smaller, larger in pairwise(growth):
        for name in (suites.TEXT_1, suites.TEXT_2):
            # The sizes were not run in the same rounds, so only their medians can be compared.
            grown = larger.seconds[name].middle / smaller.seconds[name].middle / 10
            promise = f"{smaller.title} to {larger.title} packages, {name}, time over linear"
            yield Bar(number=3, promise=promise, limit=1.15, measured=Figures((grown,)), form="{:.2f} x")
    for name in (suites.TEXT_1, suites.TEXT_2):
        peaks = [suite.memory[name].largest_python for suite in growth]
        promise = f"{growth[0].title} to {growth[-1].title} packages, {name}, memory of the largest Python process"
        measured = Figures((max(peaks) / min(peaks),))
        yield Bar(number=3, promise=promise, limit=1.5, measured=measured, form="{:.2f} x")


def bars_of_history(history: History) -> Iterator[Bar]:
    """The second half of bar 4."""
    promise = "a version of a document, faster than git-history"
    measured = history.theirs.over(history.ours)
    yield Bar(number=4, promise=promise, limit=20, measured=measured, form="{:.1f} x", is_least=True)


def bars_of_index(
    *, peer: Figures | None, two: Figures, size: Figures, questions: Mapping[str, Figures], version: Figures
) -> Iterator[Bar]:
    """Bar 8: the history index, built and asked; `questions` are the seconds of whole processes, as is `version`."""
    if peer is not None:
        promise = "history index, a version of a document, faster than git-history"
        yield Bar(number=8, promise=promise, limit=300, measured=peer, form="{:.0f} x", is_least=True)
    promise = "history index built in two processes, faster than in one"
    yield Bar(number=8, promise=promise, limit=1.6, measured=two, form="{:.2f} x", is_least=True)
    yield Bar(number=8, promise="history index, bytes a spec event", limit=50, measured=size, form="{:.1f}")
    for name, seconds in questions.items():
        more = seconds.minus(version)
        yield Bar(number=8, promise=f"{name}, more than --version", limit=1, measured=more, form="{:.3f} s")


def bars_of_answers(answers: Sequence[Answer]) -> Iterator[Bar]:
    """What makes bar 4 worth anything: the answers are the same."""
    share = sum(answer.is_same for answer in answers) / len(answers)
    measured = Figures((share,))
    yield Bar(
        number=4, promise="comparisons with the same answer", limit=1, measured=measured, form="{:.0%}", is_least=True
    )


def bars_of_tags(reads: Reads) -> Iterator[Bar]:
    """Bar 5: nothing is read that does not differ, and nothing twice."""
    promise = f"--tag 'develop-*', reads of documents, where {reads.differing} differ"
    measured = Figures((float(reads.asked),))
    yield Bar(number=5, promise=promise, limit=reads.differing, measured=measured, form="{:.0f}")


def bars_of_deliveries(deliveries: Mapping[int, Figures]) -> Iterator[Bar]:
    """What was delivered costs nothing."""
    none, *olds = deliveries
    for old in olds:
        promise = f"one digest to 100 readers, {old:,} old digests of each over none"
        measured = deliveries[old].over(deliveries[none])
        yield Bar(number=6, promise=promise, limit=1.5, measured=measured, form="{:.2f} x")
