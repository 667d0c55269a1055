"""What may differ between two lists of records holds all that does differ, whatever was changed and in whatever order."""

import json
from collections import Counter
from random import Random

import pytest
from helpers import document, record, spec_hash

from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known, split_at_braces
from cachewatch.history_db import changed_records as module
from cachewatch.history_db.changed_records import changed_records
from cachewatch.history_db.record_differences import DocumentReader

_PLACES = [["e4s", "root"], ["ml", "root"], []]


def _pieces(found: list[dict[str, object]]) -> list[str]:
    return split_at_braces(f"[{', '.join(json.dumps(one, sort_keys=True) for one in found)}]")


def _edited(records: list[dict[str, object]], random: Random, *, is_sorted: bool) -> list[dict[str, object]]:
    found = [dict(one) for one in records]
    for _ in range(random.choice([0, 1, 1, 2, 3, 8])):
        place = random.randrange(len(found)) if found else 0
        match random.choice(["new", "gone", "other", "again", "moved"]):
            case "new":
                found.insert(place, record(random.randrange(10**6), stacks=random.choice(_PLACES)))
            case "gone" if len(found) > 1:
                del found[place]
            case "other" if found:
                found[place]["stacks"] = random.choice(_PLACES)
            case "again" if found:
                found[place]["hash"] = spec_hash(random.randrange(10**6))
            case "moved" if found:
                found.insert(random.randrange(len(found)), found.pop(place))
            case _:
                pass
    return sorted(found, key=lambda one: str(one["hash"])) if is_sorted else found


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_all_that_differs_is_found(seed: int, *, is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(module, "_FEW", random.choice([16, 1000]))
    records = [record(n) for n in random.sample(range(10**6), random.choice([1, 5, 300]))]
    found_any = 0
    for _ in range(60):
        edited = _edited(records, random, is_sorted=is_sorted)
        old, new = _pieces(records), _pieces(edited)
        found = changed_records(old, new)
        if found is not None:
            before, after = Counter(found[0]), Counter(found[1])
            assert before - after == Counter(old) - Counter(new)
            assert after - before == Counter(new) - Counter(old)
            found_any += 1
        records = edited
    assert found_any > 20


def test_of_a_long_document_only_what_changed_is_named() -> None:
    records = sorted((record(n) for n in range(5000)), key=lambda one: str(one["hash"]))
    changed = [dict(one) for one in records]
    changed[17]["stacks"], changed[4000]["stacks"] = ["a", "root"], ["b", "root"]
    found = changed_records(_pieces(records), _pieces(changed))
    assert found is not None
    assert [len(side) for side in found] == [2, 2]


def test_too_many_changes_are_left_to_those_who_look_at_all() -> None:
    before, after = ([record(n) for n in some] for some in (range(500), range(500, 1000)))
    assert changed_records(_pieces(before), _pieces(after)) is None


@pytest.mark.parametrize("seed", range(4))
def test_versions_are_read_as_whole_documents_are(seed: int) -> None:
    """One after the other, also with records that stand twice."""
    random = Random(seed)
    records = [record(n) for n in range(200)]
    reader = DocumentReader(Known())
    for _ in range(80):
        records = _edited(records, random, is_sorted=seed % 2 == 0)
        if random.random() < 0.1:
            records.insert(random.randrange(len(records)), dict(random.choice(records)))
        elif random.random() < 0.2:
            records = list({str(one["hash"]): one for one in records}.values())
        data = document(records, meta={})
        reader.read(data, "p")
        assert reader.specs == dict(parse(data, "p").specs)
