"""The changes that `make mutants` makes: to what a module does, one at a time, and chosen by a seed."""

from pathlib import Path

import pytest

from mutation.changes import changes, sample
from mutation.results import Results

CODE = '''\
"""A module."""

from typing import Any

Key = dict[str, Any]
_MOST = 3


def add(found: list[int] | None, key: str = "first of all") -> bool:
    """Add one."""
    if found:
        found.append(_MOST)
    return bool(found and len(key) > 2)
'''


def changed() -> dict[str, list[str]]:
    """Return the lines that are other ones, by operator."""
    lines: dict[str, list[str]] = {}
    for each in changes(Path("module.py"), CODE):
        (new,) = [new for new, old in zip(each.code.splitlines(), CODE.splitlines(), strict=True) if new != old]
        lines.setdefault(each.operator, []).append(new.strip())
    return lines


def test_each_change_is_one_line_that_does_something_else() -> None:
    """Neither words, nor types, nor imports are changed."""
    assert changed() == {
        "assignment": ["_MOST = None"],
        "number": ["_MOST = 4", "return bool(found and len(key) > 3)"],
        "negate": ["if not (found):"],
        "drop_call": ["pass"],
        "arg_removal": [
            "found.append(None)",
            "return bool(None)",
            "return bool(found and len(None) > 2)",
        ],
        "return_none": ["return None"],
        "swap_op": ["return bool(found or len(key) > 2)", "return bool(found and len(key) >= 2)"],
    }


@pytest.mark.parametrize("code", ["class A(B, frozen=True): ...\n", "zip(strict=True)\n"])
def test_what_guards_against_mistakes_of_ours_is_not_changed(code: str) -> None:
    """Such as that a value is frozen, or that two lists are as long: no test can see it where all is well."""
    assert {each.operator for each in changes(Path("module.py"), code)} <= {"drop_call"}


@pytest.mark.parametrize("size", [2, 5, 100])
def test_a_sample_has_something_of_every_module_and_kind(size: int) -> None:
    """The same seed chooses the same."""
    found = {Path(name): changes(Path(name), code) for name, code in (("a.py", CODE), ("b.py", "X = 1\n"))}
    chosen = sample(found, size, 1)
    assert [each.code for each in chosen] == [each.code for each in sample(found, size, 1)]
    assert len(chosen) == min(size, sum(map(len, found.values())))
    assert {each.path for each in chosen} == found.keys()
    if size == 100:
        assert {each.operator for each in chosen} == {each.operator for each in found[Path("a.py")]}


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Outcomes for the same code are read again; not those for other code, nor of a test that took too long."""
    first, second, third = changes(Path("module.py"), CODE)[:3]
    results = Results(tmp_path / "results", "code")
    results.add({"diff": first.diff, "outcome": "killed"})
    results.add({"diff": second.diff, "outcome": "timeout"})
    with (tmp_path / "results").open("a") as file:
        file.write('{"diff": ')  # the machine stopped here
    again = Results(tmp_path / "results", "code")
    known = [again.get(each) for each in (first, second, third)]
    assert [row and row["outcome"] for row in known] == ["killed", None, None]
    again.drop([{"diff": first.diff}])
    assert Results(tmp_path / "results", "code").get(first) is None
    results.add({"diff": third.diff, "outcome": "killed"})
    assert Results(tmp_path / "results", "other code").get(third) is None
