"""Spack's order of versions."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachewatch.core import versions_spellings_targets
from cachewatch.core.versions_spellings_targets import (
    Versions,
    is_newer,
    sorted_versions,
    version_identity,
    version_key,
)
from cachewatch.errors import UsageError

# Checked by running Spack's own spack.version.
ASCENDING = (  # noqa: SIM905  as it was printed
    "git-abc, 0.4.51, 0_14_02, 1.0alpha1, 1.0beta2, 1.0rc1, 1.0, 1.0a, 1.0x, 1.0.1, 1.1-preview, 1.1.1, 1.1.1n, 1.1.1o, "
    "1.2.1, 1.2.2, 1.2.3, 1.2-main, 1.9, 1.10, 1.10.0, 2.4.48, 2.26, 2.26-t9b_atlas, 2.26.1, 3.0.0-develop, 6.3.3, "
    "6.4.0, 2025.08.20, 9999, 20230125.3, 20240116.2, stable, nightly, trunk, head, master, main, develop, develop-2024"
).split(", ")


def test_order_of_spack() -> None:
    shuffled = random.Random(1).sample(ASCENDING, len(ASCENDING))

    assert sorted_versions(shuffled) == ASCENDING
    for older, newer in pairwise(ASCENDING):
        assert is_newer(newer, older)
        assert not is_newer(older, newer)


@pytest.mark.parametrize(
    "ascending",
    [
        "1.0alpha 1.0alpha0 1.0beta 1.0rc 1.0rc0 1.0rc1 1.0 1.0final1",
        "alpha rc rc1 rc.2 x 1 stable-1 nightly trunk",
        "foo=1.1 1.2 git.x=1.3rc1 foo=1.3 1.4 develop git.x",
    ],
)
def test_words_of_spack(ascending: str) -> None:
    """A bare rc is a word like any other, a rc without number comes before rc0, and a reference has its number."""
    versions = ascending.split()

    assert all(is_newer(newer, older) and not is_newer(older, newer) for older, newer in pairwise(versions))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("1.0", "1_0", True),
        ("1.0", "1.0final", True),
        ("git.abc=1.0", "abc=1-0", True),
        ("git.abc", "git.abd", False),
        ("git.abc=1.0", "1.0", False),
        ("1.0", "1.0.0", False),
        ("1.0rc", "1.0rc0", False),
        ("1.0", "1.0ü", False),
        ("1.0+a", "1.0a", False),
        ("git.x/y=1.0", "git.x/y=1_0", True),
    ],
)
def test_what_is_one_version(one: str, other: str, is_same: bool) -> None:
    """Separators mean nothing; a git reference is a version of its own, and so is a number with an unknown sign."""
    assert (version_identity(one) == version_identity(other)) is is_same


def test_bare_commits_come_last() -> None:
    """A commit says nothing about its place, so it stands behind everything."""
    assert versions_spellings_targets.newest(["develop", "git.feature/x", "9999"]) == "git.feature/x"
    assert versions_spellings_targets.newest(["main", "0" * 39 + "a"]) == "0" * 39 + "a"


def test_a_million_digits() -> None:
    assert is_newer("9" * 1_000_000, "8" * 1_000_000)
    assert is_newer("1" + "0" * 5000, "9" * 5000)


@given(st.lists(st.text("0123456789.-_abdevlopr=gitm", max_size=12), min_size=2, max_size=6))
def test_any_text_sorts(versions: list[str]) -> None:
    """Whatever stands where a version should be has one place, and no place twice."""
    in_order = sorted_versions(versions)

    assert sorted(in_order, key=version_key) == in_order
    assert all(not is_newer(a, b) for a, b in pairwise(in_order))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        # As Spack's documentation and spack.version have it.
        ("@1.2", "1.2 1.2.0 1.2.3 1.2-rocm", "1.1 1.3 1.20 1.2rc1 develop"),
        ("@1.2:", "1.2 1.2.1 1.3 1.10 2 9999 develop main", "1.1.9 1.2-rc1 0.9"),
        ("@:2", "1 2 2.0 2.3 2.99.1 1.9-beta2", "3 10 3.0.1 develop"),
        ("@:1.2", "1.2.9 1.1", "1.3 2"),
        ("@1.2:1.4", "1.2 1.3 1.4 1.4.9", "1.5 1.1"),
        ("@1.2:1.4,2:", "1.4.9 2 3", "1.5"),
        ("@1.4:1.4.2", "1.4 1.4.2 1.4.2.1", "1.4.3"),
        ("@=1.2", "1.2 1-2", "1.2.0 1.2.1 git.main=1.2"),
        ("1.2.3", "1.2.3 1.2.3.4", "1.2.4"),
        ("@:", "1 develop git.main", ""),
        ("@1:", "git.main=1.2", "git.main"),
        ("@git.main", "git.main git.main=1.2 main=2", "git.other git.other=1.2 1.2 main"),
        ("@=git.main", "git.main git.main=1.2", "git.other 1.2"),
        ("@git.main=1.2", "git.main=1.2 git.main=1-2 main=1.2", "git.main git.main=1.3 git.other=1.2 1.2"),
        (f"@{'a' * 40}", f"{'a' * 40} {'a' * 40}=2.0 git.{'a' * 40}=1.0", f"{'b' * 40}=2.0 2.0"),
        ("@git.main=1.2:", "1.2 1.3 git.main=1.2 git.x=2", "1.1 git.main"),
        ("@:git.main=1.2", "1.1 1.2.3 git.main=1.2", "1.3 git.main"),
        ("@1.1,git.main", "1.1 git.main=3", "3 git.other=3"),
        ("@develop", "develop develop.1", "main 9999"),
        ("@1a", "1a 1aa", "1b 1"),
        ("@1z", "1z 1z.1", "1zA 1.0"),
        ("@1Z", "1Z", "1a"),
        ("@1.2rc1", "1.2rc1", "1.2rc2 1.2"),
        ("@1.2rc", "1.2rc", "1.2rc1"),
        ("@9", "9 9.9", "10"),
    ],
)
def test_ranges(text: str, inside: str, outside: str) -> None:
    """A range goes up to everything that begins with its end; = means one version alone."""
    chosen = Versions([text])

    assert [version for version in (*inside.split(), *outside.split()) if chosen(version)] == inside.split()


def test_ranges_that_exclude() -> None:
    assert [v for v in ("1.0", "1.1", "2.0") if Versions(["@1:", "!@1.1"])(v)] == ["1.0", "2.0"]
    assert [v for v in ("1.0", "1.1", "2.0") if Versions(["!@1.1"])(v)] == ["1.0", "2.0"]
    assert Versions().is_open


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", "@2:1", "1 2", "@1:2:3", "@=", "@~1", "@...", "@" + "1" * 300, "@,"),
        *("@:git.abc", "@git.abc:", "@1:git.abc", f"@:{'a' * 40}"),
    ],
)
def test_no_ranges(text: str) -> None:
    """What is no range is refused with what would be one."""
    with pytest.raises(UsageError, match=r"not a version or range|empty range"):
        versions_spellings_targets.parse_ranges(text)


@given(st.text("0123456789.-abz", min_size=1, max_size=8), st.text("0123456789.-abz", max_size=8))
def test_a_version_is_in_its_own_range(version: str, more: str) -> None:
    """And so is everything between a range's ends."""
    try:
        ranges = Versions([f"@{version}"])
    except UsageError:
        return

    assert ranges(version)
    if version_key(f"{version}.1{more}")[2][0] == 3:
        assert ranges(f"{version}.1{more}")


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("gcc@=11.4.0", "gcc@11.4.0"),
        ("gcc@11.4.0", "gcc@11.4.0"),
        ("oneapi@=2024.1", "intel-oneapi-compilers@2024.1"),
        ("dpcpp@2022", "intel-oneapi-compilers@2022"),
        ("clang@=15.0.0", "llvm@15.0.0"),
        ("intel@=2021.6", "intel-oneapi-compilers-classic@2021.6"),
        ("rocmcc@6.0", "llvm-amdgpu@6.0"),
        ("arm@23", "acfl@23"),
        ("apple-clang@16.0.0", "apple-clang@16.0.0"),
        ("gcc", "gcc"),
        ("none", "none"),
        ("", "none"),
        (None, "none"),
    ],
)
def test_compilers(written: str | None, spelled: str) -> None:
    """Compilers are spelled as Spack 1.0 does, and renamed ones are the same."""
    assert versions_spellings_targets.compiler(written) == spelled


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        (["patches:=ad23cca,b56ee82"], ("patches=ad23cca,b56ee82",)),
        (["build_system=cmake"], ("build_system=cmake",)),
        (["+b", "~a", "-c"], ("~a", "+b", "~c")),
        (["languages:='c,c++,fortran'"], ("languages=c,c++,fortran",)),
        (["++shared", "cflags==-O2"], ("cflags==-O2", "++shared")),
        (["+a", "+a"], ("+a",)),
    ],
)
def test_variants(written: list[str], spelled: tuple[str, ...]) -> None:
    """Variants are a set by name; := is =, - is ~, and quotes mean nothing."""
    assert versions_spellings_targets.variants(tuple(written)) == spelled


def test_stacks_are_a_set_without_the_union() -> None:
    assert versions_spellings_targets.stacks(("root", "ml", "e4s", "ml")) == ("e4s", "ml")
    assert versions_spellings_targets.stacks(("root",)) == ()
