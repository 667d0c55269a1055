"""Sources whose documents are not in `_cache/`, and sources that have none."""

import os
import re
import time
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, document, history, record, records, write
from station import HOUR, OPEN_CONFIG, Site, begun

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve

CONFIG = OPEN_CONFIG.replace("  ml:", "  all:")
ONE = {"zlib": records([1, 2]), "hdf5": records([3])}
TWO = {"zlib": [record(1), record(4, versions=["1.1"])], "gmp": records([5])}
LAYOUTS = ("{package}.md", "docs/{tag}/{package}.txt", "_cache/{tag}/{package}/specs.md")


def _state(layout: str, packages: dict[str, list[dict[str, object]]]) -> dict[str, bytes]:
    return catalogue(packages, layout=layout) | {"README.md": b"# read me"}


def _without_day(text: str) -> str:
    """Return a digest without the day of its revision: that of a folder is today."""
    _, _, rest = text.split("\n", 2)
    return re.sub(r"before [\w ,:]+ \(", "before that day (", " ".join(rest.split()))


def _told(folder: Path, layout: str, second: str, config: str = CONFIG) -> list[str]:
    site = begun(folder, [_state(layout, ONE), _state(second, TWO)], config)
    site.run(1, later=HOUR)
    assert site.notices() == []
    return [text.split("\n----", 1)[0] for text in site.told("all")]


def test_digests_are_the_same_wherever_documents_are(tmp_path: Path) -> None:
    """In each revision they are found on its own, so that a move tells nothing beside what changed."""
    for name in "abcd":
        (tmp_path / name).mkdir()
    usual = _told(tmp_path / "a", LAYOUTS[2], LAYOUTS[2])
    assert len(usual) == 1
    assert "hdf5" in usual[0]
    assert _told(tmp_path / "b", LAYOUTS[0], LAYOUTS[0]) == usual
    assert _told(tmp_path / "c", LAYOUTS[1], LAYOUTS[2]) == usual
    named = CONFIG.replace("stale_after", "documents: 'x/{tag}/{package}.rst', stale_after")
    assert _told(tmp_path / "d", "x/{tag}/{package}.rst", "x/{tag}/{package}.rst", named) == usual


@pytest.mark.slow_cases
@pytest.mark.parametrize(("first", "others"), [(0, []), (0, ["hdf5.md"]), (0, ["v1/gmp.md"]), (1, ["hdf5.md"])])
def test_what_was_overwritten_cannot_be_read(tmp_path: Path, first: int, others: list[str]) -> None:
    """It was not removed; what changed meanwhile is told when it is a document again, also to who began meanwhile."""
    tags = {path: Path(path).parent.name or "develop" for path in others}
    rest = {path: document(records([9]), package=Path(path).stem, tag=tag) for path, tag in tags.items()}
    old, new = (rest | {"zlib.md": document(packages["zlib"])} for packages in (ONE, TWO))
    overwritten = [rest | {"zlib.md": content} for content in (b"hello\n", b"", b"hello again\n")]
    site = Site(tmp_path, [old, *overwritten, new, rest | {"py-a.md": document(TWO["gmp"], package="py-a")}], CONFIG)
    for number in range(first, 6):
        site.run(number, later=HOUR)
    again, removed = (" ".join(text.split()) for text in site.told("all"))

    assert "zlib 1.0 -> 1.1" in again
    assert "zlib 1.0, 1.1 all stacks" in removed
    assert first or "1 document of develop in public cannot be read: zlib" in site.notices()


def test_a_source_without_documents_is_a_problem(tmp_path: Path, run: Run) -> None:
    """A pass, `status`, `config check --source` and operators hear what was looked for, until there are some."""
    site = begun(tmp_path, [{"README.md": b"# none"}, _state(LAYOUTS[0], ONE)], CONFIG)
    config = ["--config", tmp_path / "cachewatch.yaml"]
    found = "has no documents: looked for _cache/<tag>/<package>/specs.md, or *.md"
    assert site.notices() == ["the source public has no documents"]
    assert found in " ".join(site.told("(operators)")[0].split())
    (said,) = [event["said"] for event in site.events() if event["event"] == "source.empty"]
    assert said.startswith(f"'main' {found}")
    status = run("status", "--check", *config)
    assert status.exit_code == 1
    assert "the source public has no documents: 'main' has no documents: looked for" in status.output
    checked = run("config", "check", "--source", *config)
    assert f"sources.public: 'HEAD' {found}" in checked.error
    assert "found README.md, which is not one" in checked.error

    site.run(1, later=HOUR)
    assert site.notices()[1:] == ["the source public has documents again"]
    assert "has no documents" not in run("status", *config).output


def test_init_says_that_a_source_has_no_documents(tmp_path: Path, run: Run) -> None:
    """The file is written: there may be some tomorrow."""
    source = history(tmp_path / "r.git", {"README.md": b"# none"})
    error = run("init", tmp_path / "cachewatch.yaml", "--source", source).error_of(0)

    assert "warning: " in error
    assert "'HEAD' has no documents: looked for" in error
    checked = run("config", "check", "--source", "--config", tmp_path / "cachewatch.yaml").error
    assert "sources.r: 'HEAD' has no documents: looked for" in checked
    previewed = run("preview", "--config", tmp_path / "cachewatch.yaml").error
    assert "warning: the source r has no documents: 'main' has no documents: looked for" in previewed


@pytest.mark.parametrize(("tag", "tags"), [("develop", ("develop",)), ("v0.23", ("*",))])
def test_init_asks_for_tags_that_there_are(tmp_path: Path, run: Run, tag: str, tags: tuple[str, ...]) -> None:
    """Where there is no develop, all tags are watched; the layout is what the option names."""
    files = {f"x/{tag}/{name}.rst": document(found, package=name, tag=tag) for name, found in ONE.items()}
    source, path = history(tmp_path / "r.git", files), tmp_path / "cachewatch.yaml"
    assert "warning" not in run("init", path, "--source", source, "--documents", "x/{tag}/{package}.rst").error
    config = read_config(path)
    assert config.subscriptions["all"].match.tags == tags
    assert getattr(config.sources["r"], "documents", None) == "x/{tag}/{package}.rst"


def test_a_pattern_without_a_package_is_a_mistake(tmp_path: Path, run: Run) -> None:
    """`config check` shows what to write."""
    path = tmp_path / "cachewatch.yaml"
    path.write_text(CONFIG.replace("stale_after", "documents: 'docs/{tag}.md', stale_after").replace("{folder}", "."))
    assert "'docs/{tag}.md' lacks {package}" in run("config", "check", "--config", path).error_of(2)


def _watching_a_folder(tmp_path: Path, layout: str) -> tuple[Site, Path]:
    site, folder = Site(tmp_path, [{}]), write(tmp_path / "documents", _state(layout, ONE))
    site.configure(CONFIG.replace("upstream.git", "documents"))
    site.run()
    return site, folder


@pytest.mark.slow_cases
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_is_a_source(tmp_path: Path, run: Run, layout: str) -> None:
    """A poll that finds a change records it, and readers are told what they would be told of a repository."""
    (tmp_path / "git").mkdir()
    expected = _told(tmp_path / "git", layout, layout)
    site, folder = _watching_a_folder(tmp_path, layout)
    site.run(later=HOUR)
    assert site.told("all") == []

    (folder / layout.format(tag="develop", package="hdf5")).unlink()
    write(folder, _state(layout, TWO))
    site.run(later=HOUR)
    texts = [text.split("\n----", 1)[0] for text in site.told("all")]
    assert list(map(_without_day, texts)) == list(map(_without_day, expected))
    assert site.notices() == []
    config = ["--config", tmp_path / "cachewatch.yaml"]
    assert run("config", "check", "--source", *config).exit_code == 0
    assert "failed" not in run("status", *config).output


def test_a_preview_of_a_folder_names_the_revision_that_is_sent(tmp_path: Path, run: Run) -> None:
    """The same content is the same revision, whenever it is recorded."""
    site, folder = _watching_a_folder(tmp_path, LAYOUTS[0])
    write(folder, _state(LAYOUTS[0], TWO))
    for file in folder.iterdir():
        os.utime(file, (time.time() - 3600,) * 2)
    os.utime(folder, (time.time() - 3600,) * 2)
    previewed = run("preview", "all", "--config", tmp_path / "cachewatch.yaml", "--format", "json").output
    site.run(later=HOUR)

    sent = resolve(Repository(next((tmp_path / "state" / "sources").glob("*.git"))), "HEAD").commit
    assert sent in previewed


@pytest.mark.slow_cases
@pytest.mark.parametrize("now", ["emptied", "of no file", "claimed twice"])
def test_what_is_no_document_for_now_was_not_removed(tmp_path: Path, now: str) -> None:
    """Operators hear of it, the rest is compared, and what was recorded stays."""
    site, folder = _watching_a_folder(tmp_path, LAYOUTS[0])
    file = folder / "hdf5.md"
    if now == "claimed twice":
        (folder / "another.md").write_bytes(file.read_bytes())
    elif now == "emptied":
        file.write_bytes(b"")
    else:
        file.unlink()
        file.symlink_to("nowhere")
    (folder / "zlib.md").write_bytes(document(TWO["zlib"]))
    site.run(later=HOUR)

    (told,) = site.told("all")
    assert "zlib" in told
    assert "hdf5" not in told
    assert site.notices() == ["a part of the source public was skipped"]
    assert str(file) in "".join(site.told("(operators)")[0].split())


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["empty", "missing"])
def test_a_folder_that_is_not_there_for_now_was_not_removed(tmp_path: Path, run: Run, gone: str) -> None:
    """As when a disk is not mounted: the source fails, and nobody is told that packages were removed."""
    site, folder = _watching_a_folder(tmp_path, LAYOUTS[0])
    folder.rename(tmp_path / "elsewhere")
    if gone == "empty":
        folder.mkdir()
    site.run(later=HOUR)

    assert site.told("all") == []
    status = run("status", "--config", tmp_path / "cachewatch.yaml").output
    said = "there are no documents; looked for" if gone == "empty" else "there is no such folder"
    assert f"{folder}: {said}" in status


def test_init_takes_a_folder(tmp_path: Path, run: Run) -> None:
    """Tags are those of its documents; a folder without documents is said to have none, and one has no revisions."""
    folder, path = tmp_path / "documents", tmp_path / "cachewatch.yaml"
    write(folder, {"a.md": document(ONE["zlib"], tag="v1")})
    assert "warning" not in run("init", path, "--source", folder).error
    assert read_config(path).subscriptions["all"].match.tags == ("*",)
    assert list(read_config(path).sources) == ["documents"]
    error = run("init", tmp_path / "b.yaml", "--source", folder, "--since", "yesterday").error_of(2)
    assert "is a folder, which has no revisions" in error
    (folder / "a.md").unlink()
    assert "there are no documents; looked for" in run("init", tmp_path / "c.yaml", "--source", folder).error
