"""The static site: what it says, what it writes, and what it leaves alone."""

import json
import re
import xml.etree.ElementTree as ET
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from conftest import Run
from helpers import HOSTILE, catalogue, history, hostile_states, record, records, secret
from msgspec.structs import replace
from outgoing import rendered
from sites import read_site

from cachewatch.errors import SourceError, UsageError
from cachewatch.extensions.site.building_and_feeds import Folder, build
from cachewatch.extensions.site.package_histories import DatedRevision, file_name
from cachewatch.extensions.site.package_page import Sources
from cachewatch.extensions.site.page_parts_and_plots import clock
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.digest_and_message_values import PLACE, RenderedDigest
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.digests_and_holds import DigestRecord, DigestState
from cachewatch.store.transactions_and_sqlite import open_database

_SPACK = "https://packages.spack.io/package.html"


class _Reader(HTMLParser):
    """Collects what the tests ask of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0
        self.events: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.scripts += tag == "script"
        self.links += [value for name in ("href", "src", "action") if (value := found.get(name))]
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.events += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _page(file: Path) -> _Reader:
    reader = _Reader()
    reader.feed(file.read_text("utf-8"))
    return reader


def _read(repository: Path, folder: Folder, revision: str = "HEAD") -> SiteContents:
    return read_site(repository, folder.remembered(), revision=revision)


def _build(path: Path, repository: Path, *digests: RenderedDigest, revision: str = "HEAD") -> Path:
    """Build the site of a repository, or bring it up to date, and return where it is."""
    folder = Folder(path)
    build(folder, _read(repository, folder, revision), digests, {"ml team": "feeds/ml-team.atom"}, title="T")
    return path


@pytest.fixture
def built(run: Run, demo_repository: Path, tmp_path: Path) -> Path:
    assert run("site", tmp_path / "site", "--repo", demo_repository).exit_code == 0
    return tmp_path / "site"


def _files(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_every_page_is_there_and_every_link_leads_somewhere(built: Path) -> None:
    """Links are relative and lead to something that is there, but for Spack's own page, and everything can be reached."""
    names = {str(file.relative_to(built)) for file in built.rglob("*.html")}
    assert {"index.html", "packages.html", "stacks.html", "tags.html", "revisions.html"} <= names
    assert {"package/py-build.html", "stack/e4s.html", "tag/develop.html", "tag/develop-2025-06-01.html"} <= names
    pages = {file.resolve(): _page(file) for file in built.rglob("*.html")}
    seen: set[Path] = set()
    ahead = [(built / "index.html").resolve()]
    while ahead:
        file = ahead.pop()
        if file.suffix != ".html" or file in seen:
            continue
        seen.add(file)
        page = pages[file]
        assert len(page.ids) == len(set(page.ids)), file
        for link in page.links:
            if link.startswith(("data:", f"{_SPACK}?name={file.stem}")):
                continue
            assert not link.startswith(("/", "http:", "https:", "//")), (file, link)
            path, _, fragment = link.partition("#")
            target = (file.parent / unquote(path)).resolve() if path else file
            assert target.is_file(), (file, link)
            assert built.resolve() in target.parents
            assert not fragment or fragment in pages[target].ids
            ahead.append(target)
    assert seen == set(pages)


def test_a_package_is_told(run: Run, demo_repository: Path, built: Path) -> None:
    """What there is now, how to install it, what was added and removed; a page counts what the command counts."""
    page = built / "package/py-build.html"
    text = " ".join(" ".join(_page(page).text).split())

    assert "The newest version is" in text
    assert "spack install --cache-only py-build@1.2.2/" in text
    assert "In other tags" in text
    assert "develop-2025-06-01" in text
    assert "added 1.2.1 in e4s-neoverse_v1 removed 1.2.0 in e4s-neoverse_v1, 1.2.1 in radiuss" in text
    said = run("show", "py-build", "--repo", demo_repository).output
    numbers = re.search(r"(\d+) specs, (\d+) versions, (\d+) stacks, (\d+) targets", said)
    assert numbers is not None
    for number, label in zip(numbers.groups(), ("specs", "versions", "stacks", "targets"), strict=True):
        assert f"<dt>{label}</dt><dd>{number}</dd>" in page.read_text()


def test_a_second_build_touches_nothing(run: Run, demo_repository: Path, built: Path) -> None:
    """Nothing changed, so no page is rendered, and no file has another time."""
    states = [_files(built)]
    result = run("site", built, "--repo", demo_repository)
    states.append(_files(built))

    assert "0 files written" in result.error
    before, after = ({n: v for n, v in files.items() if ".cachewatch" not in n} for files in states)
    assert before == after


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    """A revision that touches one package rewrites its page and the lists, and no other package's."""
    first = catalogue({name: records([number], stacks=["e4s"]) for number, name in enumerate("abc")})
    second = {**first, **catalogue({"b": [record(9, stacks=["ml"], versions=["2.0"])]})}
    repository = history(tmp_path / "r.git", first, second)
    path = tmp_path / "site"
    _build(path, repository, revision="HEAD~1")
    before = _files(path)
    _build(path, repository)
    after = _files(path)
    written = {name for name in after if before.get(name) != after[name] and name.endswith(".html")}
    whole = _build(tmp_path / "whole", repository)

    assert "package/b.html" in written
    assert not {"package/a.html", "package/c.html"} & written
    of_whole, pages = ({n: c for n, (_, c) in files.items() if n[-5:] == ".html"} for files in (_files(whole), after))
    assert of_whole == pages


def test_a_package_page_says_what_was_the_last_change(tmp_path: Path) -> None:
    both = catalogue({"a": [record(1)], "b": [record(2)]})
    _build(tmp_path / "site", history(tmp_path / "r.git", both, catalogue({"a": [record(1)]})))
    text = " ".join(_page(tmp_path / "site/package/b.html").text)

    assert "Gone." in text
    assert "2025-06-02" in text
    assert '<span class="label">gone</span>' in (tmp_path / "site/packages.html").read_text()


def test_rebuilds_in_a_row_are_one_line(tmp_path: Path) -> None:
    """Whoever asks what happened is not told the same five times."""
    states = [catalogue({"a": [record(number)]}) for number in range(5)]
    states.append(catalogue({"a": [record(9, versions=["2.0"])]}))
    _build(tmp_path / "site", history(tmp_path / "r.git", *states))
    text = " ".join(" ".join(_page(tmp_path / "site/package/a.html").text).split())

    assert "2025-06-05" in text
    assert "4 rebuilt in 4 revisions from 2025-06-02 on" in text
    assert "1 upgraded added 2.0 in e4s removed 1.0 in e4s" in text


def test_what_nothing_makes_any_more_is_removed(tmp_path: Path) -> None:
    old = history(tmp_path / "old.git", catalogue({"a": [record(1)], "b": [record(2)]}))
    new = history(tmp_path / "new.git", catalogue({"a": [record(1)]}))
    path = tmp_path / "site"
    for repository in (old, new):
        _build(path, repository)
        (path / "CNAME").write_text("cache.example.org")

    assert not (path / "package/b.html").exists()
    assert (path / "package/a.html").exists()
    assert (path / "CNAME").exists()


def test_a_killed_build_is_made_good(demo_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a site is known for what it is, and no page of it is trusted."""
    path, whole = tmp_path / "site", tmp_path / "whole"
    put, count = Folder.put, iter(range(9))
    folder = Folder(path)
    read_before = _read(demo_repository, folder)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", lambda self, *page: put(self, *page) if next(count) < 8 else _interrupt())
        with pytest.raises(KeyboardInterrupt):
            build(folder, read_before, [], title="T")
    (path / "index.html").write_text("half")
    for target in (path, whole):
        _build(target, demo_repository)

    assert {n: c for n, (_, c) in _files(path).items()} == {n: c for n, (_, c) in _files(whole).items()}


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_all_processes_write_the_same(demo_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachewatch.extensions.site.building_and_feeds._PAGES_AT_ONCE", 2)
    for jobs in (1, 2):
        folder = Folder(tmp_path / str(jobs))
        build(folder, _read(demo_repository, folder), [], title="T", jobs=jobs)

    one, two = (_files(tmp_path / name) for name in "12")
    assert {n: c for n, (_, c) in one.items()} == {n: c for n, (_, c) in two.items()}


def test_a_foreign_folder_is_refused(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/index.html").write_text("mine")
    error = run("site", tmp_path / "precious", "--repo", demo_repository).error_of(2)
    assert "something other than a site of cachewatch" in error
    assert (tmp_path / "precious/index.html").read_text() == "mine"


@pytest.mark.parametrize("damage", [b"{", b'{"pages": {"../x": "k"}}'])
def test_a_damaged_memory_is_no_obstacle(built: Path, demo_repository: Path, damage: bytes) -> None:
    """What is remembered is only a help; and a list of pages written by somebody else removes nothing outside."""
    outside = built.parent / "x"
    outside.write_text("mine")
    (built / ".cachewatch/history.msgpack").write_bytes(damage)
    before = {n: c for n, (_, c) in _files(built).items() if n.endswith(".html")}
    if damage.startswith(b'{"pages"'):
        (built / ".cachewatch/pages.json").write_bytes(damage)
    folder = Folder(built)
    sources = Sources(packages=_SPACK + "?name={package}")
    build(folder, _read(demo_repository, folder), [], title="Build cache", sources=sources)

    assert {n: c for n, (_, c) in _files(built).items() if n.endswith(".html")} == before
    assert outside.read_text() == "mine"


def test_hostile_text_is_harmless(tmp_path: Path) -> None:
    repository = history(tmp_path / "r.git", *hostile_states())
    path = tmp_path / "deep" / "site"
    folder = Folder(path)
    build(folder, _read(repository, folder), [], title=HOSTILE[0])

    assert {p.name for p in tmp_path.iterdir()} == {"cache", "deep", "r.git"}
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["site"]
    for file in path.rglob("*.html"):
        assert re.fullmatch(r"[a-z0-9._+~-]{1,100}", file.name), file
        text = file.read_text("utf-8")
        page = _page(file)
        assert page.scripts == 1, file
        assert page.events == []
        assert not any(link.startswith("javascript:") for link in page.links)
        assert "x" * 200 not in text
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", text)
    assert len(_index(path)["packages"]) == len(HOSTILE)
    assert len(list((path / "stack").glob("*.html"))) == len(set(HOSTILE))
    for feed in path.rglob("*.atom"):
        ET.fromstring(feed.read_bytes())


def _index(site: Path) -> dict[str, Any]:
    text = (site / "assets/index.js").read_text()
    found: dict[str, Any] = json.loads(text.removeprefix("cachewatch.index(").removesuffix(");\n"))
    return found


def test_file_names_are_harmless_and_different() -> None:
    """Every name has a file name of its own, in one case, that is no device and leads nowhere else."""
    names = [*HOSTILE, "zlib", "py-build", "libstdc++", "aux", "aux.h", ".hidden", "-rf", "", "a" * 81, "\udc80"]
    files = [file_name(name) for name in names]

    assert len({name.casefold() for name in files}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_][a-z0-9._+~-]{0,99}", name) for name in files)
    assert [file_name(name) for name in ("zlib", "py-build", "libstdc++")] == ["zlib", "py-build", "libstdc++"]
    assert "con" not in files
    assert "aux.h" not in files


def _digest(key: str, day: int) -> RenderedDigest:
    title, html = f"2 packages gone <{day}>", f"<!doctype html><title>{day}</title>"
    when: dict[str, Any] = {"period": f"2025-06-0{day}", "created": datetime(2025, 6, day, tzinfo=UTC)}
    return RenderedDigest(key=key, subscription="ml team", title=title, text="", html=html, **when)


def test_digests_are_listed(demo_repository: Path, tmp_path: Path) -> None:
    _build(tmp_path / "site", demo_repository, _digest("k/1", 1), _digest("k/2", 2))
    listed = (tmp_path / "site/digests.html").read_text()
    links = re.findall(r'href="(digest/[^"]+)"', listed)

    pages = [(tmp_path / "site" / link).read_text() for link in links]
    assert pages == [f"<!doctype html><title>{n}</title>" for n in (2, 1)]
    assert "2 packages gone &lt;2&gt;" in listed
    link = r'<link rel="alternate" type="application/atom\+xml" title="ml team" href="feeds/ml-team.atom">'
    assert re.search(link, listed)
    index = (tmp_path / "site/index.html").read_text()
    assert 'href="digests.html"' in index
    assert "2 packages gone" not in index


def test_digests_lead_to_their_neighbours(demo_repository: Path, tmp_path: Path) -> None:
    """Within a subscription, to pages that are there; the first and the last have one neighbour."""
    digests = [replace(_digest(f"d{day}", day), html=f"<p>{day}</p>{PLACE}") for day in (1, 2, 3)]
    _build(tmp_path / "site", demo_repository, *digests, replace(_digest("other", 2), subscription="hep", html=PLACE))
    pages = {file.stem: _page(file).links for file in (tmp_path / "site/digest").glob("*.html")}

    assert pages == {"d1": ["d2.html"], "d2": ["d1.html", "d3.html"], "d3": ["d2.html"], "other": []}


def _kept(key: str, **values: Any) -> DigestRecord:
    subscription = values.pop("subscription", "ml-team")
    html = f"<!doctype html><title>{key}</title>"
    told = rendered(key=key, subscription=subscription, html=html, is_notice=values.pop("is_notice", False))
    of: dict[str, Any] = {name: getattr(told, name) for name in ("key", "subscription", "title", "period", "created")}
    of |= {"stream": "regular", "state": DigestState.READY, "reason": "", "advances": ()}
    return DigestRecord(rendered=told, short=told, **(of | values))


_CONFIG = """
state: {state}
sources: {{public: {{git: https://example.org/catalogue.git}}}}
channels:
  files: {{type: file, path: "/srv/{{subscription}}/{{period}}.{{ext}}"}}
  feed: {{type: feed, path: "/srv/{{subscription}}.atom", url: "https://example.org/{{subscription}}.atom"}}
subscriptions:
  ml-team: {{channels: [files, feed], publish: {publish}}}
  private: {{channels: [files, feed]}}
"""


def _config(folder: Path, publish: str = "true") -> Path:
    return secret(folder / "cachewatch.yaml", _CONFIG.format(state=folder / "state", publish=publish))


def test_digests_of_public_subscriptions_are_shown(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    """What went out is shown with its feed; what is held, for operators or not public is not."""
    others = _kept("three", is_notice=True), _kept("four", subscription="private")
    with closing(open_database(tmp_path / "state")) as database, database.write() as connection:
        for one in (_kept("one"), _kept("two", state=DigestState.HELD), *others):
            digests.add(connection, one)
    assert run("site", tmp_path / "site", "--repo", demo_repository, "--config", _config(tmp_path)).exit_code == 0

    assert [file.name for file in (tmp_path / "site/digest").iterdir()] == ["one.html"]
    listed = (tmp_path / "site/digests.html").read_text()
    assert 'href="https://example.org/ml-team.atom"' in listed
    assert "private" not in listed
    run("site", tmp_path / "site", "--repo", demo_repository, "--config", _config(tmp_path, "false"))
    assert not (tmp_path / "site/digests.html").exists()
    assert "digests.html" not in (tmp_path / "site/index.html").read_text()


def test_a_state_that_is_not_there_is_said(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    error = run("site", tmp_path / "site", "--repo", demo_repository, "--config", _config(tmp_path)).error_of(5)
    assert "there is no state yet" in error
    assert not (tmp_path / "site").exists()


def test_tags_can_be_chosen(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    run("site", tmp_path / "site", "--repo", demo_repository, "--tag", "develop-2025-06-01", "--title", "Snapshot")

    assert [file.name for file in (tmp_path / "site/tag").iterdir()] == ["develop-2025-06-01.html"]
    assert "<title>Snapshot</title>" in (tmp_path / "site/index.html").read_text()


def test_what_cannot_be_done_is_said(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    for options, complaint in (
        (["--tag", "nothing"], "no such tag"),
        (["--rev", "nowhere"], "not a revision"),
        (["--since", "1999-01-01"], "no revision that old"),
        (["--repo", "/nowhere"], "no such folder"),
    ):
        result = run("site", tmp_path / "site", "--repo", demo_repository, *options)
        assert complaint in result.error
        assert result.exit_code in (2, 3)
    assert not (tmp_path / "site").exists()


def test_packages_of_other_tags_are_listed(tmp_path: Path) -> None:
    states = {**catalogue({"a": [record(1)]}), **catalogue({"old": [record(2, versions=["0.9"])]}, "v0.23.1")}
    _build(tmp_path / "site", history(tmp_path / "r.git", states))
    text = " ".join(_page(tmp_path / "site/packages.html").text)
    page = " ".join(_page(tmp_path / "site/package/old.html").text)

    assert "in other tags" in text
    assert _index(tmp_path / "site")["packages"] == [["a", "1.0", [0], [0], [0]], ["old", "", [], [], []]]
    assert "There is no binary of it in develop." in page
    assert "0.9" in page


@pytest.mark.slow_cases
@pytest.mark.parametrize("layout", ["_cache/{tag}/{package}/specs.md", "{tag}/{package}.md"])
def test_damaged_documents_are_named(run: Run, tmp_path: Path, layout: str) -> None:
    paths = [layout.format(tag=tag, package=package) for tag, package in (("develop", "b"), ("v1.0", "c"))]
    good = catalogue({"a": [record(1)], "b": [record(2)], "c": [record(3)]})
    for place, tag, package in zip(paths, ("develop", "v1.0"), "bc", strict=True):
        good[place] = good.pop(f"_cache/develop/{package}/specs.md").replace(b"develop", tag.encode())
    first = good.pop("_cache/develop/a/specs.md")
    good |= {layout.format(tag="develop", package="a"): first}
    good |= {layout.format(tag="v1.0", package="a"): first.replace(b"develop", b"v1.0")}
    damaged = dict(zip(paths, (b"---\ncut", b"<<<<<<< HEAD"), strict=True))
    repository = history(tmp_path / "r.git", good, {**good, **damaged})
    error = run("site", tmp_path / "site", "--repo", repository).error_of(4)
    assert "b in develop: unreadable" in error
    assert "c in v1.0: unreadable" in error
    assert (tmp_path / "site/package/b.html").is_file()


def test_what_cannot_be_written_is_named(demo_repository: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = Folder(tmp_path / "site")
    (tmp_path / "site/package/py-build.html").mkdir(parents=True)

    with pytest.raises(UsageError, match="cannot be used"):
        Folder(tmp_path / "file")
    with pytest.raises(SourceError, match=r"py-build\.html: cannot be written"):
        build(folder, _read(demo_repository, folder), [], title="T")


def test_a_site_has_a_past_of_one_revision(tmp_path: Path) -> None:
    _build(tmp_path / "site", history(tmp_path / "r.git", catalogue({"a": [record(1)]})))

    assert "One revision, of 1 Jun 2025." in (tmp_path / "site/index.html").read_text()
    assert "so nothing has happened" in (tmp_path / "site/revisions.html").read_text()


def test_clocks_that_run_backwards_stand_still() -> None:
    """A commit from before its parent is drawn where the parent is; one without a date as well."""
    times = [datetime(2025, 6, day, tzinfo=UTC) if day else None for day in (1, 5, 3, 0, 11)]

    assert clock([DatedRevision("", time) for time in times]).places == (0, 40, 40, 40, 100)
    assert clock([DatedRevision("", None)] * 2).places == (0, 100)
    assert clock([]).places == ()
