"""What earlier digests asked for: it stays open until the tag, whatever a subscription selects, says that it is settled."""

from pathlib import Path

import pytest
from helpers import Record, catalogue, records
from readers import CONFIG, Packages, Readers, body, many

ML = CONFIG.replace("changes: [all],", "match: {stacks: [ml]},")


def weeks(folder: Path, monkeypatch: pytest.MonkeyPatch, config: str, *states: Packages) -> list[str]:
    """Return what the digest of each state but the first says; "" where there is none."""
    readers = Readers(folder, monkeypatch, *map(catalogue, states), config=config)
    said = []
    for _ in states[1:]:
        before = len(readers.site.told())
        readers.go_on()
        said.append(" | ".join(map(body, readers.site.told()[before:])))
    return said


def unbuilt(found: list[Record]) -> list[Record]:
    """Return the same builds, which no stack builds any more."""
    return [one | {"stacks": ["root"]} for one in found]


def in_ml(number: int, **values: object) -> list[Record]:
    return records([number], **{"stacks": ["ml", "root"], **values})


def test_what_no_stack_built_is_pruned_for_those_who_select_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their selection has no builds without a stack, and nothing else happened to them."""
    one, two = in_ml(1), in_ml(2)
    rest = many(20) | {"other": in_ml(3)}
    states = [rest | {"one": one, "two": two}]
    states += [rest | {"one": unbuilt(one), "two": unbuilt(two)}, rest | {"two": unbuilt(two)}, rest | {"two": two}]
    asked, pruned, back = weeks(tmp_path, monkeypatch, ML, *states)
    assert "Copy one, two to a mirror" in asked
    assert "one@1.0 for x86_64_v3 was pruned, as announced on 2 June" in pruned
    assert "1 of the 2 is still there. Still open since 2 June: copy two if you need it" in pruned
    assert "copy" not in back


def test_only_what_was_announced_is_told_as_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of the same package for another target is not what readers were asked to copy."""
    ours, old = in_ml(1), records([2], stacks=["root"], target="zen4")
    both = ours + in_ml(3, target="zen4")
    kept = both[1:]
    states = [both + old, unbuilt(ours) + kept + old, unbuilt(ours) + kept, kept]
    said = weeks(tmp_path, monkeypatch, CONFIG, *(many(20) | {"one": found} for found in states))
    assert "Copy one to a mirror" in said[0]
    assert "as announced" not in said[1]
    assert "since 2 June: copy one if you need it" in said[1]
    assert "one@1.0 for x86_64_v3 was pruned, as announced on 2 June" in said[2]
    assert "Still open" not in said[2]


def test_an_announced_prune_is_told_to_those_who_select_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took old builds, which no stack had; lock files that name them miss them now."""
    old = {f"q{number:03}": in_ml(number) for number in range(10)}
    new = {name: in_ml(100 + number) for number, name in enumerate(old)}
    both = {name: unbuilt(old[name]) + new[name] for name in old}
    states = [many(10) | old, many(10, salt=1) | both, many(10, salt=1) | new]
    asked, gone = weeks(tmp_path, monkeypatch, ML, *states)
    assert "Re-concretize lock files made before 2 June: the builds that they name may be pruned" in asked
    assert "10 old builds may be pruned at any time" in asked
    assert "The 10 old builds announced on 2 June were pruned." in gone
    assert "since 2 June: re-concretize lock files made before then: builds that they name are gone" in gone
