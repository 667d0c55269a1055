"""Spack's order of versions."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachewatch.versions import is_newer, newest, sorted_versions, version_key

# Checked by running Spack's own spack.version.
ASCENDING = (  # noqa: SIM905  as it was printed
    "git-abc, 0.4.51, 0_14_02, 1.0alpha1, 1.0beta2, 1.0rc1, 1.0, 1.0a, 1.0x, 1.0.1, 1.1-preview, 1.1.1, 1.1.1n, 1.1.1o, "
    "1.2.1, 1.2.2, 1.2.3, 1.2-main, 1.9, 1.10, 1.10.0, 2.4.48, 2.26, 2.26-t9b_atlas, 2.26.1, 3.0.0-develop, 6.3.3, "
    "6.4.0, 2025.08.20, 9999, 20230125.3, 20240116.2, stable, trunk, head, master, main, develop, develop-2024"
).split(", ")


def test_order_of_spack() -> None:
    """Versions sort as Spack sorts them, whatever their order before."""
    shuffled = random.Random(1).sample(ASCENDING, len(ASCENDING))

    assert sorted_versions(shuffled) == ASCENDING


@pytest.mark.parametrize(("older", "newer"), list(pairwise(ASCENDING)))
def test_each_is_newer_than_the_one_before(older: str, newer: str) -> None:
    """Neighbours of the row are never taken for equal."""
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1-2-3", "1_2_3"), ("1-2-3", "1.2.3"), ("01", "1"), ("1.0rc1", "1.0-rc.1"), ("git.main=1.2", "1.2")],
)
def test_spellings_of_one_version(one: str, other: str) -> None:
    """Separators, leading zeros and the reference of a git version mean nothing."""
    assert not is_newer(one, other)
    assert not is_newer(other, one)


def test_bare_commits_come_last() -> None:
    """A commit says nothing about its place, so it stands behind everything."""
    assert newest(["develop", "git.feature/x", "9999"]) == "git.feature/x"
    assert newest(["main", "0" * 39 + "a"]) == "0" * 39 + "a"


def test_a_million_digits() -> None:
    """A number beyond what Python converts is still a number."""
    assert is_newer("9" * 1_000_000, "8" * 1_000_000)
    assert is_newer("1" + "0" * 5000, "9" * 5000)


@given(st.lists(st.text("0123456789.-_abdevlopr=gitm", max_size=12), min_size=2, max_size=6))
def test_any_text_sorts(versions: list[str]) -> None:
    """Whatever stands where a version should be has one place, and no place twice."""
    in_order = sorted_versions(versions)

    assert sorted(in_order, key=version_key) == in_order
    assert all(not is_newer(a, b) for a, b in pairwise(in_order))
