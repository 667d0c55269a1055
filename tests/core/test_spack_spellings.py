"""One spelling for what means the same."""

import pytest

from cachewatch.core import versions_spellings_targets


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
    """The stack root is the union of all and is not one."""
    assert versions_spellings_targets.stacks(("root", "ml", "e4s", "ml")) == ("e4s", "ml")
    assert versions_spellings_targets.stacks(("root",)) == ()
