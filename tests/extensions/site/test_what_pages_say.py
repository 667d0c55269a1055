"""What the pages of a site say, as values: cards, statements, comparisons of tags, installing, search and feeds."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from helpers import catalogue, history, record, spec_hash
from sites import read_site

from cachewatch.core.kinds_and_specs import Signature
from cachewatch.extensions.site.building_and_feeds import Folder, build, tag_feed
from cachewatch.extensions.site.overview_pages_and_search_index import (
    cards,
    hash_files,
    index_file,
    latest_card,
    packages_of,
    tag_pages,
    unusual_card,
    versions_card,
)
from cachewatch.extensions.site.package_histories import AlikeSpecs, Copies, Present, totals_of
from cachewatch.extensions.site.package_page import Sources, builds_of, filled, install_of, matrix_of, package_page
from cachewatch.extensions.site.page_parts_and_plots import Link, View
from cachewatch.extensions.site.reading_history import SiteContents

_ATOM = "{http://www.w3.org/2005/Atom}"


def _lines(card: View) -> list[str]:
    return [f"{line.link.text if line.link else ''} {line.text}".strip() for line in card["lines"]]


def _page_of(found: SiteContents, package: str) -> View:
    return package_page(package, found, packages_of(found), Sources())


def _unusual(found: SiteContents) -> list[str]:
    return _lines(unusual_card(found, totals_of(found.past)))


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> SiteContents:
    """A stack with twelve packages of which two are left, a package that went, and one that a stack lost."""
    names = [f"p{number}" for number in range(12)]
    full = {name: [record(number, stacks=["big", "root"])] for number, name in enumerate(names)}
    full["kept"] = [record(50, stacks=["e4s", "root"]), record(51, stacks=["hep", "root"])]
    full["gone"] = [record(52, stacks=["e4s", "root"], versions=["1.0"])]
    full["up"] = [record(53, stacks=["hep", "root"], versions=["1.0"])]
    few = full | {name: [record(n, stacks=["root"])] for n, name in enumerate(names[2:], 2)}
    few["up"] = [record(57, stacks=["hep", "root"], versions=["1.0"])]  # rebuilt
    less = {name: found for name, found in few.items() if name != "gone"}
    less["kept"] = full["kept"][:1]
    up = less | {"up": [record(54, stacks=["hep", "root"], versions=["1.1"])], "new": [record(55)]}
    folder = tmp_path_factory.mktemp("lost")
    return read_site(history(folder / "r.git", *(catalogue(state) for state in (*[full] * 5, few, less, up))))


def test_what_is_unusual_is_said(lost: SiteContents) -> None:
    """A stack by what it had, a package that was removed, a package that a stack lost, and what the next prune takes."""
    assert _unusual(lost) == [
        "big has 2 of 12 specs since 6 Jun 2025",
        "gone was removed on 7 Jun 2025",
        "hep has no build of kept since 7 Jun 2025",
        "10 of 15 specs are in no stack any more and may be pruned at any time",
    ]


def test_what_is_unusual_comes_first_with_its_day(lost: SiteContents, tmp_path: Path) -> None:
    """A page is read long after it was made, so it names days; without anything unusual, the news come first."""
    first, second = {"a": [record(1)], "b": [record(2)]}, {"a": [record(3)]}
    quiet = read_site(history(tmp_path / "r.git", *map(catalogue, (first, second, first))))
    nothing = "Nothing: every stack has about what it had, and no package lost in the last four weeks is still missing."
    assert unusual_card(quiet, totals_of(quiet.past))["nothing"] == nothing
    assert _lines(versions_card(quiet)) == ["b 1.0, back after it was removed on 2 Jun 2025"]
    assert _lines(latest_card(quiet))[1:] == ["b is back (1.0) in e4s: develop had the package until 2025-06-02"]

    titles = ([card["title"] for card in cards(found, totals_of(found.past))] for found in (lost, quiet))
    assert list(titles) == [
        ["Unusual on 8 Jun 2025", "Latest revision", "New versions in the week to 8 Jun 2025"],
        ["Latest revision", "Unusual on 3 Jun 2025", "New versions in the week to 3 Jun 2025"],
    ]


def test_what_is_as_ever_is_not_unusual(tmp_path: Path) -> None:
    """Upgrades and rebuilds are not, nor is a stack that came back, nor a loss of long ago."""
    first = {f"p{n}": [record(n, stacks=["big", "root"])] for n in range(12)} | {"gone": [record(90)]}
    without = {f"p{n}": [record(n, stacks=["root"])] for n in range(12)}
    again = {f"p{n}": [record(n + 20, stacks=["big", "root"], versions=["2.0"])] for n in range(12)}
    later = again | {"p0": [record(70, stacks=["big", "root"], versions=["2.1"])]}
    states = [catalogue(state) for state in (first, without, again, *([again, later] * 15))]

    assert _unusual(read_site(history(tmp_path / "r.git", *states))) == []


def test_the_latest_revision_and_new_versions_have_cards(lost: SiteContents) -> None:
    """The facts of the newest revision, and what was upgraded or is new in a week, the newest first."""
    assert _lines(latest_card(lost)) == ["up 1.0 -> 1.1", "new new 1.0"]
    assert sorted(_lines(versions_card(lost))) == ["new 1.0, new package", "up 1.0 -> 1.1"]


def test_a_version_that_another_stack_had_is_not_new(tmp_path: Path) -> None:
    """A stack that was behind has an upgrade; the package has a new version only if no stack had it, an upgrade or not."""
    ahead, behind = record(1, versions=["1.2"]), record(2, versions=["1.0"], stacks=["hep", "root"])
    other = record(4, versions=["1.3"], stacks=["mac", "root"])
    now = [ahead, behind | {"hash": spec_hash(3), "versions": ["1.1"]}, other]
    states = [{"zlib": [ahead, behind]}, {"zlib": now}]
    known = {"zlib": [ahead, behind | {"hash": spec_hash(3), "versions": ["1.2"]}]}
    found = read_site(history(tmp_path / "a.git", *map(catalogue, states)))
    caught_up = read_site(history(tmp_path / "b.git", catalogue(states[0]), catalogue(known)))

    assert _lines(versions_card(found)) == ["zlib 1.3 in mac", "zlib 1.0 -> 1.1 in hep"]
    assert _lines(latest_card(caught_up)) == ["zlib 1.0 -> 1.2"]
    assert _lines(versions_card(caught_up)) == []


def test_only_what_is_added_is_marked_as_new(tmp_path: Path) -> None:
    """Bad news has its mark, what came another; what merely left, or is missed by nobody, has neither, and what is routine none."""
    before = {
        "gone": [record(1)],
        "old": [record(2), record(3, versions=["0.9"])],
        "again": [record(4)],
        "up": [record(5)],
        "lost": [record(6), record(9, stacks=["hep", "root"], target="neoverse_v1")],
        "kept": [record(8, stacks=["e4s", "hep", "root"])],
    }
    numbers = {"old": 2, "again": 14, "lost": 6, "kept": 8, "new": 7}
    after = {name: [record(n)] for name, n in numbers.items()} | {"up": [record(15, versions=["1.1"])]}
    found = read_site(history(tmp_path / "r.git", catalogue(before), catalogue(after)))

    names = {"attention": "gone lost", "changed": "kept older 62%", "news": "new up", "routine": "1"}
    tones = {name: tone for tone, listed in names.items() for name in listed.split()}
    assert {fact.text.split()[0]: fact.tone for fact in found.stories[1].facts} == tones


def test_a_stack_that_lost_a_package_is_at_the_top_of_its_page(tmp_path: Path) -> None:
    """Until it has the package again, newest loss first; a package that is gone altogether says that instead."""
    everywhere = [record(1, stacks=["e4s", "hep", "radiuss", "root"])]
    zlib = [everywhere, *([record(1, stacks=stacks)] for stacks in (["e4s", "hep", "root"], ["e4s", "root"]))]
    files = [catalogue({"zlib": found}) for found in zlib]
    found = read_site(history(tmp_path / "a.git", *files))
    back = read_site(history(tmp_path / "b.git", *files, catalogue({"zlib": everywhere})))

    assert [row["stack"].text for row in _page_of(found, "zlib")["lost"]] == ["hep", "radiuss"]
    assert _page_of(back, "zlib")["lost"] == []


def test_a_tag_says_what_a_comparison_with_the_one_before_says(tmp_path: Path) -> None:
    """From the snapshot before; for the tag that is told from the newest one. It is read again only if one changed."""
    state = catalogue({"a": [record(1)], "b": [record(2)]})
    for week in range(3):
        state |= catalogue({"a": [record(1, versions=[f"1.{week}"])]}, f"develop-2025-05-0{week + 1}")
    repository = history(tmp_path / "r.git", state)
    found = read_site(repository)
    pages = dict(tag_pages(found))

    assert {tag: page["before"] and page["before"].text for tag, page in pages.items()} == {
        "develop": "develop-2025-05-03",
        "develop-2025-05-03": "develop-2025-05-02",
        "develop-2025-05-02": "develop-2025-05-01",
        "develop-2025-05-01": None,
    }
    rows = [(section["title"], section["rows"][0][:2]) for section in pages["develop-2025-05-03"]["sections"]]
    assert rows == [("Upgraded", (Link("a", "../package/a.html"), "1.1 -> 1.2"))]
    assert [fact.text for fact in found.moves["develop"].story.facts] == ["a 1.2 -> 1.0 (older)", "new b 1.0"]
    assert read_site(repository, found).moves["develop"] is found.moves["develop"]


def _builds(*builds: AlikeSpecs) -> Present:
    copies = tuple(
        Copies(build.version, stack, "zen4", len(build.hashes)) for build in builds for stack in build.signature.stacks
    )
    return Present(specs=sum(len(build.hashes) for build in builds), copies=copies, builds=builds)


def _build(version: str, spec_hash: str, *stacks: str, variants: tuple[str, ...] = ("+mpi",)) -> AlikeSpecs:
    signature = Signature((version,), "gcc@13.2.0", "ubuntu24.04", "linux", "zen4", variants, stacks)
    return AlikeSpecs(signature, (spec_hash,))


def test_the_newest_version_is_installed_that_most_stacks_have() -> None:
    """With the commands that are given once, where the mirror is known."""
    others = _build("2.0", "ccccccccc", "e4s"), _build("2.0", "bbbbbbbbb", "e4s", "hep")
    present = _builds(_build("1.0", "aaaaaaaaa", "e4s", "hep", "ml"), *others)
    known = install_of("hdf5", "develop", present, Sources("https://cache.example.org/{tag}"))
    unknown = install_of("hdf5", "develop", present, Sources())

    assert known is not None
    assert known["setup"][0] == "spack mirror add develop https://cache.example.org/develop"
    assert known["command"] == "spack install --cache-only hdf5@2.0/bbbbbbb"
    assert known["about"] == "for zen4, ubuntu24.04, gcc@13.2.0, from e4s, hep"
    assert known["variants"] == "+mpi"
    assert unknown is not None
    assert unknown["setup"] == ()
    # The next prune takes what no stack builds.
    assert install_of("hdf5", "develop", _builds(_build("2.0", "bbbbbbbbb")), Sources()) is None


@pytest.mark.parametrize("name", ["$(reboot)", "-rf", "a b"])
def test_no_command_has_a_name_that_means_more_to_a_shell(name: str) -> None:
    """Whoever copies a command gets what it looks like, or none."""
    present = _builds(_build("2.0", "bbbbbbbbb", "e4s"))

    assert install_of(name, "develop", present, Sources("https://example.org/{tag}")) is None
    assert filled("https://example.org/{package}", "{package}", name) == ""


def test_variants_that_all_builds_have_are_said_once() -> None:
    """Of each build only what sets it apart."""
    one = _build("1.0", "aaaaaaaaa", "e4s", variants=("+mpi", "~hl"))
    builds = builds_of(_builds(one, _build("2.0", "bbbbbbbbb", "e4s", variants=("+hl", "+mpi"))))

    assert builds["shared"] == "+mpi"
    rows = [(row["version"], row["variants"], row["hashes"]) for row in builds["rows"]]
    assert rows == [("2.0", "+hl", ["bbbbbbbbb"]), ("1.0", "~hl", ["aaaaaaaaa"])]


def test_stacks_are_rows_and_the_newest_version_comes_first() -> None:
    """What no stack builds is the last row."""
    copies = Copies("1.0", "", "zen4", 1), Copies("1.10", "e4s", "zen4", 1), Copies("1.9", "e4s", "zen3", 2)
    matrix = matrix_of(Present(specs=3, copies=copies))

    assert matrix is not None
    assert matrix["versions"] == ["1.10", "1.9", "1.0"]
    rows = [(row["stack"].text, row["targets"], row["counts"], row["is_unreferenced"]) for row in matrix["rows"]]
    assert rows == [("e4s", "zen3, zen4", [1, 2, 0], False), ("no stack", "zen4", [0, 0, 1], True)]


def test_the_search_index_has_short_hashes_and_no_markup(tmp_path: Path) -> None:
    """A script that is read as a page has nothing to offer; a file of hashes has those of one first letter."""
    state = {"a": [record(1, versions=["</script><b>"], hash="b1234567" + "a" * 24)]}
    found = read_site(history(tmp_path / "r.git", catalogue(state)))

    assert b"<" not in index_file(["a"], found, totals_of(found.past))
    assert dict(hash_files(["a"], found)) == {"assets/hashes-b.js": b'cachewatch.hashes("b",{"0":"123456"});\n'}


def test_feeds_are_the_same_in_every_build(lost: SiteContents) -> None:
    """Newest first, with an id of its own for each entry, and a title that says what happened."""
    feed = tag_feed(lost, "Build cache")

    assert feed == tag_feed(lost, "Build cache")
    newest = feed["entries"][0]
    assert newest.title == "up 1.0 -> 1.1; new new 1.0"
    headings = [heading for heading, _, _ in newest.sections]
    assert headings == ["New packages, 1 package, +1", "Upgraded, 1 package, +1 -1"]
    assert [lines for _, lines, _ in newest.sections] == [("new 1.0, +1, e4s",), ("up 1.0 -> 1.1, +1 -1, hep",)]
    assert len({entry.id for entry in feed["entries"]}) == len(feed["entries"]) == 3
    assert feed["feed"].updated == feed["entries"][0].updated > feed["entries"][1].updated


def test_a_package_has_a_feed_of_versions(tmp_path: Path, lost: SiteContents) -> None:
    """What was merely rebuilt is no news, and every link of a feed leads to a page."""
    build(Folder(tmp_path / "site"), lost, [], title="T")
    feed = ET.fromstring((tmp_path / "site/package/up.atom").read_bytes())

    titles = [entry.findtext(f"{_ATOM}title") for entry in feed.iter(f"{_ATOM}entry")]
    assert titles == ["up: added 1.1 in hep; removed 1.0 in hep"]
    for file in (tmp_path / "site").rglob("*.atom"):
        for link in ET.fromstring(file.read_bytes()).iter(f"{_ATOM}link"):
            assert (file.parent / link.attrib["href"]).is_file(), file
