"""Reading the configuration file: what it means, and what it says about mistakes."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from helpers import secret
from hypothesis import given
from hypothesis import strategies as st

from cachewatch.config import settings_and_subscriptions
from cachewatch.config.reading_showing_warnings import read_config, show_config
from cachewatch.config.schedules_and_quiet_times import duration_in_words, parse_duration, parse_size
from cachewatch.config.sources_and_channels import EmailConfig, WebhookConfig
from cachewatch.config.value_types_and_secrets import PostgresAddress, Secret
from cachewatch.core.filters_and_spec_patterns import DEFAULT, chosen_kinds
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.errors import ConfigError

MINIMAL = """\
version: 1
sources:
  public: {git: https://example.org/catalogue.git}
channels:
  archive: {type: file, path: "out/{subscription}/{key}.md"}
subscriptions:
  all: {channels: [archive]}
"""

Read = Callable[..., str]


@pytest.fixture
def mistakes(tmp_path: Path) -> Read:
    """Read a text as the file, and return what is said about it, without the folder."""

    def read(text: str, **others: str) -> str:
        (tmp_path / "cachewatch.yaml").write_text(text)
        for name, content in others.items():
            (tmp_path / "subscriptions.d").mkdir(exist_ok=True)
            (tmp_path / f"subscriptions.d/{name}.yaml").write_text(content)
        with pytest.raises(ConfigError) as raised:
            read_config(tmp_path / "cachewatch.yaml")
        return str(raised.value).replace(f"{tmp_path}/", "")

    return read


def test_defaults(tmp_path: Path) -> None:
    """A short file is enough; everything else has a meaning that it need not say."""
    (tmp_path / "cachewatch.yaml").write_text(MINIMAL)
    config = read_config(tmp_path / "cachewatch.yaml")
    subscription, source = config.subscriptions["all"], config.sources["public"]

    assert (source.type, source.address, source.first_run) == ("git", "https://example.org/catalogue.git", "silent")
    assert subscription.changes == DEFAULT
    assert (subscription.when, subscription.if_empty, subscription.limit.rows) == ("each revision", "skip", 25)
    assert config.timezone == "UTC"
    assert config.channels["archive"].retry.lasting == timedelta(days=5)


FULL = """\
version: 1
timezone: Europe/Berlin
state: state
sources:
  public: {git: catalogue.git, branch: main, tags: develop, poll: {every: 1h30m, jitter: 0, timeout: 90s}, stale_after: 2w}
  mine: {type: buildcache, url: "https://cache.example.org/x", credentials: {token_file: token}}
channels:
  mail:
    type: email
    from: "Käthe Ångström <cachewatch@example.org>"
    smtp: {host: smtp.example.org, security: tls, user: me, password_env: TEST_SMTP_PASSWORD}
    max_html: 64KiB
    retry: {for: 12h}
  chat: {type: webhook, url_file: url, preset: slack}
operators: {channels: mail, to: ops@example.org}
subscriptions:
  ml.team:
    to: &readers [a@example.org, b@example.org]
    match: {packages: [py-*, "!py-test*", "/^lib.+d$/"], versions: "@1.2:"}
    changes: [default, -compiler, +rebuilt]
    when: {cron: 30 7 * * 1}
    urgent: {changes: [removed, stack-lost], channels: [chat]}
    channels: [mail]
  other: {to: *readers, channels: mail, changes: [-stack]}
silences:
  llvm: {match: {packages: llvm*}, until: 2026-12-01, reason: migration}
quiet:
- days: sat-sun
- {from: 2026-12-24, to: 2027-01-02}
- {from: "2026-06-01T18:00+00:00", to: "2026-06-02T06:00"}
monitor: {listen: "[::1]:9469"}
"""


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with much in it, and its secrets."""
    for name, content in {"token": "t0ken", "url": "https://chat.example.org/hook"}.items():
        secret(tmp_path / name, f"{content}\n")
    monkeypatch.setenv("TEST_SMTP_PASSWORD", "geheim")
    (tmp_path / "cachewatch.yaml").write_text(FULL)
    return tmp_path / "cachewatch.yaml"


def test_meaning(full: Path) -> None:
    config = read_config(full)
    public, mine = config.sources.values()
    mail, chat = config.channels.values()
    team, other = config.subscriptions.values()

    assert public.address == str(full.parent / "catalogue.git")
    assert (public.poll.every, public.poll.jitter) == (timedelta(minutes=90), timedelta(0))
    assert (public.tags, public.stale_after) == (("develop",), timedelta(days=14))
    assert (mine.type, mine.credentials) == ("buildcache", {"token_file": str(full.parent / "token")})
    assert isinstance(mail, EmailConfig)
    assert (mail.smtp.port, mail.max_html, mail.retry.lasting) == (465, 65536, timedelta(hours=12))
    assert mail.smtp.password is not None
    assert mail.smtp.password.reveal() == "geheim"
    assert isinstance(chat, WebhookConfig)
    assert chat.url.reveal() == "https://chat.example.org/hook"
    assert config.operators.channels == ("mail",)
    assert team.name == "ml.team"
    assert team.match.packages == ("py-*", "!py-test*", "/^lib.+d$/")
    assert team.changes == DEFAULT - {Kind.COMPILER} | {Kind.REBUILT}
    assert team.when == "cron: 30 7 * * 1"
    assert team.urgent is not None
    assert team.urgent.changes == {Kind.STACK_LOST, Kind.TAG_REMOVED, Kind.PACKAGE_REMOVED, Kind.GONE}
    assert other.to == team.to == ("a@example.org", "b@example.org")
    assert other.changes == DEFAULT - {Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.STACK_EVENT}
    assert config.silences[0].until == date(2026, 12, 1)
    assert config.state == full.parent / "state"
    weekend, holidays, night = config.quiet
    assert weekend.days == {5, 6}
    berlin = ZoneInfo("Europe/Berlin")
    assert holidays.start == datetime(2026, 12, 24, tzinfo=berlin)
    assert holidays.end == datetime(2027, 1, 3, tzinfo=berlin)
    assert night.start == datetime(2026, 6, 1, 18, tzinfo=UTC)


def test_secrets_are_not_shown_or_inherited(full: Path) -> None:
    """No text form has a secret in it, no child process inherits one, and a second reading still knows it."""
    texts = [repr(read_config(full)), str(read_config(full))]

    assert "TEST_SMTP_PASSWORD" not in os.environ
    assert all(word not in text for text in texts for word in ("geheim", "example.org/hook", "t0ken"))
    assert str(Secret("x")) == "Secret(***)"


DATABASE = "state: postgresql://cachewatch@db.example.org/cachewatch?sslmode=verify-full\n"


def test_a_state_in_a_database(tmp_path: Path) -> None:
    secret(tmp_path / "secret", "geheim\n")
    file = tmp_path / "cachewatch.yaml"
    file.write_text(MINIMAL + DATABASE + "state_folder: here\nstate_password_file: secret\n")
    config = read_config(file)
    assert isinstance(config.database, PostgresAddress)
    assert config.database.url == "postgresql://cachewatch@db.example.org/cachewatch?sslmode=verify-full"
    assert config.database.password is not None
    assert config.database.password.reveal() == "geheim"
    assert config.folder == tmp_path / "here"
    assert "geheim" not in repr(config) + show_config(config)
    assert config.database.url in show_config(config)


def test_the_password_of_the_state_is_read_by_who_needs_no_other_secret(tmp_path: Path) -> None:
    """`status` opens the state, and may be used by whoever may not read the other secrets; nobody else needs it."""
    file = tmp_path / "cachewatch.yaml"
    file.write_text(MINIMAL + DATABASE + "state_password_file: secret\n")
    config = read_config(file, with_secrets=False)
    assert config.state_password is not None
    with pytest.raises(ConfigError, match=r"secret cannot be read \(No such file or directory\)"):
        config.state_password.reveal()
    secret(tmp_path / "secret", "geheim\n")
    assert config.state_password.reveal() == "geheim"


WRONG = {
    "state: postgresql://me:geheim@db/state": "state: contains a password; write it into a file, and name that in `state_pa",
    "state: postgresql://me@db/state?password=geheim": "state: contains a password; write it into a file",
    "state: mysql://me@db/state": "state: is neither a folder nor an address such as `postgresql://cachewatch@db.exam",
    "state_folder: here": "`state_folder:` is for a `state:` in a database, and this one is a folder; remove it",
    "version: 2": "cachewatch.yaml:1: version: '2' is another version",
    "versoin: 1": "cachewatch.yaml:1: versoin: there is no such key; did you mean 'version'?",
    "version: 1\nversion: 1": "cachewatch.yaml:2: version: stands in line 1 already; keep one of them",
    "timezone: Europe/Atlantis": "cachewatch.yaml:1: timezone: 'Europe/Atlantis' is not a time zone",
    "state: [a]": "cachewatch.yaml:1: state: holds a list; give it one value",
    "state:": "cachewatch.yaml:1: state: holds nothing; give it one value, or remove the line",
    "links: ftp://x": "links: is not a URL; write one that begins with https: or http:",
    "templates_dir: nowhere": "nowhere is not a folder",
    "templates_dir: ~nobody-here/x": "~nobody-here/x has no home folder",
    "sources: {a: {git: x, poll: {every: 5 min}}}": "sources.a.poll.every: '5 min' is not a duration; write 30s, 5m",
    "sources: {a: {git: x, poll: {every: 0}}}": "sources.a.poll: every and timeout must be at least a second",
    "sources: {a: {}}": "sources.a: lacks `git:`",
    "sources: {a: {git: x, url: y}}": "sources.a.url: there is no such key; there are branch",
    "sources: {a: {git: x, credentials: {token_file: cachewatch.yaml}}}": "can be read by everybody; run chmod o-rwx",
    "sources: {a: {git: -x}}": "sources.a.git: '-x' is not an address",
    "sources: {a: {git: 'https://u:geheim@h/x'}}": "sources.a.git: contains a password",
    "sources: {a: {git: x, credentials: {token_file: nowhere}}}": "nowhere cannot be read (No such file or directory)",
    "sources: {../a: {git: x}}": "sources.../a: '../a' is not a valid name: use up to 64 letters",
    "sources: [a]": "sources: holds a list; it takes keys and values, indented below it",
    "channels: {a: {path: x}}": "channels.a: lacks `type:`; it is one of email",
    "channels: {a: {type: emial}}": "channels.a: there is no type 'emial' of channels; did you mean 'email'?",
    "channels: {a: {type: file, path: x.md}}": "lacks {subscription}, without which one digest would overwrite another",
    "channels: {a: {type: file, path: '{subscription}{x}'}}": "{x} is not a placeholder here",
    "channels: {a: {type: file, path: '{subscription'}}": "braces may only enclose names",
    "channels: {a: {type: file, path: '{subscription}/{key}', formats: [md, json]}}": "put {ext} into `path:`",
    "channels: {a: {type: file, path: 'out/{subscription}.{ext}'}}": (
        "channels.a: writes each digest over the one before; put {period} or {key} into `path:`, or set `overwrite: true`"
    ),
    "channels: {a: {type: webhook}}": "channels.a: lacks `url_file:`",
    "channels: {a: {type: apprise, url_file: x}}": "channels.a.url_file: there is no such key; did you mean 'urls_file'?",
    "channels: {a: {type: sendmail, from: 'kim@exämple.org'}}": "channels.a.from: 'kim@exämple.org' is not plain ASCII",
    "channels: {a: {type: sendmail, from: 'a@b.org, c@d.org'}}": "'a@b.org, c@d.org' is not a mail address; write Name <name@example.org>",
    "channels: {a: {type: sendmail, from: a@b.org, max_html: 1kB}}": "is too small for any mail",
    "channels: {a: {type: email, from: a@b.org, smtp: {host: 'smtp://x'}}}": "'smtp://x' is not a host",
    "channels: {a: {type: email, from: a@b.org, smtp: {host: h, port: 0}}}": "'0' is not a whole number from 1 to 65535",
    "channels: {a: {type: email, from: a@b.org, smtp: {host: h, user: u}}}": "belong together; set both or neither",
    "channels: {a: {type: sendmail, from: a@b.org, unsubscribe: 'https://h/{token}'}}": "belong together; set both or neither",
    "channels: {a: {type: file, overwrite: true, path: 'x/{subscription}'}, b: {type: feed, path: 'x/y/../{subscription}'}}": (
        "x/{subscription}, as the channel a does; give it another `path:`"
    ),
    "channels: {a: {type: file, path: '{subscription}{key}'}, b: {type: file, path: '{subscription}{key}'}}": "channels.b: writes {sub",
    "subscriptions: {a: {channels: [nowhere]}}": "subscriptions.a.channels[1]: there is no channel 'nowhere'; there are",
    "subscriptions: {a: {channels: [m]}}": "subscriptions.a: lacks `to:`: the channel m sends mail",
    "subscriptions: {a: {channels: [f], urgent: {changes: [upgraded, os], channels: [f]}}}": "has nothing that is sent at once",
    "subscriptions: {a: {channels: [f], to: [a@b.org]}}": "has `to:`, but none of its channels sends mail",
    "subscriptions: {a: {channels: [m], to: [kim]}}": "subscriptions.a.to[1]: 'kim' is not a mail address",
    "subscriptions: {a: {channels: [f], when: weekly mo 7:30}}": "subscriptions.a.when: 'mo' is not a day of the week",
    "subscriptions: {a: {channels: [f], changes: [+rebuit]}}": "'rebuit' is not a kind of change; did you mean rebuilt?",
    "subscriptions: {a: {channels: [f], changes: [os, -os]}}": "selects no kind of change",
    "subscriptions: {a: {channels: [f], match: {packages: ['/(/']}}}": "'/(/' is not a regular expression",
    "subscriptions: {a: {channels: [f], match: {versions: ['1 2']}}}": "'1 2' is not a version or range",
    "subscriptions: {a: {channels: [f], match: {sources: [pubic]}}}": "no source 'pubic'; did you mean 'public'?",
    "subscriptions: {a: {channels: [f], limit: {rows: many}}}": "'many' is not a whole number from 1 to",
    "subscriptions: {a: {channels: [f], limit: {hold_for: soon}}}": "write 30s, 5m, 1h, 4d, 2w or 2y, or never",
    "subscriptions: {a: {channels: [f], if_empty: sent}}": "'sent' is not one of its values; did you mean 'send'?",
    "subscriptions: {a: {channels: [f], template: ../x}}": "'../x' is not a digest template; write a name",
    "silences: {a: {match: {}, until: 2026-12-01, reason: x}}": "would silence everything",
    "silences: {a: {match: {os: x}, until: soon, reason: x}}": "silences.a.until: 'soon' is not a date",
    "quiet: {days: mon-sun}": "quiet: covers every day of the week",
    "quiet: [{from: 2026-12-24}]": "quiet[1]: needs `days:`, or `from:` and `to:`",
    "quiet: [{from: 2026-12-24, to: 2026-12-23}]": "ends before it begins",
    "quiet: [{from: Christmas, to: Easter}]": "quiet[1].to: 'Easter' is not a date",
    "monitor: {ping_url_env: A, ping_url_file: b}": "set only one: one of ping_url, ping_url_file, ping_url_env",
    "monitor: {listen: 80}": "monitor.listen: '80' is not an address to listen on",
    "a: [*-rocm]": "cachewatch.yaml:1: is not YAML: found undefined alias; text that begins with * needs quotes",
    "a: &b [*b]": "cachewatch.yaml:1: a[1]: contains itself; text that begins with * needs quotes",
    'a: "\\0"': "cachewatch.yaml:1: a: contains a character that text cannot contain",
    "quiet: [{from: 2026-12-24, to: 9999-12-31}]": "'9999-12-31' is not in this millennium",
    "sources: {a: {git: x, stale_after: 999999y}}": "'999999y' is longer than a hundred years",
    "subscriptions: {a: {channels: [m], to: [a@b.org, a@b.org]}}": "'a@b.org' is listed twice; remove one",
    "sources: {a: {git: 'http://[x'}}": "sources.a.git: 'http://[x' is not a URL",
    "channels: {a: {type: sendmail, from: a@b.org, bounces: Kim <a@b.org>}}": "'Kim <a@b.org>' is not a mail address",
    "channels: {a: {type: feed, path: '{subscription}', mode: 0777}}": "channels.a.mode: '0777' is not a mode",
    "subscriptions: {a: {channels: [f], match: {packages: ['']}}}": "'' is not a pattern",
    "subscriptions: {a: {channels: [f], template: ours.html.j2}}": "there is no template 'ours.html.j2' among cachewatch",
    "subscriptions: {a: {channels: {f: x}}}": "subscriptions.a.channels: holds a section; give it a list: [one, two]",
    "a: !x y": "cachewatch.yaml:1: a: !x is read as a YAML tag; text that begins with ! needs quotes",
    "version: 1\na: [@1.2:]": "cachewatch.yaml:2: is not YAML: found character that cannot start any token; text cannot",
    "when: cron: 30 7 * * 1": "cachewatch.yaml:1: is not YAML: mapping values are not allowed in this context; a colon",
    "a: [b": "cachewatch.yaml:1: is not YAML: did not find expected ',' or ']'; a list that begins with [ ends with ]",
    "[1]: 2": "has a key that is not a word",
    "a: {}\n---": "cachewatch.yaml:2: is not YAML: but found another document; a file may contain only one",
    "[a]": "cachewatch.yaml:1: holds a list",
    "": "cachewatch.yaml:1: lacks `sources:`",
    "a: " + "[" * 50 + "]" * 50: "is nested more than 32 levels deep",
    "a: " + "x" * 2**20: "cachewatch.yaml: is larger than 1 MiB",
}
AROUND = """
sources: {public: {git: x}}
channels: {m: {type: sendmail, from: a@b.org}, f: {type: file, path: "{subscription}/{key}"}}
"""


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=[text[:60] for text in WRONG])
def test_mistakes(mistakes: Read, text: str, said: str) -> None:
    section = text.partition(":")[0]
    lines = [line for line in AROUND.splitlines() if line.partition(":")[0] != section]
    around = "\n".join(lines) if section not in ("[a]", "") else ""

    assert said in mistakes(f"{text}\n{around}")
    assert "geheim" not in mistakes(f"{text}\n{around}")


def test_two_channels_share_a_path_where_they_write_other_files(tmp_path: Path) -> None:
    """Pages for everybody, and data for a group, beside each other."""
    pages = "  pages: {type: file, path: 'out/{subscription}/{key}.{ext}', formats: [html]}\n"
    data = "  data: {type: file, path: 'out/{subscription}/{key}.{ext}', formats: [json], mode: 0640}\n"
    (tmp_path / "cachewatch.yaml").write_text(MINIMAL.replace("channels:\n", f"channels:\n{pages}{data}", 1))
    assert {"pages", "data"} < read_config(tmp_path / "cachewatch.yaml").channels.keys()


def test_all_at_once(mistakes: Read) -> None:
    text = """\
version: 1
timzone: UTC
sources:
  public: {git: x, pol: 1h}
channels:
  mail: {type: email, from: kim, smtp: {hots: x}}
  mail:
    type: file
subscriptions:
  a:
    channels: [mial]
    to:
    - kim
    when: weekly
"""
    said = mistakes(text, team="subscriptions: {a: {}, b: {channels: [mail], to: [x@y]}}\nchannels: {}", broken="a: [x")

    assert [line.partition(": there")[0].partition("; ")[0] for line in said.splitlines()] == [
        "cachewatch.yaml: 12 mistakes",
        "cachewatch.yaml:2: timzone",
        "cachewatch.yaml:4: sources.public.pol",
        "cachewatch.yaml:6: channels.mail.from: 'kim' is not a mail address",
        "cachewatch.yaml:6: channels.mail.smtp: lacks `host:` (name or address of the mail server)",
        "cachewatch.yaml:6: channels.mail.smtp.hots",
        "cachewatch.yaml:7: channels.mail: stands in line 6 already",
        "cachewatch.yaml:11: subscriptions.a.channels[1]",
        "cachewatch.yaml:13: subscriptions.a.to[1]: 'kim' is not a mail address",
        "cachewatch.yaml:14: subscriptions.a.when: 'weekly' is not a schedule",
        "subscriptions.d/broken.yaml:1: is not YAML: did not find expected ',' or ']'",
        "subscriptions.d/team.yaml:1: subscriptions.a: stands in cachewatch.yaml:10 already",
        "subscriptions.d/team.yaml:2: channels: is not allowed here",
    ]
    all_of_it = f"{MINIMAL.partition('  all')[0][:-1]} all of it\n"
    said = mistakes(all_of_it, team="subscriptions: {b: {channels: [archive]}}")
    assert "cachewatch.yaml:6: subscriptions: holds text" in said


def test_environments_of_other_teams_lie_in_folders_that_the_operator_names(mistakes: Read, tmp_path: Path) -> None:
    """Else a team could have the lock files of anybody read and told; the operator's own file may name any."""
    team = "subscriptions:\n  ml:\n    channels: archive\n    match: {environment: %s}\n"

    main = MINIMAL.replace("[archive]}", "[archive], match: {environment: /home/other/spack.lock}}")
    offered = f"{main}environment_folders: [envs]\n"
    for text, path in ((main, "envs"), (offered, "/home/other/spack.lock"), (offered, "envs/../a"), (offered, "envs2")):
        said = mistakes(text, team=team % path)
        assert said.startswith("subscriptions.d/team.yaml:4: subscriptions.ml.match.environment: ")
        assert f"{path} is in none of the `environment_folders:`" in said
    (tmp_path / "subscriptions.d/team.yaml").write_text(team % "envs/ml/spack.lock")
    assert set(read_config(tmp_path / "cachewatch.yaml").subscriptions) == {"all", "ml"}


def test_files_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "cachewatch.yaml"
    with pytest.raises(ConfigError, match=r"cachewatch\.yaml: cannot be read: No such file"):
        read_config(file)
    file.write_bytes(b"version: 1\nstate: \xff")
    with pytest.raises(ConfigError, match=r"cachewatch\.yaml:2: is not UTF-8 text"):
        read_config(file)
    file.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert read_config(file).version == 1


def test_an_extra_that_is_missing(mistakes: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachewatch.config.sources_and_channels.find_spec", lambda name: None)
    text = MINIMAL.replace("archive: {", "chat: {type: apprise, urls_env: TEST_URLS}\n  archive: {")

    monkeypatch.setenv("TEST_URLS", "json://localhost")
    assert "channels.chat: requires Apprise, which is not installed; install cachewatch[apprise]" in mistakes(text)


def test_a_folder_that_cannot_be_read(mistakes: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "subscriptions.d").mkdir()
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert mistakes(MINIMAL) == "subscriptions.d: cannot be read: Permission denied"


def test_inline_secrets(mistakes: Read, tmp_path: Path) -> None:
    """A secret may stand in the file itself only if nobody else can read it."""
    said = mistakes(MINIMAL.replace("archive: {", 'hook: {type: webhook, url: "https://h/geheim"}\n  archive: {'))
    advice = "is a secret in a file that others can read; put it into `url_file:`, or `chmod 600"
    assert f"channels.hook.url: {advice}" in said
    assert "geheim" not in said
    (tmp_path / "cachewatch.yaml").chmod(0o600)
    hook = read_config(tmp_path / "cachewatch.yaml").channels["hook"]
    assert isinstance(hook, WebhookConfig)
    assert hook.url.reveal() == "https://h/geheim"


def test_secret_files(mistakes: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie among systemd's credentials or beside the file, not open to all, and hold something that fits."""
    text = MINIMAL.replace("archive: {", "hook: {type: webhook, url_file: hook-url}\n  archive: {")
    file = tmp_path / "hook-url"
    for content, mode, said in (
        ("https://h/geheim", 0o644, "can be read by everybody; run chmod o-rwx"),
        ("ftp://h/geheim", 0o600, "channels.hook.url_file: is not a URL"),
        (" \n", 0o600, "channels.hook.url_file: is empty, which no secret is"),
        ("x" * 70_000, 0o600, "is too long for a secret"),
    ):
        file.write_text(content)
        file.chmod(mode)
        assert said in mistakes(text)
        assert "geheim" not in mistakes(text)
    file.write_bytes(b"\xff")
    assert "cannot be read (it is not text)" in mistakes(text)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    file.unlink()
    assert f"nor is it in {credentials}".replace(f"{tmp_path}/", "") in mistakes(text)
    (credentials / "hook-url").write_text("https://h/x\n")
    hook = read_config(tmp_path / "cachewatch.yaml").channels["hook"]
    assert isinstance(hook, WebhookConfig)
    assert hook.url.reveal() == "https://h/x"


def test_plain_passwords_stay_at_home(mistakes: Read, tmp_path: Path) -> None:
    """A password goes over a network only with TLS; to this machine it may go without."""
    secret(tmp_path / "password", "geheim")
    smtp = "{host: smtp.example.org, security: none, user: u, password_file: password}"
    text = MINIMAL.replace("archive: {", f"mail: {{type: email, from: a@b.org, smtp: {smtp}}}\n  archive: {{")

    assert "would send the password unencrypted" in mistakes(text)
    (tmp_path / "cachewatch.yaml").write_text(text.replace("smtp.example.org", "127.0.0.1"))
    read_config(tmp_path / "cachewatch.yaml")


def test_where_the_state_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file, else where systemd says, else in the system's folder if root has one, else in the user's."""
    (tmp_path / "cachewatch.yaml").write_text(MINIMAL)
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    places = []
    for user, system in ((0, tmp_path), (0, tmp_path / "nothing"), (1000, tmp_path)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setattr(settings_and_subscriptions, "_SYSTEM_STATE", system)
        places.append(read_config(tmp_path / "cachewatch.yaml").state)
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/private/cachewatch:/other")
    places.append(read_config(tmp_path / "cachewatch.yaml").state)

    theirs = "/somewhere/cachewatch"
    assert [str(place) for place in places] == [str(tmp_path), theirs, theirs, "/var/lib/private/cachewatch"]


def test_durations_and_sizes() -> None:
    for text, seconds in {"30s": 30, "5m": 300, "1h30m": 5400, "4d": 345600, "2w": 1209600, "0": 0}.items():
        assert parse_duration(text).total_seconds() == seconds
        assert parse_duration(duration_in_words(timedelta(seconds=seconds))).total_seconds() == seconds
    for text in ("", "5", "h", "5 m", "-5m", "1.5h", "5M", "\u0665m", "9" * 7 + "y"):
        with pytest.raises(ConfigError, match="not a duration"):
            parse_duration(text)
    assert [parse_size(text) for text in ("90kB", "90 kB", "2KiB", "1MB", "17")] == [90_000, 90_000, 2048, 10**6, 17]
    for text in ("", "kB", "90kb", "-1", "1e3"):
        with pytest.raises(ConfigError, match="not a size"):
            parse_size(text)


def test_kinds_in_words() -> None:
    """A list that begins with a sign changes the default; one that does not begins with nothing."""
    assert chosen_kinds(()) == DEFAULT
    assert chosen_kinds(["+rebuilt"]) == DEFAULT | {Kind.REBUILT}
    assert chosen_kinds(["rebuilt", "os"]) == {Kind.REBUILT, Kind.OS}
    assert chosen_kinds(["all", "-default", "+os"]) == set(Kind) - DEFAULT | {Kind.OS}
    assert chosen_kinds(["-os", "+os"]) == DEFAULT


PIECES = [
    *sorted(set(re.findall(r"[A-Za-z_]+|\S", FULL))),
    *("\t", "\n", "\n  ", "- ", ": ", "\0", "\ud800", "é", "&a ", "*a", "~", "<<", "9" * 30),
]


@given(
    st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=4)
)
def test_damaged_files(cuts: list[tuple[int, int, str]]) -> None:
    """Whatever is done to a file, there is a Config or a list of mistakes, and never anything else."""
    text = FULL
    for start, length, piece in cuts:
        text = text[:start] + piece + text[start + length :]
    with TemporaryDirectory() as folder:
        file = Path(folder, "cachewatch.yaml")
        file.write_bytes(text.encode(errors="surrogatepass"))
        try:
            read_config(file)
        except ConfigError as error:
            said = str(error)
        else:
            said = str(file)
    assert said.startswith(str(file))


def test_keys_that_no_file_can_have(mistakes: Read) -> None:
    """What fills a name or a path from outside is no key, however it is written; nor is the name of a field."""
    for name in ("name", "address", "\\0", "path"):
        assert "sources.public" in mistakes(MINIMAL.replace("{git: ", f'{{"{name}": x, git: '))
    text = MINIMAL.replace("{type: ", "{lasting: 1d, type: ")
    assert "channels.archive.lasting: there is no such key" in mistakes(text)


def test_aliases_that_multiply(mistakes: Read) -> None:
    lines = [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 30)]

    text = "\n".join(["a0: &a0 [x]", *lines, MINIMAL.replace("[archive]", "*a29")])
    assert "a29: there is no such key" in mistakes(text)
