"""The bars of issue 3, and whether they are reached."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks import suites
from benchmarks.answers import Answer
from benchmarks.history import History
from benchmarks.measuring import Figures
from benchmarks.suites import Reads, Suite


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


def bars_of_far(far: Suite) -> Iterator[Bar]:
    """Bar 1, and the memory of bar 3."""
    floor = far.seconds[suites.FLOOR]
    for name, limit in ((suites.TEXT_2, 2.5), (suites.TEXT_1, 3.0), (suites.JSON_2, 3.5)):
        yield Bar(
            number=1,
            promise=f"far, {name}, over the floor",
            limit=limit,
            measured=far.seconds[name].over(floor),
            form="{:.2f} x",
        )
    for name in (suites.TEXT_1, suites.TEXT_2, suites.JSON_2):
        measured = Figures((far.memory[name].largest_python,))
        promise = f"far, {name}, peak memory of the largest Python process"
        yield Bar(number=3, promise=promise, limit=120, measured=measured, form="{:.0f} MB")


def bars_of_small(small: Suite) -> Iterator[Bar]:
    """Bar 2, and the first half of bar 4."""
    seconds, ours = small.seconds, small.seconds["cachewatch, text"]
    more = ours.minus(seconds[suites.STAT])
    yield Bar(number=2, promise="small, text, more than git diff --stat", limit=0.2, measured=more, form="{:.3f} s")
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
