"""What readers are asked to do, and what they may ignore: nothing is called missing that the cache still has."""

import re
from pathlib import Path

import pytest
from conftest import Run
from digests import digest_of, read
from helpers import Record, catalogue, history, record

from cachewatch.core.coverage import Availability, Coverage, Environment, Need, Resolution, compare_coverage
from cachewatch.core.statement_values import Severity
from cachewatch.core.versions import sorted_versions
from cachewatch.report.digest_mail import render_digest
from cachewatch.report.digest_view import view
from cachewatch.report.values import TagDigest

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
    """As another build of the version, until the next prune, or not at all."""
    other = record(9, versions=["2.0"], **THERE)
    tag = week(tmp_path, {"zlib": [record(1, **HERE), other]}, {"zlib": [*after, other]})
    told = view(digest_of(tag))["tags"][0]

    assert told["act"] == [advice]
    assert told["losses"]["is_bad"]
    assert [row["remaining"] for row in told["losses"]["rows"]] == [remaining]
    assert remaining in " ".join(render_digest(digest_of(tag)).text.split())


@pytest.fixture
def nothing_missed(tmp_path: Path) -> TagDigest:
    """Return a week in which one of two stacks stopped building a package, whose binary the other one still has."""
    return week(tmp_path, {"zlib": [record(1, stacks=["e4s", "radiuss", "root"])]}, {"zlib": [record(1, **THERE)]})


def test_where_nothing_is_to_be_done_no_form_says_act_or_is_red(nothing_missed: TagDigest) -> None:
    """The same binary is still there: the section says so, and that is all."""
    rendered = render_digest(digest_of(nothing_missed))
    (told,) = view(digest_of(nothing_missed))["tags"]

    assert (told["act"], told["nothing_to_do"], told["losses"]["is_bad"]) == ([], "Nothing to do.", False)
    for form in (
        rendered.text,
        rendered.html,
        rendered.markdown,
        rendered.feed,
        rendered.page,
        "\n".join(rendered.bullets),
    ):
        assert "Nothing to do." in form
        assert not re.search(r"\bact\b", re.sub(r"<style>.*?</style>", "", form, flags=re.DOTALL), re.IGNORECASE)
    assert "the same binaries are still in the cache" in rendered.text
    assert '<section class="bad">' not in rendered.page
    assert not re.search(r'(class="bad"|#82071e|#ffdce0)', rendered.html.partition("</style>")[2])


def test_a_loss_that_nobody_misses_is_not_red_on_a_terminal(
    run: Run, tmp_path: Path, nothing_missed: TagDigest
) -> None:
    """Neither its heading nor its line, and what is missed comes before it."""
    assert nothing_missed.statements[0].severity is Severity.NEWS
    colours = run("diff", "HEAD~1", "HEAD", "--repo", tmp_path / "r.git", "--color", "always").output

    assert "NO BUILD ANY MORE" in colours
    assert "\x1b[31m" not in colours


def test_a_loss_that_nobody_misses_is_in_no_subject_with_other_news(tmp_path: Path) -> None:
    """It is named where nothing else happened."""
    before = {"curl": [record(2)], "zlib": [record(1, stacks=["e4s", "radiuss", "root"])]}
    alone = {"curl": [record(2)], "zlib": [record(1, **THERE)]}
    beside = {"curl": [record(3, versions=["1.1"])], "zlib": [record(1, **THERE)]}
    titles = [
        render_digest(digest_of(week(tmp_path / name, before, after))).title
        for name, after in (("alone", alone), ("beside", beside))
    ]

    assert titles == ["zlib lost in radiuss", "curl 1.0 -> 1.1"]


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


def test_what_nobody_misses_asks_for_nothing(tmp_path: Path) -> None:
    """Beside a loss that matters, a larger one without is listed and no more."""
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

    assert told["act"] == ["in hep (x86_64_v3), zlib must be built from source."]
    assert told["nothing_to_do"] == ""
    assert {row["place"]: row["is_bad"] for row in told["losses"]["rows"]} == {
        "hep (x86_64_v3)": True,
        "radiuss (x86_64_v3)": False,
    }


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


def versions_of(*versions: str) -> list[Record]:
    """Return a build of each version."""
    return [record(int(version.replace(".", "")), versions=[version]) for version in versions]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("1.14.3",), ("1.14.4", "1.14.5", "1.14.6")),
        (("1.14.3",), ("1.14.3", "1.14.4", "1.14.6")),
        ((), ("1.14.4", "1.14.6")),
        (("1.14.3",), ("1.14.10", "1.14.6", "1.14.9")),
    ],
)
def test_the_newest_version_is_offered(tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Of several new ones, in place of the old one, beside it or of a new package: as the line above it says."""
    old = {"curl": [record(1)], **({"hdf5": versions_of(*before)} if before else {})}
    text = render_digest(digest_of(week(tmp_path, old, {"curl": [record(1)], "hdf5": versions_of(*after)}))).text
    newest = sorted_versions(after)[-1]

    assert re.findall("spack install .*", text) == [f"spack install --cache-only hdf5@{newest}"]
    assert f"{newest}  in e4s" in text or f"{newest} (1.14.3 stays)  in e4s" in text


def test_no_version_without_a_binary_of_a_stack_is_offered(tmp_path: Path) -> None:
    """What no stack builds goes at the next prune."""
    after = [*versions_of("1.1"), record(5, versions=["1.2"], **NOWHERE)]
    tag = week(tmp_path, {"zlib": versions_of("1.0")}, {"zlib": after})

    assert [one.version for one in tag.examples] == ["1.1"]


def test_an_environment_is_offered_what_its_machines_run(tmp_path: Path) -> None:
    """A build of macOS is none for Linux; without an environment, the command says for which platform it is."""
    mac = {"platform": "darwin", "os": "sequoia", "target": "m1"}
    after = {
        "curl": [record(1)],
        "hdf5": [record(2, **mac)],
        "xz": [record(3, target="x86_64_v2")],
        "zlib": [record(4, target="zen4"), record(5, **mac)],
    }
    tag = week(tmp_path, {"curl": [record(1)]}, after)
    need = Need(package="curl", version="1.0", platform="linux", os="ubuntu22.04", target="x86_64_v3")
    there = Coverage(Environment(name="e", needs=(need,)), (Resolution(need, Availability.THERE),))
    own = digest_of(tag, environment=compare_coverage(there, there))
    commands = [re.findall("spack install .*", render_digest(digest).text) for digest in (digest_of(tag), own)]

    assert commands == [
        [
            "spack install --cache-only zlib@1.0",
            "spack install --cache-only hdf5@1.0 platform=darwin",
            "spack install --cache-only xz@1.0",
        ],
        ["spack install --cache-only xz@1.0"],
    ]


def test_upgrades_come_before_new_packages_in_the_subject(tmp_path: Path) -> None:
    """As many as there is room for are named."""
    before = {"curl": [record(1)], "zlib": [record(2)]}
    after = {"curl": [record(11, versions=["1.1"])], "zlib": [record(12, versions=["1.1"])], "xz": [record(3)]}
    rendered = render_digest(digest_of(week(tmp_path, before, after)))

    assert rendered.title == "curl 1.0 -> 1.1, zlib 1.0 -> 1.1; new xz 1.0"
    assert "1 new package, 2 upgrades" in rendered.text


def test_what_two_tags_say_is_said_once(tmp_path: Path) -> None:
    """A new snapshot has the news of its branch."""
    before, after = {"curl": [record(1)]}, {"curl": [record(11, versions=["1.1"])], "xz": [record(3)]}
    tag = week(tmp_path, before, after)

    assert render_digest(digest_of(tag, tag)).title == "curl 1.0 -> 1.1; new xz 1.0"


@pytest.mark.parametrize(
    ("others", "subscription", "title"),
    [
        ({}, "x", "hdf5 0.3.1 -> 0.4.0 (0.3.1 stays)"),
        ({"py-keras": [record(7)]}, "x", "hdf5 0.3.1 -> 0.4.0 (0.3.1 stays); new py-keras 1.0"),
        ({"py-keras": [record(7)]}, "s" * 35, "hdf5 0.3.1 -> 0.4.0; new py-keras 1.0"),
        ({"py-keras": [record(7)]}, "s" * 50, "hdf5 0.3.1 -> 0.4.0"),
    ],
)
def test_a_subject_says_what_stays_where_there_is_room(
    tmp_path: Path, others: dict[str, list[Record]], subscription: str, title: str
) -> None:
    """What else happened comes before that."""
    tag = week(tmp_path, {"hdf5": versions_of("0.3.1")}, {"hdf5": versions_of("0.3.1", "0.4.0"), **others})

    assert render_digest(digest_of(tag, subscription=subscription)).title == title


def test_a_package_that_went_to_two_versions_is_one_upgrade(tmp_path: Path) -> None:
    """Packages are counted, not stacks: a digest that names one of five says that four more were upgraded."""
    names = [f"package-with-a-long-name-{number}" for number in range(5)]
    stacks = (THERE, HERE)
    before = {name: [record(side, **where) for side, where in enumerate(stacks)] for name in names}
    after = {
        name: [record(10 + side, versions=[f"1.{side + 1}"], **where) for side, where in enumerate(stacks)]
        for name in names
    }
    rendered = render_digest(digest_of(week(tmp_path, before, after)))

    assert "5 upgrades" in rendered.text
    assert re.search(r"; [1-4] more upgrades?$", rendered.title)
