"""A backup is whole, and what it makes cachewatch tell again is known by its id."""

import os
import shutil
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, opened, records
from station import Site, begun, config

from cachewatch.store import health_and_alerts as health
from cachewatch.store import transactions_and_sqlite
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.health_and_alerts import Counter
from cachewatch.store.transactions_and_sqlite import NAME

CONFIG = config("""\
channels: {box: {type: maildir, path: "{folder}/out/Maildir", from: cachewatch@example.org}}
operators: {channels: []}
subscriptions: {ml: {to: [ann@example.org], channels: [box], changes: [all]}}
""")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds one package after the other; the first pass was made."""
    packages = [{"zlib": records([1])}]
    packages += [packages[-1] | {f"new-{number}": records([number])} for number in (2, 3)]
    packages[2] |= packages[1]
    (tmp_path / "out").mkdir()
    return begun(tmp_path, [catalogue(each) for each in packages], CONFIG)


def test_a_backup_is_whole_while_others_write(site: Site, run: Run) -> None:
    config, copy = site.file, site.folder / "copy.db"
    service = site.open()
    with service.database.write() as connection:
        health.count(connection, Counter("seen"))
    shutil.copy(site.folder / "state" / NAME, site.folder / "naive.db")
    assert run("state", "backup", copy, "--config", config).exit_code == 0
    service.database.close()
    assert [_seen(copy), _seen(site.folder / "naive.db")] == [1, 0]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "choose another file name" in run("state", "backup", copy, "--config", config).error
    assert "no such folder" in run("state", "backup", site.folder / "none" / "copy.db", "--config", config).error


def test_a_backup_replaces_nothing(site: Site, run: Run) -> None:
    """Neither a file whose name is like its own, nor a link to nowhere."""
    config, copy, link = site.file, site.folder / "copy.db", site.folder / "link.db"
    other = site.folder / "copy.db.new"
    other.write_text("a file of somebody else\n")
    link.symlink_to(site.folder / "nowhere")
    before = {path.name for path in site.folder.iterdir()}
    assert run("state", "backup", copy, "--config", config).exit_code == 0
    assert "already exists" in run("state", "backup", link, "--config", config).error_of(2)
    assert (other.read_text(), link.is_symlink()) == ("a file of somebody else\n", True)
    assert {path.name for path in site.folder.iterdir()} == before | {"copy.db"}


def test_a_backup_that_fails_leaves_nothing(site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, before = site.folder / "copy.db", {path.name for path in site.folder.iterdir()}
    copied = transactions_and_sqlite._flush

    def flush(path: Path) -> None:
        copied(path)
        copy.write_text("of another one\n")

    monkeypatch.setattr(transactions_and_sqlite, "_flush", flush)
    assert "copy.db: already exists" in run("state", "backup", copy, "--config", site.file).error_of(5)
    assert copy.read_text() == "of another one\n"
    assert {path.name for path in site.folder.iterdir()} == before | {"copy.db"}


def test_a_backup_survives_a_power_cut(site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are flushed before it has its name, and the name after that."""
    copy = site.folder / "copies" / "copy.db"
    copy.parent.mkdir()
    flushed: list[tuple[Path, bool]] = []
    fsync = os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        flushed.append((Path(f"/proc/self/fd/{handle}").readlink(), copy.exists()))

    monkeypatch.setattr(os, "fsync", flush)
    assert run("state", "backup", copy, "--config", site.file).exit_code == 0
    ours = [(path.is_dir(), is_named) for path, is_named in flushed if path.is_relative_to(copy.parent)]
    assert ours == [(False, False), (True, True)]


def test_what_is_told_again_after_a_restore_has_its_old_id(site: Site, run: Run) -> None:
    config, copy = site.file, site.folder / "copy.db"
    assert run("state", "backup", copy, "--config", config).exit_code == 0
    site.publish(1)
    for _ in range(2):
        site.run()  # by one clock: minutes that a digest names are part of its id
        assert [each.state for each in site.deliveries()] == [DeliveryState.SENT]
        for path in (site.folder / "state").glob("cachewatch.db*"):
            path.unlink()
        shutil.copy(copy, site.folder / "state/cachewatch.db")
    assert len(_ids(site)) == 1
    site.run(2)
    assert len(_ids(site)) == 2
    (newest,) = site.told()
    assert "new-2" in newest
    assert "new-3" in newest


def _ids(site: Site) -> set[str]:
    found = (site.folder / "out" / "Maildir" / "new").iterdir()
    return {str(message_from_bytes(path.read_bytes(), policy=policy.default)["Message-ID"]) for path in found}


def _seen(path: Path) -> float:
    with opened(path) as connection:
        query = "SELECT coalesce(sum(value), 0) FROM counters WHERE name LIKE '%seen%'"
        (found,) = connection.execute(query).fetchone()
    return float(found)
