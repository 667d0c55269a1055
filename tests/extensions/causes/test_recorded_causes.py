"""Causes in recorded build caches that a real Spack wrote, and `cachewatch why`."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from caches import edge, node, put
from conftest import ROOT, Run
from helpers import catalogue, document, history, records, spec_hash, write
from helpers import record as record_of
from truths import V3, History, read_index

from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache
from cachewatch.extensions.buildcaches.recording_and_suspicion import record
from cachewatch.git.local_repository import Repository


def step(history: History, after: int) -> tuple[object, ...]:
    """Return the revisions before and after the step to a state, and where they are, as a command takes them."""
    return history.revisions[V3[after - 2]], history.revisions[V3[after - 1]], "--repo", history.folder


def night(run: Run, history: History, after: int) -> dict[str, Any]:
    """Return the causes of the step to a state, as JSON."""
    found: dict[str, Any] = json.loads(run("why", "--between", *step(history, after), "--format", "json").output_of(0))
    return found


@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_a_new_zlib_rebuilds_what_depends_on_it(run: Run, histories: dict[str, History], kind: str) -> None:
    """State 7 of the real caches: everything above zlib, and nothing else."""
    found = night(run, histories[kind], 7)

    (cause,) = found["causes"]
    assert (cause["package"], cause["what"], cause["before"], cause["after"]) == ("zlib", "version", "1.3", "1.3.1")
    assert (cause["specs"], cause["attributed"], len(cause["hashes"])) == (6, 6, 6)
    assert found["recorded"] is True


def rehashed(index: dict[str, Any]) -> dict[str, Any]:
    """Return the same software with another hash for everything, as another Spack writes it."""
    text = json.dumps(index)
    for number, old in enumerate(sorted(index["database"]["installs"]), 7000):
        text = text.replace(old, spec_hash(number))
    return dict(json.loads(text))


def recorded(run: Run, tmp_path: Path, *indexes: dict[str, Any]) -> Path:
    """Return the history of these states of a cache."""
    for index in indexes:
        put(tmp_path / "mirror" / "build_cache" / "index.json", json.dumps(index).encode())
        assert run("record", tmp_path / "mirror", "--into", tmp_path / "c.git", "--force").exit_code == 0
    return tmp_path / "c.git"


def causes_of_all(run: Run, repository: Path) -> dict[str, set[tuple[str, str]]]:
    """Return package and kind of each cause of the last step, by hash."""
    found: dict[str, set[tuple[str, str]]] = {}
    for cause in run("diff", "--why", "--repo", repository, "--format", "json").changeset()["causes"]:
        for each in cause["hashes"]:
            found.setdefault(each, set()).add((cause["package"] or "", cause["what"]))
    return found


@pytest.mark.parametrize("state", ["v3/3-version-bump", "v3/8-second-compiler", "v2/4-variant-flip"])
def test_the_same_software_hashed_by_another_spack(run: Run, tmp_path: Path, buildcaches: Path, state: str) -> None:
    """That alone is the cause of every spec, also where a package has several that differ only in what they depend on."""
    index = read_index(buildcaches / state)
    repository = recorded(run, tmp_path, index, rehashed(index))
    found = causes_of_all(run, repository)
    text = run("diff", "--why", "--repo", repository).output

    assert len(found) == sum(one["in_buildcache"] for one in index["database"]["installs"].values())
    assert set(map(tuple, found.values())) == {(("", "spack"),)}
    assert text.count("another version of Spack wrote it") == 1


def test_the_compiler_became_a_dependency(run: Run, tmp_path: Path, buildcaches: Path) -> None:
    """State 6 of the layout before Spack 1.0, then state 6 as Spack 1.1 writes it: what differs beside is named."""
    states = [read_index(buildcaches / kind / "6-pruned-to-current") for kind in ("v2", "v3")]
    repository = recorded(run, tmp_path, *states)
    found = {cause for causes in causes_of_all(run, repository).values() for cause in causes}
    zlib = json.loads(run("why", "zlib", "--repo", repository, "--format", "json").output)
    between = run("why", "--between", "HEAD~1", "HEAD", "--repo", repository)

    assert [(one["package"], one["what"]) for one in zlib["causes"]] == [(None, "spack")]
    assert found == {("", "spack"), ("hdf5", "version"), ("openblas", "version"), ("openblas", "patches")}
    assert "gcc@12.2.0" not in between.output
    assert "another version of Spack wrote it" in between.output


def test_a_new_version_and_another_spack(run: Run, tmp_path: Path) -> None:
    """Each spec has the causes that are true of it: app has both, and no line says that nothing else differs."""
    states, names = [], dict[str, str]()
    for start, version in ((10, "1.3"), (20, "1.3.1")):
        app, libpng, tool, zlib = map(spec_hash, range(start, start + 4))
        needs = {"app": [edge("zlib", zlib), edge("libpng", libpng)], "tool": [edge("libpng", libpng)]}
        names |= {app: "app", libpng: "libpng", tool: "tool", zlib: "zlib"}
        versions = {name: version if name == "zlib" else "1" for name in names.values()}
        nodes = {h: node(n, versions[n], dependencies=needs.get(n, [])) for h, n in list(names.items())[-4:]}
        found = {h: {"spec": one, "ref_count": 0, "in_buildcache": True} for h, one in nodes.items()}
        states.append({"database": {"version": "8", "installs": found}})
    repository = recorded(run, tmp_path, *states)
    causes = {name: causes_of_all(run, repository).get(each) for each, name in names.items()}
    app_lines = run("why", "app", "--repo", repository).output

    assert causes["app"] == {("zlib", "version"), ("", "spack")}
    assert causes["libpng"] == causes["tool"] == {("", "spack")}
    assert "zlib 1.3 -> 1.3.1\n      app <- zlib\n" in app_lines
    assert "another version of Spack wrote it\n      app <- libpng\n" in app_lines
    assert "nothing that is recorded differs" not in app_lines


def test_a_second_compiler(run: Run, histories: dict[str, History]) -> None:
    """State 8: two specs were built beside equal ones, because four packages below have another compiler."""
    found = night(run, histories["v3"], 8)

    assert {(one["package"], one["what"], one["before"], one["after"]) for one in found["causes"]} == {
        (name, "compiler", "gcc@12.2.0", "llvm@14.0.6") for name in ("cw-solver", "hdf5", "openblas", "zlib")
    }
    assert {tuple(one["languages"]) for one in found["causes"]} == {("c", "cxx")}
    assert {one["specs"] for one in found["causes"]} == {2}
    assert sum(one["attributed"] for one in found["causes"]) == 2


def test_a_step_that_rebuilt_nothing(run: Run, histories: dict[str, History]) -> None:
    """What else changed is one command away, which names the same two revisions."""
    before, after = (histories["v3"].revisions[V3[number]] for number in (4, 5))
    found = run("why", "--rev", after, "--repo", histories["v3"].folder).output

    said = "no specs were rebuilt between these revisions; what else changed: cachewatch diff"
    assert f"{said} {before[:7]} {after[:7]}\n" in found


def test_a_hash_that_is_gone(run: Run, histories: dict[str, History]) -> None:
    output = run("why", "huhld2m", "--repo", histories["v3"].folder).output_of(0)

    assert "nearest predecessor cw-torch@2.6.0/gvdhu3m, which is still there" in output
    assert output.count("(the older spec that shares most dependencies)") == 1
    assert "  cw-solver 2.0.0 -> 2.1.0\n      cw-torch <- cw-solver\n" in output


def test_a_package_and_a_version(run: Run, histories: dict[str, History]) -> None:
    """All new specs of the package in its last step; of one version, in the step in which it came."""
    history = histories["v3"]
    at = ("--repo", history.folder, "--rev", history.revisions[V3[7]])

    assert "compiler gcc@12.2.0" not in run("why", "cw-torch@2.5.1", "--between", "HEAD~3", "HEAD~2", *at[:2]).output
    output = run("why", "zlib@1.3.1", *at).output
    assert "zlib@1.3.1/c3yoc6b: nearest predecessor zlib@1.3.1/2a6fhpz, which is still there" in output
    assert "compiler of zlib (c, cxx): gcc@12.2.0 -> llvm@14.0.6" in output


def test_two_lock_files(run: Run, buildcaches: Path) -> None:
    """Why two concretizations of one environment differ: causes first, then each root."""
    locks = [buildcaches / "v3/env" / str(number) for number in (4, 7)]
    found = json.loads(run("why", "--lock", *locks, "--format", "json").output)

    assert re.search(r"^ +6  zlib 1.3 -> 1.3.1$", run("why", "--lock", *locks).output_of(0), re.MULTILINE)
    assert [(one["package"], one["specs"], one["attributed"]) for one in found["causes"]] == [("zlib", 6, 6)]
    assert {one["spec"]["name"] for one in found["specs"] if one["root"]} >= {"cw-stack", "hdf5"}
    files = [lock / "spack.lock" for lock in locks]
    shown = run("diff", *files)
    assert (shown.exit_code, shown.output) == (0, run("why", "--lock", *files).output)
    assert run("diff", *files, "--exit-code").exit_code == 1
    assert run("diff", *files, "-q").error_of(1) == run("diff", *files[:1] * 2, "-q").error_of(0) == ""
    assert run("diff", *files, "-q").output == ""
    for option in (("--package", "zlib"), ("--fail-on", "all"), ("--all",), ("--documents", "{package}.md")):
        assert f"{option[0]} has no effect on two lock files; leave it out" in run("diff", *files, *option).error_of(2)
    missing = run("diff", files[0], "nowhere/spack.lock")
    assert missing.error == "cachewatch: nowhere/spack.lock: there is no such file or folder\n"


def test_lock_files_that_differ_in_hashes_alone(run: Run, tmp_path: Path) -> None:
    """Another version of Spack is named only if the files do not name the same one."""
    nodes = {"zlib": node("zlib", "1.3"), "app": node("app", "1", dependencies=[edge("zlib", "ZLIB")])}

    def lock(start: int, spack: object) -> Path:
        zlib, app = spec_hash(start), spec_hash(start + 1)
        concrete = {h: one | {"hash": h} for h, one in {zlib: nodes["zlib"], app: nodes["app"]}.items()}
        content: dict[str, Any] = {"_meta": {"lockfile-version": 5}, "spack": spack, "roots": [{"hash": app}]}
        content["concrete_specs"] = concrete
        file = tmp_path / f"{start}.lock"
        file.write_text(json.dumps(content).replace("ZLIB", zlib))
        return file

    first = lock(10, {"version": "0.23.1"})
    cases = (({"version": "0.23.1"}, "not-known"), ({"version": "1.0.0"}, "spack"), (None, "spack"))
    for start, (spack, what) in enumerate(cases, 2):
        second = lock(start * 10, spack)
        shown = run("diff", first, second)
        found = json.loads(run("diff", first, second, "--format", "json").output)
        assert [cause["what"] for cause in found["causes"]] == [what]
        assert ("another version of Spack wrote it" in shown.output) is (what == "spack")
        assert ("why the hash differs is not known" in shown.output) is (what == "not-known")
    with_root = json.loads(first.read_text())
    with_root["roots"].append({"hash": spec_hash(9)})
    with_root["concrete_specs"][spec_hash(9)] = node("cuda", "12", external={"path": "/usr"})
    (tmp_path / "root.lock").write_text(json.dumps(with_root))
    assert "added: cuda@12\n" in run("diff", first, tmp_path / "root.lock").output
    assert "removed: cuda@12\n" in run("diff", tmp_path / "root.lock", first).output


def test_a_lock_file_with_an_edited_version_is_named(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """One hash cannot be two versions."""
    lock = buildcaches / "v3/env/4/spack.lock"
    edited = tmp_path / "spack.lock"
    edited.write_text(re.sub(r'"version": ?"1\.3"', '"version":"9.9"', lock.read_text()))
    assert re.search(r"/\w{7} is zlib@1.3 in one file and zlib@9.9 in the other", run("diff", lock, edited).output)


def test_two_caches(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """States 4 and 7 of the real cache, recorded as two tags: why the same packages have other hashes there."""
    for tag, number in (("old", 4), ("new", 7)):
        record(Cache(address=str(buildcaches / "v3" / V3[number - 1]), tag=tag), tmp_path / "catalogue.git")
    arguments = ("why", "--between", "HEAD:old", "HEAD:new", "--repo", tmp_path / "catalogue.git")
    text, found = run(*arguments).output, json.loads(run(*arguments, "--format", "json").output)

    assert text.startswith("old -> new")
    assert "\n6 specs of new with another hash than the specs of old that share most dependencies with them:\n" in text
    assert re.search(r"^ +6  zlib 1.3 -> 1.3.1$", text, re.MULTILINE)
    assert [(one["package"], one["specs"], one["attributed"]) for one in found["causes"]] == [("zlib", 6, 6)]
    assert "cw-stack <- cw-torch <- zlib" in run(*arguments, "cw-stack").output
    same = run("why", "--between", "HEAD:old", "HEAD:old", "cw-stack", *arguments[4:])
    assert "no new specs between these revisions" in same.output


def test_packages_that_one_cache_alone_has_are_named(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """They have no other hash, since there is nothing to compare them with."""
    for tag, number in (("old", 1), ("new", 2)):
        record(Cache(address=str(buildcaches / "v3" / V3[number - 1]), tag=tag), tmp_path / "catalogue.git")
    found = run("why", "--between", "HEAD:old", "HEAD:new", "--repo", tmp_path / "catalogue.git").output

    assert re.search(r"^\d+ specs? of packages that only new has: ", found, re.MULTILINE)


@pytest.mark.parametrize("form", ["text", "json"])
def test_diff_says_why(run: Run, histories: dict[str, History], form: str) -> None:
    """Beside what changed; the JSON is what the schema says."""
    between = step(histories["v3"], 7)
    result = run("diff", *between, "--why", "--format", form)

    assert (result.exit_code, result.error) == (0, "")
    assert re.search("zlib.* 1.3 (->|→) 1.3.1|zlib.*1.3.*1.3.1", result.output)
    if form == "json":
        schema = json.loads((ROOT / "config" / "changesets.schema.json").read_text())
        found = json.loads(result.output)
        jsonschema.validate(found, schema)
        (one,) = found["changesets"][0]["causes"]
        assert (one["what"], one["specs"], one["attributed"]) == ("version", 6, 6)
    if form == "text":
        assert "\nWHY\n6 specs with another hash" in result.output
        assert max(map(len, result.output.splitlines())) <= 80
        for command in (("diff", "--why"), ("why", "--between")):
            coloured = run("--color", "always", *command, *between).output
            assert "  zlib \x1b[31m1.3\x1b[0m -> \x1b[32m1.3.1\x1b[0m\n" in coloured.partition("rebuilt")[2]


def test_diff_says_why_of_what_was_selected(run: Run, histories: dict[str, History]) -> None:
    """Filters choose the specs whose causes are counted."""
    arguments = ("diff", *step(histories["v3"], 7), "--why", "--format", "json")
    one = json.loads(run(*arguments, "--package", "hdf5").output)["changesets"][0]["causes"]
    none = json.loads(run(*arguments, "--target", "aarch64").output)["changesets"][0]["causes"]

    assert [(cause["package"], cause["specs"]) for cause in one] == [("zlib", 1)]
    assert none == []


def test_why_takes_revisions_and_formats_that_say_it(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": document([record_of(1)])})
    files = run("diff", tmp_path / "a.md", tmp_path / "a.md", "--why")
    table = run("diff", tmp_path / "a.md", tmp_path / "a.md", "--why", "--format", "csv")

    assert (files.exit_code, "--why compares revisions" in files.error) == (2, True)
    assert (table.exit_code, "--why takes one of the formats" in table.error) == (2, True)


@pytest.mark.parametrize("command", [["why"], ["impact", "py-build"]])
def test_upstreams_documents_have_no_graph(run: Run, demo_repository: Path, command: list[str]) -> None:
    """The answer is how to have one, once and not once a spec, and never a guess."""
    error = run(*command, "--repo", demo_repository).error_of(2)

    assert error.startswith("cachewatch: develop has no dependency graph in revision ")
    assert error.count("has no dependency graph") == 1
    assert "`cachewatch record URL --into REPO`" in error


def test_an_unreadable_document_is_named(run: Run, tmp_path: Path) -> None:
    repository = history(tmp_path / "r.git", {"_cache/develop/zlib/specs.md": b""}, catalogue({"zlib": records([1])}))
    assert "the document of zlib at " in run("why", "zlib", "--repo", repository).error_of(4)


def test_new_and_missing_specs_need_no_graph(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    """That there was none before, or is none now, is known without one, but not why others would be there."""
    fewer = history(tmp_path / "r.git", *(catalogue({"zlib": records(range(count))}) for count in (2, 1)))
    new, gone = run("why", "py-keras", "--repo", demo_repository), run("why", "zlib", "--repo", fewer)

    assert (new.exit_code, re.search(r"130 new specs: the package had none at \w{7}\n", new.output) is not None) == (
        0,
        True,
    )
    said = r"no new specs between .*; what else changed: cachewatch diff \w{7} \w{7}\nit could not explain new specs either"
    assert (gone.exit_code, bool(re.search(said, gone.output))) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "has no package and no hash 'nosuch'"),
        (["cw-stakc@1.0"], "did you mean cw-stack@1.0 or "),
        (["zlib@99"], "zlib@99: has no specs"),
        (["zlib", "--tag", "nosuch"], "has no tag 'nosuch'; it has develop"),
        (["--between", "HEAD:develp", "HEAD"], "has no tag 'develp'; did you mean develop?"),
        (["--lock", "a", "b", "zlib"], "leave out the spec"),
        (["--lock", "a", "b"], "name a spack.lock"),
    ],
)
def test_bad_requests(run: Run, histories: dict[str, History], arguments: list[str], message: str) -> None:
    error = run("why", *arguments, "--repo", histories["v3"].folder).error_of(2)
    assert "Traceback" not in error
    assert message in error


def test_only_the_damaged_package_is_left_out(run: Run, histories: dict[str, History], tmp_path: Path) -> None:
    damaged, (before, after) = tmp_path / "catalogue.git", (histories["v3"].revisions[V3[number]] for number in (5, 6))
    subprocess.run(["git", "clone", "-q", "--bare", histories["v3"].folder, damaged], check=True)
    stream = (
        "commit refs/heads/damaged\ncommitter a <a@b> 4000000000 +0000\ndata 1\nx\n"
        f'from {after}\nM 100644 inline "_cache/develop/zlib/graph.json"\ndata 4\n{{"x"\ndone\n'
    )
    subprocess.run(["git", "-C", damaged, "fast-import", "--quiet", "--done"], input=stream, text=True, check=True)

    found = run("why", "--between", before, "damaged", "--repo", damaged)

    assert (found.exit_code, found.error.count("zlib/graph.json: is not a recorded graph")) == (0, 1)
    assert "5 specs rebuilt" in found.output
    assert "zlib differs, and the recorded graph does not describe it" in found.output
    compared = run("diff", before, "damaged", "--why", "--repo", damaged)
    assert (compared.exit_code, compared.error.count("zlib/graph.json: is not a recorded graph")) == (0, 1)


def test_what_diff_says_does_not_depend_on_the_graph(run: Run, histories: dict[str, History]) -> None:
    history = histories["v3"]
    result = run("diff", *step(history, 7), "--format", "json")
    files = Repository(history.folder).run(["ls-tree", "-r", "--name-only", history.revisions[V3[6]]]).decode().split()

    assert result.error == ""
    assert not any("graph" in package["name"] for package in json.loads(result.output)["changesets"][0]["packages"])
    assert {"_cache/develop/zlib/graph.json", "_cache/develop/.graph.json"} <= set(files)


def test_two_hashes(run: Run, histories: dict[str, History], demo_repository: Path) -> None:
    """`diff` says in what the second binary is not the first, down to what they depend on; either may be gone."""
    folder, rev = histories["v3"].folder, histories["v3"].revisions[V3[6]]
    shown = json.loads(run("why", "cw-stack", "--repo", folder, "--rev", rev, "--format", "json").output)
    old, new = shown["predecessor"]["hash"], shown["spec"]["hash"]
    lines = run("diff", f"/{old[:9]}", f"/{new}", "--repo", folder).output.splitlines()

    told = re.sub(" at [0-9a-f]{7}", "", lines[0])
    assert told == f"cw-stack@2026.05/{old[:7]} in develop -> cw-stack@2026.05/{new[:7]} in develop"
    assert lines[1:] == ["  zlib 1.3 -> 1.3.1", "      cw-stack <- cw-torch <- zlib", "  stacks cache"]
    assert json.loads(run("diff", f"/{old}", f"/{new}", "--repo", folder, "--format", "json").output)["causes"]
    demo = ("--repo", demo_repository)
    assert "has no dependency graph" in run("why", "hdf5", *demo).error, "which packages there are does not matter then"
    assert "py-build 1.2.2 -> 1.2.1" in run("diff", "/2viyxlm", "/5742b2f", *demo).output
    told = run("diff", "/33oq4qv", "/24fngvd", *demo).output
    assert "compiler of py-ml-dtypes: gcc@11.4.0 -> gcc@13.2.0" in told
    same = "the documents say the same of both, except for the hash"
    cases = ((("/6dpoq7v", "/aizbzlp"), f"{same}\n"), (("/4p36thp", "/aizbzlp"), f"{same} and the stacks\n"))
    for hashes, said in cases:
        assert said in run("diff", *hashes, *demo).output
    assert same not in told
    one = run("diff", "/2viyxlm", "/2viyxlm", *demo, "--exit-code")
    assert (one.exit_code, same in one.output, "  this is one spec\n" in one.output) == (0, False, True)
    quiet = run("diff", "/2viyxlm", "/5742b2f", *demo, "-q")
    assert (quiet.exit_code, quiet.output) == (1, "")
    for option in (("--fail-on", "all"), ("--tag", "a", "--tag", "b")):
        assert option[0] in run("diff", "/2viyxlm", "/5742b2f", *demo, *option).error_of(2)
    keras = json.loads(run("show", "py-keras", *demo, "--format", "json").output)["packages"][0]["specs"][0]["hash"]
    for other, said in (("/aaaaaaa", "no spec has, or had"), (f"/{keras}", "name two of one package")):
        assert said in run("diff", "/2viyxlm", other, *demo).error_of(2)


@pytest.mark.slow_cases
@pytest.mark.parametrize("layout", ["{package}.md", "docs/{tag}/{package}.md", "{package}/{tag}/specs.md", "folder"])
def test_two_hashes_of_documents_elsewhere(run: Run, tmp_path: Path, layout: str) -> None:
    """Wherever documents lie, of one revision and of an earlier one, and in a plain folder."""
    old, new = spec_hash(1), spec_hash(2)
    states = [[record_of(1)], [record_of(2, versions=["2.0"])], [record_of(3), record_of(2, versions=["2.0"])]]
    pattern = "{package}.md" if layout == "folder" else layout
    files = [{pattern.format(package="zlib", tag="develop"): document(state)} for state in states]
    if layout == "folder":
        old, place = spec_hash(3), write(tmp_path / "documents", {"zlib.md": document(states[-1])})
    else:
        place = history(tmp_path / "r.git", *files)
    output = run("diff", f"/{old[:9]}", f"/{new[:9]}", "--repo", place).output_of(0)

    at = "" if layout == "folder" else " at [0-9a-f]{7}"
    assert re.match(rf"zlib@1.0/{old[:7]} in \S+{at} -> zlib@2.0/{new[:7]} in \S+{at}\n", output)
    assert "  zlib 1.0 -> 2.0" in output.splitlines()
    refused = run("diff", f"/{old[:9]}", "/zzzzzzzz", "--repo", place)
    assert (refused.exit_code, "no spec has, or had, a hash that begins so" in refused.error) == (2, True)


@pytest.fixture
def lock(buildcaches: Path, tmp_path: Path) -> Path:
    """The lock file of the environment that filled the cache up to state 4."""
    return Path(shutil.copy(buildcaches / "v3/env/4/spack.lock", tmp_path))


def test_coverage_names_the_cause(run: Run, histories: dict[str, History], lock: Path, tmp_path: Path) -> None:
    """State 7 has another zlib, and so other hashes of what depends on it; the JSON has the way there."""
    history = histories["v3"]
    at = ("--repo", history.folder, "--rev", history.revisions[V3[6]])
    text, found = run("coverage", lock, *at), run("coverage", lock, *at, "--format", "json")

    assert text.exit_code == 0, text.error
    line = next(line for line in text.output.splitlines() if line.strip().startswith("hdf5@1.14.6/j356z5g"))
    assert line.split("there is ")[1] == "/m5ebs4r because of zlib 1.3 -> 1.3.1"
    specs = {one["package"]: one for one in json.loads(found.output)["specs"]}
    (cause,) = specs["cw-stack"]["causes"]
    assert (cause["package"], cause["what"], cause["before"], cause["after"]) == ("zlib", "version", "1.3", "1.3.1")
    assert (cause["path"][0], cause["path"][-1]) == ("cw-stack", "zlib")
    assert specs["zlib"]["class"] == "other"
    assert specs["zlib"]["causes"] == []
    # A manifest has no hashes, and so no graph.
    result = run("coverage", write(tmp_path / "other", {"spack.yaml": b"spack: {specs: [hdf5]}"}) / "spack.yaml", *at)
    assert (result.exit_code, "because" in result.output) == (0, False)
