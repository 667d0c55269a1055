"""Live build caches watched by a daemon: from a folder, over HTTP, and as a catalogue."""

import json
import re
import shutil
import signal
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from caches import catalogued, database, installs, node, put, write_v2, write_v3
from conftest import ROOT, Run
from helpers import catalogue, records, secret
from servers import Asked, Says, files, serving
from station import DESK_CONFIG, Site, log, running, wait_for
from tools import finding_commands
from upstream import git

from cachewatch.service.passes_and_leadership import poll

pytestmark = pytest.mark.usefixtures("loopback")

CONFIG = """\
version: 1
state: {folder}/state
sources:
  near: {type: buildcache, url: {folder}/near, tag: mine, poll: {every: 1s, jitter: 0s}}
  far: {type: buildcache, url: "{url}/far", stack: ours, poll: {every: 1s, jitter: 0s}}
  many: {type: catalogue, url: "{url}/cache_spack_io_index.json", poll: {every: 1s, jitter: 0s}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [json]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk]}
subscriptions:
  near: {channels: [files], changes: [all], match: {sources: [near]}}
  far: {channels: [files], changes: [all], match: {sources: [far], packages: [cmake], stacks: [ours]}}
  many: {channels: [files], changes: [all], match: {sources: [many], tags: [develop]}}
"""


def publish(folder: Path, *names: str) -> None:
    """Let all three caches hold these packages."""
    found = installs(*map(node, names))
    write_v2(folder / "near", database(found, version="7"))
    write_v3(folder / "far", database(found), compression="gzip")
    listed = {"develop": [catalogued(folder, "develop", "root", found)]}
    put(folder / "cache_spack_io_index.json", json.dumps(listed).encode())


def published(folder: Path) -> Site:
    """Return a site whose three caches hold one package."""
    publish(folder, "zlib")
    return Site(folder, [catalogue({"zlib": records([1])})])


def digests(site: Site) -> dict[str, dict[str, Any]]:
    paths = list(site.folder.glob("out/*/*.json"))
    found = {path.parent.name: json.loads(path.read_bytes()) for path in paths}
    assert len(paths) == len(found), "each change is told once"
    return found


@pytest.mark.slow
def test_live_caches_are_polled_and_told_and_can_be_looked_at_again(tmp_path: Path, run: Run) -> None:
    """Each change is told once over several polls, and `diff` shows it again; digests have no path of the server."""
    site = published(tmp_path)
    with serving(files(tmp_path)) as server:
        site.configure(CONFIG.replace("{url}", server.url))
        with running(site, "daemon") as daemon:
            wait_for(lambda: log(site).count("stream.begun") == 3)
            publish(tmp_path, "zlib", "cmake")
            wait_for(lambda: len(digests(site)) == 3)
            polls = log(site).count("source.polled")
            wait_for(lambda: log(site).count("source.polled") >= polls + 3)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(120) == 0
    status = json.loads(run("status", "--format", "json", "--config", tmp_path / "cachewatch.yaml").output)
    failures = [(source["name"], source["failures"], source["error"]) for source in status["sources"]]
    assert failures == [(name, 0, "") for name in ("near", "far", "many")]
    for name, digest in digests(site).items():
        assert str(tmp_path) not in json.dumps(digest)
        span = digest["spans"][0]
        recorded = tmp_path / "state/sources" / f"{name}.git"
        output = run("diff", span["before"]["revision"], span["after"]["revision"], "--repo", recorded).output_of(0)
        assert "cmake" in output, name
        assert "zlib" not in output, "nothing became of it"


def test_a_recorded_history_is_no_clone(tmp_path: Path) -> None:
    """What was recorded cannot be had again, though the source becomes a repository."""
    site = published(tmp_path)
    recorded = tmp_path / "state/sources/near.git"
    source = "public: {git: {folder}/upstream.git, stale_after: 4000d}"
    cache = DESK_CONFIG.replace(source, "near: {type: buildcache, url: {folder}/near, tag: mine}")
    site.configure(cache)
    site.run()
    before = git(recorded, "rev-parse", "HEAD")

    site.configure(DESK_CONFIG.replace("public:", "near:"))
    site.run(later=timedelta(hours=1))
    assert git(recorded, "rev-parse", "HEAD") == before
    assert "give the source of the repository another name" in site.said.getvalue()

    site.configure(cache)
    publish(tmp_path, "zlib", "cmake")
    site.run(later=timedelta(hours=1))
    assert git(recorded, "rev-parse", "HEAD~1") == before


def test_a_cache_is_asked_with_the_credentials_that_are_configured(tmp_path: Path) -> None:
    site = published(tmp_path)
    secret(tmp_path / "secret", "s3cret")
    with serving(files(tmp_path)) as server:
        config = CONFIG.replace("stack: ours,", "stack: ours, credentials: {token_file: secret},")
        site.configure(config.replace("{url}", server.url))
        context = site.open()
        assert poll(context, context.config.sources["far"])
    assert {asked.headers.get("authorization") for asked in server.asked} == {"Bearer s3cret"}


def test_a_poll_of_a_slow_cache_ends_in_its_time(tmp_path: Path) -> None:
    """However many indexes are listed, and each of them may take as long."""
    site = Site(tmp_path, [catalogue({"zlib": records([1])})])
    listed = {f"v{n}": [{"label": "root", "url": f"s3://x/v{n}/build_cache/index.json"}] for n in range(20)}
    put(tmp_path / "cache_spack_io_index.json", json.dumps(listed).encode())
    answers = files(tmp_path)

    def slowly(asked: Asked) -> Says:
        return replace(answers(asked), wait=0.0 if asked.path.endswith("_index.json") else 0.6)

    with serving(slowly) as server:
        poll_for = 'cache_spack_io_index.json", poll: {timeout: 1s, '
        site.configure(CONFIG.replace('cache_spack_io_index.json", poll: {', poll_for).replace("{url}", server.url))
        context = site.open()
        assert not poll(context, context.config.sources["many"])
        assert len(server.asked) <= 3


PAGE = (ROOT / "docs" / "buildcaches.md").read_text()
NIGHTS = ("4-variant-flip", "6-pruned-to-current")


def plain(text: str) -> str:
    """Leave out what is another one each time: names of revisions, times, and how far apart they are, if at all."""
    text = re.sub(r"\b[0-9a-f]{10}\b", "REVISION", text)
    return re.sub(r"^(develop  )\d.*\n(  .*\n)?|\d{4}-\d\d-\d\d \d\d:\d\dZ", r"\1TIME\n", text).strip()


@pytest.mark.slow
@pytest.mark.nightly
def test_the_ten_minutes(buildcaches: Path, tmp_path: Path) -> None:
    """Each command of the page, one after the other, prints what the page says."""
    environment = finding_commands() | {"COLUMNS": "80"}
    shutil.copy(buildcaches / "v3/env/2/spack.lock", tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    pattern = re.compile(r"^\$ (.*?)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
    commands = [pair for block in blocks for pair in pattern.findall(block)]
    assert len(commands) == 5
    nights = iter(NIGHTS)
    for command, output in commands:
        if command == "cachewatch record site":
            (tmp_path / "site").unlink(missing_ok=True)
            (tmp_path / "site").symlink_to(buildcaches / "v3" / next(nights))
        how: dict[str, Any] = {"shell": True, "capture_output": True, "text": True}
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, **how)
        assert all(line.startswith("cachewatch: --fail-on lost: cw-solver@2.0.0/") for line in done.stderr.splitlines())
        assert plain(done.stdout) == plain(output), command
