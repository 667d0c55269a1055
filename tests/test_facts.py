"""DeepDiff on the facts of a package says what set arithmetic says, whatever the values look like."""

from hypothesis import example, given
from hypothesis import strategies as st

from cachewatch.compare.facts import differing_facts, differing_fields
from cachewatch.facts import Facts
from cachewatch.model import FACTS, Delta, Signature

values = st.frozensets(
    st.text(max_size=6) | st.sampled_from(["__v", "a']['b", 'x"]["y', "root", "1", "01", "None"]), max_size=5
)
facts = st.fixed_dictionaries(dict.fromkeys(FACTS, values))


@given(facts, facts)
@example(dict.fromkeys(FACTS, frozenset({"__private"})), dict.fromkeys(FACTS, frozenset()))
def test_what_came_and_went(before: Facts, after: Facts) -> None:
    """Nothing is dropped, invented or misnamed."""
    expected = {
        name: Delta(tuple(sorted(after[name] - before[name])), tuple(sorted(before[name] - after[name])))
        for name in FACTS
    }

    assert differing_facts(before, after) == expected


texts = st.tuples(st.text(max_size=3), st.text(max_size=3))
signatures = st.builds(
    Signature,
    versions=texts,
    compiler=st.text(max_size=3),
    os=st.text(max_size=3),
    platform=st.just("linux"),
    target=st.sampled_from(["a", "b"]),
    variants=texts,
    stacks=texts,
)


@given(signatures, signatures)
def test_fields_that_differ(before: Signature, after: Signature) -> None:
    """Of two ways to write one spec, exactly the fields that differ are named."""
    sets = {"variants", "stacks"}
    expected = {
        name
        for name in before.__struct_fields__
        if (
            set(getattr(before, name)) != set(getattr(after, name))
            if name in sets
            else getattr(before, name) != getattr(after, name)
        )
    }

    assert differing_fields(before, after) == expected
