"""What `once` says at its end to the person who started it, and its exit code if a digest cannot be created."""

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, document, history, records, secret, write
from servers import Says, serving

from cachewatch.cli import once_daemon_preview
from cachewatch.store.transactions_and_sqlite import only_one

CONFIG = """\
version: 1
state: state
sources: {public: {git: upstream.git, stale_after: 4000d, SINCE}}
channels:
  files: {type: file, path: "out/{subscription}/{key}.{ext}", formats: [txt]}
subscriptions:
  all: {channels: [files], when: each revision}
"""


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a configuration whose source has two revisions, on a terminal."""
    base = {"zlib": records([1])}
    history(tmp_path / "upstream.git", catalogue(base), catalogue(base | {"new": records([2])}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CACHEWATCH_CONFIG", raising=False)
    monkeypatch.setattr(once_daemon_preview, "is_on_terminal", lambda: True)
    return tmp_path


def configure(since: str, *changes: tuple[str, str]) -> None:
    """Write the configuration with some words in the place of others."""
    text = CONFIG.replace(", SINCE", f", since: {since}" if since else "")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    Path("cachewatch.yaml").write_text(text)


@pytest.mark.slow
def test_a_digest_was_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary on a terminal names the source, the digest and where it went; the next one says that nothing was due."""
    configure("HEAD~1")
    first, second = run("once").output.splitlines(), run("once").output.splitlines()

    assert first[0] == "SOURCES"
    assert first[1].startswith("  public  ")
    assert first[1].endswith("fetched for the first time")
    assert first[2:4] == ["DIGESTS", "  all: new new 1.0"]
    assert first[4].endswith(".txt: sent")
    assert second[1].endswith(", unchanged")
    assert second[2:] == ["DIGESTS", "  all: nothing to send now; next with each new revision"]
    # Cron and systemd read the log, which is on standard error.
    monkeypatch.setattr(once_daemon_preview, "is_on_terminal", lambda: False)
    assert run("once").output == ""


def test_times_are_in_the_configured_time_zone(run: Run) -> None:
    """The summary, `status` and `deliveries` say when something was as people there read it, with the zone."""
    configure("HEAD~1", ("version: 1", "version: 1\ntimezone: Asia/Tokyo"), ("4000d", "4d"))

    assert " of 2025-06-02 13:00 JST (" in run("once").output
    shown = run("status").output
    assert " of 2025-06-02 13:00 JST (" in shown
    assert "UTC" not in shown
    assert "WARNINGS" not in shown, "how often a source publishes is not known at first"
    listed, history = run("deliveries", "list").output, run("deliveries", "show", "1").output
    assert re.search(r"^ +1  20\d\d-\d\d-\d\d \d\d:\d\d JST  sent", listed, re.MULTILINE)
    assert len(re.findall(r"\d\d:\d\d:\d\d JST (?:queued|sent)", history)) >= 1
    assert "UTC" not in listed + history


def test_a_digest_that_cannot_be_created(run: Run) -> None:
    configure("HEAD~60")
    output = run("once").output_of(8)

    assert "  all: could not be created: sources.public.since: " in output
    assert "there is 1 revision before HEAD; the oldest is HEAD~1" in output


def test_a_delivery_that_waits_for_a_repaired_channel_is_named(configured: Path, run: Run) -> None:
    """The log of each pass says what waits, until when, and how not to wait."""
    configure("HEAD~1")
    (configured / "out").touch()
    run("once")
    (configured / "out").unlink()
    error = run("once").error_of(7)
    assert "error channel.waiting channel=files ids=1 next_attempt=" in error
    assert 'advice="cachewatch deliveries retry 1"' in error
    run("deliveries", "retry", "1")
    assert "channel.waiting" not in run("once").error_of(0)


def test_init_checks_since(configured: Path, run: Run) -> None:
    """A revision that a repository on this machine does not have is a mistake now, not at the first run."""
    result = run("init", "--source", configured / "upstream.git", "--since", "nosuch", "--to", "a@example.org")

    assert (result.exit_code, "--since nosuch: " in result.error) == (2, True)
    assert not Path("cachewatch.yaml").exists()


def test_init_warns_of_a_source_that_is_not_there(configured: Path, run: Run) -> None:
    """It may come later; a mistyped path is seen now."""
    sources = ("nosuch", "upstream.git", "https://example.org/nosuch", "git@example.org:nosuch")
    for number, source in enumerate(sources):
        result = run("init", f"{number}.yaml", "--source", source, "--to", "a@example.org")
        warning = f"warning: {configured / source}: there is no such repository or folder yet"
        assert (result.exit_code, warning in result.error) == (0, source == "nosuch"), source


def test_init_writes_where_the_state_is(run: Run) -> None:
    """Another shell, with another environment, finds the same state."""
    for name, options, state in (("a.yaml", [], "state"), ("b.yaml", ["--state", "/srv/state"], "/srv/state")):
        assert run("init", name, "--to", "a@example.org", *options).exit_code == 0
        assert f'\nstate: "{state}"' in Path(name).read_text()


def test_explain_knows_which_packages_there_are(run: Run) -> None:
    """A mistyped package is named as such, with those of nearly that name."""
    configure("HEAD~1")
    assert run("config", "explain", "zlibb").error == ""  # nothing was fetched yet
    run("once")

    assert run("config", "explain", "zlib").error == ""
    warning = "cachewatch: warning: no source has a package zlibb now; did you mean zlib?\n"
    assert run("config", "explain", "zlibb").error == warning
    (found,) = json.loads(run("config", "explain", "zlib", "--format", "json").output)["explain"]
    assert (found["subscription"], found["is_notified"]) == ("all", True)


def test_deliveries_have_a_heading(run: Run) -> None:
    """The columns are named, and an empty list has no heading; a wrong address is the option's fault."""
    configure("HEAD~1")
    run("once")

    heading, line = run("deliveries", "list").output.splitlines()[:2]
    assert [heading.index(word) for word in ("created", "state", "channel -> target")] == [
        line.index(word) for word in ("20", "sent", "files -> ")
    ]
    assert run("deliveries", "list", "--dead").output == ""
    assert run("deliveries").output == run("deliveries", "list").output, "what is asked for most needs no command"
    assert run("deliveries", "--format", "json").output == run("deliveries", "list", "--format", "json").output
    assert run("deliveries", "--dead").output == ""
    said = "--to 'foo' is not a mail address; write it as name@example.org"
    assert run("config", "test", "files", "--to", "foo").error == f"cachewatch: {said}\n"


def test_an_empty_preview_says_how_to_see_one(run: Run) -> None:
    """After everything was reported; with --since, only an earlier one helps."""
    configure("HEAD~1")
    run("once")

    assert run("preview", "all").error == (
        "cachewatch: nothing that all reports changed since the last report: nothing would be sent; "
        "`cachewatch preview all --since REVISION` shows older changes\n"
    )
    assert "NEW         new  1.0" in run("preview", "all", "--since", "HEAD~1").output
    error = run("preview", "--since", "HEAD").error
    assert "nothing that all reports changed since HEAD: nothing would be sent; an earlier --since shows" in error


def test_a_preview_names_what_is_unreadable(configured: Path, run: Run) -> None:
    first, damaged = catalogue({"zlib": records([1])}), {"_cache/develop/zlib/specs.md": b"garbage"}
    configure("")
    shutil.rmtree(configured / "upstream.git")
    history(configured / "upstream.git", first, damaged)
    assert "warning: zlib of develop cannot be read; what" in run("preview", "--since", "HEAD~1").error


def test_a_preview_in_markdown_is_of_a_channel_that_sends_it(run: Run) -> None:
    configure("HEAD~1")
    of_files = run("preview", "--format", "markdown").output
    mail = "  mail: {type: maildir, path: box, from: a@example.org, attach: csv}\n"
    more = ("{channels: [files]", "{to: [b@example.org], channels: [mail, files]")
    configure("HEAD~1", ("channels:\n", f"channels:\n{mail}"), more)

    assert run("preview", "--format", "markdown").output == of_files
    assert "attached" in run("preview", "--format", "markdown", "--channel", "mail").output


def test_a_preview_without_a_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only subscription is meant; of several, none is guessed, and all are named."""
    configure("HEAD~1")
    run("once")
    only = run("preview", "--since", "HEAD~1").output
    assert only == run("preview", "all", "--since", "HEAD~1").output
    opened: list[str] = []
    no_browser = "no browser can be opened: there is none, or no display; the page is"
    for is_there, said in ((True, "opening"), (False, no_browser)):

        def open_page(url: str, is_there: bool = is_there) -> bool:
            opened.append(url)
            return is_there

        monkeypatch.setattr("webbrowser.open", open_page)
        shown = run("preview", "all", "--since", "HEAD~1", "--open")
        file = Path(opened.pop().removeprefix("file://"))
        assert (shown.output, f"cachewatch: {said} {file}\n" in shown.error) == ("", True)
        html = run("preview", "--since", "HEAD~1", "--format", "html").output
        # Each page names the minute in which it was made.
        one, other = (re.sub(r"\d\d:\d\d UTC", "", page) for page in (file.read_text(), html))
        assert one == other
        file.unlink()
    assert "NEW         new  1.0" in only
    with Path("cachewatch.yaml").open("a") as config:
        config.write("  team: {channels: [files], when: each revision}\n")

    assert run("preview").error_of(2) == "cachewatch: preview needs a subscription; configured: all, team\n"


def test_a_preview_says_that_a_template_is_wrong(run: Run) -> None:
    """Our own templates are used, as `once` does; the exit code is that of a mistake in a template."""
    configure("HEAD~1")
    usual = run("preview")
    Path("mine").mkdir()
    Path("mine/digest.txt.j2").write_text("{{ nonsense }}")

    shown = run("preview", "--templates-dir", "mine")

    assert (usual.exit_code, shown.exit_code, shown.output) == (0, 6, usual.output)
    said = r".*mine/digest\.txt\.j2: line 1: 'nonsense' is undefined\n"
    assert re.search(f"cachewatch's own templates are used, because one of yours is wrong: {said}", shown.error)


def sent(subscription: str) -> list[str]:
    return [path.read_text() for path in Path("out", subscription).glob("*.txt")]


def test_a_preview_before_the_first_pass_is_what_that_sends(run: Run) -> None:
    """With `since:`, a digest; what it fetches for that leaves nothing behind."""
    configure("HEAD~1")
    shown = run("preview", "all")
    assert shown.error == "cachewatch: nothing was fetched yet; fetching public for this preview alone ...\n"
    assert not Path("state").exists()
    assert run("once").exit_code == 0
    (text,) = sent("all")
    assert without_minutes(shown.output) == without_minutes(text)
    assert "NEW         new  1.0" in text


def without_minutes(text: str) -> str:
    """Leave out when a digest was made, and how old its data was then."""
    return re.sub(r"\(\d+ days old\)|last asked .*", "", text)


def test_a_preview_of_a_first_pass_that_is_silent(run: Run) -> None:
    """Nothing is fetched or printed, unless an earlier revision is asked for; `once` says so too, and where it begins."""
    configure("")
    shown = run("preview", "all")
    assert (shown.exit_code, shown.output) == (0, "")
    assert shown.error == (
        "cachewatch: all begins at the newest revision: nothing would be sent; "
        "`cachewatch preview all --since REVISION` shows older changes\n"
    )
    assert "NEW         new  1.0" in run("preview", "all", "--since", "HEAD~1").output
    said = "it begins here, next with each new revision (`cachewatch preview all` says how to see one now)"
    assert f"  all: nothing to send now; {said}" in run("once").output
    assert run("preview", "all").output == ""
    assert sent("all") == []


def test_a_first_report_needs_two_revisions(run: Run, tmp_path: Path) -> None:
    history(tmp_path / "one.git", catalogue({"zlib": records([1])}))
    configure("", ("upstream.git,", "one.git, first_run: report,"))
    assert "all begins at the only revision of its source" in run("preview", "all").error
    assert "stream.silent subscription=all source=public" in run("once").error
    configure("", ("{git", "{first_run: report, git"), ("state: state", "state: s"))
    assert "NEW         new  1.0" in run("preview", "all").output
    assert "stream.silent" not in run("once").error


def stored() -> dict[Path, bytes]:
    """Return all files of the state but those that SQLite makes for any reader."""
    files = (path for path in Path("state").rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}


def test_a_preview_fetches_what_is_on_this_machine(configured: Path, run: Run) -> None:
    """It is what `once` sends seconds later; the state has nothing of it."""
    configure("HEAD~1")
    run("once")
    old = sent("all")
    base = {"zlib": records([1])}
    upstream = configured / "upstream.git"
    shutil.rmtree(upstream)
    history(upstream, catalogue(base), catalogue(base | {"new": records([2])}), catalogue(base))
    before = stored()
    shown = run("preview", "all")
    assert (shown.exit_code, shown.error) == (0, "")
    assert stored() == before
    run("once")
    (text,) = set(sent("all")) - set(old)
    assert without_minutes(shown.output) == without_minutes(text)
    assert "new" in shown.output


def test_a_preview_reads_a_folder_again(configured: Path, run: Run) -> None:
    """What was changed in it since the last pass is what `once` would send."""
    configure("", ("upstream.git", "folder"))
    folder = write(configured / "folder", {"zlib.md": document(records([1]))})
    run("once")
    write(folder, {"new.md": document(records([2]), package="new")})
    assert "NEW         new  1.0" in run("preview").output
    run("once")
    (text,) = sent("all")
    assert "NEW         new  1.0" in text
    assert "shows older changes" in run("preview").error


def test_a_preview_of_a_source_on_the_network_fetches_nothing(run: Run) -> None:
    """It says as of when it is."""
    configure("HEAD~1")
    run("once")
    configure("HEAD~1", ("upstream.git", "http://127.0.0.1:9/upstream.git"))
    shown = run("preview")
    said = r"^cachewatch: public as of the last fetch at [^;]* UTC; `cachewatch once` fetches first$"
    assert re.search(said, shown.error, re.MULTILINE)
    assert "nothing would be sent" in shown.error


def test_a_preview_says_when_the_digest_is_due(run: Run) -> None:
    configure("HEAD~1", ("each revision", "'cron: 30 7 29 2 *'"))
    run("once")

    shown = run("preview", "all")
    said = r"cachewatch: this digest is sent on \w+ 20\d\d-02-29 at 07:30 UTC, with what is new until then\n"
    assert re.fullmatch(said, shown.error)
    assert "NEW         new  1.0" in shown.output
    assert sent("all") == []


def test_a_preview_of_nothing_fetched(configured: Path, run: Run) -> None:
    """That nothing changed is not known before anything was fetched."""
    configure("HEAD~1")
    (configured / "upstream.git").rename(configured / "gone.git")
    run("once")

    shown = run("preview", "all")
    assert re.fullmatch(
        r"cachewatch: warning: the source public cannot be read: .*\n"
        r"cachewatch: warning: nothing has been fetched yet of public\n",
        shown.error,
    ), "nothing is said of changes"
    assert (shown.output, shown.exit_code) == ("", 3), "no digest would be sent, as nothing could be read"
    configure("", ("upstream.git", "http://127.0.0.1:9/c.git"))
    run("once")
    said = r"nothing has been fetched yet of public: .*127\.0\.0\.1.*; `cachewatch once` tries again\n"
    assert re.fullmatch(f"cachewatch: warning: {said}", run("preview", "all", "--since", "yesterday").error_of(3))


@pytest.mark.usefixtures("loopback")
def test_a_pass_pings_how_it_went(run: Run) -> None:
    """A pass that was whole pings, one that failed says so; another cachewatch at work is neither."""
    configure("HEAD~1")
    check = "/ping/01234567-89ab-cdef-0123-456789abcdef"
    with Path("cachewatch.yaml").open("a") as file:
        file.write("monitor: {ping_url_file: ping}\n")
    with serving({check: Says(), f"{check}/fail": Says()}) as server:
        secret(Path("ping"), f"{server.url}{check}")
        assert run("once").exit_code == 0
        with only_one(Path("state")):
            assert run("once").exit_code == 75
        Path("upstream.git").rename("gone.git")
        assert run("once").exit_code == 3
        for part in Path("state").glob("cachewatch.db*"):
            part.write_bytes(b"damaged" * 1000)
        assert run("once").exit_code == 5
        assert server.paths == [check, f"{check}/fail", f"{check}/fail"]
