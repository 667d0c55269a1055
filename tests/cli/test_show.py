"""`cachewatch show`: packages by name, glob and version, and specs by hash."""

import json
import re
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, document, history, record, records, spec_hash


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    zlib = [record(1, versions=["1.2"]), record(2, versions=["1.3"])]
    others = {"py-a": records([33], versions=["2.0"]), "py-b": records([65], versions=["2.1"], stacks=["e4s"])}
    return history(tmp_path_factory.mktemp("three") / "r.git", catalogue({"zlib": zlib} | others))


@pytest.fixture(autouse=True)
def standing(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(three)


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a catalogue of one package whose three specs differ in everything."""
    v3 = "x86_64_v3"
    found = [
        record(81, versions=["1"], compiler="oneapi@2025.1", target="zen4", variants=["cflags=-g -O2"]),
        record(82, versions=["2"], compiler="gcc@12.3.0", variants=["+mpi"], target=v3),
        record(83, versions=["3"], compiler="gcc@13.1.0", variants=["~mpi", "api=v1,v2"], target=v3, stacks=["ml"]),
    ]
    return history(tmp_path_factory.mktemp("cuda") / "s.git", catalogue({"cuda": found}))


def headings(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if " develop " in line]


def test_globs_and_versions(run: Run) -> None:
    output = run("show", "py-*", "zlib").output
    assert headings(output) == ["py-a", "py-b", "zlib"]
    assert "\n\n\n" not in output
    assert "1 spec, 1 version" in run("show", "zlib@1.2").output
    assert "2 specs, 2 versions" in run("show", "zlib@1.2:").output
    assert headings(run("show", "*@2.1:").output) == ["py-b"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("zlib@9", "cachewatch: zlib@9: no such version there (there are 1.2, 1.3)\n"),
        ("py-*@9", "cachewatch: py-*@9: no package that matches has such a version\n"),
        ("22xqlom", " has no package '22xqlom' in develop; for a hash, write /22xqlom\n"),
        ("nowhere.md", "cachewatch: nowhere.md: there is no such file or folder\n"),
        ("", "cachewatch: '' names no package; `cachewatch packages` lists them\n"),
    ],
)
def test_what_is_not_there(run: Run, words: str, said: str) -> None:
    assert run("show", words).error_of(2).endswith(said)


def test_a_document_without_specs(tmp_path: Path, run: Run) -> None:
    history(tmp_path / "c.git", catalogue({"zlib": []}))
    assert run("show", "zlib", "--repo", tmp_path / "c.git").error == "cachewatch: zlib: its document has no specs\n"


def test_a_last_copy_is_the_last_of_the_whole_package(tmp_path: Path, run: Run) -> None:
    """A spec that is shown alone is no last copy while its stack has another of its version for its target."""
    specs = [*records([1, 2], versions=["2"]), record(3, versions=["3"])]
    made = history(tmp_path / "s.git", catalogue({"cuda": specs}))

    one_of_two, alone = (run("show", f"cuda/{spec_hash(place)}", "--repo", made).output for place in (1, 3))

    assert "1!" not in one_of_two
    assert "last copy" not in one_of_two
    assert "1!" in alone
    assert "!  the last copy of this version in this stack for this target" in alone


@pytest.mark.parametrize(
    ("words", "versions"),
    [
        (["cuda"], ["1", "2", "3"]),
        (["cuda@2:"], ["2", "3"]),
        (["cuda@2%gcc"], ["2"]),
        (["cuda%gcc@12"], ["2"]),
        (["cuda%gcc@12:"], ["2", "3"]),
        (["cuda+mpi"], ["2"]),
        (["cuda~mpi"], ["3"]),
        (["cuda", "api=v1"], ["3"]),
        (["cuda", "%gcc", "+mpi"], ["2"]),
        (["cuda target=zen4"], ["1"]),
        (["cuda", "target=x86*", "stack=ml"], ["3"]),
        (["cuda", "os=ubuntu*", "platform=linux"], ["1", "2", "3"]),
        (["cu*@2:", "~mpi"], ["3"]),
        ([f"cuda/{spec_hash(81)[:6]}"], ["1"]),
        (["cuda", "target=x86_64_v3:"], ["1", "2", "3"]),
        (["cuda target=x86_64_v4:"], ["1"]),
        (["cuda target=:x86_64_v3"], ["2", "3"]),
        (["cuda target=x86_64:x86_64_v3,zen4"], ["1", "2", "3"]),
        (["cuda arch=linux-ubuntu22.04-zen4"], ["1"]),
        (["cuda arch=linux-None-x86_64_v3:"], ["1", "2", "3"]),
        (["cuda %c=gcc"], ["2", "3"]),
        (["cuda", "%c,cxx=gcc@12"], ["2"]),
        (["cuda %fortran=gcc@13 %c,cxx=oneapi"], ["1"]),
        (["cuda api:=v2,v1"], ["3"]),
        (["cuda api='v2,v1'"], ["3"]),
        (["cuda", "api=*"], ["3"]),
        (["cuda -mpi"], ["3"]),
        (["cuda", "mpi=True"], ["2"]),
        (["cuda", "cflags='-O2 -g'"], ["1"]),
        (["cuda cflags=-g"], ["1"]),
        (["builtin.cuda@=2"], ["2"]),
        (["%gcc"], ["2", "3"]),
        (["@2:"], ["2", "3"]),
        (["os=ubuntu22.04", "+mpi"], ["2"]),
    ],
)
def test_specs_as_spack_writes_them(cuda: Path, run: Run, words: list[str], versions: list[str]) -> None:
    """What belongs to a name may be a word of its own, as on Spack's command line."""
    lines = run("show", "-l", *words, "--repo", cuda).output.splitlines()[1:]
    assert sorted(line.split()[1] for line in lines) == [f"cuda@{version}" for version in versions]


@pytest.mark.parametrize("columns", ["60", "80", "100"])
def test_the_columns_of_specs(demo_repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """No word is broken: the last columns go on below the row, under their names, and nothing is lost."""
    monkeypatch.setenv("COLUMNS", "500")
    heads, *wide = run("show", "-l", "py-safetensors", "--repo", demo_repository).output.splitlines()
    monkeypatch.setenv("COLUMNS", columns)
    head, *lines = run("show", "-l", "py-safetensors", "--repo", demo_repository).output.splitlines()

    starts = [match.start() for match in re.finditer(r"\S+", head)]
    below = heads.split()[len(starts) :]
    rows: list[list[str]] = []
    for line in lines:
        if line[0] != " ":
            rows.append([line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)])
        elif line.split()[0] in below:
            assert line.split()[0] == below[len(rows[-1]) - len(starts)]
            rows[-1].append(line.split(maxsplit=1)[1])
        else:
            rows[-1][-1] += f" {line.strip()}"
    assert below
    assert rows == [re.split(" {2,}", line) for line in wide]


def test_several_hashes_may_be_one_word(demo_repository: Path, run: Run) -> None:
    shown = run("show", "/22xqlomm /5742b2f", "--repo", demo_repository).output
    assert re.findall(r"^py-\S+", shown, re.MULTILINE) == ["py-build@1.2.1", "py-keras@3.9.2"]


def test_a_tag_that_is_not_there_is_told_once(demo_repository: Path, run: Run) -> None:
    unknown = run("show", "py-build", "--tag", "nosuch", "--repo", demo_repository).error
    assert unknown.count("develop-2025-06-01") == 1


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a catalogue of one package that has not everything."""
    found = [
        record(1, compiler="gcc@12.3.0", variants=["+mpi", "api=v1,v2"]),
        record(2, compiler="llvm@17.0.1", os="debian12", variants=["~mpi"], stacks=["ml"]),
    ]
    return history(tmp_path_factory.mktemp("lacking") / "s.git", catalogue({"cuda": found}))


def test_a_spec_that_is_not_there(tmp_path: Path, run: Run) -> None:
    older, newer = ({"cuda": [record(n, versions=[str(n)])]} for n in (1, 2))
    made = history(tmp_path / "s.git", catalogue(newer) | catalogue(older, tag="v1"))
    error = "cachewatch: cuda@1: no such version there (there are 2); v1 has it (--tag)\n"
    assert run("show", "cuda@1", "--repo", made).error == error


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cuda@1%gcc@9", "no such spec; there are compilers gcc@12.3.0, llvm@17.0.1"),
        ("cuda os=rhel9 +mpi", "no such spec; there are operating systems debian12, ubuntu22.04"),
        ("cuda platform=darwin", "no such spec; there are platforms linux"),
        ("cuda stack=hep", "no such spec; there are stacks e4s, ml"),
        ("cuda/zzz", "no such spec"),
        ("cuda api=v3", "no such spec; there are variants api=v1,v2"),
        (
            "cuda %gcc ~mpi",
            "no such spec with all of this; with the other conditions there are variants +mpi; compilers llvm@17.0.1",
        ),
        ("cuda nonsense=1", "no spec has a variant nonsense; there are api, mpi"),
        ('cuda cflags="-O3"', "no spec has a variant cflags; there are api, mpi"),
        ("cu* +no", "no spec has a variant no; there are api, mpi"),
        ("+no", "no spec has a variant no; there are api, mpi"),
        ("%gcc@9", "no package that matches has such a spec"),
        ("cuda%gcc^python@3.11", "documents do not say what a spec depends on; leave out ^python@3.11"),
        (
            "cuda%mpi=openmpi",
            "documents do not say what a spec depends on, only its compiler: write %gcc or %c,cxx=gcc",
        ),
        ("cuda arch=zen4", "write arch=PLATFORM-OS-TARGET, such as arch=linux-rhel9-zen4"),
    ],
)
def test_what_a_spec_lacks(lacking: Path, run: Run, spec: str, message: str) -> None:
    assert run("show", spec, "--repo", lacking).error == f"cachewatch: {spec}: {message}\n"


def test_a_glob_for_the_tag(run: Run) -> None:
    for command in (["show", "zlib"], ["packages"], ["stacks"], ["coverage", "spack.yaml"]):
        refused = run(*command, "--tag", "develop*")
        said = "takes one tag and no glob here; `cachewatch tags 'develop*'` lists what matches"
        assert (refused.exit_code, refused.error) == (2, f"cachewatch: --tag develop*: {said}\n")


def test_specs_without_a_compiler(tmp_path: Path, run: Run) -> None:
    """`none` is no compiler, and is not counted."""
    made = history(tmp_path / "s.git", catalogue({"cuda": [record(1, compiler="none"), record(2, versions=["2"])]}))

    assert ", 1 compiler, " in run("show", "cuda", "--repo", made).output
    assert ", no compiler, " in run("show", "cuda@1", "--repo", made).output


def test_hashes(run: Run) -> None:
    by_hash = run("show", spec_hash(65)).output
    assert by_hash.splitlines()[0] == f"py-b@2.1 /{spec_hash(65)}"
    assert "  stacks    e4s" in by_hash.splitlines()
    assert run("show", f"/{spec_hash(65)[:3]}").output == by_hash
    said = "no spec in develop has a hash that begins so; `cachewatch history blame /9` looks in the past"
    assert run("show", "/9").error == f"cachewatch: /9: {said}\n"
    assert run("show", "/9", "zlib").exit_code == 2


def test_many_hashes_are_cut(tmp_path: Path, run: Run) -> None:
    made = history(tmp_path / "many.git", catalogue({"zlib": records(32 * n for n in range(25))}))

    assert "and 5 more specs; write more of the hash" in run("show", "/a", "--repo", made).output


def test_json(run: Run) -> None:
    (package,) = json.loads(run("show", "zlib@1.3", "--format", "json").output)["packages"]
    assert (package["package"], package["tag"], package["unchanged_since"]) == ("zlib", "develop", package["revision"])
    assert [(spec["hash"], spec["versions"]) for spec in package["specs"]] == [(spec_hash(2), ["1.3"])]
    (spec,) = json.loads(run("show", spec_hash(65), "--format", "json").output)["specs"]
    assert (spec["package"], spec["stacks"], spec["tag"]) == ("py-b", ["e4s"], "develop")


def test_a_path_that_is_a_package_too(three: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown, but with options that choose a revision a name is a package, and another path is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zlib").mkdir()
    (tmp_path / "zlib" / "specs.md").write_bytes(document([record(9, versions=["9"])]))

    assert "1 spec, 1 version" in run("show", "zlib").output
    assert "2 specs, 2 versions" in run("show", "zlib", "--repo", three).output
    assert "'nonsense'" in run("show", "zlib", "--repo", three, "--rev", "nonsense").error_of(2)
    assert "'v9'" in run("show", "zlib", "--repo", three, "--tag", "v9").error_of(2)
    for path, option in ((".", "--rev"), ("zlib/specs.md", "--tag")):
        refused = run("show", path, option, "v9", "--repo", three).error_of(2)
        said = f"is a path, which is read as it is; leave out {option} and --repo, or name the package instead"
        assert refused == f"cachewatch: {path}: {said}\n"
    assert "leave out --documents" in run("show", "zlib/specs.md", "--documents", "{package}/specs.md").error_of(2)
