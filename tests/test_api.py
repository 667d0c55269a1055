"""The public API: its names, what it returns, how it streams and fails, and what docs/api.md says of it."""

import ast
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from caches import database, installs, node, write_v2
from conftest import ROOT, Run
from helpers import document, history, parsed, record, two_folders
from pairs import some_pair
from tools import finding_commands

import cachewatch
from cachewatch.runtime.files_and_locks import demo_documents

PAGE = ROOT / "docs" / "api.md"
NAMES = [name for name in cachewatch.__all__ if name != "__version__"]


def test_importing_loads_nothing() -> None:
    """`import cachewatch` takes no library, and no module of ours but itself; a public name takes no HTTP client before it is used."""
    code = (
        "import sys; before = set(sys.modules); import cachewatch; print(sorted(set(sys.modules) - before));"
        "cachewatch.parse_document; cachewatch.UsageError; print('httpx2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.splitlines() == ["['cachewatch']", "False"]


def test_what_checkers_see_is_what_there_is() -> None:
    """The names that type checkers read come from where they are loaded at run time."""
    tree = ast.parse(Path(cachewatch.__file__).read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [import_module(str(node.module)) for node in nodes if str(node.module).startswith("cachewatch.")]

    for name in NAMES:
        value = getattr(cachewatch, name)
        assert [module for module in ours if value is getattr(module, name, None)], name
        assert value.__module__ in {module.__name__ for module in ours}, name


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        cachewatch.nonsense  # type: ignore[attr-defined]  # noqa: B018
    assert set(cachewatch.__all__) <= set(dir(cachewatch))


def test_every_name_is_documented() -> None:
    """In one or two sentences of its own, and on the page."""
    page = PAGE.read_text()
    assert all(getattr(cachewatch, name).__doc__ for name in NAMES)
    assert [name for name in NAMES if not re.search(rf"`(?:cachewatch\.)?{name}\b", page)] == []


def test_the_page_names_nothing_else() -> None:
    tables = re.findall(r"^\| `(\w+)[`(]", PAGE.read_text(), re.MULTILINE)

    values = (cachewatch.OpenCatalogue, cachewatch.TagChangeset, cachewatch.PackageChange)
    assert set(tables) <= {*NAMES, *(name for each in values for name in dir(each))}


def _types_of(hint: Any) -> Iterator[Any]:
    yield hint
    for argument in typing.get_args(hint):
        yield from _types_of(argument)


def _hints(value: Any) -> Iterator[Any]:
    """Yield the annotations of a function, or of the attributes, properties and methods of a class."""
    functions = [value]
    if isinstance(value, type):
        functions = [each.fget if isinstance(each, property) else each for each in vars(value).values()]
        if issubclass(value, msgspec.Struct):
            yield from typing.get_type_hints(value).values()
    names = {name: getattr(cachewatch, name) for name in NAMES}
    for function in functions:
        if callable(function) and hasattr(function, "__annotations__") and not function.__name__.startswith("_"):
            yield from typing.get_type_hints(function, localns=names).values()


def test_everything_that_is_reached_is_public() -> None:
    """Who gets a value can name the types of all that it holds, none of which is unknown."""
    public = {getattr(cachewatch, each) for each in NAMES}
    for name in NAMES:
        types = [each for hint in _hints(getattr(cachewatch, name)) for each in _types_of(hint)]
        assert Any not in types, name
        own = {each for each in types if isinstance(each, type) and each.__module__.startswith("cachewatch")}
        assert own <= public, name


def test_values_are_frozen() -> None:
    values = [value for name in NAMES if isinstance(value := getattr(cachewatch, name), type)]
    assert all(value.__struct_config__.frozen for value in values if issubclass(value, msgspec.Struct))


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text() if PAGE.exists() else "", re.DOTALL)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the commands of the page prepare for its examples."""
    folder = tmp_path_factory.mktemp("api")
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["bash", "-ec", commands], cwd=folder, env=finding_commands(), check=True)
    return folder


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_runs(
    prepared: Path, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block of the page, where its commands lead, prints what its comments say; they begin with `# ->`."""
    monkeypatch.chdir(prepared)
    exec(compile(BLOCKS[number], f"docs/api.md, example {number + 1}", "exec"), {})
    expected = re.findall(r"^# -> (.*)$", BLOCKS[number], re.MULTILINE)

    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def _names(changesets: Iterator[cachewatch.TagChangeset]) -> dict[str | None, list[str]]:
    return {each.after.tag: [change.package for change in each] for each in changesets}


def test_a_difference_streams(demo_repository: Path) -> None:
    """Tag by tag and package by package, as `cachewatch diff` has it, with its totals."""
    with cachewatch.open(demo_repository) as catalogue:
        (develop,) = catalogue.diff("HEAD~1", "HEAD", tags="develop")
        changes = list(develop)
        summary = develop.summary()

    names = "py-build py-gpytorch py-keras py-ml-dtypes py-safetensors"
    assert [change.package for change in changes] == names.split()
    assert sum((change.counts for change in changes), cachewatch.SpecCounts()) == summary.specs
    assert (summary.packages.added, summary.revisions_between, summary.is_partial) == (1, 1, False)
    assert (summary.specs.before, summary.specs.after) == (228, 473)
    assert cachewatch.StatementKind.PACKAGE_ADDED in {each.kind for each in summary.statements}


def test_the_summary_reads_the_rest(demo_repository: Path) -> None:
    """Whoever wants only totals need not iterate; packages come once."""
    with cachewatch.open(str(demo_repository)) as catalogue:
        whole, begun = (next(catalogue.diff("HEAD~1", tags=["develop"])) for _ in range(2))
        next(iter(begun))
        assert begun.summary() == whole.summary()
        with pytest.raises(cachewatch.UsageError, match="only once"):
            iter(whole)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"packages": "py-k*"}, ["py-keras"]),
        ({"packages": ["!py-k*", "!py-build"]}, ["py-gpytorch", "py-ml-dtypes", "py-safetensors"]),
        ({"stacks": "ml-darwin*", "targets": ["aarch64"], "versions": "@0.4.3"}, ["py-safetensors"]),
        ({"kinds": ["rebuilt"]}, ["py-gpytorch"]),
        ({"kinds": "package"}, ["py-keras"]),
        ({"oses": "no-*"}, []),
        ({"compilers": "nonesuch"}, []),
    ],
)
def test_filters(demo_repository: Path, filters: dict[str, Any], expected: list[str]) -> None:
    """They are the options of `cachewatch diff`; one pattern needs no list."""
    with cachewatch.open(demo_repository) as catalogue:
        assert _names(catalogue.diff("HEAD~1", tags="develop", **filters)) == {"develop": expected}


def test_every_tag_has_a_changeset(demo_repository: Path) -> None:
    with cachewatch.open(demo_repository) as catalogue:
        assert list(_names(catalogue.diff("HEAD~1"))) == ["develop", "develop-2025-06-01"]
        assert [list(each) for each in catalogue.diff("HEAD", "HEAD")] == [[]]
        assert catalogue.tags() == ("develop", "develop-2025-06-01", "develop-2025-05-25")
        assert catalogue.tags("HEAD~1") == ("develop", "develop-2025-05-25")
        assert [each.time and each.time.day for each in catalogue.revisions()] == [1, 25]
        assert [each.commit for each in catalogue.revisions(limit=1)] == [catalogue.revisions()[0].commit]


def test_threads(demo_repository: Path) -> None:
    """Each with a catalogue of its own."""

    def work() -> list[cachewatch.PackageChange]:
        with cachewatch.open(demo_repository) as catalogue:
            return [change for each in catalogue.diff("HEAD~1") for change in each]

    with ThreadPoolExecutor(3) as pool:
        first, second, third = (each.result() for each in [pool.submit(work) for _ in range(3)])
    assert first == second == third


def test_values_cross_to_other_processes(demo_repository: Path) -> None:
    with cachewatch.open(demo_repository) as catalogue:
        (develop,) = catalogue.diff("HEAD~1", tags="develop")
        values = [*develop, develop.summary()]
    values.append(cachewatch.parse_document(demo_documents()["py-keras"]))

    assert pickle.loads(pickle.dumps(values)) == values


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of documents, of which the later has an upgrade."""
    return two_folders(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2, versions=["2.0"])]})


def test_folders_of_documents(folders: tuple[Path, Path]) -> None:
    """Without git; the folder that is open is the later state."""
    with cachewatch.open(folders[1]) as catalogue:
        (changeset,) = catalogue.diff(folders[0])
        (change,) = changeset
        assert cachewatch.Kind.UPGRADED in change.kinds
        assert (catalogue.tags(), catalogue.revisions()) == (("develop",), ())
        with pytest.raises(cachewatch.UsageError, match="has no revisions"):
            catalogue.diff("HEAD~1")
        with pytest.raises(cachewatch.UsageError, match="has no revisions"):
            cachewatch.coverage(cachewatch.Environment(name="none", needs=()), catalogue, "HEAD")


def test_documents_alone(folders: tuple[Path, Path]) -> None:
    """A single one can be opened, too, and two can be compared that nobody stored."""
    file = next(folders[1].rglob("specs.md"))
    file = file.rename(file.with_name("zlib.md"))
    with cachewatch.open(file) as catalogue:
        assert [len(list(each)) for each in catalogue.diff(next(folders[0].rglob("specs.md")))] == [1]
    new = cachewatch.parse_document(file.read_bytes(), "zlib.md")
    change = cachewatch.compare(None, new)
    assert change is not None
    assert change.status is cachewatch.Status.ADDED
    assert cachewatch.compare(new, new) is None


def test_documents_are_compared_by_text_and_by_path(folders: tuple[Path, Path]) -> None:
    (path,) = folders[1].rglob("specs.md")
    data = path.read_bytes()
    expected = cachewatch.compare(None, cachewatch.parse_document(data))
    assert expected is not None
    for given in (data, data.decode(), path, str(path)):
        assert cachewatch.compare(None, given) == expected
        assert cachewatch.compare(given, data) is None
        assert cachewatch.parse_document(given) == cachewatch.parse_document(data)
    for read in (cachewatch.parse_document, partial(cachewatch.compare, None)):
        for kind in (int, bool, dict, list, tuple):
            with pytest.raises(TypeError, match=f"its text, its bytes or its path; not as {kind.__name__}"):
                read(kind())  # type: ignore[arg-type]
        with pytest.raises(cachewatch.SourceError, match=r"nowhere\.md: No such file or directory"):
            read("nowhere.md")


def test_changes_are_rows(demo_repository: Path) -> None:
    """They are those of CSV, each with the same columns; numbers of specs have columns of their own."""
    with cachewatch.open(demo_repository) as catalogue:
        (changeset,) = catalogue.diff("HEAD~1", "HEAD:develop")
        rows = changeset.to_records()
    assert len({tuple(row) for row in rows}) == 1
    assert next(iter(rows[0].items())) == ("tag", "develop")
    assert {"package-changed", "version-added", "unmatched-added"} <= {row["change"] for row in rows}
    (keras,) = (row for row in rows if row["change"] == "package-added")
    assert (keras["specs_before"], keras["specs_after"], keras["before"], keras["name"]) == (0, 130, "", "")


def test_a_column_has_one_type(folders: tuple[Path, Path]) -> None:
    """In all rows, also empty ones, since data frames take the type from the first rows."""
    chance = random.Random(7)
    pairs = [[parsed(each) for each in some_pair(chance)] for _ in range(200)]
    changes = filter(None, (cachewatch.compare(before, after) for before, after in pairs))
    with cachewatch.open(next(folders[1].rglob("specs.md"))) as catalogue:
        (changeset,) = catalogue.diff(next(folders[0].rglob("specs.md")))
        assert {type(row["tag"]) for row in changeset.to_records()} == {str}
    rows = cachewatch.to_records(changes)
    types = {name: {type(row[name]) for row in rows} for name in rows[0]}
    numbers = {"count", "specs_before", "specs_after"}
    assert types == {name: {int} if name in numbers else {str} for name in types}


def test_a_changeset_is_the_json_of_the_command(demo_repository: Path, run: Run) -> None:
    """With the same bytes; its summary follows, as after an iteration."""
    with cachewatch.open(demo_repository) as catalogue:
        ways = {"tags": "develop", "packages": "!py-keras", "kinds": ["upgraded", "rebuilt"]}
        changeset, other = (next(catalogue.diff("HEAD~1", "HEAD", **ways)) for _ in range(2))
        found = changeset.to_json()
        assert changeset.summary() == other.summary()
        for again in (changeset.to_json, changeset.to_records):
            with pytest.raises(cachewatch.UsageError, match=r"only once.*`cachewatch\.to_records` takes"):
                again()
        closed = next(catalogue.diff("HEAD~1", "HEAD", **ways))
    asked = ["--tag", "develop", "--package", "!py-keras", "--kind", "upgraded", "--kind", "rebuilt"]
    assert found.decode() == run("diff", "HEAD~1", "HEAD", "--repo", demo_repository, *asked, "--format", "json").output
    assert changeset.tag == changeset.after.tag == "develop"
    with pytest.raises(cachewatch.UsageError, match="this catalogue is closed"):
        closed.to_json()


def test_comparing_refuses_what_makes_no_sense() -> None:
    """Two packages, or nothing at all."""
    keras, build = (cachewatch.parse_document(demo_documents()[name]) for name in ("py-keras", "py-build"))
    with pytest.raises(cachewatch.UsageError, match="two packages"):
        cachewatch.compare(keras, build)
    with pytest.raises(cachewatch.UsageError, match="nothing to compare"):
        cachewatch.compare(None, None)
    with pytest.raises(cachewatch.UsageError, match="the document is empty"):
        cachewatch.compare("", keras)


def test_coverage(demo_repository: Path, folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Of a revision, of a folder, and of documents that cannot be read."""
    (tmp_path / "spack.yaml").write_text("spack:\n  specs: [py-keras, zlib@2.0]\n")
    with cachewatch.open(demo_repository) as catalogue:
        report = cachewatch.coverage(tmp_path, catalogue)
        assert [each.loss_class.value for each in report.coverage.needs] == ["kept", "gone"]
        assert cachewatch.coverage(report.coverage.environment, catalogue, "HEAD~1").coverage.met == 0
        assert report.where.endswith(f"develop at {catalogue.revisions()[0].commit[:10]}")
    assert cachewatch.coverage(tmp_path, demo_repository, "HEAD~1").coverage.met == 0
    with cachewatch.open(folders[1]) as catalogue:
        assert cachewatch.coverage(tmp_path / "spack.yaml", catalogue).coverage.met == 1
        next(folders[1].rglob("specs.md")).write_bytes(b"bad")
        report = cachewatch.coverage(tmp_path / "spack.yaml", catalogue)
        assert (report.coverage.met, report.is_partial) == (0, True)


def test_a_live_build_cache(tmp_path: Path) -> None:
    """It has no history: it can be covered, not opened."""
    (tmp_path / "cache" / "build_cache").mkdir(parents=True)
    (tmp_path / "spack.yaml").write_text("spack:\n  specs: [zlib]\n")
    with pytest.raises(cachewatch.UsageError, match="BuildCache"):
        cachewatch.open(tmp_path / "cache")
    cache = cachewatch.BuildCache(address=str(tmp_path / "cache"))
    with pytest.raises(cachewatch.UsageError, match="has no revisions"):
        cachewatch.coverage(tmp_path, cache, "HEAD")
    with pytest.raises(cachewatch.SourceError):
        cachewatch.coverage(tmp_path, cache)


def test_a_live_build_cache_is_covered(tmp_path: Path) -> None:
    """As it is now; a tag that it does not have is refused."""
    write_v2(tmp_path / "cache", database(installs(node("zlib", "1.3"), node("hdf5", "1.14"))))
    (tmp_path / "spack.yaml").write_text("spack:\n  specs: [zlib@1.3, zlib@2]\n")
    report = cachewatch.coverage(tmp_path, cachewatch.BuildCache(address=str(tmp_path / "cache")))

    assert [each.is_met for each in report.coverage.needs] == [True, False]
    assert (report.where, report.is_partial) == (f"{tmp_path / 'cache'} as it is now", False)


def test_a_url_is_cloned_and_refreshed(tmp_path: Path) -> None:
    """What upstream publishes later is there when it is opened again."""
    first, second = ({"_cache/develop/zlib/specs.md": document([record(number)])} for number in (1, 2))
    upstream = history(tmp_path / "upstream.git", first)
    with cachewatch.open(upstream.as_uri()) as catalogue:
        assert len(catalogue.revisions()) == 1
    shutil.rmtree(upstream)
    history(upstream, first, second)
    with cachewatch.open(upstream.as_uri()) as catalogue:
        assert _names(catalogue.diff("HEAD~1")) == {"develop": ["zlib"]}


def test_after_the_end(demo_repository: Path) -> None:
    """Git is not started anew behind the back of whoever closed the catalogue."""
    with cachewatch.open(demo_repository) as catalogue:
        begun, unread = (next(catalogue.diff("HEAD~1", tags="develop")) for _ in range(2))
        packages = iter(begun)
    uses = (catalogue.tags, catalogue.revisions, unread.summary, lambda: next(packages), lambda: catalogue.diff("HEAD"))
    for use in uses:
        with pytest.raises(cachewatch.UsageError, match="closed"):
            use()


@pytest.mark.parametrize(
    "address",
    [
        *("", "\0", "-x", "/nonexistent", "https://user:secret@example.org/x.git", "ext::sh -c true", "a" * 5000),
        "/dev/null",
    ],
)
def test_bad_addresses(address: str) -> None:
    """Each is an error of ours."""
    with pytest.raises(cachewatch.CachewatchError):
        cachewatch.open(address)


@pytest.mark.parametrize(
    "revision", ["", "nonsense", "HEAD:nonsense", "-x", "\0", "1900-01-01", "a" * 5000, "/nonexistent"]
)
def test_bad_revisions(demo_repository: Path, revision: str) -> None:
    """They are refused when they are named, not when the first package is asked for."""
    with cachewatch.open(demo_repository) as catalogue:
        with pytest.raises(cachewatch.UnknownRevision):
            catalogue.diff(revision)
        with pytest.raises(cachewatch.UnknownRevision):
            catalogue.revisions(revision.partition(":")[2] or revision)


@pytest.mark.parametrize(
    "filters",
    [{"kinds": "nonsense"}, {"packages": "/(/"}, {"versions": "@2:1"}, {"versions": "a:::"}, {"tags": "nonsense"}],
)
def test_bad_filters(demo_repository: Path, filters: dict[str, str]) -> None:
    """So are they, with an error that can be named."""
    with cachewatch.open(demo_repository) as catalogue, pytest.raises(cachewatch.UsageError) as error:
        catalogue.diff("HEAD~1", **filters)
    assert error.type in (cachewatch.UsageError, cachewatch.UnknownRevision)


@pytest.mark.parametrize("data", [b"", b"bad", b"---\n", b"\xff" * 100, b"[" * 100_000])
def test_bad_documents(data: bytes) -> None:
    """The message says why."""
    with pytest.raises(cachewatch.DocumentError, match=r"\w"):
        cachewatch.parse_document(data)


def test_a_fault_of_the_machine(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of ours too, with the file."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/folder")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(cachewatch.SourceError, match="Permission denied"):
        cachewatch.open(folders[0])


@pytest.mark.parametrize(
    "name",
    [
        *("PackageChange", "PlaceChange", "Loss", "SpecCounts", "Summary", "Document", "StackVersions", "Statement"),
        *("Side", "Spec", "Story", "CoverageReport", "Revision"),
    ],
)
def test_help_names_every_attribute(name: str) -> None:
    """With its meaning."""
    value = getattr(cachewatch, name)
    found = re.findall(r"(?:^|  )([a-z_, ]+): ", value.__doc__, re.MULTILINE)
    named = {name.strip() for names in found for name in names.split(",")}

    assert named == {name for name in dir(value) if not name.startswith("_")}


def test_wrong_types(folders: tuple[Path, Path]) -> None:
    """The TypeError says what is taken."""
    wrong: Any = 5
    none = cachewatch.Environment(name="none", needs=())
    with cachewatch.open(folders[1]) as catalogue:
        for call, message in (
            (lambda: cachewatch.open(wrong), "a catalogue is given as its path or its URL; not as int"),
            (lambda: cachewatch.coverage(wrong, wrong), "an environment is given as .* or an Environment; not as int"),
            (lambda: cachewatch.coverage(none, wrong), "an OpenCatalogue, a BuildCache or what `open` takes; not as"),
            (lambda: catalogue.diff(wrong), "a state is given as text or as a path; not as int"),
            (lambda: catalogue.diff(folders[0], wrong), "a state is given as text or as a path; not as int"),
            (lambda: catalogue.diff(folders[0], tags=typing.cast("Any", None)), "tags: .* pattern.*; not NoneType"),
            (lambda: catalogue.diff(folders[0], kinds=[wrong]), "kinds: .* pattern or several.*; not int"),
            (lambda: cachewatch.to_records(wrong), "rows are made of one PackageChange or several; not of int"),
            (lambda: cachewatch.to_records([wrong]), "rows are made of one PackageChange or several; not of int"),
        ):
            with pytest.raises(TypeError, match=message):
                call()
