"""Commands that only read work where the state cannot be written: for another user, and on a read-only disk."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

import pytest
from conftest import Result, Run
from helpers import catalogue, opened, records, secret
from station import CONFIG, Site, log, running, wait_for

from cachewatch.__main__ import main
from cachewatch.errors import StateError
from cachewatch.service.passes_and_leadership import run_pass
from cachewatch.store import schema
from cachewatch.store.schema import FORM
from cachewatch.store.transactions_and_sqlite import NAME, SqliteToRead

_NOBODY = 65534
HOURLY = CONFIG.replace("4000d", "4000d, poll: {every: 1h}")
# What each command prints when it could read the state.
COMMANDS: Mapping[tuple[str, ...], str] = {
    ("status",): "public  ",
    ("status", "--format", "json"): '"sources"',
    ("deliveries", "list"): "sent",
    ("deliveries", "show", "1"): "1 attempt",
    ("deliveries", "show", "1", "--raw"): "new",
    ("preview", "ml", "--since", "HEAD~1"): "new",
    ("config", "explain", "new"): "ml  would be notified",
}


@pytest.fixture
def site() -> Iterator[Site]:
    """A state that has told of a package; in a folder that every user may pass."""
    folder = Path(mkdtemp(prefix="cachewatch-test-"))
    folder.chmod(0o755)
    base = {"zlib": records([1])}
    made = Site(folder, [catalogue(base), catalogue(base | {"new": records([2])})], HOURLY)
    for number in (0, 1):
        made.publish(number)
        context = made.open()
        assert run_pass(context).failed_sources == 0
        context.database.close()
    yield made
    shutil.rmtree(folder)


@contextmanager
def closed(site: Site) -> Iterator[None]:
    """Nobody works on the state."""
    assert names(site) == [NAME]
    yield


@contextmanager
def in_use(site: Site) -> Iterator[None]:
    """A daemon does, and what it wrote last is in the log."""
    with running(site, "daemon"):
        wait_for(lambda: "source.polled" in log(site))
        yield


@contextmanager
def killed(site: Site) -> Iterator[None]:
    """A daemon did, and what it wrote last is in the log."""
    with running(site, "daemon") as daemon:
        wait_for(lambda: "source.polled" in log(site))
        daemon.send_signal(signal.SIGKILL)
    assert names(site) == [NAME, f"{NAME}-shm", f"{NAME}-wal"]
    yield


def names(site: Site) -> list[str]:
    return sorted(path.name for path in (site.folder / "state").glob(f"{NAME}*"))


def forget_polls(site: Site) -> None:
    """Let a daemon poll at once, though the clock of the site stood still; let all may read what it writes."""
    with opened(site.folder / "state" / NAME) as connection:
        connection.execute("UPDATE sources SET polled_at = '2020-01-01T00:00:00.000000Z'")
    let_others_read(site.folder / "state")


def let_others_read(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def as_another_user(folder: Path, *arguments: str) -> Result:
    """Run a command in a process that may not write here; what it loads was loaded before."""
    output, error = folder / "output", folder / "error"
    pid = os.fork()
    if pid == 0:
        _become(arguments, output, error)
    _, status = os.waitpid(pid, 0)
    return Result(os.waitstatus_to_exitcode(status), output.read_text("utf-8", "replace"), error.read_text())


def _become(arguments: tuple[str, ...], output: Path, error: Path) -> NoReturn:
    try:
        for number, path in ((1, output), (2, error)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
        sys.argv = ["cachewatch", *arguments]
        main()
    except SystemExit as ended:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    finally:
        os._exit(99)


@pytest.mark.slow_cases
@pytest.mark.parametrize("how", [in_use, killed])
def test_another_user_reads(site: Site, run: Run, how: Callable[[Site], AbstractContextManager[None]]) -> None:
    """Each command prints what it prints for the owner, and leaves everything as it is."""
    config = ("--config", str(site.file))
    site.configure(HOURLY)
    for command in COMMANDS:
        assert run(*command, *config).exit_code == 0
    forget_polls(site)
    site.file.chmod(0o644)
    with how(site):
        let_others_read(site.folder / "state")
        if os.geteuid() != 0:
            (site.folder / "state").chmod(0o555)
        before = names(site)
        for command, expected in COMMANDS.items():
            done = as_another_user(site.folder, *command, *config)
            assert (done.exit_code, expected in done.output) == (0, True), (command, done)
        assert names(site) == before
        (site.folder / "state").chmod(0o755)


@pytest.fixture
def view(site: Site) -> Iterator[Path]:
    """The state once more, where it cannot be written."""
    folder = site.folder / "view"
    folder.mkdir()
    mounts = [["--bind", str(site.folder / "state"), str(folder)], ["-o", "remount,bind,ro", str(folder)]]
    if os.geteuid() != 0 or subprocess.run(["mount", *mounts[0]], capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    subprocess.run(["mount", *mounts[1]], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow_cases
@pytest.mark.parametrize("how", [in_use, killed])
def test_a_read_only_mount_is_read(
    site: Site, view: Path, run: Run, tmp_path: Path, how: Callable[[Site], AbstractContextManager[None]]
) -> None:
    """As in a container that only watches; a backup can be made of it as well."""
    forget_polls(site)
    text = site.file.read_text().replace(f"{site.folder}/state", str(view))
    config = secret(site.folder / "view.yaml", text)
    with how(site):
        for command, expected in COMMANDS.items():
            done = run(*command, "--config", config)
            assert (done.exit_code, expected in done.output) == (0, True), (command, done)
        assert run("state", "backup", tmp_path / "copy.db", "--config", config).exit_code == 0
    with opened(tmp_path / "copy.db") as connection:
        assert connection.execute("SELECT state FROM deliveries").fetchall() == [("sent",)]


def test_a_state_that_nobody_works_on_is_read_only_by_who_may_write_there(site: Site, view: Path) -> None:
    """SQLite has to make its shared memory; what to do is said."""
    said = r"SQLite needs cachewatch\.db-shm .*: run this while the daemon"
    with closed(site), pytest.raises(StateError, match=said):
        SqliteToRead(view)
    assert names(site) == [NAME]
    with closing(SqliteToRead(site.folder / "state")) as database, database.read() as connection:
        assert connection.exec_driver_sql("SELECT state FROM deliveries").all() == [("sent",)]


def test_a_state_that_may_not_be_read(site: Site, run: Run) -> None:
    """Which user is asked for, and what to do; what may not be read or written is one mistake, with exit code 2."""
    config = ("--config", str(site.file))
    site.file.chmod(0o644)
    explain = ("config", "explain", "new", "for user")
    for *command, advice in (("status", "for user"), explain, ("once", "choose another")):
        assert run(*command, *config).exit_code == 0
        (site.folder / "state").chmod(0o700 if os.geteuid() == 0 else 0o000)
        done = as_another_user(site.folder, *command, *config)
        (site.folder / "state").chmod(0o700)
        assert (done.exit_code, advice in done.error.partition("Permission denied")[2]) == (2, True), done
    (site.folder / "state").chmod(0o777)
    (site.folder / "state" / NAME).chmod(0o666)
    (site.folder / "closed").mkdir()
    (site.folder / "closed").chmod(0o555)
    done = as_another_user(site.folder, "state", "backup", f"{site.folder}/closed/copy.db", *config)
    assert (done.exit_code, "closed/copy.db: Permission denied; nothing" in done.error) == (2, True), done


@pytest.mark.parametrize("form", [FORM + 1, "of before"])
def test_who_only_reads_upgrades_nothing(site: Site, run: Run, form: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(form, int):
        monkeypatch.setattr(schema, "FORM", form)
    else:
        with opened(site.folder / "state" / NAME) as connection:
            connection.execute("DROP TABLE alembic_version")
    before = (site.folder / "state" / NAME).read_bytes()
    advice = "`cachewatch once` or the daemon of this one upgrades it" if isinstance(form, int) else "begin a new one"
    for command in (*COMMANDS, ("state", "backup", site.folder / "copy.db")):
        assert advice in run(*command, "--config", site.file).error_of(5)
    assert (site.folder / "state" / NAME).read_bytes() == before


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_state_that_is_lost_is_not_called_new(tmp_path: Path, is_empty: bool) -> None:
    """Who begins anew reports again what was reported."""
    if is_empty:
        (tmp_path / NAME).touch()
    with pytest.raises(StateError, match="run `cachewatch once` first"):
        SqliteToRead(tmp_path)
    assert str(tmp_path / NAME) not in {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}
    (tmp_path / "sources/public.git").mkdir(parents=True)
    with pytest.raises(StateError, match="the state is lost, but its clones are there; restore a backup of it"):
        SqliteToRead(tmp_path)
