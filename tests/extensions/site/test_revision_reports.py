"""What each revision did to the whole tag: the same as when two revisions are compared."""

import re
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
import scripted
from conftest import Run
from helpers import catalogue, history, record
from indexes import Catalogue, build, write
from msgspec.structs import replace
from sites import read_site
from truths import V3, History

from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import NoCollector, Report
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.errors import UsageError
from cachewatch.extensions.history.schema_and_location import VARIABLE, index_path
from cachewatch.extensions.site.package_histories import story_of
from cachewatch.git.local_repository import Repository
from cachewatch.report.diff_blocks_and_colours import ALL, Requested
from cachewatch.report.diff_formats_and_alike_tags import read_report
from cachewatch.sources.before_and_after import compare_sides

_EVERYTHING = Requested(most=ALL, wants=lambda *_: True)


def _compared(repository: Path, before: str = "HEAD~1", after: str = "HEAD") -> list[Report]:
    chosen = Selection(tags=Globs(["develop"]))
    with closing(Repository(repository)) as opened:
        comparison = compare_sides(before, after, chosen, repository=opened)
        return [read_report(changeset, _EVERYTHING) for changeset in changesets(comparison, chosen, NoCollector)]


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "week",
    ["migration", "stack-lost-declared", "prune-after", "rebuilt-beside", "upgrades", "package-gone", "stack-lost"],
)
def test_a_revision_says_what_a_comparison_says(tmp_path: Path, week: str) -> None:
    """All of its story is that of `cachewatch diff`, although no document is read."""
    repository = history(tmp_path / "r.git", *scripted.WEEKS[week]())
    (compared,) = _compared(repository)

    assert read_site(repository).stories[1] == story_of(compared, {})


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(1, 4))
def test_odd_revisions_say_what_comparisons_say(tmp_path: Path, seed: int) -> None:
    """Also where documents are written in other ways, are empty, or name other specs by the same hashes."""
    night = Catalogue(seed)
    states = [night.night() for _ in range(25)]
    repository = write(tmp_path / "r.git", [*states, catalogue({"zlib": [record(1)]})], seed=seed)
    found = read_site(repository)
    commits = [one.revision for one in found.past.revisions]
    asked = 0
    for number in range(1, len(commits)):
        with suppress(UsageError):  # one of the two does not have the tag
            for compared in _compared(repository, commits[number - 1], commits[number]):
                # What cannot be read is not compared, while the index compares what follows with what was before it.
                if not compared.losses and compared.packages.before and compared.packages.after:
                    # Links in the place of documents are no packages there, and here they are.
                    story = found.stories[number]
                    told = replace(story_of(compared, {}), total=story.total)
                    is_back = any("is back" in fact.text for fact in story.facts)
                    assert story == (replace(told, facts=story.facts) if is_back else told), number
                    asked += bool(compared.statements)
    assert asked


E4S, ML = ["e4s", "root"], ["ml", "root"]
Row = tuple[str, ...]


@pytest.fixture
def zlib(tmp_path: Path) -> Path:
    """1.0 from the beginning; 1.1 comes to e4s on day 1 and to ml on day 3; it goes from e4s on day 2 and is back on day 4."""
    old = [record(1, stacks=E4S), record(2, stacks=ML)]
    new, there = record(3, stacks=E4S, versions=["1.1"]), record(4, stacks=ML, versions=["1.1"])
    again = record(5, stacks=E4S, versions=["1.1"])
    third = record(6, stacks=E4S, versions=["1.2"])
    states = [old, [*old, new], old, [*old, there], [*old, there, again], [*old, there, again, third]]
    return history(tmp_path / "zlib.git", *(catalogue({"zlib": state}) for state in states))


def _arrivals(run: Run, repository: Path, folder: Path, *arguments: str) -> dict[Row, Row]:
    """Return (added, after the first stack, removed) by version and stack, the last stay of each."""
    assert run("site", folder, "--repo", repository, "--no-progress", *arguments).exit_code == 0
    page = (folder / "package" / "zlib.html").read_text()
    table = page[page.index('class="list arrivals"') :]
    rows: dict[Row, Row] = {}
    for line in table[: table.index("</table>")].splitlines():
        cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)]
        if len(cells) == 5 and cells[0] != "version":
            rows.setdefault((cells[0], cells[1]), tuple(cells[2:]))
    assert rows
    return rows


def test_a_site_that_begins_later_says_what_the_whole_one_says(run: Run, zlib: Path, tmp_path: Path) -> None:
    whole = _arrivals(run, zlib, tmp_path / "whole")

    assert whole["1.1", "ml"] == ("2025-06-04", "2 days later", "")
    assert _arrivals(run, zlib, tmp_path / "later", "--since", "HEAD~1") == whole


def test_an_unusable_index_is_said(run: Run, zlib: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "other.db"
    build(history(tmp_path / "other.git", catalogue({"zlib": [record(9)]})), index)
    left = index.read_bytes()
    monkeypatch.setenv(VARIABLE, str(index))
    done = run("site", tmp_path / "after", "--repo", zlib, "--no-progress")

    assert (done.exit_code, index.read_bytes() == left) == (2, True)
    assert "other.db: is the index of another repository" in done.error


def test_another_branch_and_an_index_that_is_behind(run: Run, zlib: Path, tmp_path: Path) -> None:
    """The index of a repository follows HEAD; of another branch, a temporary one is built."""
    whole = _arrivals(run, zlib, tmp_path / "whole")
    subprocess.run(["git", f"--git-dir={zlib}", "branch", "other", "main"], check=True)
    subprocess.run(["git", f"--git-dir={zlib}", "update-ref", "refs/heads/main", "main~3"], check=True)
    assert run("history", "build", "--repo", zlib).exit_code == 0
    indexed = index_path(None, zlib).read_bytes()

    assert _arrivals(run, zlib, tmp_path / "other", "--rev", "other") == whole
    assert index_path(None, zlib).read_bytes() == indexed
    subprocess.run(["git", f"--git-dir={zlib}", "update-ref", "refs/heads/main", "other"], check=True)
    assert _arrivals(run, zlib, tmp_path / "main") == whole
    assert index_path(None, zlib).read_bytes() != indexed


@pytest.fixture
def site(run: Run, histories: dict[str, History], tmp_path: Path) -> Path:
    """The site of the recorded history up to state 7, built in two runs."""
    history = histories["v3"]
    for state in (5, 7):
        made = run("site", tmp_path / "site", "--repo", history.folder, "--rev", history.revisions[V3[state - 1]])
        assert made.exit_code == 0, made.error
    return tmp_path / "site"


def text_of(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.read_text()).split())


def test_pages_say_why_packages_were_rebuilt(site: Path, histories: dict[str, History]) -> None:
    """With the way from the cause as a picture, whose links lead somewhere; what changed itself has none."""
    page = site / "package/cw-stack.html"
    assert "Why it was rebuilt" in text_of(page)
    assert "1 spec because of zlib 1.3 → 1.3.1" in text_of(page)
    (picture,) = re.findall(r'<svg class="chain".*?</svg>', page.read_text(), re.DOTALL)
    assert re.findall(r"<text[^>]*>([^<]+?) *<", picture) == ["zlib", "cw-torch", "cw-stack"]
    assert "<title>cw-stack, which needs cw-torch, which needs zlib</title>" in picture
    links = re.findall(r'href="([^"]+)"', picture)
    assert links == ["../package/zlib.html", "../package/cw-torch.html"]
    assert all((page.parent / link).is_file() for link in links)
    assert '<svg class="chain"' not in (site / "package/zlib.html").read_text()
    revision = text_of(site / f"revision/{histories['v3'].revisions[V3[6]][:12]}.html")
    assert "5 specs because of zlib 1.3 → 1.3.1: cw-solver, cw-stack, cw-torch, hdf5." in revision


def test_a_damaged_graph_costs_only_the_causes(run: Run, histories: dict[str, History], tmp_path: Path) -> None:
    history = histories["v3"]
    repository = tmp_path / "damaged.git"
    subprocess.run(["git", "clone", "-q", "--bare", history.folder, repository], check=True)
    stream = (
        b"commit refs/heads/damaged\ncommitter a <a@b> 1893456000 +0000\ndata 0\n"
        b"from " + history.revisions[V3[6]].encode() + b"\n"
        b"M 100644 inline _cache/develop/.graph.json\ndata 5\n{nope\n"
    )
    subprocess.run(["git", "-C", repository, "fast-import", "--quiet"], input=stream, check=True)

    assert run("site", tmp_path / "site", "--repo", repository, "--rev", "damaged").exit_code == 0

    assert "because of" in text_of(tmp_path / "site/package/cw-stack.html")
