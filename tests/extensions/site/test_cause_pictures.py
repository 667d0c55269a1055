"""The site says why packages were rebuilt, where a real Spack's cache was recorded with its dependency graph."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import Run
from truths import V3, History


@pytest.fixture
def site(run: Run, histories: dict[str, History], tmp_path: Path) -> Path:
    """The site of the recorded history up to state 7, built in two runs."""
    history = histories["v3"]
    for state in (5, 7):
        made = run("site", tmp_path / "site", "--repo", history.folder, "--rev", history.revisions[V3[state - 1]])
        assert made.exit_code == 0, made.error
    return tmp_path / "site"


def text_of(page: Path) -> str:
    """Return the words of a page, without tags."""
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
    assert "5 specs because of zlib 1.3 → 1.3.1: cw-solver, cw-stack, cw-torch and 1 more." in revision


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

    made = run("site", tmp_path / "site", "--repo", repository, "--rev", "damaged")

    assert made.exit_code == 0, made.error
    assert "because of" in text_of(tmp_path / "site/package/cw-stack.html")
