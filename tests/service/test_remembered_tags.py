"""Who chooses the same of what changed is told the same, whatever their patterns are, and it is found once."""

from collections.abc import Hashable
from pathlib import Path

import pytest
from helpers import catalogue, history, records
from selected import alone, compared, states
from station import Site

from cachewatch.core.selection import select
from cachewatch.report.values import TagDigest
from cachewatch.service.comparisons import what_is_asked

# Most of them choose the same of what changed.
SELECTIONS = (
    *[select(packages=patterns) for patterns in ((), ("*",), ("!none",), ("!z*",), ("!zlib", "!zstd"), ("py-*",))],
    *[select(packages=[f"!{name}"]) for name in ("hdf5", "llvm", "nothing")],
    select(stacks=["ml"]),
    select(stacks=["ml"], packages=["!nothing"]),
    select(kinds=["upgraded"]),
    select(kinds=["upgraded"], packages=["!none"]),
)
CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [files]}
silences:
  llvm-move: {match: {packages: [llvm]}, until: 2035-06-03, reason: "it moves"}
subscriptions:
  ann: {channels: [files], match: {packages: ["!none"]}}
  kim: {channels: [files], match: {packages: ["!nothing"]}}
  lou: {channels: [files], match: {packages: ["!hdf5"]}}
"""


def test_equal_questions_have_equal_answers(tmp_path: Path) -> None:
    shared = 0
    for seed in range(6):
        folder = history(tmp_path / f"{seed}.git", *states(seed))
        answers: dict[Hashable, TagDigest] = {}
        for selection in SELECTIONS:
            asked, answer = what_is_asked(compared(folder, selection), selection), alone(folder, selection)
            shared += asked in answers
            assert answers.setdefault(asked, answer) == answer
    assert shared > 6 * 4


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package that readers hear of, and one that is silenced, in each of two tags."""
    before, after = {"zlib": records([1])}, {"zlib": records([1]), "hdf5": records([2]), "llvm": records([3])}
    made = Site(tmp_path, [catalogue(state) | catalogue(state, tag="v2") for state in (before, after)])
    made.configure(CONFIG)
    made.run()
    made.publish(1)
    return made


@pytest.mark.slow
def test_readers_with_other_patterns_are_told_the_same(site: Site) -> None:
    """Also how many packages a silence hid."""
    site.run()

    told = {stored.subscription: stored.rendered for stored in site.digests()}
    assert told["ann"].title == told["kim"].title
    assert told["ann"].bullets == told["kim"].bullets
    assert "hdf5" in told["ann"].text
    assert "lou" not in told
    assert "it moves" in told["kim"].text
