"""Two hosts that record one build cache into a shared repository, as processes that are killed at any moment."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from caches import database, installs, node, write_v2

CONFIG = """\
version: 1
state: {folder}/{host}
sources: {ours: {type: buildcache, url: {folder}/cache, push: {git: {folder}/shared.git}}}
channels: {files: {type: file, path: "{folder}/out/{host}/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: []}
subscriptions: {all: {channels: [files], changes: [all], when: each revision}}
"""
HOSTS = ("one", "two")
ROUNDS = 14


class Cache:
    """A build cache that only grows, and the hosts that record it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = ["zlib"]
        for host in HOSTS:
            config = folder / f"{host}.yaml"
            config.write_text(CONFIG.replace("{folder}", str(folder)).replace("{host}", host))
            config.chmod(0o600)

    def publish(self) -> None:
        """Add a package."""
        self.packages.append(f"package-{len(self.packages)}")
        write_v2(self.folder / "cache", database(installs(*map(node, self.packages)), version="7"))

    def once(self, host: str) -> "subprocess.Popen[bytes]":
        """Begin a pass of a host."""
        command = [sys.executable, "-m", "cachewatch", "once", "--config", str(self.folder / f"{host}.yaml")]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def killed_once(self, host: str, seconds: float) -> None:
        """Let a host do a pass for so long at most."""
        process = self.once(host)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, repository: str, *question: str) -> str:
        """Ask git about a repository; return "" where it has no answer."""
        git = ["git", "-C", str(self.folder / repository), *question]
        return subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_hosts_that_are_killed_at_random_lose_nothing_that_was_pushed(tmp_path: Path) -> None:
    """In the end both have one history, with everything that anybody ever saw in the shared repository."""
    dice, cache, seen = random.Random(1), Cache(tmp_path), set[str]()
    for _ in range(ROUNDS):
        cache.publish()
        cache.killed_once(dice.choice(HOSTS), dice.uniform(0.4, 2.5))
        seen.add(cache.ask("shared.git", "rev-parse", "--verify", "--quiet", "main"))
    cache.publish()
    for host in HOSTS * 2:
        assert cache.once(host).wait(300) == 0, (tmp_path / "log").read_text()
    assert "source.unshared" not in (tmp_path / "log").read_text()
    repositories = ("shared.git", *(f"{host}/sources/ours.git" for host in HOSTS))
    (found,) = {cache.ask(repository, "rev-list", "main") for repository in repositories}
    assert seen - {""} <= set(found.split())
    for repository in repositories:
        assert subprocess.run(["git", "-C", tmp_path / repository, "fsck"], check=False).returncode == 0
    recorded = cache.ask("shared.git", "ls-tree", "--name-only", "main:_cache/develop").split()
    assert {*recorded} >= {*cache.packages}
