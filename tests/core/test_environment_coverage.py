"""What a cache has of an environment: real lock files against real caches, and the odd ones."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from caches import database, installs, node, put, write_v3
from conftest import Run
from helpers import catalogue, history, record, signature, spec_hash
from oracle import Spec, Specs, newest, read, specs_of, spelled
from truths import STATES, History, Truth, expected
from verdicts import after_prune, ancestors, same_compiler, that_matter, verdict

from cachewatch.core.advice import environment_coverage as coverage
from cachewatch.core.advice.environment_coverage import Environment, Holdings, Nearest, Need, compare_coverage, cover
from cachewatch.core.advice.urgency_and_levels import assess
from cachewatch.core.kinds_and_specs import LossClass, Signature
from cachewatch.core.versions_spellings_targets import runs
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import open_environment, published, read_lock, read_manifest
from cachewatch.errors import UsageError
from cachewatch.report.environment_words import headlines_of, remark
from cachewatch.report.words_file import words

LOCKS = [("v3", n) for n in (1, 2, 3, 4, 7, 8, 10)] + [("v2", n) for n in (1, 2, 3, 4, 7, 8)]


@pytest.fixture(scope="module")
def states(buildcaches: Path, truths: dict[tuple[str, str], Truth]) -> dict[tuple[str, str], dict[str, Specs]]:
    """What each state has by the tables of TRUTH.md: the specs of each package, as the oracle spells them."""
    found: dict[tuple[str, str], dict[str, Specs]] = {}
    for key in STATES:
        packages = found[key] = {}
        for h, (name, version, compiler, os, target, variants) in expected(truths[key]).items():
            values = {"versions": [version], "compiler": compiler, "os": os, "target": target}
            values |= {"platform": "linux", "variants": variants.split(), "stacks": ["cache"]}
            packages.setdefault(name, {})[h] = spelled(values)
    return found


@pytest.fixture(scope="module")
def held(buildcaches: Path) -> dict[tuple[str, str], Holdings]:
    """What each state has, as cachewatch reads it."""
    packages = ["compiler-wrapper", "cw-solver", "cw-stack", "cw-torch", "gcc-runtime", "hdf5", "openblas", "zlib"]
    return {(kind, state): published(str(buildcaches / kind / state), packages).holdings for kind, state in STATES}


@pytest.mark.parametrize(("kind", "number"), LOCKS)
def test_every_lock_file_against_every_state(
    buildcaches: Path,
    states: dict[tuple[str, str], dict[str, Specs]],
    held: dict[tuple[str, str], Holdings],
    kind: str,
    number: int,
) -> None:
    """Each verdict is what the tables of TRUTH.md say, and so is what became of each between any two states."""
    lock = buildcaches / kind / "env" / str(number) / "spack.lock"
    nodes = {h: s for h, s in json.loads(lock.read_bytes())["concrete_specs"].items() if "external" not in s}
    tables = {h: one for packages in states.values() for found in packages.values() for h, one in found.items()}
    wanted = {h: (s["name"], tables[h]) for h, s in nodes.items()}
    environment = open_environment(lock)
    found_needs = {}
    for need in environment.needs:
        values = {"versions": [need.version], "compiler": need.compiler, "os": need.os, "platform": need.platform}
        values |= {"target": need.target, "variants": need.variants or (), "stacks": []}
        found_needs[need.hash] = (need.package, spelled(values))
    assert found_needs == {h: (name, spec | {"stacks": ()}) for h, (name, spec) in wanted.items()}
    truth = {key: {h: verdict(h, s, states[key].get(p, {})) for h, (p, s) in wanted.items()} for key in STATES}
    found = {key: cover(environment, held[key]) for key in STATES}
    for key in STATES:
        assert {covered.need.hash: covered.nearest for covered in found[key].needs} == truth[key], key
        assert all(covered.after_prune is None for covered in found[key].needs)
    for before, after in itertools.product(STATES, STATES):
        check_change(compare_coverage(found[before], found[after]), truth[before], truth[after])


def check_change(change: coverage.CoverageChange, before: dict[str, str], after: dict[str, str]) -> None:
    """Hold what became of an environment to the verdicts of both states, by hash; it adds up."""
    left = {h for h in before if before[h] == "same" != after[h]}
    others = {h for h in before if before[h] != "same" != after[h]}
    assert hashes(change.removed) == left
    assert hashes(change.added) == {h for h in before if before[h] != "same" == after[h]}
    for word in Nearest:
        assert hashes(c for c in change.removed if c.nearest is word) == {h for h in left if after[h] == word}
    had, has = ({c.need.hash: c.loss_class for c in side.needs} for side in (change.before, change.after))
    left_with_none = [
        {h for h in others if one[h] != "none" == two[h]} for one, two in ((before, after), (after, before))
    ]
    there = {h for h in others if "none" not in (before[h], after[h])}
    with_others = [
        {h for h in there if (one[h], two[h]) == (LossClass.EQUAL, LossClass.OTHER)}
        for one, two in ((had, has), (has, had))
    ]
    assert hashes(change.newly_lost) == left_with_none[0] | with_others[0]
    assert hashes(change.restored) == left_with_none[1] | with_others[1]
    assert change.before.met - len(change.removed) + len(change.added) == change.after.met
    is_changed = any(before[h] != after[h] and {"same", "none"} & {before[h], after[h]} for h in before)
    assert bool(change) == (is_changed or any(with_others))
    found = [c.nearest for c in change.removed]
    assert found == sorted(found, key=["none", "similar", "equal"].index)
    assert bool(headline_of(change)) == bool(change)


def hashes(found: Iterable[coverage.Resolution]) -> set[str]:
    """Return the hashes, each of which is there once."""
    listed = [covered.need.hash for covered in found]
    assert len(listed) == len(set(listed))
    return set(listed)


def test_every_pair_of_real_documents(documents: Path) -> None:
    """Who locked what one document of a package has: each verdict in another one, before and after a prune."""
    for folder in sorted(path for path in documents.iterdir() if path.is_dir()):
        recent = [path for path in sorted(folder.iterdir()) if "\nspec_details" in path.read_text()]
        sides = [(specs_of(read(path)), parse(path.read_bytes(), path.name).specs) for path in recent]
        for (first, _), (second, there) in itertools.product(sides, sides):
            check_package(first, second, there)


@pytest.mark.parametrize("seed", range(40))
def test_random_packages(seed: int) -> None:
    """A hundred packages for each seed, of few values, so that every verdict and every difference comes up."""
    random = Random(seed)
    for _ in range(100):
        numbers = (random.sample(range(30), random.randrange(1, 12)) for _ in range(2))
        first, second = (specs_of(random_record(random, n) for n in each) for each in numbers)
        check_package(first, second, {h: Signature(**s) for h, s in second.items()})


def random_record(random: Random, number: int) -> dict[str, Any]:
    """Return a record of a few likely values."""
    targets = ("x86_64", "x86_64_v3", "x86_64_v3", "x86_64_v4", "zen4", "aarch64", "neoverse_v1", "unheard-of")
    return record(
        number,
        versions=[random.choice(("1.0", "1.1", "2.0"))],
        compiler=random.choice(("gcc@11.4.0", "gcc@11.4.0", "none", "llvm@17")),
        os=random.choice(("rhel8", "ubuntu22.04", "ubuntu22.04")),
        target=random.choice(targets),
        variants=[random.choice(("build_system=cmake", "patches=abc")), random.choice(("+shared", "~shared"))],
        stacks=random.choice((["e4s", "root"], ["root"])),
    )


def check_package(first: Specs, second: Specs, there: Mapping[str, Signature]) -> None:
    """Hold the verdicts of an environment that needs `first` to what `second` has."""
    needs = []
    for h, one in first.items():
        same = {key: one[key] for key in ("platform", "os", "target", "compiler", "variants")}
        if len(one["versions"]) == 1:
            needs.append(Need(package="p", version=one["versions"][0], hash=h, **same))
    found = cover(Environment(name="x", needs=tuple(needs)), {"p": there})
    for covered in found.needs:
        spec_hash, spec = covered.need.hash, first[covered.need.hash]
        assert covered.nearest == verdict(spec_hash, spec, second), (spec, second)
        assert covered.left == after_prune(spec_hash, spec, second), (spec, second)
        runnable = [s for s in second.values() if is_runnable(s, spec)]
        if covered.nearest is Nearest.NONE:
            built = [s for s in runnable if s["stacks"]]
            assert set(covered.versions) == {v for s in built for v in s["versions"]}
            assert covered.suggestion == (newest(covered.versions) if built else "")
        elif covered.nearest is Nearest.SIMILAR:
            of_version = {h for h in second if second[h]["versions"] == spec["versions"]}
            assert set(covered.others) == {h for h in of_version if second[h] in runnable}
            check_differences(covered, spec, second[covered.others[0]])
    pruned = cover(found.environment, {"p": {h: s for h, s in there.items() if s.stacks}})
    change = compare_coverage(found, pruned)
    check_change(change, *({c.need.hash: c.nearest.value for c in side.needs} for side in (found, pruned)))
    # Of one that is not there, what would do in its place is lost.
    lost = hashes(c for c in change.newly_lost if c.nearest is Nearest.NONE)
    assert hashes(found.of_class(LossClass.GOING)) == hashes(change.removed) | lost


def is_runnable(build: Spec, wanted: Spec) -> bool:
    """Tell whether machines that run one spec run another."""
    system = all(build[key] == wanted[key] for key in ("os", "platform"))
    return system and (build["target"] == wanted["target"] or build["target"] in ancestors(wanted["target"]))


def check_differences(covered: coverage.Resolution, wanted: Spec, build: Spec) -> None:
    """Hold what is named to what is different."""
    words = {text.partition(" ")[0] for text in covered.differs}
    assert words == {
        *(["target"] if build["target"] != wanted["target"] else []),
        *(["compiler"] if not same_compiler(build, wanted) else []),
        *(["variants"] if that_matter(build) != that_matter(wanted) else []),
    }
    for word, text in (each.split(" ", 1) for each in covered.differs if not each.startswith("variants")):
        assert text == build[word]


def test_the_order_of_targets_is_that_of_archspec() -> None:
    """For each pair that it knows, and by its own data; what it does not know runs on itself alone."""
    from archspec.cpu import TARGETS  # noqa: PLC0415

    names = list(TARGETS)
    assert len(names) > 70
    for machine, target in itertools.product(names, names):
        is_expected = machine == target or target in ancestors(machine)
        assert runs(machine, target) == is_expected == (TARGETS[target] <= TARGETS[machine]), (machine, target)
    assert runs("unheard-of", "unheard-of")
    assert not runs("unheard-of", "x86_64")
    assert not runs("x86_64", "unheard-of")


def test_in_recorded_revisions(buildcaches: Path, histories: dict[str, History], run: Run) -> None:
    """By the revision that is asked for; JSON has the same facts as the text."""
    recorded, lock = histories["v3"], buildcaches / "v3/env/2/spack.lock"

    def ask(state: str, *more: str) -> tuple[int, Any]:
        revision = recorded.revisions[state]
        result = run("coverage", lock, "--repo", recorded.folder, "--rev", revision, "--format", "json", *more)
        return result.exit_code, json.loads(result.output)

    code, found = ask("2-package-added", "--fail-on", "lost", "--fail-on", "equal")
    expected_counts = {"specs": 9, "externals": 5, "kept": 9, "equal": 0, "going": 0, "other": 0, "gone": 0}
    assert (code, found["counts"]) == (0, expected_counts)
    code, found = ask("5-spec-removed-still-referenced", "--fail-on", "lost")
    assert code == 1
    (gone,) = [spec for spec in found["specs"] if spec["class"] == "other"]
    assert (gone["package"], gone["version"], gone["root"]) == ("cw-solver", "2.0.0", True)
    assert gone["other_versions"] == ["2.1.0"]
    code, found = ask("6-pruned-to-current", "--fail-on", "other")
    counts = found["counts"]
    assert (code, counts["kept"], counts["equal"], counts["other"], counts["gone"]) == (1, 5, 2, 2, 0)
    _, other = [spec for spec in found["specs"] if spec["class"] == "other"]
    assert (other["package"], other["differs"]) == ("cw-torch", ["variants cuda_arch=80,86,90 ~mkldnn"])
    assert found["schema"] == "cachewatch.coverage/3"


def need(**values: Any) -> Need:
    """Return a need."""
    usual = {"package": "zlib", "version": "1.0", "hash": spec_hash(0), "platform": "linux", "os": "ubuntu22.04"}
    return Need(**(usual | values))


def nearest(wanted: Need, **values: Any) -> Nearest:
    """Hold one need against one spec of another hash."""
    environment = Environment(name="x", needs=(wanted,))
    return cover(environment, {"zlib": {spec_hash(9): signature(**values)}}).needs[0].nearest


def test_another_system_is_no_other_build() -> None:
    """Nothing for another operating system, platform or processor can take the place."""
    assert nearest(need()) is Nearest.EQUAL
    assert nearest(need(target="zen5"), target="zen4") is Nearest.SIMILAR
    assert nearest(need(target="zen4"), target="zen5") is Nearest.NONE
    assert nearest(need(target="zen4"), target="neoverse_v1") is Nearest.NONE
    assert nearest(need(), os="rhel8") is Nearest.NONE
    assert nearest(need(), platform="darwin") is Nearest.NONE
    assert nearest(need(), versions=("1.0.1",)) is Nearest.NONE
    assert nearest(need(hash="", version="1.0", platform="", os=""), versions=("1.0.1",)) is Nearest.SIMILAR
    assert nearest(need(version="git.main=1.0"), versions=("git.main=1.0",)) is Nearest.EQUAL


def test_what_is_unknown_is_no_difference() -> None:
    """A lock file without variants, or a compiler that one of both does not name."""
    assert nearest(need(variants=("+shared",), compiler="gcc@11.4.0")) is Nearest.EQUAL
    assert nearest(need(variants=None, compiler="none")) is Nearest.EQUAL
    assert nearest(need(compiler="gcc@11.4.0"), compiler="none") is Nearest.EQUAL
    assert nearest(need(compiler="gcc@11.4.0"), compiler="gcc@12.2.0") is Nearest.SIMILAR
    assert nearest(need(variants=("~shared",))) is Nearest.SIMILAR


def test_the_most_alike_is_named() -> None:
    """Of several other builds: by variants, then by compiler, then by the target that uses most of a machine."""
    wanted = need(target="zen4", compiler="gcc@11.4.0", variants=("~mpi", "cuda_arch=80", "+shared"))
    there = {
        spec_hash(1): signature(variants=("~mpi", "+shared")),
        spec_hash(2): signature(variants=("~mpi", "cuda_arch=80", "+shared"), compiler="llvm@17", target="zen3"),
        spec_hash(3): signature(variants=("~mpi", "cuda_arch=80", "+shared"), target="x86_64"),
        spec_hash(4): signature(variants=("~mpi", "cuda_arch=80", "+shared"), target="x86_64_v4"),
        spec_hash(5): signature(variants=("+mpi", "+shared"), target="zen4"),
        spec_hash(6): signature(variants=("~mpi", "cuda_arch=80", "+shared"), target="zen5"),
    }
    (found,) = cover(Environment(name="x", needs=(wanted,)), {"zlib": there}).needs
    assert found.others == tuple(map(spec_hash, (4, 3, 2, 1, 5)))
    assert found.differs == ("target x86_64_v4",)
    (found,) = cover(Environment(name="x", needs=(wanted,)), {"zlib": {spec_hash(5): there[spec_hash(5)]}}).needs
    assert found.differs == ("variants +mpi no cuda_arch",)
    assert remark(found) == f"there is /{spec_hash(5)[:7]}, with variants +mpi no cuda_arch"
    bare = {spec_hash(7): signature(target="zen4", variants=())}
    (found,) = cover(Environment(name="x", needs=(wanted,)), {"zlib": bare}).needs
    assert found.differs == ("variants no cuda_arch no mpi ~shared",)


def test_what_would_restore_a_loss() -> None:
    """The newest version for the same machines, and who still has this one."""
    there = {spec_hash(n): signature(versions=(v,)) for n, v in ((1, "1.9"), (2, "1.10"))}
    there |= {spec_hash(n): signature(versions=(v,), target="zen5") for n, v in ((3, "2.0"), (4, "1.0"))}
    (found,) = cover(Environment(name="x", needs=(need(target="x86_64_v3"),)), {"zlib": there}).needs
    assert (found.versions, found.suggestion) == (("1.9", "1.10"), "1.10")
    assert remark(found) == "the newest there is 1.10; this version only for linux-ubuntu22.04-zen5"
    there[spec_hash(2)] = signature(versions=("1.10",), variants=("+mpi", "api=v1"))
    wanted = need(target="x86_64_v3", variants=("~mpi", "api=v1", "+old"))
    (found,) = cover(Environment(name="x", needs=(wanted,)), {"zlib": there}).needs
    assert remark(found).startswith("the newest there is 1.10 without ~mpi; ")


def test_two_caches_together() -> None:
    """The better of both, and what a prune leaves in either."""
    environment = Environment(name="x", needs=(need(hash=spec_hash(1), target="x86_64_v3"),))
    unreferenced = {"zlib": {spec_hash(1): signature(stacks=())}}
    rebuilt, kept = {"zlib": {spec_hash(2): signature()}}, {"zlib": {spec_hash(1): signature()}}
    other = {"zlib": {spec_hash(3): signature(versions=("2.0",)), spec_hash(4): signature(target="zen5")}}

    def both(one: Holdings, two: Holdings) -> tuple[str, str]:
        (found,) = coverage.best(cover(environment, one), cover(environment, two)).needs
        (turned,) = coverage.best(cover(environment, two), cover(environment, one)).needs
        assert found == turned
        return found.nearest.value, found.left.value

    assert both(unreferenced, {}) == ("same", "none")
    assert both(unreferenced, rebuilt) == ("same", "equal")
    assert both(unreferenced, kept) == ("same", "same")
    assert both(rebuilt, other) == ("equal", "equal")
    assert both(other, {"zlib": {spec_hash(5): signature(versions=("3.0",))}}) == ("none", "none")


def headline_of(change: coverage.CoverageChange) -> str:
    """Return the longest form of what a subject says of an environment."""
    return next(iter(headlines_of(assess([], environment=change), words())), "")


def change_of(before: Sequence[str], after: Sequence[str], *, has_hashes: bool = True) -> coverage.CoverageChange:
    """Return the change of an environment whose needs stand like this; `same>none` may be pruned at any time."""
    hashes = [spec_hash(n) if has_hashes else "" for n in range(len(after))]
    needs = tuple(need(hash=one, version=f"1.{n}") for n, one in enumerate(hashes))
    environment = Environment(name="x", needs=needs)

    def side(words: Sequence[str]) -> coverage.Coverage:
        found = (word.partition(">") for word in words)
        pairs = zip(needs, found, strict=True)
        resolutions = (
            coverage.Resolution(n, Nearest(now), Nearest(left) if left else None) for n, (now, _, left) in pairs
        )
        return coverage.Coverage(environment, tuple(resolutions))

    return compare_coverage(side(before), side(after))


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        (["same"] * 3, ["same"] * 3, ""),
        ([], [], ""),
        (["none", "equal"], ["none", "similar"], ""),
        (["same"], ["none"], "no build left of 1 of 1 binary: build from source"),
        (["same"], ["similar"], "all rebuilt: re-concretize (all 1 have equal builds)"),
        (["same"] * 3, ["same", "same", "none"], "no build left of 1 of 3 binaries: build from source"),
        (["same"] * 3, ["same", "equal", "none"], "no build left of 1 of 3 binaries: 1 has an equal or other build"),
        (["same"] * 3, ["same", "equal", "similar"], "2 of 3 binaries replaced by equal builds: re-concretize"),
        (
            ["same"] * 48,
            ["same"] * 24 + ["equal"] * 10 + ["similar"] * 9 + ["none"] * 5,
            "no build left of 5 of 48 binaries: 19 have equal or other builds",
        ),
        (["same"] * 20, ["same"] + ["equal"] * 19, "nearly all rebuilt: re-concretize (19 of 20 have equal builds)"),
        (["equal", "same"], ["none", "same"], "no build left of 1 of 2 binaries: build from source"),
        (["none", "same"], ["same", "same"], "1 of 2 binaries added"),
        (["none", "same"], ["equal", "same"], "1 of 2 binaries has another build again"),
        (["same"] * 3, ["same", *["same>equal"] * 2], "2 of 3 binaries may be pruned at any time: re-concretize"),
        (["same>equal"] * 3, ["same>equal"] * 3, ""),
        (["same"] * 3, ["same", *["same>none"] * 2], "2 of 3 binaries may be pruned at any time: copy them"),
        (["equal", "same"], ["equal>none", "same"], "last build of 1 of 2 binaries may be pruned: re-concretize, then copy"),
    ],
)  # fmt: skip
def test_the_headline_of_an_environment(before: list[str], after: list[str], headline: str) -> None:
    """The one thing to know, for none, one and many; empty where there is no news."""
    change = change_of(before, after)
    assert headline_of(change) == headline
    assert bool(change) == bool(headline)


def test_an_abstract_environment_changes_as_well() -> None:
    """Any build of its versions will do, and losing the last one is a loss."""
    change = change_of(["similar", "similar"], ["similar", "none"], has_hashes=False)
    assert headline_of(change) == "no build left of 1 of 2 specs: build from source"
    assert headline_of(change_of(["none"], ["similar"], has_hashes=False)) == "1 of 1 spec added"


def test_what_no_stack_builds_is_announced(tmp_path: Path, run: Run) -> None:
    """A binary that no stack of develop builds any more is there, but not for long; of a snapshot none is pruned."""
    specs = [record(0), record(1, stacks=["root"])]
    state = catalogue({"zlib": specs}) | catalogue({"zlib": specs}, tag="develop-2025-06-01")
    repository = history(tmp_path / "r.git", state)
    lock = tmp_path / "spack.lock"
    lock.write_text(json.dumps(lock_of(6, [0, 1])))
    result = run("coverage", lock, "--repo", repository, "--fail-on", "going")

    assert result.exit_code == 1
    assert "going: built by no stack: it may be pruned at any time (1)" in result.output
    assert f"zlib@1.0/{spec_hash(1)[:7]}" in result.output
    assert "after a prune a second copy is left" in result.output
    named = f"--fail-on going: zlib@1.0/{spec_hash(1)[:7]} for linux-ubuntu22.04-x86_64_v3 is going\n"
    assert result.error == f"cachewatch: {named}"
    quiet = run("coverage", lock, "--repo", repository, "--fail-on", "going", "--quiet")
    assert (quiet.exit_code, quiet.output, quiet.error) == (1, "", result.error)
    snapshot = run("coverage", lock, "--repo", repository, "--tag", "develop-2025-06-01", "--fail-on", "going")
    assert snapshot.exit_code == 0


def lock_of(version: int, numbers: list[int], **values: Any) -> dict[str, Any]:
    """Return a lock file of so many specs of zlib."""
    arch = {"platform": "linux", "platform_os": "ubuntu22.04", "target": {"name": "x86_64_v3"}}
    spec = {"name": "zlib", "version": "1.0", "arch": arch}
    return {
        "_meta": {"file-type": "spack-lockfile", "lockfile-version": version, "specfile-version": 4},
        "roots": [{"hash": spec_hash(number), "spec": "zlib"} for number in numbers[:1]],
        "concrete_specs": {spec_hash(number): spec for number in numbers},
    } | values


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8])
def test_lock_files_of_all_versions(version: int) -> None:
    """From 4 on they name the hashes that caches name."""
    environment = read_lock(json.dumps(lock_of(version, [0, 1])).encode(), "spack.lock")

    assert environment.versions == {("zlib", "1.0")}
    told = [(n.hash, n.is_root, n.target) for n in environment.needs]
    assert told == [(spec_hash(0), True, "x86_64_v3"), (spec_hash(1), False, "x86_64_v3")]


def test_included_environments_count() -> None:
    lock = lock_of(5, [0], include_concrete={"/other": lock_of(5, [7])})

    assert read_lock(json.dumps(lock).encode(), "x").hashes == {spec_hash(0), spec_hash(7)}


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", b"spack:", json.dumps(lock_of(3, [0])).encode(), b'{"_meta": {"lockfile-version": "x"}}'),
        b'{"_meta": {"lockfile-version": 5}, "concrete_specs": {"a": {"name": "a", "version": "1", "dependencies": "\xff"}}}',
        # A root that is not there: nothing would be lacking, and a gate in CI would pass.
        json.dumps(lock_of(5, [0], concrete_specs={})).encode(),
    ],
)
def test_what_is_no_lock_file(data: bytes, tmp_path: Path, run: Run) -> None:
    """Is refused in a sentence."""
    put(tmp_path / "spack.lock", data)
    assert str(tmp_path / "spack.lock") in run("coverage", tmp_path / "spack.lock").error_of(2)


MANIFEST = b"""
spack:
  definitions:
  - compilers: ['%gcc@12.2.0']
  - when: os == "x"
    tools: [cmake@3.25:3.27, builtin.ninja +x]
  specs:
  - hdf5@1.14 ~mpi target=aarch64
  - $tools
  - matrix:
    - [zlib target=default_target, zlib@=1.3]
    - [$compilers]
  view: false
"""


def test_a_manifest_without_a_lock_file(tmp_path: Path, run: Run) -> None:
    """Only versions and targets can be looked up then, and the report says so."""
    put(tmp_path / "env/spack.yaml", MANIFEST)
    found = installs(node("hdf5", "1.14.6"), node("cmake", "3.28"), node("zlib", "1.2"))
    write_v3(tmp_path / "mirror", database(found))
    output = run("coverage", tmp_path / "env", "--source", tmp_path / "mirror", "--fail-on", "lost").output_of(1)

    needs = [(n.package, n.version, n.target) for n in read_manifest(MANIFEST, "x").needs]
    assert needs[:3] == [("cmake", "3.25:3.27", ""), ("hdf5", "1.14", "aarch64"), ("ninja", "", "")]
    assert needs[3:] == [("zlib", "", ""), ("zlib", "=1.3", "")]
    assert not read_manifest(b"spack: {specs: [zlib %gcc target=zen4]}", "x").needs[0].target  # that of gcc
    assert "It names no hashes" in output
    assert "kept   a build of such a version is in the cache" in output
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert "cmake@3.25:3.27 (root) the newest there is 3.28" in lines
    assert "hdf5@1.14 target=aarch64 (root) this version only for linux-debian12-x86_64_v3" in lines
    assert "ninja (root) there is none" in lines


def test_the_lock_file_beside_a_manifest_is_used(tmp_path: Path) -> None:
    """It knows better; a folder is looked through in the same order."""
    put(tmp_path / "spack.yaml", MANIFEST)
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())

    for path in (tmp_path / "spack.yaml", tmp_path):
        assert open_environment(path).hashes == {spec_hash(0)}


@pytest.mark.parametrize(
    "data",
    [
        *(b"a: b", b"- x", b"spack: x", b"spack: {specs: ['@1.2']}", b"spack: {specs: [zlib@2:1]}", b"\0"),
        b"spack: &a [*a]",
    ],
)
def test_what_is_no_manifest(data: bytes) -> None:
    """Is refused in a sentence."""
    with pytest.raises(UsageError):
        read_manifest(data, "spack.yaml")


def test_definitions_that_name_themselves_end() -> None:
    """And matrices of any size are refused."""
    rows = ", ".join(["[a, b, c, d, e, f, g, h, i, j]"] * 12)
    assert read_manifest(b"spack: {definitions: [{a: [$a, zlib]}], specs: [$a]}", "x").packages == {"zlib"}
    with pytest.raises(UsageError, match="expand to more than 100,000 entries"):
        read_manifest(f"spack: {{specs: [{{matrix: [{rows}]}}]}}".encode(), "x")


def test_a_source_that_lacks_the_tag(tmp_path: Path, run: Run) -> None:
    """Or that is named beside a repository."""
    checksum = write_v3(tmp_path / "develop", database(installs(node("zlib"))))
    entry = {"label": "root", "url": f"s3://b/develop/blobs/sha256/{checksum[:2]}/{checksum}"}
    put(tmp_path / "cache_spack_io_index.json", json.dumps({"develop": [entry]}).encode())
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())
    command = ["coverage", tmp_path / "spack.lock", "--source", tmp_path / "cache_spack_io_index.json"]

    assert run(*command).exit_code == 0
    assert run(*command, "--tag", "v1.0.0").exit_code == 2
    assert run(*command, "--repo", tmp_path).exit_code == 2


def test_a_document_that_cannot_be_read(tmp_path: Path, run: Run) -> None:
    """Is named, and the exit code says that the answer is not whole."""
    broken = {"_cache/develop/zlib/specs.md": b"<html>"}
    repository = history(tmp_path / "r.git", catalogue({"cmake": [record(4)]}) | broken)
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())
    assert "_cache/develop/zlib/specs.md" in run("coverage", tmp_path / "spack.lock", "--repo", repository).error_of(4)
