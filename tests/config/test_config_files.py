"""The files in config/: the sample, its schema, and the units of systemd; and the commands that write and check."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tools
import yaml
from configkeys import rewritten
from conftest import ROOT, Run

from cachewatch.config.reading_showing_warnings import json_schema, read_config, show_config
from cachewatch.errors import ConfigError

SAMPLE = ROOT / "config/cachewatch.yaml"
UNITS = ("cachewatch.service", "cachewatch-once.service", "cachewatch-once.timer")


class Loader(yaml.SafeLoader):
    """YAML as editors see it: dates are text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """The sample with everything in it: what is commented out put in, and the files that it names made."""
    text = re.sub(r"^#(?=\S|  )", "", SAMPLE.read_text(), flags=re.MULTILINE)
    for name in set(re.findall(r"_file: ([\w-]+)", text)) - {"chat-url", "ping-url", "apprise-urls"}:
        (tmp_path / name).write_text("geheim")
    for name in ("chat-url", "ping-url"):
        (tmp_path / name).write_text("https://example.org/geheim")
    (tmp_path / "apprise-urls").write_text("json://example.org/geheim\nntfy://geheim")
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/ours.html.j2").write_text("")
    (tmp_path / "spack.lock").write_text('{"_meta": {"lockfile-version": 6}, "roots": [], "concrete_specs": {}}')
    (tmp_path / "cachewatch.yaml").write_text(text.replace("/srv/envs/ml/spack.lock", "spack.lock"))
    return tmp_path / "cachewatch.yaml"


def test_the_sample_is_complete(complete: Path) -> None:
    """Every key and every type of channel stands in it, and what is commented out is right too."""
    config = read_config(complete)
    jsonschema.validate(yaml.load(complete.read_text(), Loader), json.loads(json_schema()))
    keys = set(re.findall(r"([a-z_]+):(?=\s)", complete.read_text()))

    assert {channel.type for channel in config.channels.values()} == {
        "email", "sendmail", "maildir", "file", "feed", "webhook", "apprise"
    }  # fmt: skip
    # A secret is in a file of its own here, and not in the environment or in the open.
    named = {key for key in _all_keys(json.loads(json_schema())) if f"{key}_file" not in keys}
    assert {key for key in named if not key.endswith("_env")} - keys == set()


def test_the_schema_is_that_of_the_reader(run: Run) -> None:
    assert (ROOT / "config/cachewatch.schema.json").read_bytes() == json_schema()
    assert run("config", "schema").output.encode() == json_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


def test_editors_name_the_key_that_a_channel_does_not_have() -> None:
    """The type of a channel says which keys it has, so there is one error, where the mistake is."""
    channel = {"type": "file", "path": "{subscription}/{key}.md", "form": "md"}
    data = {"sources": {"public": {"git": "x"}}, "channels": {"archive": channel}}
    (error,) = jsonschema.Draft202012Validator(json.loads(json_schema())).iter_errors(data)

    assert list(error.path) == ["channels", "archive"]
    assert "'form' was unexpected" in error.message


@pytest.mark.slow
def test_schema_and_reader_agree(complete: Path) -> None:
    """Whichever section gets a key that does not exist, both refuse; what the reader takes, the schema takes."""
    data = yaml.load(complete.read_text(), Loader)
    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))

    def reads(changed: Any) -> bool:
        complete.write_text(yaml.safe_dump(changed))
        try:
            read_config(complete)
        except ConfigError:
            return False
        return True

    assert reads(data)
    sections = list(_sections(data))
    assert len(sections) >= 30
    for path in sections:
        changed = copy.deepcopy(data)
        section = reduce(getitem, path, changed)
        section["nonsense"] = 1
        assert not validator.is_valid(changed), path
        assert not reads(changed), path
        del section["nonsense"]
        for key in list(section):
            value = section.pop(key)
            assert validator.is_valid(changed) or not reads(changed), (path, key)
            section[key] = value


def test_what_is_shown_can_be_read(complete: Path) -> None:
    """`config show` prints a file that means the same, and stars where a secret is."""
    shown = show_config(read_config(complete))
    assert "geheim" not in shown
    assert shown.count('"***"') == 8

    without_secrets = re.sub(r"^(?=.*_file: )", "#", SAMPLE.read_text(), flags=re.MULTILINE)
    complete.write_text(without_secrets.replace("hold_for: 24h", "hold_for: never"))
    first = read_config(complete)
    shown = show_config(first)
    assert (shown.count('hold_for: "never"'), shown.count('hold_for: "1d"')) == (1, 1)
    complete.write_text(shown)
    assert read_config(complete) == first


def test_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run("config", "check", "--config", SAMPLE).output

    assert output.startswith(f"{SAMPLE}: no mistakes\n")
    assert "subscription ml-team: mail, archive, feed to ml-hpc@example.org, every Monday at 07:30 (Eur" in output
    (dates, _) = re.findall(r"^  next: (.*)$", output, re.MULTILINE)
    assert len(re.findall(r"Mon \d{4}-\d\d-\d\d 07:30", dates)) == 3
    assert "channel box: maildir, for snapshots" in output


def test_notes(run: Run, tmp_path: Path) -> None:
    text = SAMPLE.read_text().replace("2026-12-01", "2020-12-01").replace("[mail, box]", "[mail]")
    text = text.replace("sources: [public]", "sources: [ours]")
    text = text.replace("https://binaries.example.org/ours", "/nowhere/cache")
    text = text.replace("mailto:cachewatch+unsubscribe@hpc.example.org", "https://hpc.example.org/stop?{recipient}")
    (tmp_path / "x.yaml").write_text(re.sub(r"^operators:\n(  .*\n)+", "", text, flags=re.MULTILINE))
    error = run("config", "check", "--config", tmp_path / "x.yaml").error_of(0)

    assert [line.removeprefix("cachewatch: note: ") for line in error.splitlines()] == [
        "channels.box is not used",
        "silences.llvm-move ended on 2020-12-01; remove it",
        "there are no operators, so nobody is notified of alerts",
        (
            "channels.mail.unsubscribe: a click unsubscribes whoever the link names, and anybody can make one for others;"
            " add {token}, and `unsubscribe_key_file:` with its key"
        ),
        "sources.ours: there is nothing at /nowhere/cache yet",
        "whether the sources have what `since:` and filters name was not checked; `cachewatch config check --source` does that",
    ]
    (tmp_path / "y.yaml").write_text("version: 1\nsources: {a: {git: 'https://h/x'}}\n")
    without_filters = run("config", "check", "--config", tmp_path / "y.yaml").error
    assert "sources.a is polled, but no subscription uses it" in without_filters
    assert "not checked" not in without_filters


@pytest.mark.slow
def test_templates_are_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    text = SAMPLE.read_text().replace("#templates_dir:", "templates_dir:").replace("#    template:", "    template:")
    (tmp_path / "x.yaml").write_text(text)
    template = tmp_path / "templates/ours.html.j2"
    template.write_text("{{ digest.subscription }}")
    assert run("config", "check", "--config", tmp_path / "x.yaml").exit_code == 0
    template.write_text("{{ digest.nonsense }}")
    error = run("config", "check", "--config", tmp_path / "x.yaml").error_of(6)
    assert "ours.html.j2" in error
    assert "nonsense" in error


def test_check_without_secrets(run: Run, complete: Path) -> None:
    """A repository that holds the file and not the secrets can still check it."""
    (complete.parent / "smtp-password").unlink()

    assert run("config", "check", "--config", complete).exit_code == 2
    assert run("config", "check", "--config", complete, "--no-secrets").exit_code == 0
    shown = run("config", "show", "--config", complete).output
    assert "***" in shown
    assert max(len(line) for line in shown.splitlines() if "[" in line) <= 80


def test_check_of_a_broken_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text('version: 1\nsorces: {}\nstate: ["\\e[31m"]\n')
    error = run("config", "check", "--config", tmp_path / "x.yaml").error_of(2)

    assert "x.yaml:2: sorces: there is no such key; did you mean 'sources'?\n" in error
    assert "\x1b" not in error


def test_where_the_file_is(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CACHEWATCH_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home/cachewatch").mkdir(parents=True)
    places = ("home/cachewatch/cachewatch.yaml", "cachewatch.yaml", "other.yaml", "named.yaml")

    assert "create one with `cachewatch init`" in run("config", "check").error_of(2)
    for place in places:
        shutil.copy(SAMPLE, tmp_path / place)
        if place == "other.yaml":
            monkeypatch.setenv("CACHEWATCH_CONFIG", place)
        named = ["--config", place] if place == "named.yaml" else []
        assert run("config", "check", *named).output.partition(":")[0].endswith(place)


def test_a_strangers_file_does_not_count(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration names programs to run, so one that lies here and is another's is passed over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    shutil.copy(SAMPLE, tmp_path / "cachewatch.yaml")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    os.chown(tmp_path / "cachewatch.yaml", 12345, 12345)

    assert "there is no configuration" in run("config", "check").error


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], {"archive"}),
        (
            ["--to", "k@b.org", "--smtp", "mx.b.org", "--from", "Ö <a@b.org>", "--when", "daily 07:30"],
            {"archive", "mail"},
        ),
        (["--source", ".", "--name", "mine", "--timezone", "Europe/Berlin", "--when", "cron: 0 7 * * 1"], {"archive"}),
    ],
)
def test_init(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], names: set[str]) -> None:
    """What it writes is valid at once, for the reader and for editors, and nothing is ever overwritten."""
    monkeypatch.chdir(tmp_path)
    first = run("init", *options)
    written = (tmp_path / "cachewatch.yaml").read_bytes()
    second = run("init", *options)

    assert (first.exit_code, second.exit_code) == (0, 2)
    assert f"state will be stored in {read_config(tmp_path / 'cachewatch.yaml').state}." in first.error
    assert "already exists" in second.error
    assert (tmp_path / "cachewatch.yaml").read_bytes() == written
    assert set(read_config(tmp_path / "cachewatch.yaml").channels) == names
    jsonschema.validate(yaml.load(written, Loader), json.loads(json_schema()))
    assert run("config", "check").exit_code == 0


def test_init_in_another_folder_names_a_command_that_works(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    said = run("-C", "there", "init", "--to", "a@example.org").error
    monkeypatch.chdir(tmp_path)

    command = next(line for line in said.splitlines() if line.startswith("  cachewatch "))
    assert run(*command.split()[1:]).exit_code == 0


@pytest.mark.parametrize("when", ["each revision", "weekly mon 07:30"])
def test_init_names_other_schedules(run: Run, tmp_path: Path, when: str) -> None:
    run("init", tmp_path / "c.yaml", "--to", "a@example.org", "--when", when)

    assert (tmp_path / "c.yaml").read_text().count(when) == 1


def test_init_knows_what_is_safe(run: Run, tmp_path: Path) -> None:
    """Mail goes plain to this machine only."""
    servers = {"localhost:1025": "none", "mx.example.org": "starttls", "mx.example.org:465": "tls", "[::1]:25": "none"}
    for number, (server, security) in enumerate(servers.items()):
        run("init", tmp_path / f"{number}.yaml", "--to", "a@example.org", "--smtp", server)
        assert f"security: {security} " in (tmp_path / f"{number}.yaml").read_text()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("public", "public"),
        ("https://git.example.org/team/our-cache.git", "our-cache"),
        ("my cache (old).git", "my-cache-old"),
        ("...", "catalogue"),
    ],
)
def test_init_names_a_source_after_its_place(run: Run, tmp_path: Path, source: str, name: str) -> None:
    assert run("init", tmp_path / "a.yaml", "--source", source).exit_code == 0
    assert list(read_config(tmp_path / "a.yaml").sources) == [name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "kim"], "'kim' is not a mail address"),
        (["--to", "kim@exämple.org"], "is not plain ASCII"),
        (["--smtp", "mx:smtp"], "--smtp mx:smtp: write HOST or HOST:PORT"),
        (["--when", "sometimes"], "'sometimes' is not a schedule"),
        (["--timezone", "Mars/Olympus"], "is not a time zone"),
        (["--name", "../x"], "is not a valid name"),
        (["--source", "https://u:p@h/x"], "contains a password"),
    ],
)
def test_init_refuses(run: Run, tmp_path: Path, options: list[str], said: str) -> None:
    assert said in run("init", tmp_path / "cachewatch.yaml", *options).error_of(2)
    assert list(tmp_path.iterdir()) == []


def test_init_where_nothing_can_be_written(run: Run, tmp_path: Path) -> None:
    assert "cannot be written: No such file or directory" in run("init", tmp_path / "nowhere/x.yaml").error


def analyze(*arguments: object) -> str:
    done = subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_units_are_valid_and_hardened(tmp_path: Path) -> None:
    tools.program("systemd-analyze")
    program = Path(sys.executable).parent / "cachewatch"
    for name in UNITS:
        unit = (ROOT / "config" / name).read_text()
        (tmp_path / name).write_text(unit.replace("/usr/local/bin/cachewatch", str(program)))
    assert analyze("verify", *(tmp_path / name for name in UNITS)) == ""
    text = (ROOT / "docs/configuration.md").read_text()
    for name in UNITS[:2]:
        said = analyze("security", "--offline=true", "--no-pager", tmp_path / name)
        found = re.search(r"Overall exposure level for \S+: ([\d.]+) OK", said)
        assert found is not None
        assert f"exposure level of {found[1]}" in text


def test_units_agree() -> None:
    """Both services are hardened alike, and stop within the time that they have."""
    daemon, once = ((ROOT / "config" / name).read_text() for name in UNITS[:2])

    assert daemon.partition("LoadCredential")[2].partition("\n[Install]")[0] == once.partition("LoadCredential")[2]
    for line in ("DynamicUser=yes", "StateDirectory=cachewatch", "TimeoutStopSec=30", "KillMode=control-group"):
        assert line in daemon.splitlines()
        assert line in once.splitlines()
    # It is started again after ten failed starts too, but not where only somebody can repair what is wrong.
    again = {"StartLimitIntervalSec=0", "Restart=on-failure", "RestartPreventExitStatus=2 75"}
    assert again <= set(daemon.splitlines())
    assert "Type=notify" in daemon
    assert "WatchdogSec=" in daemon


def test_the_example_of_the_documentation_is_real(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CACHEWATCH_CONFIG", raising=False)
    text = (ROOT / "docs/configuration.md").read_text()
    first, second, expected = re.findall(r"```console\n\$ cachewatch (.*)\n\$ cachewatch (.*)\n((?s:.)*?)```", text)[0]

    assert run(*first.split()).exit_code == 0
    printed = run(*second.split()).output
    pages = [re.sub(r"\d{4}-\d\d-\d\d", "", shown) for shown in (printed, expected)]
    assert pages[0] == pages[1]


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    secret = re.compile(r"((state_)?password|url|urls|signing_key|unsubscribe_key|ping_url)_(file|env)")

    for key in set(_all_keys(json.loads(json_schema()))):
        assert secret.fullmatch(key) or re.search(rf"`([a-z]+\.)?{key}[`:. ]|{{{key}:", text), key
    # `python tests/configkeys.py` writes the tables.
    assert text.count("<!-- keys: ") == 15
    assert rewritten(text) == text


def _all_keys(schema: Any) -> Iterator[str]:
    """Yield every key of every section that still has an effect."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield from schema.get("properties", {})
        for value in schema.values():
            yield from _all_keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _all_keys(value)


def _sections(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all sections with fixed keys."""
    if isinstance(data, dict):
        if path not in {("sources",), ("channels",), ("subscriptions",), ("silences",)}:
            yield path
        for key, value in data.items():
            yield from _sections(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _sections(value, (*path, number))
