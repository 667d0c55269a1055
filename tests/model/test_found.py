"""What the model has found, each in as few moves as it takes."""

from datetime import timedelta
from typing import Any

import pytest

from model.catalogue import Step
from model.mail import Mood
from model.stage import Move, Stage

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def change(*steps: Step, **options: Any) -> Move:
    return Move("change", {"steps": steps, **options})


def run(later: timedelta = HOUR, **options: Any) -> Move:
    return Move("run", {"later": later, **options})


def seen(*steps: Step, later: timedelta = HOUR, **options: Any) -> list[Move]:
    """Let upstream change, and the service see it."""
    return [change(*steps, **options), run(later)]


UPGRADE = change(Step("upgrade"))
FOUND = {
    "the mail server refuses everybody for a while": [
        Move("set_mood", {"mood": Mood.REFUSES}),
        *(move for _ in range(3) for move in (UPGRADE, run(2 * DAY))),
        Move("set_mood", {"mood": Mood.ACCEPTS}),
        run(2 * HOUR),
    ],
    "the mail server refuses everybody, first one alone whose digest waited for the next pass": [
        Move("set_mood", {"mood": Mood.DEFERS}),
        run(4 * DAY),
        Move("set_mood", {"mood": Mood.REFUSES}),
        *seen(Step("remove", package="pb"), later=7 * HOUR),
    ],
    "upstream commits dates that no calendar holds": [
        *seen(Step("upgrade"), seconds=253402300800),
        *seen(Step("upgrade"), seconds=2**62),
        *seen(Step("upgrade")),
    ],
    "a document is broken, then repaired with something new": [
        *seen(Step("break")),
        *seen(Step("repair", is_new=True)),
    ],
    "a document is broken, then gone": [*seen(Step("break")), change(Step("remove")), run()],
    "the first tag that a stream asked for appears": [*seen(Step("snapshot"))],
    "the whole catalogue is gone by mistake, and is back with upgrades": [
        *seen(Step("empty")),
        *seen(Step("restore", is_new=True)),
    ],
    "the whole catalogue is gone, which operators release, and is back with upgrades": [
        *seen(Step("empty")),
        Move("answer", {"is_released": True}),
        *seen(Step("restore", is_new=True)),
    ],
    "a tag is gone, and is back, while one of its documents cannot be read": [
        *seen(Step("break")),
        *seen(Step("empty")),
        Move("answer", {"is_released": True}),
        *seen(Step("return_tag")),
        *seen(Step("repair", is_new=True)),
    ],
    "all packages that a stream asked for are gone": [*seen(Step("remove"), Step("remove", package="pb"))],
    "all packages that a stream asked for are gone, then their tag": [
        *seen(Step("remove"), Step("remove", package="pb")),
        change(Step("empty")),
    ],
    "the answer of a delivery cannot be written down, and the process goes on": [
        Move("change_process", {"is_daemon": True}),
        *(move for first in range(6, 26, 2) for move in (UPGRADE, run(locked=(first, 2)))),
    ],
    "a loss is held, then taken back, and one of two held digests is released": [
        *seen(Step("remove_tag"), later=30 * DAY),
        Move("rewind", {"back": 3}),
    ],
    "a tag loses most of its packages, and another does shortly before operators had their time for the first": [
        *seen(Step("snapshot", is_new=True)),
        change(Step("collapse")),
        *(run(7 * HOUR) for _ in range(5)),
        *seen(Step("collapse", tag=1), later=7 * HOUR),
    ],
    "a tag comes and goes while an urgent digest is held for another one, and a regular digest tells of it": [
        *seen(Step("snapshot", is_new=True)),
        *seen(Step("collapse", tag=1), Step("remove", tag=1), Step("snapshot"), later=7 * DAY),
        *seen(Step("remove_tag", tag=1)),
    ],
    "the clock is a year ahead for one pass": [run(skew=365 * DAY), UPGRADE, run()],
    "the clock is 30 days ahead for one pass": [run(skew=30 * DAY), UPGRADE, run()],
    "the clock is 30 days ahead while the mail server is away": [
        Move("set_mood", {"mood": Mood.AWAY}),
        UPGRADE,
        run(skew=30 * DAY),
    ],
    "the clock is a year behind for one pass, in which a loss is held, and a year ahead for the next one": [
        change(Step("remove_tag")),
        run(skew=-365 * DAY),
        run(skew=365 * DAY),
    ],
    "two snapshots appear at once, with a document that cannot be read": [
        change(Step("break", package="pc")),
        change(Step("snapshot", is_new=True)),
        *seen(Step("snapshot", is_new=True)),
    ],
    "two snapshots appear at once, and a document of the older one cannot be read": [
        change(Step("snapshot"), Step("snapshot")),
        *seen(Step("break", tag=1)),
    ],
    "a document cannot be read in the first revision of all, then it is repaired": [
        Move("begin", {"steps": [Step("break")]}),
        *seen(Step("repair", is_new=True)),
        *seen(Step("upgrade")),
    ],
    "a document cannot be read in the first two revisions, then it is repaired": [
        Move("begin", {"steps": [Step("break")]}),
        *seen(Step("repair"), Step("break")),
        *seen(Step("repair", is_new=True)),
        *seen(Step("upgrade")),
    ],
    "a document cannot be read in the first revision of all, then in another, and is repaired to what it was in between": [
        Move("begin", {"steps": [Step("break")]}),
        change(Step("repair", is_new=True)),
        *seen(Step("break")),
        *seen(Step("repair")),
    ],
    "a tag appears with nothing that a stream asked for, and gets something": [
        *seen(Step("remove"), Step("remove", package="pb")),
        *seen(Step("snapshot", is_new=True)),
        *seen(Step("add", tag=1, is_new=True)),
        *seen(Step("remove", tag=1)),
        *seen(Step("remove_tag", tag=1)),
        *seen(Step("return_tag", is_new=True)),
    ],
    "a document cannot be read in the first revision of all, then it is gone": [
        Move("begin", {"steps": [Step("break")]}),
        *seen(Step("remove")),
    ],
    "a snapshot lacks what cannot be read of the one before, which is repaired later": [
        *seen(Step("break", package="pb"), Step("snapshot"), Step("remove", package="pb")),
        *seen(Step("snapshot")),
    ],
    "a release is removed while one of its documents cannot be read, and is back together with the next release": [
        change(Step("snapshot", is_new=True)),
        change(Step("break", tag=1, package="pc")),
        change(Step("remove_tag", tag=1)),
        *seen(Step("return_tag"), Step("snapshot", is_new=True)),
    ],
    "a document cannot be read, is gone and back with the whole catalogue, then removed, and added with something new": [
        *seen(Step("break")),
        change(Step("empty")),
        change(Step("return_tag")),
        *seen(Step("remove")),
        *seen(Step("add", is_new=True)),
    ],
    "a document cannot be read in two revisions but in between, then it is removed, and added with something new": [
        *seen(Step("break")),
        change(Step("repair", is_new=True)),
        *seen(Step("break")),
        *seen(Step("remove")),
        *seen(Step("add", is_new=True)),
    ],
    "a release has a document that cannot be read, as the one before it has, which is new, and both are repaired": [
        change(Step("snapshot", is_new=True)),
        change(Step("break", tag=0, package="pc", how="empty"), Step("break", tag=1, package="pc", how="empty")),
        change(Step("snapshot", is_new=True)),
        run(),
    ],
    "a package that a snapshot lacks is back in the next one with something new, and the first one is gone": [
        *seen(Step("snapshot"), later=7 * DAY),
        *seen(Step("remove_tag", tag=1), later=7 * DAY),
        *seen(Step("remove"), Step("snapshot"), later=7 * DAY),
        *seen(Step("add", is_new=True), Step("snapshot"), later=7 * DAY),
    ],
    "a package goes from a snapshot, and is in the next one with something new": [
        *seen(Step("snapshot"), later=7 * DAY),
        *seen(Step("remove", tag=1, package="pb"), Step("upgrade", package="pb"), later=7 * DAY),
        *seen(Step("snapshot"), later=7 * DAY),
    ],
    "two packages are gone for an urgent digest, one of them is back before the regular one, and the other after it": [
        change(Step("remove_tag")),
        *seen(Step("add", package="pc")),
        run(30 * DAY),
        *seen(Step("snapshot"), Step("add"), later=DAY),
        change(Step("add", package="pb", is_new=True)),
    ],
    "a package is added to a tag that is removed before the next digest, and is back with the tag": [
        Move("begin", {"steps": [Step("collapse")]}),
        change(Step("add", tag=2, package="pc")),
        *seen(Step("remove_tag"), later=DAY),
        change(Step("restore", tag=1)),
    ],
    "a package is removed, forgotten since the clock is a year ahead for one pass, and added anew": [
        *seen(Step("remove", package="pc"), later=DAY),
        run(40 * DAY),
        run(skew=365 * DAY),
        change(Step("add", package="pc", is_new=True)),
    ],
    "a snapshot that was removed is back with upgrades, together with the next one, which is as the first one was": [
        Move("begin", {"steps": [Step("snapshot")]}),
        *seen(Step("remove_tag", tag=1), later=7 * HOUR),
        change(Step("restore", is_new=True), Step("snapshot")),
    ],
    "a package of a snapshot is back with something new, and as it was in the next one": [
        Move("begin", {"steps": [Step("snapshot")]}),
        *seen(Step("remove", tag=1, package="pb"), later=7 * DAY),
        *seen(Step("add", tag=1, package="pb", is_new=True), Step("snapshot"), later=7 * DAY),
    ],
    "a release lacks what cannot be read of the one before, which is repaired before a regular digest": [
        *seen(Step("break", package="pb"), Step("snapshot", is_new=True)),
        *seen(Step("remove", package="pb"), Step("snapshot", is_new=True)),
        *seen(Step("repair", tag=1, package="pb", is_new=True), later=7 * DAY),
    ],
}


@pytest.mark.parametrize("moves", FOUND.values(), ids=FOUND.keys())
def test_nothing_is_lost_when(stage: Stage, moves: list[Move]) -> None:
    found = stage.play(moves)
    assert not found, "\n".join(found)
