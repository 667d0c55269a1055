"""What all tests share."""

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from archives import unpack
from hypothesis import HealthCheck, settings
from tools import program, summary
from truths import histories, truths
from upstream import Upstream, specs

from cachewatch.__main__ import main
from cachewatch.cli import init_and_demo
from cachewatch.runtime.worker import Worker

if TYPE_CHECKING:
    import postgres as postgres_server
    from readers import Made

    from cachewatch.config.value_types_and_secrets import PostgresAddress

__all__ = ["histories", "truths"]

HERE = Path(__file__).parent
ROOT = HERE.parent
# `make test` leaves them out.
SLOW = ("browser", "crash", "fuzz", "model")
# Of these, `make nightly` alone runs what is slow: faults of two hosts, growth with the size of a catalogue, and what is
# tried with many documents, clocks, damages, kills or months. Of every slow test, it runs all cases but the first alone.
NIGHTLY = (
    *("hosts", "model", "test_damaged_rows", "test_kills", "test_other_hosts", "test_place_verdicts"),
    *("test_retention", "test_scaling", "test_standby", "test_strangers", "test_told_weeks"),
)
STATES = ("sqlite", "postgresql")

# All tests share one process, which is too large to be forked for each pass.
Worker.may_fork = False
# Processes that are started afresh would load pytest first, as what the main program needs.
sys.modules["__main__"].__file__ = sys.modules["__main__"].__spec__ = None

settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
# `make test` takes this one.
settings.register_profile("quick", settings.get_profile("default"), max_examples=20)
settings.load_profile("default")


@dataclass(frozen=True)
class Result:
    """What a command did."""

    exit_code: int
    output: str
    error: str

    def error_of(self, exit_code: int) -> str:
        """Return the error of a command that must have ended with this code; one that was refused printed nothing."""
        assert self.exit_code == exit_code, self.error
        assert exit_code not in (2, 3) or not self.output
        return self.error

    def output_of(self, exit_code: int) -> str:
        """Return the output of a command that must have ended with this code."""
        assert self.exit_code == exit_code, self.error
        return self.output

    def changeset(self, exit_code: int = 0) -> Any:
        """Return the only changeset in the JSON of a command that must have ended with this code."""
        (found,) = json.loads(self.output_of(exit_code))["changesets"]
        return found


def unprivileged(*arguments: object, cwd: Path | None = None) -> Result:
    """Run a command in a process that may do no more than any user, as the superuser may."""
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    command = [*drop, sys.executable, "-m", "cachewatch", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, text=True)
    return Result(done.returncode, done.stdout, done.stderr)


Run = Callable[..., Result]
Golden = Callable[[str, str], str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden files be written instead of compared."""
    parser.addoption(
        "--rewrite-golden", action="store_true", help="write what is as what should be; review it with git diff"
    )
    said = "where the sites of tests have their state, if it may be either"
    parser.addoption("--state", choices=STATES, default=STATES[0], help=said)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that are marked so with a state in each database."""
    if metafunc.definition.get_closest_marker("both_states"):
        metafunc.parametrize("_state", STATES, indirect=True)


@pytest.fixture(autouse=True)
def _state(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let sites have their state in PostgreSQL, if the mark or the option says so."""
    if getattr(request, "param", request.config.getoption("--state")) == STATES[0]:
        yield
    else:
        from station import Site  # noqa: PLC0415  few tests need it

        Site.address = request.getfixturevalue("address")
        yield
        Site.address = None
    if "station" in sys.modules:
        opened = sys.modules["station"].Site.opened
        while opened:
            opened.pop().close()


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Let no test log to the stream of another one, which may be closed."""
    loggers = [logging.getLogger(name) for name in ("cachewatch", "apscheduler")]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what lies in folders of slow tests, cases of PostgreSQL, and what `slow_cases` says; and what is nightly."""
    if config.getoption("--state") != STATES[0]:
        left_out = [item for item in items if item.get_closest_marker("only_sqlite")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    has_one: set[str] = set()
    has_slow_one: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        is_another = name in has_one and item.get_closest_marker("slow_cases") is not None
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if _folder(item.path) in SLOW or is_another or parameters.get("_state") == STATES[1]:
            item.add_marker("slow")
        is_slow = item.get_closest_marker("slow") is not None and _folder(item.path) != "crash"
        if _folder(item.path) in NIGHTLY or (is_slow and (item.path.stem in NIGHTLY or name in has_slow_one)):
            item.add_marker("nightly")
        has_one.add(name)
        if is_slow:
            has_slow_one.add(name)


def _folder(path: Path) -> str:
    return path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line or two what was skipped."""
    is_ci = bool(os.environ.get("CI"))
    for line in summary(_skipped(terminalreporter)):
        terminalreporter.write_line(line, yellow=not is_ci, red=is_ci)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where everything should run, and something was skipped."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and isinstance(terminal, pytest.TerminalReporter) and _skipped(terminal):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(terminal: pytest.TerminalReporter) -> list[str]:
    """Return the reason of each test that was skipped or was expected to fail."""
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminal.stats.get("skipped", [])]
    return reasons + [f"expected to fail: {report.nodeid}" for report in terminal.stats.get("xfailed", [])]


@pytest.fixture(scope="session")
def postgres() -> Iterator["postgres_server.Server"]:
    """A PostgreSQL server for all tests of this process."""
    import postgres as postgres_server  # noqa: PLC0415  few tests need it

    with postgres_server.running(Path(program("postgres")).resolve().parent) as server:
        yield server


@pytest.fixture
def address(postgres: "postgres_server.Server") -> Iterator["PostgresAddress"]:
    """The address of an empty PostgreSQL database."""
    made = postgres.new()
    yield made
    postgres.drop(made)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return what the file of that name in tests/golden says; --rewrite-golden writes the given text there before."""
    is_written = request.config.getoption("--rewrite-golden")

    def expected(name: str, text: str) -> str:
        file = ROOT / "tests" / "golden" / name
        if is_written:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        return file.read_text("utf-8")

    return expected


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line as its entry point does."""

    def run_command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cachewatch", *map(str, arguments)])
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        sys.stdout.flush()
        output, error = capfdbinary.readouterr()
        code = end.value.code
        return Result(code if isinstance(code, int) else 0, output.decode(), error.decode())

    return run_command


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Keep what a person's shell says, and their cache, out of every test."""
    for name in ("NO_COLOR", "COLUMNS", "GIT_DIR", "GIT_ALLOW_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mask = os.umask(0)
    os.umask(mask)
    yield
    os.umask(mask)  # commands of the service keep everything to themselves


_connect = socket.socket.connect


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of ours reaches beyond this machine."""

    def refuse(self: socket.socket, address: Any) -> None:
        # Processes of ours speak to each other.
        assert self.family == socket.AF_UNIX, f"a test connects to {address!r}"
        _connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def loopback(_no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test connect to servers that it runs on this machine, and to no others."""

    def connect(self: socket.socket, address: Any) -> None:
        is_ours = self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1")
        assert is_ours, f"a test connects to {address!r}"
        _connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def demo_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of `cachewatch demo`."""
    folder = tmp_path_factory.mktemp("demo") / "catalogue.git"
    init_and_demo.build_demo(folder)
    return folder


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of real documents; CACHEWATCH_DOCUMENTS names another one."""
    return _data("documents", tmp_path_factory)


@pytest.fixture(scope="session")
def buildcaches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of real build caches; CACHEWATCH_BUILDCACHES names another one."""
    return _data("buildcaches", tmp_path_factory)


def _data(name: str, factory: pytest.TempPathFactory) -> Path:
    if elsewhere := os.environ.get(f"CACHEWATCH_{name.upper()}"):
        return Path(elsewhere)
    base = factory.getbasetemp()
    # Each process of pytest-xdist has a folder of its own beside those of the others.
    return unpack(name, base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Made":
    """Make readers of a site in the folder of this test."""
    from readers import Readers  # noqa: PLC0415  few tests need it

    return partial(Readers, tmp_path, monkeypatch)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """A repository upstream of one revision."""
    made = Upstream(tmp_path / "served" / "upstream.git")
    made.commit(specs(1, 2, 3))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The place of its clone."""
    return tmp_path / "state" / "source.git"
