"""What readers are asked to do, and what they may ignore: nothing is called missing that the cache still has."""

from pathlib import Path

import pytest
from digests import digest_of, read
from helpers import Record, catalogue, history, record

from cachewatch.render.digest_mail import render_digest
from cachewatch.render.template_context import view
from cachewatch.report.digest import TagDigest

HERE = {"stacks": ["radiuss", "root"]}
THERE = {"stacks": ["e4s", "root"]}
NOWHERE = {"stacks": ["root"]}


def week(folder: Path, before: dict[str, list[Record]], after: dict[str, list[Record]]) -> TagDigest:
    """Return a week in which these documents replaced those."""
    return read(history(folder / "r.git", catalogue(before), catalogue(after)))


@pytest.mark.parametrize(
    ("after", "advice", "remaining"),
    [
        (
            [record(1, **THERE)],
            "radiuss (x86_64_v3) no longer builds zlib, but the same binary is still in the cache: nothing to do.",
            "the same binaries are still in the cache",
        ),
        (
            [record(2, **THERE)],
            (
                "radiuss (x86_64_v3) no longer builds zlib, but another stack has a build of the same version: "
                "re-concretize to get it."
            ),
            "another stack has a build of the same version",
        ),
        (
            [record(2, **THERE, target="x86_64")],
            (
                "radiuss (x86_64_v3) no longer builds zlib, but another stack has a build of the same version: "
                "re-concretize to get it."
            ),
            "another stack has a build of the same version",
        ),
        (
            [record(1, **NOWHERE), record(2, **THERE, target="zen4")],
            "no stack builds zlib of radiuss (x86_64_v3) any more: its binaries stay until the next prune.",
            "the binaries stay until the next prune",
        ),
        ([record(2, **THERE, target="zen4")], "in radiuss (x86_64_v3), zlib must be built from source.", ""),
        ([record(2, **THERE, os="rhel8")], "in radiuss (x86_64_v3), zlib must be built from source.", ""),
        ([record(2, **THERE, versions=["0.9"])], "in radiuss (x86_64_v3), zlib must be built from source.", ""),
    ],
)
def test_what_a_stack_lost_may_still_be_in_the_cache(
    tmp_path: Path, after: list[Record], advice: str, remaining: str
) -> None:
    """By the same hash, as another build of the version, until the next prune, or not at all."""
    shared = (
        record(1, stacks=["e4s", "radiuss", "root"]) if after[0]["hash"] == record(1)["hash"] else record(1, **HERE)
    )
    other = record(9, versions=["2.0"], **THERE)
    tag = week(tmp_path, {"zlib": [shared, other]}, {"zlib": [*after, other]})
    told = view(digest_of(tag))["tags"][0]

    assert told["act"] == [advice]
    assert [row["remaining"] for row in told["losses"]["rows"]] == [remaining]
    assert remaining in " ".join(render_digest(digest_of(tag)).text.split())


def test_the_stack_of_a_recorded_cache_is_called_one(tmp_path: Path) -> None:
    """It is named `cache`: nothing is said to be missing in the cache."""
    before = {
        name: [record(n, stacks=["cache", "root"]), record(n + 5, **THERE, target="zen4")]
        for n, name in enumerate(("curl", "zlib"))
    }
    after = {
        "curl": [record(9, stacks=["cache", "root"], versions=["2.0"]), *before["curl"][1:]],
        "zlib": before["zlib"][1:],
    }
    rendered = render_digest(digest_of(week(tmp_path, before, after)))
    text = " ".join(rendered.text.split())

    assert rendered.title == "zlib lost in stack cache; curl 1.0 -> 2.0"
    assert "in stack cache (x86_64_v3), zlib must be built from source." in text
    assert "curl 1.0 -> 2.0 in stack cache (1 of 2 stacks)" in text
    assert "in cache" not in text


def test_of_several_specs_the_worst_counts(tmp_path: Path) -> None:
    """One of two versions of a stack is still there elsewhere: the other one has to be built."""
    two = [record(1, **HERE), record(2, versions=["2.0"], **HERE)]
    kept = [record(1, **THERE), record(3, versions=["3.0"], **THERE)]
    told = view(digest_of(week(tmp_path, {"zlib": two}, {"zlib": kept})))["tags"][0]

    assert told["act"] == ["in radiuss (x86_64_v3), zlib must be built from source."]


def test_what_nobody_misses_comes_last(tmp_path: Path) -> None:
    """A place with a loss that matters is named before a larger one without."""
    before = {
        "curl": [record(1, stacks=["e4s", "radiuss", "root"])],
        "hdf5": [record(2, stacks=["e4s", "radiuss", "root"])],
        "zlib": [record(3, stacks=["hep", "root"]), record(4, **THERE, target="zen4")],
    }
    after = {
        "curl": [record(1, **THERE)],
        "hdf5": [record(2, **THERE)],
        "zlib": [record(4, **THERE, target="zen4")],
    }
    told = view(digest_of(week(tmp_path, before, after)))["tags"][0]

    assert told["act"] == [
        "in hep (x86_64_v3), zlib must be built from source.",
        "radiuss (x86_64_v3) no longer builds curl, hdf5, but the same binaries are still in the cache: nothing to do.",
    ]


def test_only_what_is_newer_is_offered(tmp_path: Path) -> None:
    """Neither a downgrade nor an older version; new packages come first, then what most specs were added of."""
    before = {
        "cmake": [record(1, versions=["3.0"])],
        "curl": [record(2, versions=["2.0"])],
        "hdf5": [record(3, versions=["1.0"])],
        "zlib": [record(4, versions=["1.0"])],
    }
    after = {
        "cmake": [record(11, versions=["2.0"])],
        "curl": [record(2, versions=["2.0"]), record(12, versions=["1.0"])],
        "hdf5": [record(13, versions=["1.1"])],
        "xz": [record(15)],
        "zlib": [record(14, versions=["1.1"]), record(16, versions=["1.1"])],
    }
    tag = week(tmp_path, before, after)

    assert [f"{one.package}@{one.version}" for one in tag.examples] == ["xz@1.0", "zlib@1.1", "hdf5@1.1"]
    assert "Install what is new" in render_digest(digest_of(tag)).text


def test_a_new_package_comes_before_upgrades(tmp_path: Path) -> None:
    """In the subject, in the heading and in the counts."""
    before = {"curl": [record(1)], "zlib": [record(2)]}
    after = {"curl": [record(11, versions=["1.1"])], "zlib": [record(12, versions=["1.1"])], "xz": [record(3)]}
    rendered = render_digest(digest_of(week(tmp_path, before, after)))

    assert rendered.title == "new xz 1.0; curl 1.0 -> 1.1, 1 more upgrade"
    assert "1 new package, 2 upgrades" in rendered.text


def test_what_two_tags_say_is_said_once(tmp_path: Path) -> None:
    """A new snapshot has the news of its branch."""
    before, after = {"curl": [record(1)]}, {"curl": [record(11, versions=["1.1"])], "xz": [record(3)]}
    tag = week(tmp_path, before, after)

    assert render_digest(digest_of(tag, tag)).title == "new xz 1.0; curl 1.0 -> 1.1"
