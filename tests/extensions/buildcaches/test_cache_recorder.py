"""Recording: the same state makes one revision, half a state makes none, and a crash does no harm."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from caches import catalogued, database, installs, many, node, put, write_v2, write_v3
from conftest import ROOT, Run
from helpers import history, secret, spec_hash
from servers import Asked, Says, files, serving
from upstream import git

from cachewatch.errors import SourceError, UsageError
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache
from cachewatch.extensions.buildcaches.mirrors_and_registries import root_of
from cachewatch.extensions.buildcaches.recording_and_suspicion import Recorded, RecordedHistory, record
from cachewatch.extensions.buildcaches.settings import BuildCacheSource

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror of layout 3 with twenty specs."""
    folder = tmp_path / "mirror"
    write_v3(folder, database(many(20)))
    return folder


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.git"


def commits(folder: Path) -> int:
    return int(git(folder, "rev-list", "--count", "main"))


def add(mirror: Path, into: Path, **options: object) -> Recorded:
    return record(Cache(address=str(mirror)), into, now=NOW, **options)  # type: ignore[arg-type]


def test_the_same_index_twice_is_one_revision(mirror: Path, into: Path) -> None:
    """Even where nothing is remembered, and even where the bytes of the index are others."""
    first = add(mirror, into)
    again = add(mirror, into)
    (into / "cachewatch-record.json").unlink()
    forgotten = add(mirror, into)
    write_v3(mirror, database(dict(reversed(many(20).items())), version="8") + b"\n")
    reordered = add(mirror, into)

    assert first.commit == git(into, "rev-parse", "HEAD")
    assert [done.commit for done in (again, forgotten, reordered)] == [None] * 3
    assert [len(done.tags) for done in (again, forgotten, reordered)] == [0, 1, 1]
    assert commits(into) == 1


def test_a_package_that_is_gone_is_deleted(mirror: Path, into: Path, run: Run) -> None:
    write_v3(mirror, database(installs(node("zlib"), node("cmake"))))
    add(mirror, into)
    write_v3(mirror, database(installs(node("zlib"))))
    assert [(count.new, count.changed, count.removed) for count in add(mirror, into).tags] == [(0, 0, 1)]
    files = ["develop/.graph.json", "develop/zlib/graph.json", "develop/zlib/specs.md"]
    listed = git(into, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert listed == [*(f"_cache/{file}" for file in files), "_data/tags.yaml"]
    assert "cmake" in run("diff", "HEAD~1", "HEAD", "--repo", into, "--fail-on", "package-removed").output


def test_only_a_history_of_ours_is_gone_on_with(mirror: Path, tmp_path: Path, run: Run) -> None:
    """Nothing of a build cache belongs on a branch of somebody's program."""
    other = history(tmp_path / "program.git", {"main.c": b"int main(void) { return 0; }"})
    name = ["-c", "user.name=Kim", "-c", "user.email=kim@example.org"]
    git(other, "update-ref", "refs/heads/main", git(other, *name, "commit-tree", "-m", "new", "HEAD^{tree}").strip())
    before = git(other, "rev-parse", "HEAD")
    error = run("record", mirror, "--into", other).error_of(2)
    assert f"{other}: its newest revision was not recorded by cachewatch; name a repository of its own" in error
    assert git(other, "rev-parse", "HEAD") == before


def test_another_cache_in_the_same_tag(mirror: Path, into: Path, tmp_path: Path, run: Run) -> None:
    """All that the two have differently looks like a change; and who goes back gets what is there."""
    write_v3(tmp_path / "other", database(installs(node("cmake"))))
    add(mirror, into)
    for cache in (tmp_path / "other", mirror):
        assert run("record", cache, "--into", into, "--force").exit_code == 0
    assert commits(into) == 3
    assert git(into, "rev-parse", "HEAD^{tree}") == git(into, "rev-parse", "HEAD~2^{tree}")


def test_records_of_which_none_can_be_read_are_not_called_an_empty_index(mirror: Path, into: Path, run: Run) -> None:
    add(mirror, into)
    found = installs(node("zlib"))
    for record_ in found.values():
        record_["spec"] = None
    write_v3(mirror, database(found))
    assert "held back: none of its records can be read" in run("record", mirror, "--into", into).error
    assert commits(into) == 1


@pytest.mark.parametrize(("left", "is_held"), [(3, False), (2, True), (0, True)])
def test_what_lost_nine_tenths_is_held(mirror: Path, into: Path, left: int, is_held: bool) -> None:
    """Until somebody says that it is true; and nothing is remembered of it, so that it is asked again."""
    add(mirror, into)
    write_v3(mirror, database(many(left)))
    held = [add(mirror, into), add(mirror, into)]

    assert [bool(done.held) for done in held] == [is_held, False] if not is_held else [True, True]
    assert commits(into) == (1 if is_held else 2)
    if is_held:
        told = held[0].held[0].reason
        assert "index is empty" in told if not left else f"stack cache had 20 specs and has {left}" in told
        assert add(mirror, into, is_confirmed=True).commit
        assert commits(into) == 2


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no manifest": lambda m: (m / "v3/manifests/index/index.manifest.json").unlink(),
    "manifest cut off": lambda m: cut(m / "v3/manifests/index/index.manifest.json"),
    "another manifest": lambda m: put(m / "v3/manifests/index/index.manifest.json", b'{"version":3,"data":[]}'),
    "blob missing": lambda m: next((m / "blobs").rglob("?" * 64)).unlink(),
    "blob cut off": lambda m: cut(next((m / "blobs").rglob("?" * 64))),
    "index is no JSON": lambda m: write_v3(m, b"<html>"),
    "index cut off, but signed off": lambda m: write_v3(m, database(many(30))[:-20]),
    "md5": lambda m: write_v3(m, database(many(30)), said={"checksumAlgorithm": "md5"}),
    "checksum leads out": lambda m: write_v3(m, database(many(30)), said={"checksum": "../../../../etc/passwd"}),
}


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.slow_cases
@pytest.mark.parametrize("damage", DAMAGE)
def test_half_a_state_is_no_revision(mirror: Path, into: Path, damage: str) -> None:
    """Whatever is wrong with a mirror is said, and the repository stays what it was; it works again afterwards."""
    add(mirror, into)
    before = git(into, "rev-parse", "HEAD")
    for blob in list((mirror / "blobs").rglob("?" * 64)):
        blob.unlink()
    if damage in ("blob missing", "blob cut off"):
        write_v3(mirror, database(many(21)))
    DAMAGE[damage](mirror)

    with pytest.raises(SourceError):
        add(mirror, into)

    assert git(into, "rev-parse", "HEAD") == before
    write_v3(mirror, database(many(22)))
    assert add(mirror, into).commit


def test_a_layout_2_that_is_being_published_and_moves_on_to_layout_3(tmp_path: Path, into: Path) -> None:
    """An index that is not the one of its hash is refused; it stays where it was for ever, and the new one is read."""
    mirror = tmp_path / "mirror"
    write_v2(mirror, database(many(20), version="7"))
    add(mirror, into)
    put(mirror / "build_cache/index.json.hash", b"0" * 64)
    with pytest.raises(SourceError, match="half published"):
        add(mirror, into)
    put(mirror / "build_cache/index.json.hash", b"soon")
    with pytest.raises(SourceError, match="does not hold a sha256"):
        add(mirror, into)
    write_v3(mirror, database(many(25)))
    assert add(mirror, into).tags[0].specs == 25


def test_records_that_cannot_be_read_are_named(mirror: Path, into: Path, run: Run) -> None:
    """One bad record spoils no other; the exit code says that something is missing."""
    found = installs(node("zlib"), node("../etc"), node("a", arch=None), node("b", version=7), node("c", parameters=[]))
    found["no hash"] = found[spec_hash(0)]
    found[spec_hash(77)] = {"in_buildcache": True}
    found[spec_hash(78)] = {"in_buildcache": "perhaps", "spec": {}}
    found[spec_hash(79)] = 7  # type: ignore[assignment]
    write_v3(mirror, database(found))
    result = run("record", mirror, "--into", into)

    assert result.exit_code == 4
    assert "1 spec of 1 package" in result.output
    assert result.error.count("cannot be read") == 8
    assert "no package can have its name" in result.error


def test_a_catalogue_of_many_stacks(tmp_path: Path, into: Path) -> None:
    """Stacks are those that list a spec; the union is no stack; what only it has is unreferenced."""
    bucket = tmp_path / "bucket"
    stacks = (("develop/e4s", "e4s", 3), ("develop", "root", 5))
    listed = {"develop": [catalogued(bucket, path, stack, many(count)) for path, stack, count in stacks]}
    listed["v1.0.0"] = [{"label": "root", "url": "s3://spack-binaries/v1.0.0/build_cache/index.json"}]
    write_v2(bucket / "v1.0.0", database(many(2, "cmake"), version="7"))
    listed["develop-2025-01-05"] = [{"label": "root", "url": "s3://spack-binaries/gone/build_cache/index.json"}]
    listed["../odd"] = listed["v1.0.0"]
    listed["v1.0.0"].append({"label": "evil", "url": "https://elsewhere.example/build_cache/index.json"})
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    cache = Cache(address=str(bucket / "cache_spack_io_index.json"))
    done = record(cache, into, now=NOW)

    assert '"num_specs_by_stack": {"e4s": 3, "root": 5}' in git(into, "show", "HEAD:_cache/develop/zlib/specs.md")
    assert [(count.tag, count.specs) for count in done.tags] == [("develop", 5), ("v1.0.0", 2)]
    ((tag, message),) = [(failed.tag, failed.message) for failed in done.failed]
    assert (tag, "half published" in message) == ("develop-2025-01-05", True)
    assert git(into, "show", "HEAD:_data/tags.yaml").count("- name: ") == 2
    assert record(cache, into, now=NOW).commit is None
    listed["develop"][0] = catalogued(bucket, "develop/e4s", "e4s", many(2))
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    assert [count.tag for count in record(cache, into, now=NOW).tags] == ["develop"]
    listed["develop"] = listed["develop"][1:]
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    assert "stack e4s had 2 specs and has 0" in record(cache, into, now=NOW).held[0].reason


@pytest.mark.usefixtures("loopback")
def test_an_unchanged_catalogue_is_one_request(tmp_path: Path, into: Path) -> None:
    """As all its indexes are named by their contents."""
    bucket = tmp_path / "bucket"
    listed = {"develop": [catalogued(bucket, "develop", "root", many(5))]}
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    with serving(files(bucket)) as server:
        cache = Cache(address=f"{server.url}/cache_spack_io_index.json")
        record(cache, into, now=NOW)
        assert len(server.asked) == 2
        record(cache, into, now=NOW)
        assert len(server.asked) == 3


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("layout", ["v2", "v3"])
def test_an_unchanged_mirror_is_hardly_asked(tmp_path: Path, into: Path, layout: str) -> None:
    """By its ETag, its hash, or the name of its blob; also where the server knows no ETags."""
    folder = tmp_path / "mirror"
    (write_v2 if layout == "v2" else write_v3)(folder, database(many(5)))
    serve = files(folder)

    def without_etags(asked: Asked) -> Says:
        said = serve(asked)
        return Says(said.status, said.body)

    for answers in (serve, without_etags):
        (into / "cachewatch-record.json").unlink(missing_ok=True)
        with serving(answers) as server:
            record(Cache(address=server.url), into, now=NOW)
            before = len(server.asked)
            assert record(Cache(address=server.url), into, now=NOW).tags == ()
            assert len(server.asked) == before + {"v2": 2, "v3": 1}[layout]


@pytest.mark.usefixtures("loopback")
def test_credentials_are_sent(mirror: Path, into: Path, tmp_path: Path, run: Run) -> None:
    file = secret(tmp_path / "secret", "hunter:2\n")
    serve = files(mirror)
    with serving(lambda asked: serve(asked) if "authorization" in asked.headers else Says(401)) as server:
        assert run("record", server.url, "--into", into).exit_code == 3
        for option in ("--token-file", "--login-file"):
            assert run("record", server.url, "--into", into, option, file).exit_code == 0
        assert run("record", server.url, "--into", into, "--token-file", file, "--login-file", file).exit_code == 2
        sent = [asked.headers.get("authorization") for asked in server.asked]
        kinds = {each.split()[0] for each in sent if each}

    assert kinds == {"Bearer", "Basic"}
    assert "hunter" not in (into / "cachewatch-record.json").read_text()


def test_addresses_that_are_refused(into: Path, run: Run) -> None:
    for address in ("s3://bucket", "oci://host/image:tag", "https://u:p@host/x", "a\nb", ""):
        result = run("record", address, "--into", into)
        assert (result.exit_code, "u:p" in result.error, into.exists()) == (2, False, False), address


def test_places_that_are_refused(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    put(tmp_path / "full/thing", b"")
    put(tmp_path / "file", b"")
    subprocess.run(["git", "init", "-q", tmp_path / "tree"], check=True)
    for name in ("full", "file", "tree"):
        with pytest.raises(UsageError):
            add(mirror, tmp_path / name)


def test_time_does_not_go_backwards(mirror: Path, into: Path) -> None:
    """A clock that was set back must not hide a revision from those who ask by date."""
    add(mirror, into)
    write_v3(mirror, database(many(21)))
    record(Cache(address=str(mirror)), into, now=NOW - timedelta(days=3))

    assert git(into, "log", "--format=%ct").splitlines() == [str(int(NOW.timestamp()))] * 2


def test_two_at_once(mirror: Path, into: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachewatch.git.writing_revisions._PATIENCE_SECONDS", 0.2)
    add(mirror, into)
    with (into / "cachewatch.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run("record", mirror, "--into", into)

    assert (result.exit_code, "another cachewatch is recording here" in result.error) == (3, True)


@pytest.mark.slow
@pytest.mark.nightly
def test_killed_at_any_point(mirror: Path, into: Path) -> None:
    """Whenever it is killed, the repository is sound, has the old state or the new one, and the next run succeeds."""
    add(mirror, into)
    command = [sys.executable, "-m", "cachewatch", "record", str(mirror), "--into", str(into), "-q"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    write_v3(mirror, database(many(500)))
    subprocess.run(command, env=environment, check=True)
    whole = time.monotonic() - began
    killed = 0
    for step in range(7):
        write_v3(mirror, database(many(1000 + step)))
        process = subprocess.Popen(command, env=environment)
        time.sleep(whole * (0.3 + 0.1 * step))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() != 0
        with (into / "cachewatch.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the git that was left behind has ended
        assert git(into, "fsck", "--strict", "--no-dangling") == ""
        subprocess.run(command, env=environment, check=True)
        assert f'"num_specs": {1000 + step},' in git(into, "show", "HEAD:_cache/develop/zlib/specs.md")

    assert killed
    assert commits(into) == 9
    assert not list(into.glob(".cachewatch-record*"))


@pytest.mark.parametrize("is_made", [True, False])
def test_a_lock_that_a_killed_git_has_left(mirror: Path, into: Path, is_made: bool) -> None:
    """However young it is, also of a repository half made: our gits hold our lock as well, so whoever gets that knows of no owner."""
    add(mirror, into)
    (into / ("refs/heads/main.lock" if is_made else "config.lock")).touch()
    if not is_made:
        (into / "HEAD").unlink()
    write_v3(mirror, database(many(21)))

    assert add(mirror, into).commit


@pytest.mark.usefixtures("loopback")
def test_object_stores_that_forbid_what_they_lack(tmp_path: Path, into: Path) -> None:
    """Who may not list a bucket gets 403 for what is not in it; where nothing may be read, that is what is said."""
    folder = tmp_path / "mirror"
    write_v2(folder, database(many(5), version="7"), has_hash=False)
    serve = files(folder)

    def forbidding(asked: Asked) -> Says:
        said = serve(asked)
        return Says(403) if said.status == 404 else said

    with serving(forbidding) as server:
        assert record(Cache(address=server.url), into).commit
    with serving(lambda asked: Says(403)) as server, pytest.raises(SourceError, match="HTTP 403"):
        record(Cache(address=server.url), into)


def test_the_address_of_an_index_is_the_mirror_it_is_in() -> None:
    """People paste what they see."""
    for inside in ("/v3", "/v3/manifests/index/index.manifest.json", "/build_cache", "/build_cache/index.json/"):
        assert root_of(f"file:///mirror{inside}") == "file:///mirror"


def test_a_source_of_a_service(mirror: Path, into: Path) -> None:
    """What is held back, and records that cannot be read, are for operators; a cache that was never recorded is a failure."""
    source = BuildCacheSource(name="site", type="buildcache", address=str(mirror), tag="nightly", stack="gpu")
    write_v3(mirror, database(many(0)))
    with pytest.raises(SourceError, match="nightly is held back: the index is empty"):
        RecordedHistory(source, into).update()
    write_v3(mirror, database(many(9), version="11"))
    news = RecordedHistory(source, into).update()
    assert (news.revision, news.problem) == (git(into, "rev-parse", "HEAD"), "")
    assert "has version" in news.warnings[0]
    assert '"stacks": ["gpu", "root"]' in git(into, "show", "HEAD:_cache/nightly/zlib/specs.md")
    write_v3(mirror, database(many(0)))
    again = RecordedHistory(source, into).update()
    assert (again.revision, again.problem) == (news.revision, "nightly is held back: the index is empty.")


def test_a_repository_that_is_being_made_has_no_revision_yet(mirror: Path, into: Path) -> None:
    """The job that makes digests may look while the first poll runs."""
    history = RecordedHistory(BuildCacheSource(name="site", type="buildcache", address=str(mirror)), into)
    git(into, "init", "-q", "--bare", "--initial-branch=main", str(into))
    for path in sorted((into / "objects").rglob("*"), reverse=True):
        path.rmdir()
    (into / "objects").rmdir()
    with pytest.raises(SourceError, match="nothing was recorded yet"):
        history.open()
    assert history.update().revision == git(into, "rev-parse", "main")


def test_the_command_on_a_catalogue(tmp_path: Path, into: Path, run: Run) -> None:
    """Globs choose its tags; a tag that cannot be read is named, the others are recorded, and the exit code says so."""
    bucket = tmp_path / "bucket"
    listed = {
        "develop": [catalogued(bucket, "develop", "root", many(5))],
        "v1.0.0": [catalogued(bucket, "v1.0.0", "root", many(4))],
        "develop-2025-01-05": [{"label": "root", "url": "s3://b/gone/build_cache/index.json"}],
    }
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    address = bucket / "cache_spack_io_index.json"
    result = run("record", address, "--into", into, "--tag", "develop*")

    assert result.exit_code == 3
    assert "develop: 5 specs of 1 package; documents: 1 new" in " ".join(result.output.split())
    assert "develop-2025-01-05: not recorded" in result.error
    assert "v1.0.0" not in result.output
    assert run("record", address, "--into", into, "--tag", "v*", "-q").output == ""
    assert git(into, "ls-tree", "--name-only", "HEAD", "_cache/").split() == ["_cache/develop", "_cache/v1.0.0"]


def test_a_cache_has_one_tag(mirror: Path, into: Path, run: Run) -> None:
    """Only a catalogue has several; and names are names."""
    assert run("record", mirror, "--into", into, "--tag", "a", "--tag", "b").exit_code == 2
    for wrong in (["--tag", "a/b"], ["--stack", "root"], ["--stack", ".."]):
        assert run("record", mirror, "--into", into, *wrong).exit_code == 2


def test_a_manifest_of_the_index_that_is_signed(mirror: Path, into: Path) -> None:
    """As Spack signs those of specs."""
    manifest = mirror / "v3/manifests/index/index.manifest.json"
    signature = b"-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"
    head = b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n"
    manifest.write_bytes(head + manifest.read_bytes() + b"\n" + signature)

    assert add(mirror, into).commit
