"""What `once` says at its end to the person who started it, and its exit code if a digest cannot be created."""

import json
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, records

from cachewatch.cli import once_and_daemon

CONFIG = """\
version: 1
state: state
sources: {public: {git: upstream.git, stale_after: 4000d, SINCE}}
channels:
  files: {type: file, path: "out/{subscription}/{key}.{ext}", formats: [txt]}
subscriptions:
  all: {channels: [files], when: each revision}
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a configuration whose source has two revisions, on a terminal."""
    base = {"zlib": records([1])}
    history(tmp_path / "upstream.git", catalogue(base), catalogue(base | {"new": records([2])}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CACHEWATCH_CONFIG", raising=False)
    monkeypatch.setattr(once_and_daemon, "is_on_terminal", lambda: True)
    return tmp_path


def configure(since: str) -> None:
    Path("cachewatch.yaml").write_text(CONFIG.replace(", SINCE", f", since: {since}" if since else ""))


@pytest.mark.usefixtures("configured")
def test_a_digest_was_sent(run: Run) -> None:
    """The summary names the source, the digest and where it went; the next one says that nothing was due."""
    configure("HEAD~1")
    first, second = run("once").output.splitlines(), run("once").output.splitlines()

    assert first[0] == "SOURCES"
    assert first[1].startswith("  public  ")
    assert first[1].endswith("fetched for the first time")
    assert first[2:4] == ["DIGESTS", "  all: new new 1.0"]
    assert first[4].endswith(".txt: sent")
    assert second[1].endswith(", unchanged")
    assert second[2:] == ["DIGESTS", "  all: nothing to send now; next with each new revision"]


@pytest.mark.usefixtures("configured")
def test_the_first_run_is_silent(run: Run) -> None:
    """Without `since:`, the first run says where it begins, and how to see a digest all the same."""
    configure("")

    said = "it begins here, next with each new revision (`cachewatch preview all --since yesterday` shows one)"
    assert f"  all: nothing to send now; {said}" in run("once").output


@pytest.mark.usefixtures("configured")
def test_a_digest_that_cannot_be_created(run: Run) -> None:
    """The exit code is 8, and the message names the key of the configuration."""
    configure("HEAD~60")
    result = run("once")

    assert result.exit_code == 8
    assert "  all: could not be created: sources.public.since: " in result.output
    assert "there is 1 revision before HEAD; the oldest is HEAD~1" in result.output


def test_a_source_that_cannot_be_read(configured: Path, run: Run) -> None:
    """What the source said stands beside its name."""
    configure("HEAD~1")
    run("once")
    (configured / "upstream.git").rename(configured / "gone.git")
    result = run("once")

    assert result.exit_code == 3
    assert "  public  cannot be read: " in result.output


@pytest.mark.usefixtures("configured")
def test_nothing_is_said_to_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cron and systemd read the log, which is on standard error."""
    configure("HEAD~1")
    monkeypatch.setattr(once_and_daemon, "is_on_terminal", lambda: False)

    assert run("once").output == ""


def test_init_checks_since(configured: Path, run: Run) -> None:
    """A revision that a repository on this machine does not have is a mistake now, not at the first run."""
    result = run("init", "--source", configured / "upstream.git", "--since", "nosuch", "--to", "a@example.org")

    assert (result.exit_code, "--since nosuch: " in result.error) == (2, True)
    assert not Path("cachewatch.yaml").exists()


@pytest.mark.parametrize(
    ("options", "state"),
    [((), 'state: "state"'), (("--state", "/srv/state"), 'state: "/srv/state"')],
)
@pytest.mark.usefixtures("configured")
def test_init_writes_where_the_state_is(run: Run, options: tuple[str, ...], state: str) -> None:
    """Another shell, with another environment, finds the same state."""
    assert run("init", "--to", "a@example.org", *options).exit_code == 0
    assert any(line.startswith(state) for line in Path("cachewatch.yaml").read_text().splitlines())


@pytest.mark.usefixtures("configured")
def test_explain_knows_which_packages_there_are(run: Run) -> None:
    """A mistyped package is named as such, with those of nearly that name."""
    configure("HEAD~1")
    assert run("explain", "zlibb").error == ""  # nothing was fetched yet
    run("once")

    assert run("explain", "zlib").error == ""
    assert run("explain", "zlibb").error == (
        "cachewatch: warning: no source has a package zlibb now; did you mean zlib?\n"
    )
    (found,) = json.loads(run("explain", "zlib", "--format", "json").output)
    assert (found["subscription"], found["is_told"]) == ("all", True)


@pytest.mark.usefixtures("configured")
def test_deliveries_have_a_heading(run: Run) -> None:
    """The columns are named, and an empty list has no heading; a wrong address is the option's fault."""
    configure("HEAD~1")
    run("once")

    assert run("deliveries", "list").output.splitlines()[0] == "number  created (UTC)     state      channel -> target"
    assert run("deliveries", "list", "--dead").output == ""
    assert run("test", "files", "--to", "foo").error == (
        "cachewatch: --to 'foo' is not a mail address; write it as name@example.org\n"
    )


def test_a_preview_of_nothing_fetched(configured: Path, run: Run) -> None:
    """That nothing changed is not known before anything was fetched."""
    configure("HEAD~1")
    (configured / "upstream.git").rename(configured / "gone.git")
    run("once")

    assert "warning: nothing has been fetched yet of public; run `cachewatch once` first" in run("preview", "all").error
