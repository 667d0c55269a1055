"""Plays upstream, time, servers and kills against the real service, and checks the one invariant at the end."""

from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from model.catalogue import BREAKS, STEPS, Step
from model.mail import Mood
from model.stage import Example, Move, Stage
from model.world import READERS

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

_STEP = st.builds(
    Step,
    name=st.sampled_from(STEPS),
    tag=st.integers(0, 3),
    package=st.sampled_from(("pa", "pb", "pc")),
    how=st.sampled_from(sorted(BREAKS)),
    is_new=st.booleans(),
)
_STEPS = st.lists(_STEP, min_size=1, max_size=3)
_LATER = st.sampled_from((timedelta(0), 5 * MINUTE, HOUR, 7 * HOUR, DAY, 4 * DAY, 30 * DAY))
_SKEW = st.sampled_from([sign * size for size in (HOUR, DAY, 30 * DAY, 365 * DAY) for sign in (1, -1)])
# The first and the last that git and a calendar know, and some beyond.
_SECONDS = st.sampled_from((0, 1, 2**31, 253402300799, 253402300800, 2**40, 2**62))
# A pass with much to tell makes so many calls that can be its last.
_CALL = st.integers(1, 6400)


class Model(RuleBasedStateMachine):
    """One site, and everything that can happen to it."""

    stage: ClassVar[Stage]
    failed: ClassVar[list[Move] | None] = None  # the last example that broke a promise
    problems: ClassVar[list[str]] = []  # and how
    example: Example | None = None

    @initialize(steps=st.lists(_STEP, max_size=2))
    def begin(self, steps: list[Step]) -> None:
        """Let the service know upstream, which may be in disorder already."""
        self.example = Example(self.stage)
        self._do("begin", steps=steps)

    @rule(steps=_STEPS, later=_LATER)
    def publish_and_run(self, steps: list[Step], later: timedelta) -> None:
        """Let upstream change, and the service see it."""
        self._do("change", steps=steps)
        self._do("run", later=later)

    @rule(steps=_STEPS, later=_LATER, seconds=_SECONDS)
    def publish_with_an_odd_date(self, steps: list[Step], later: timedelta, seconds: int) -> None:
        """Let upstream change with a date that no calendar holds, or one far from now, and the service see it."""
        self._do("change", steps=steps, seconds=seconds)
        self._do("run", later=later)

    @rule(
        steps=st.lists(_STEPS, min_size=1, max_size=4), later=_LATER, mood=st.sampled_from((Mood.REFUSES, Mood.DEFERS))
    )
    def refuse_everybody_for_a_while(self, steps: list[list[Step]], later: timedelta, mood: Mood) -> None:
        """Let the mail server refuse everybody while there is news, then work again."""
        self._do("set_mood", mood=mood)
        for some in steps:
            self._do("change", steps=some)
            self._do("run", later=later)
        self._do("set_mood", mood=Mood.ACCEPTS)

    @rule(steps=_STEPS)
    def publish(self, steps: list[Step]) -> None:
        """Let upstream change."""
        self._do("change", steps=steps)

    @rule(steps=_STEPS, back=st.integers(1, 3), is_forgotten=st.booleans())
    def rewrite(self, steps: list[Step], back: int, is_forgotten: bool) -> None:
        """Let upstream push by force, and perhaps forget what it had."""
        self._do("change", steps=steps, back=back, is_forgotten=is_forgotten)

    @rule(back=st.integers(1, 3))
    def rewind(self, back: int) -> None:
        """Let upstream take back what it published last."""
        self._do("rewind", back=back)

    @rule(later=_LATER)
    def run(self, later: timedelta) -> None:
        """Let time pass, and the service work."""
        self._do("run", later=later)

    @rule(steps=_STEPS, later=_LATER, call=_CALL)
    def publish_and_kill(self, steps: list[Step], later: timedelta, call: int) -> None:
        """Let upstream change, and kill the service at its so-manieth call while it sees that."""
        self._do("change", steps=steps)
        self._do("run", later=later, kill=call)

    @rule(steps=_STEPS, later=_LATER, first=st.integers(1, 40), number=st.integers(1, 3))
    def publish_and_lock(self, steps: list[Step], later: timedelta, first: int, number: int) -> None:
        """Let upstream change, and the database be locked for some transactions while the service sees that."""
        self._do("change", steps=steps)
        self._do("run", later=later, locked=(first, number))

    @rule(is_daemon=st.booleans())
    def change_process(self, is_daemon: bool) -> None:
        """Let one process do what comes, or each pass be done by one of its own."""
        self._do("change_process", is_daemon=is_daemon)

    @rule(skew=_SKEW)
    def run_with_a_wrong_clock(self, skew: timedelta) -> None:
        """Let the clock be wrong for one pass."""
        self._do("run", skew=skew)

    @rule(mood=st.sampled_from(Mood))
    def change_mail_server(self, mood: Mood) -> None:
        """Let the mail server behave otherwise from now on."""
        self._do("set_mood", mood=mood)

    @rule(reader=st.sampled_from(READERS))
    def refuse(self, reader: str) -> None:
        """Let the mail server know somebody no more, or again."""
        self._do("refuse", reader=reader)

    @rule(is_open=st.booleans())
    def use_archive(self, is_open: bool) -> None:
        """Let files be written nowhere, or again."""
        self._do("open_archive" if is_open else "close_archive")

    @rule(is_released=st.booleans())
    def answer(self, is_released: bool) -> None:
        """Let operators answer what they were asked."""
        self._do("answer", is_released=is_released)

    def teardown(self) -> None:
        """Let all be well, and look at what everybody got."""
        if self.example is not None:
            found = self.example.end()
            if found:
                Model.failed, Model.problems = self.example.moves, found
            assert not found, "\n".join([*found, *map(str, self.example.moves)])

    def _do(self, name: str, **options: Any) -> None:
        assert self.example is not None
        try:
            self.example.do(name, **options)
        except AssertionError as error:
            Model.failed, Model.problems = self.example.moves, [str(error)]
            raise
