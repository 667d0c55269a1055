"""The quick way to read records says what the patient way says, also where it keeps nothing for later."""

import json

import pytest
from helpers import record

from cachewatch.documents.records import Known, read_records, records_of


@pytest.mark.parametrize("count", [0, 3, 900])
def test_lists_of_any_length(count: int) -> None:
    """Short lists are decoded once for all records and long ones each time; both are spelled and sorted."""
    variants = [f"-v{number}" for number in range(count)]
    details = [record(1, variants=variants), record(2, variants=[*reversed(variants)]), record(3)]

    quick = read_records(json.dumps(details, sort_keys=True), Known())

    assert quick is not None
    assert dict(quick.specs) == dict(records_of(details, Known()).specs)


@pytest.mark.parametrize("wrong", ["null", "[1]", '["a"', '{"a": "b"}', '"a"'])
def test_lists_that_are_none(wrong: str) -> None:
    """What is no list of texts is left to the patient way, which says what is wrong."""
    text = json.dumps([record(1)], sort_keys=True)
    start = text.index('"stacks": [')
    end = text.index("]", start) + 1

    assert read_records(f'{text[:start]}"stacks": {wrong}{text[end:]}', Known()) is None
