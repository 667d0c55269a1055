"""The commands of the service, as an operator types them."""

import json
import re
from datetime import UTC, datetime
from email import policy
from email.parser import BytesParser
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records, secret
from mailservers import free_port, post
from station import Site, begun, config

from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store.delivery_queue_and_order import DeliveryState

pytestmark = pytest.mark.usefixtures("loopback")

CANARY = "canary-8f31c2"
CONFIG = config("""\
channels:
  mail:
    type: email
    from: cachewatch@example.org
    smtp: {host: 127.0.0.1, port: {port}, security: none, user: kim, password_file: secret}
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
  hook: {type: webhook, url_file: url}
operators: {channels: [files]}
subscriptions:
  ml: {to: [kim@example.org], channels: [mail, files], changes: [all], limit: {hold_above: 100}}
""")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package, then very many specs; the first pass was made."""
    base = {"zlib": records([1])}
    states = [base, base | {"new": records([2])}, base | {"new": records(range(2, 200))}]
    made = Site(tmp_path, [catalogue(state) for state in states])
    for name, text in (("secret", CANARY), ("url", f"http://127.0.0.1:9/{CANARY}")):
        secret(tmp_path / name, text)
    configure(made, free_port())
    made.run()
    made.publish(1)
    return made


def configure(site: Site, port: int) -> None:
    site.configure(CONFIG.replace("{port}", str(port)))


def test_once_says_how_it_went(site: Site, run: Run) -> None:
    """0 for what waits for a server, 7 for what failed for good, 3 for a source, 5 for the state."""
    site.file.write_text(site.file.read_text().replace(", user: kim, password_file: secret", ""))
    assert run("once", "--config", site.file).exit_code == 0
    with post(replies={"RCPT": ["550 5.1.1 nobody here"] * 9}) as server:
        configure(site, server.port)
        site.file.write_text(site.file.read_text().replace(", user: kim, password_file: secret", ""))
        (waits,) = [each.id for each in site.deliveries() if each.channel == "mail"]
        assert run("deliveries", "retry", waits, "--config", site.file).exit_code == 0
        assert run("once", "--config", site.file).exit_code == 7
    site.upstream.rename(site.folder / "gone")
    assert run("once", "--config", site.file).exit_code == 3
    database = site.folder / "state" / "cachewatch.db"
    database.write_bytes(b"not a database at all" * 100)
    assert "Traceback" not in run("once", "--config", site.file).error_of(5)
    assert database.read_bytes().startswith(b"not a database"), "what is damaged is left for a person to look at"


@pytest.mark.slow
def test_a_state_that_was_lost_is_told(site: Site, run: Run) -> None:
    """Operators hear that the database is gone, once, and nobody hears so at a first run."""
    assert run("once", "--config", site.file).exit_code == 0
    assert "the state was lost" not in " ".join(site.notices())
    for file in (site.folder / "state").glob("cachewatch.db*"):
        file.unlink()
    for _ in range(2):
        assert run("once", "--config", site.file).exit_code == 0
    assert site.notices().count("the state was lost and starts empty") == 1


@pytest.mark.slow
def test_a_preview_is_what_is_sent_and_changes_nothing(site: Site, run: Run) -> None:
    """The same bytes through each channel, but for the moment at which they were made; the state is as it was."""
    formats = site.file.read_text().replace("[txt]", "[txt, html, md, json]")
    everything = formats.replace("[mail, files]", "[mail, files, hook]")
    site.file.write_text(everything + "quiet: {from: 2020-01-01, to: 2090-01-01}\n")
    site.now = datetime.now(UTC)  # the clock that commands go by
    site.run()  # fetches, and tells nobody
    before = contents(site.folder / "state")
    forms = [("mail", "eml"), *(("files", form) for form in ("text", "html", "markdown", "json")), ("hook", "json")]
    command = ("preview", "ml", "--config", site.file)
    shown = [run(*command, "--format", form, "--channel", channel) for channel, form in forms]
    assert [done.exit_code for done in shown] == [0] * 6
    refused = run("preview", "ml", "--config", site.file, "--format", "eml", "--channel", "files")
    assert (refused.exit_code, "files: no mail channel" in refused.error) == (2, True)
    assert contents(site.folder / "state") == before
    site.file.write_text(everything)
    site.run()
    with site.open().database.read() as connection:
        sent = [deliveries.message(connection, each.id).payload.decode() for each in site.deliveries()]
    assert [without_moments(done.output) for done in shown] == [without_moments(text) for text in sent]
    assert len({without_moments(text) for text in sent}) == 6
    assert CANARY not in "".join(done.output + done.error for done in shown)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return all files but those that SQLite keeps beside a database that is read."""
    beside = (".db-shm", ".db-wal")
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(beside)}


def without_moments(text: str) -> str:
    """Leave out when it was made and its source was asked, which is all that may differ."""
    text = re.sub(r'^Date: .*$|(?<="created": ")[^"]*|(?<="created":")[^"]*', "", text, flags=re.MULTILINE)
    text = re.sub(r'(?<="checked": ")[^"]*|(?<="checked":")[^"]*|(?<=, written )[^<]* UTC(?= by cachewatch)', "", text)
    return text.replace("\r\n", "\n")


def test_a_preview_of_a_mail_has_the_recipients_own_link(site: Site, run: Run) -> None:
    """No placeholder is left in what the first recipient would get."""
    link = 'type: email\n    unsubscribe: "https://example.org/?r={recipient}"'
    site.file.write_text(site.file.read_text().replace("type: email", link))
    assert run("once", "--config", site.file).exit_code == 0
    for form in ("text", "html"):
        done = run("preview", "ml", "--since", "HEAD~1", "--config", site.file, "--format", form, "--channel", "mail")
        assert done.exit_code == 0
        assert "https://example.org/?r=" in done.output
        assert "{recipient}" not in done.output


def test_preview_refuses(site: Site, run: Run) -> None:
    assert "configured: ml" in run("preview", "nobody", "--config", site.file).error_of(2)
    assert "urgent:" in run("preview", "ml", "--urgent", "--config", site.file).error_of(2)
    assert run("preview", "ml", "--since", "HEAD~99", "--config", site.file).exit_code == 2
    error = run("preview", "ml", "--channel", "hook", "--config", site.file).error_of(2)
    assert "hook is not a channel of this subscription; its channels: mail, files" in error


def test_status(site: Site, run: Run) -> None:
    """Words for people, and all of it as JSON; neither shows a secret. Silences that hold no more are shown, too."""
    site.run()
    silence = "{{match: {{packages: llvm}}, until: {}, reason: ask Kim}}"
    silences = f"silences: {{now: {silence.format('2999-01-01')}, over: {silence.format('2025-06-01')}}}\n"
    site.file.write_text(site.file.read_text() + silences)
    text, data = run("status", "--config", site.file), run("status", "--format", "json", "--config", site.file)
    assert [line for line in text.output.splitlines() if line.isupper()][:3] == ["SOURCES", "NEXT", "CHANNELS"]
    assert "with each new revision" in text.output
    found = json.loads(data.output)
    assert found["sources"][0]["name"] == "public"
    assert {channel["health"]["name"] for channel in found["channels"]} == {"mail", "files", "hook"}
    assert found["streams"][0]["due"] is None
    assert CANARY not in text.output + data.output
    said = "SILENCES\n  now  until 2999-01-01: ask Kim\n  over  ended on 2025-06-01, remove it: ask Kim\n"
    assert said in text.output
    assert [(each["name"], each["is_active"]) for each in found["silences"]] == [("now", True), ("over", False)]


def test_a_document_that_cannot_be_read_is_named(tmp_path: Path, run: Run) -> None:
    """By `status`, with and without --check, and by `explain`, which does not say that it is none of them."""
    broken = {"_cache/develop/new/specs.md": b"<<<<<<< HEAD\n"}
    states = [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1])}) | broken]
    configuration = CONFIG.replace("[mail, files], changes", "[files], changes").replace("operators:", "#")
    configuration = re.sub(r"  mail:.*\n(?:    .*\n)+|  hook:.*\n|to: \[kim@example.org\], ", "", configuration)
    site = begun(tmp_path, states, configuration)
    site.run(1)
    title = "1 document of develop in public cannot be read: new"
    assert f"WARNINGS\n  {title}\n" in run("status", "--config", site.file).output
    assert title in run("status", "--check", "--config", site.file).output
    told = run("config", "explain", "new", "--config", site.file).output.splitlines()
    assert told[:2] == ["ml  would be notified", "  packages: nothing excludes it"]
    assert told[2].startswith("  in develop: the document cannot be read (")
    assert told[2].endswith("; changes in it are reported when it can be read again")


def test_deliveries_by_hand(site: Site, run: Run) -> None:
    site.run(2)

    def by_hand(*words: str) -> str:
        return run("deliveries", *words, "--config", site.file).output_of(0)

    assert "held" in by_hand("list", "--held")
    number = next(each.id for each in site.deliveries() if each.state is DeliveryState.HELD)
    shown = by_hand("show", str(number))
    key = shown.split("digest ")[1].split()[0]
    assert f"digest {key} of ml" in shown
    assert "  once released: " in shown
    assert by_hand("show", str(number), "--raw")
    assert json.loads(by_hand("list", "--format", "json", "--channel", "mail"))
    assert "released" in by_hand("release", key)
    assert run("deliveries", "release", key, "--config", site.file).exit_code == 2
    assert "dropped" in by_hand("drop", str(number), "--reason", "a test")
    assert by_hand("list", "--dead") == ""
    for words in (("show", "999"), ("retry", "999"), ("resend", "999"), ("restore", "mail", "x@example.org")):
        assert "Traceback" not in run("deliveries", *words, "--config", site.file).error_of(2)


def test_a_test_message(site: Site, run: Run) -> None:
    with post() as server:
        configure(site, server.port)
        site.file.write_text(site.file.read_text().replace(", user: kim, password_file: secret", ""))
        done = run("config", "test", "mail", "--to", "kim@example.org", "--config", site.file)
        assert (done.exit_code, done.output) == (0, "kim@example.org: sent\n")
        assert len(server.received) == 1
        mail = BytesParser(policy=policy.default).parsebytes(server.received[0].content)
        html = next(part.get_content() for part in mail.walk() if part.get_content_type() == "text/html")
        assert ("Test</b>" in html, "Recovered" in html) == (True, False), "nothing was broken"
    assert "channels: mail:" in run(
        "config", "test", "mail", "--to", "kim@example.org", "--config", site.file
    ).error_of(7)
    assert "no recipients" in run("config", "test", "mail", "--config", site.file).error_of(2)
    assert run("config", "test", "nothing", "--config", site.file).exit_code == 2
    hook = run("config", "test", "hook", "--config", site.file)
    assert hook.exit_code == 7
    assert CANARY not in hook.output + hook.error


def test_who_hears_of_a_package(site: Site, run: Run) -> None:
    told = run("config", "explain", "zlib", "--config", site.file).output
    assert told.startswith("ml  would be notified\n")
    assert told.endswith("  with each new revision, through mail to kim@example.org; files\n")
    assert "in develop: 1 of 1 spec" in told, "it looks at what was fetched last"
    assert run("config", "explain", "no-such-package", "--config", site.file).exit_code == 0
    (site.folder / "state").rename(site.folder / "elsewhere")
    assert run("config", "explain", "zlib", "--config", site.file).output.startswith("ml  would be notified\n")
    assert not (site.folder / "state").exists(), "whoever asks first must not own the folder of the service"
