"""Hosts that share what they record: two repositories that take turns on one bare repository."""

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from gitservers import Faults, smart_http

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git import recorded_repository
from cachewatch.git.clone_remote import NotFollowed, Unreachable
from cachewatch.git.credentials import Access
from cachewatch.git.making_repository import init_repository
from cachewatch.git.recorded_repository import open_recording
from cachewatch.git.shared_recording import SharedRecording

START = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Host:
    """One host, with a repository of its own."""

    def __init__(self, folder: Path, address: Path | str, access: Access | None = None) -> None:
        self.folder = folder
        self.shared = SharedRecording(folder, str(address), access, seconds=60)

    def record(self, moment: int, *names: str) -> str | None:
        """Add a revision that is made at a moment, with files of these names."""
        with open_recording(self.folder) as recording:
            for name in names:
                recording.write(f"_cache/develop/{name}/specs.md", name.encode())
            return recording.commit(f"Record {' '.join(names)}", datetime.fromtimestamp(START + moment, UTC))

    def turn(self, moment: int, *names: str) -> tuple[str | None, str | None, str | None]:
        """Fetch, record and push; return what each did."""
        return self.shared.fetch(), self.record(moment, *names), self.shared.push()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Where the shared repository will be."""
    return tmp_path / "shared.git"


@pytest.fixture
def one(tmp_path: Path, bare: Path) -> Host:
    return Host(tmp_path / "one.git", bare)


@pytest.fixture
def two(tmp_path: Path, bare: Path) -> Host:
    return Host(tmp_path / "two.git", bare)


def history(folder: Path) -> list[str]:
    return git(folder, "rev-list", "--reverse", "main").split()


def names(folder: Path, revision: str = "main") -> set[str]:
    return set(git(folder, "ls-tree", "--name-only", f"{revision}:_cache/develop").split())


def test_hosts_take_turns(one: Host, two: Host, bare: Path) -> None:
    """Each goes on from what the other one pushed, in one line; a path that does not exist is created."""
    _, first, pushed = one.turn(1, "a")
    assert pushed == first
    fetched, second, _ = two.turn(2, "b")
    assert fetched == first
    fetched, third, _ = one.turn(3, "c")
    assert fetched == second
    assert history(bare) == history(one.folder) == [first, second, third]
    assert names(bare) == {"a", "b", "c"}
    assert git(bare, "rev-list", "--merges", "main") == ""
    assert git(bare, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_nothing_new_is_not_sent(one: Host, two: Host, bare: Path) -> None:
    one.turn(1, "a")
    two.turn(2)
    before = sorted(path for path in bare.rglob("*") if path.is_file())
    assert one.turn(3) == two.turn(3) == (None, None, None)
    assert sorted(path for path in bare.rglob("*") if path.is_file()) == before


def test_what_another_host_pushed_meanwhile_is_never_replaced(one: Host, two: Host, bare: Path) -> None:
    """A host that was paused in the middle of recording joins the other one's history with its own the next time."""
    _, first, _ = one.turn(1, "a")
    one.shared.fetch()
    _, theirs, _ = two.turn(2, "b")
    ours = one.record(3, "c")
    with pytest.raises(NotFollowed):
        one.shared.push()
    assert history(bare) == [first, theirs]
    fetched, joined, pushed = one.turn(4, "d")
    assert (fetched, pushed) == (theirs, joined)
    assert set(history(bare)) == {first, theirs, ours, joined}
    assert git(bare, "rev-parse", "main^1", "main^2").split() == [ours, theirs], "the newer one comes first"
    assert names(bare) == {"a", "c", "d"}
    assert two.turn(5) == (joined, None, None)


def test_histories_are_joined_even_if_nothing_changed(one: Host, two: Host, bare: Path) -> None:
    """The newer one's state is kept, whoever recorded it; until then nothing is pushed, and the branch stays."""
    one.record(1, "a", "old")
    two.turn(2, "a", "new")
    theirs = history(two.folder)[0]
    assert one.shared.fetch() == theirs
    assert names(one.folder) == {"a", "old"}
    assert one.shared.push() is None
    joined = one.record(3)
    assert one.shared.push() == joined
    assert names(bare) == {"a", "new"}
    assert len(history(bare)) == 3


def test_the_other_host_may_go_on_before_histories_are_joined(one: Host, two: Host, bare: Path) -> None:
    """A host was killed between fetching and recording, say."""
    one.record(1, "a")
    two.turn(2, "b")
    one.shared.fetch()
    later = two.turn(3, "c")[1]
    assert one.shared.fetch() == later
    ours = history(one.folder)[0]
    joined = one.record(4)
    assert git(one.folder, "rev-parse", "main^1", "main^2").split() == [later, ours]
    assert one.shared.push() == joined


def test_where_it_cannot_be_reached_the_host_records_on(tmp_path: Path) -> None:
    """Everything is pushed when it is there."""
    host = Host(tmp_path / "one.git", tmp_path / "mounted/shared.git")
    for moment in (1, 2):
        with pytest.raises(BrokenSource, match=r"mounted: there is no such folder; mount or create it"):
            host.shared.fetch()
        assert host.record(moment, str(moment))
    (tmp_path / "mounted").mkdir()
    assert host.turn(3) == (None, None, history(host.folder)[-1])
    assert history(tmp_path / "mounted/shared.git") == history(host.folder)


def test_a_shared_repository_that_is_gone_is_not_made_again(one: Host, bare: Path, tmp_path: Path) -> None:
    """Its file system may not be mounted; another host would go on from an empty one."""
    one.turn(1, "a")
    bare.rename(tmp_path / "elsewhere.git")
    with pytest.raises(BrokenSource, match=r"is gone, though.*git init --bare --initial-branch=main"):
        one.shared.fetch()
    assert not bare.exists()
    git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    assert one.turn(2) == (None, None, history(bare)[0])


def test_hosts_that_make_it_at_the_same_time_share_it(
    one: Host, two: Host, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one finds what the first one made."""
    make, first = init_repository, []

    def make_later(folder: Path, *, branch: str) -> None:
        make(folder, branch=branch)
        monkeypatch.undo()
        first.append(one.turn(1, "a")[2])

    monkeypatch.setattr("cachewatch.git.shared_recording.init_repository", make_later)
    assert two.shared.fetch() == first[0]
    assert two.turn(2, "b")[2] == history(bare)[-1]
    assert [path.name for path in bare.parent.glob("*shared*")] == [bare.name]


def test_a_path_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    host = Host(tmp_path / "one.git", tmp_path / ("x" * 300))
    with pytest.raises(SourceError, match="x: File name too long"):
        host.shared.fetch()


def test_what_the_shared_repository_lost_is_pushed_again(one: Host, bare: Path) -> None:
    first = one.turn(1, "a")[1]
    second = one.turn(2, "b")[1]
    git(bare, "update-ref", "refs/heads/main", str(first))
    assert one.turn(3) == (first, None, second)
    assert history(bare) == [first, second]


def test_a_repository_of_something_else_is_left_alone(one: Host, bare: Path) -> None:
    git(bare.parent, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    tree = git(bare, "hash-object", "-t", "tree", "-w", "/dev/null")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    commit = git(bare, *identity, "commit-tree", "-m", "code", tree)
    git(bare, "update-ref", "refs/heads/main", commit)
    one.record(1, "a")
    with pytest.raises(BrokenSource, match=r"shared.git: \w{10} was not recorded by cachewatch"):
        one.shared.fetch()
    with pytest.raises(NotFollowed):
        one.shared.push()
    assert history(bare) == [commit]
    assert len(history(one.folder)) == 1


def test_a_lock_that_a_host_left_there_when_it_died_goes_after_an_hour(one: Host, bare: Path) -> None:
    """Until then it may be that of a git on another host."""
    one.turn(1, "a")
    lock = bare / "refs/heads/main.lock"
    lock.touch()
    second = one.record(2, "b")
    with pytest.raises(SourceError, match="refuses what is pushed: failed to update ref"):
        one.shared.push()
    os.utime(lock, (START, START))
    assert one.turn(3) == (None, None, second)


def _is_run(bare: Path, ran: Path, push: Callable[[], object]) -> bool:
    """Let the shared repository have hooks and commands in its configuration, and tell whether a push runs one."""
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        hook = bare / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        hook.chmod(0o755)
    git(bare, "config", "core.alternateRefsCommand", f"echo alternates >> {ran};:")
    git(bare.parent, "init", "-q", "--bare", "alternate.git")
    (bare / "objects/info/alternates").write_text(f"{bare.parent}/alternate.git/objects\n")
    push()
    return ran.exists()


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_push_on_this_machine_runs_nothing_of_the_shared_repository(
    one: Host, tmp_path: Path, bare: Path, prefix: str
) -> None:
    one.turn(1, "a")
    other = Host(tmp_path / "three.git", f"{prefix}{bare}")
    assert not _is_run(bare, tmp_path / "ran", lambda: other.turn(2, "b"))
    assert history(bare) == history(other.folder)
    one.record(3, "c")
    one.shared.fetch()
    one.record(4)
    plain = lambda: git(one.folder, "push", "-q", str(bare), "main")  # noqa: E731
    assert _is_run(bare, tmp_path / "ran", plain), "a git that is not kept from it does"
    assert set((tmp_path / "ran").read_text().split()) > {"pre-receive", "alternates"}


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_nothing_is_pushed_where_the_configuration_names_hooks(
    one: Host, tmp_path: Path, bare: Path, prefix: str
) -> None:
    """Git 2.54 and newer run them, and one that an included file names is as bad."""
    one.turn(1, "a")
    other = Host(tmp_path / "three.git", f"{prefix}{bare}")
    other.shared.fetch()
    (bare / "more").write_text('[core] x = y [HOOK "a"]\n\tevent = reference-transaction\n\tcommand = touch ran\n')
    git(bare, "config", "include.path", "more")
    other.record(2, "b")

    with pytest.raises(BrokenSource, match="its configuration names commands as hooks"):
        other.shared.push()
    assert len(history(bare)) == 1


def test_many_pushes_leave_few_files(one: Host, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_repository, "_MOST_LOOSE", 20)
    for moment in range(12):
        one.turn(moment, f"package-{moment}")
    counted = dict(line.split(": ") for line in git(bare, "count-objects", "-v").splitlines())
    assert int(counted["count"]) <= 20
    assert len(history(bare)) == 12


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """An empty repository in a folder that a server serves, and to which it lets clients push."""
    folder = tmp_path / "served/shared.git"
    git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", str(folder))
    git(folder, "config", "http.receivepack", "true")
    return folder


@pytest.mark.usefixtures("loopback")
def test_over_http_with_a_password(tmp_path: Path, served: Path) -> None:
    """Which the server checks, and no message contains."""
    store, faults = tmp_path / "store", Faults(user="me:s3cret")
    with smart_http(served.parent, faults) as url:
        store.write_text(url.replace("http://", "http://me:s3cret@") + "\n")
        host = Host(tmp_path / "one.git", f"{url}/shared.git", Access(store=store))
        assert host.turn(1, "a")[2] == history(served)[0]
        stranger = Host(tmp_path / "two.git", f"{url}/shared.git")
        with pytest.raises(BrokenSource, match="requires authentication"):
            stranger.shared.fetch()
    with pytest.raises(Unreachable) as caught:
        host.shared.fetch()
    assert "s3cret" not in str(caught.value)
    assert host.record(2, "b")


@pytest.mark.usefixtures("loopback")
def test_a_server_that_refuses_the_push_is_quoted(tmp_path: Path, served: Path) -> None:
    """A protected branch, say; nothing is lost, and it is tried again."""
    hook = served / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with smart_http(served.parent, Faults()) as url:
        host = Host(tmp_path / "one.git", f"{url}/shared.git")
        host.record(1, "a")
        host.shared.fetch()
        with pytest.raises(SourceError, match="refuses what is pushed: pre-receive hook declined"):
            host.shared.push()
        hook.unlink()
        assert host.turn(2)[2] == history(served)[0]
