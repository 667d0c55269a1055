"""A clone of our own that is fed for months: what it takes, what it keeps, and what breaks it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from upstream import Upstream, git, specs

from cachewatch.errors import BrokenSource, RefusedAddress, SourceError, UnknownRevision
from cachewatch.git import clone_locks_and_disk_space
from cachewatch.git.revision_names_and_times import resolve, resolve_upstream
from cachewatch.git.service_clone import ServiceClone
from cachewatch.git.tags_and_documents import compare_revisions, tags_of


def changed(clone: ServiceClone, before: str, after: str) -> list[str]:
    """Return the packages that differ, after reading both documents of each."""
    with_contents = []
    with closing(clone.open()) as repository:
        old, new = (resolve(repository, commit) for commit in (before, after))
        found = compare_revisions(repository, old, new, wanted_tag=lambda _: True, wanted_package=lambda _: True)
        for pair in found.pairs:
            for document in pair.difference.documents:
                assert all(found.readers.after.read([blob for blob in (document.before, document.after) if blob]))
                with_contents.append(document.package)
    return with_contents


@pytest.mark.parametrize("how", ["file", "no filter"])
def test_a_tag_of_git_is_fetched_when_it_is_named(tmp_path: Path, folder: Path, how: str) -> None:
    """It may be on another branch, and mean a commit that is not the newest; what upstream does not have is unknown."""
    upstream = Upstream(tmp_path / "upstream.git", can_filter=how != "no filter")
    first = upstream.commit(specs(1, 2))
    release = upstream.commit(specs(11, 2), first, branch="release")
    for name, commit in (("v1", release), ("releases/1.0", first)):
        git(upstream.path, "tag", "-a", "-m", "x", name, commit)
    git(upstream.path, "branch", "-D", "release")
    newest = upstream.commit(specs(1, 12))
    clone = ServiceClone(folder, upstream.url)
    clone.update()

    with closing(clone.open()) as repository:
        with pytest.raises(UnknownRevision):
            resolve(repository, "v1")
        for name, commit in (("v1", release), ("v1~1", first), ("refs/tags/releases/1.0", first), ("main~1", first)):
            assert resolve_upstream(repository, name).commit == commit, name
        for name in ("v2", "v1~9", "--upload-pack=x", "1999-01-01", "a b"):
            with pytest.raises(UnknownRevision):
                resolve_upstream(repository, name)
    clone.pin(release)
    assert changed(clone, release, newest) == ["package1", "package2"]
    assert clone.update().after == newest


@pytest.mark.parametrize("how", ["path", "file", "no filter"])
def test_a_branch_is_followed(tmp_path: Path, folder: Path, how: str) -> None:
    upstream = Upstream(tmp_path / "upstream.git", can_filter=how != "no filter")
    first = upstream.commit(specs(1, 2))
    clone = ServiceClone(folder, str(upstream.path) if how == "path" else upstream.url)

    assert clone.update().before is None
    assert clone.update().before == first
    second = upstream.commit(specs(11, 2, 3))
    update = clone.update()

    assert (update.branch, update.before, update.after, update.rewritten) == ("main", first, second, False)
    assert git(folder, "rev-parse", "HEAD") == second
    assert changed(clone, first, second) == ["package1", "package3"]


def test_only_the_newest_documents_are_fetched(upstream: Upstream, folder: Path) -> None:
    """The history has no contents, the newest revision has all of them, and each update brings what is new."""
    old = upstream.commit(specs(11, 2, 3))
    upstream.commit(specs(21, 2, 3))
    clone = ServiceClone(folder, upstream.url)
    clone.update()

    assert git(folder, "rev-list", "--objects", "--missing=print", "HEAD").count("?") == 2
    upstream.commit(specs(31, 2, 3))
    newest = clone.update().after
    assert git(folder, "rev-list", "--objects", "--missing=print", "HEAD").count("?") == 2
    assert git(folder, "rev-list", "--objects", "--missing=print", "--no-walk", "HEAD").count("?") == 0
    assert changed(clone, old, newest) == ["package1"]  # what is missing is fetched when it is read


def test_only_tags_that_are_watched_are_fetched(upstream: Upstream, folder: Path) -> None:
    upstream.commit(specs(1, 2) | specs(3, tag="develop-2025-06-01"))
    ServiceClone(folder, upstream.url, wanted_tag=lambda tag: tag == "develop").update()

    assert git(folder, "rev-list", "--objects", "--missing=print", "--no-walk", "HEAD").count("?") == 1


def test_a_rewritten_history_is_said_and_what_is_pinned_stays(upstream: Upstream, folder: Path) -> None:
    """After a force-push and a gc upstream, a pinned revision can still be compared, without upstream."""
    base = upstream.commit(specs(11, 2, 3))
    clone = ServiceClone(folder, upstream.url)
    clone.update()
    clone.pin(base)

    first = git(upstream.path, "rev-parse", f"{base}~1")
    forced = upstream.commit(specs(12, 5), first)
    upstream.forget()
    update = clone.update()
    assert (update.before, update.after, update.rewritten) == (base, forced, True)
    assert not clone.update().rewritten

    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "repack", "-a", "-d", "-q")
    git(folder, "prune", "--expire=now")
    upstream.path.rename(upstream.path.with_name("gone"))
    assert changed(clone, base, forced) == ["package1", "package2", "package3", "package5"]


def test_pins(upstream: Upstream, folder: Path) -> None:
    clone = ServiceClone(folder, upstream.url)
    first = clone.update().after
    second = upstream.commit(specs(1))
    clone.update()

    clone.pin(first)
    git(folder, "pack-refs", "--all")
    clone.pin(second)
    clone.pin(second)
    assert clone.pins() == {first, second}
    clone.unpin(first)
    clone.unpin(first)
    assert clone.pins() == {second}
    with pytest.raises(UnknownRevision, match="is not here"):
        clone.pin("0" * 39 + "1")


def test_a_branch_that_goes_is_an_error_that_changes_nothing(upstream: Upstream, folder: Path) -> None:
    clone = ServiceClone(folder, upstream.url, "main")
    first = clone.update().after
    clone.pin(first)

    git(upstream.path, "branch", "-m", "main", "trunk")
    with pytest.raises(BrokenSource, match=r"branch 'main' is not there .*there are trunk") as caught:
        clone.update()
    assert not caught.value.is_transient
    assert git(folder, "rev-parse", "HEAD") == first
    assert clone.pins() == {first}

    git(upstream.path, "branch", "-m", "trunk", "main")
    assert clone.update().after == first


def test_without_a_branch_head_is_followed(upstream: Upstream, folder: Path) -> None:
    clone = ServiceClone(folder, upstream.url)
    first = clone.update().after
    git(upstream.path, "branch", "-m", "main", "trunk")
    second = upstream.commit(specs(1), branch="trunk")
    update = clone.update()

    assert (update.branch, update.before, update.after, update.rewritten) == ("trunk", first, second, False)


def test_another_branch_in_the_configuration(upstream: Upstream, folder: Path) -> None:
    first = ServiceClone(folder, upstream.url, "main").update().after
    other = upstream.commit(specs(7), first, branch="other/branch")
    update = ServiceClone(folder, upstream.url, "other/branch").update()

    assert (update.branch, update.before, update.after, update.rewritten) == ("other/branch", first, other, False)


def test_names_that_no_branch_has(upstream: Upstream, folder: Path) -> None:
    for branch in ("--upload-pack=x", "a b", "a..b", "*", "main:x", "/x", "x.lock", "", "@{-1}", "ma\nin"):
        with pytest.raises(BrokenSource, match="cannot be the name of a branch"):
            ServiceClone(folder, upstream.url, branch).update()


def test_an_empty_repository(tmp_path: Path, folder: Path) -> None:
    upstream = Upstream(tmp_path / "upstream.git")
    clone = ServiceClone(folder, upstream.url, "main")

    with pytest.raises(SourceError, match="no commits yet") as caught:
        clone.update()
    assert caught.value.is_transient
    with pytest.raises(SourceError, match="has not been fetched yet"):
        clone.open()
    first = upstream.commit({"README": b"no documents\n"})
    assert clone.update().after == first
    with closing(clone.open()) as repository:
        assert not tags_of(repository, resolve(repository, first)).ids


def test_a_shallow_upstream_is_never_called_rewritten(upstream: Upstream, folder: Path, tmp_path: Path) -> None:
    """Where history is cut short, nothing is claimed about it."""
    upstream.commit(specs(11))
    shallow = tmp_path / "shallow.git"
    git(shallow, "clone", "--quiet", "--bare", "--depth=1", upstream.url, str(shallow))
    clone = ServiceClone(folder, str(shallow))
    clone.update()
    upstream.commit(specs(12))
    upstream.commit(specs(13))
    git(shallow, "fetch", "--quiet", "--depth=1", upstream.url, "+main:main")

    update = clone.update()
    assert update.before != update.after
    assert not update.rewritten


def test_two_at_once_take_turns(upstream: Upstream, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        updates = [pool.submit(ServiceClone(folder, upstream.url).update) for _ in range(4)]
    assert len({each.result().after for each in updates}) == 1

    with clone_locks_and_disk_space.locked(folder, seconds=1), pytest.raises(SourceError, match="another cachewatch"):
        ServiceClone(folder, upstream.url, timeout=0.2).update()


def test_addresses_that_are_refused(folder: Path) -> None:
    for address in ("ext::sh -c true", "https://user:secret@example.org/x.git"):
        with pytest.raises(RefusedAddress) as caught:
            ServiceClone(folder, address)
        assert "secret" not in str(caught.value)
