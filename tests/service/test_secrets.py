"""Secrets of every kind in a daemon that fails wherever it uses them: none of them is ever said, shown, stored or handed on."""

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from conftest import Run
from gitservers import Faults, smart_http
from helpers import catalogue, records
from mailservers import Post, free_port, post
from servers import Asked, Says, serving
from station import Site, wait_for
from upstream import descendants

from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store.transactions_and_sqlite import open_database

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS"),
]

# One for each way in which a secret can be given, and each place that uses one.
KINDS = ("mail", "hook", "key", "chat", "ping", "git", "token", "inline")
SECRETS = {name: f"canary-{name}-8f31c2d7" for name in KINDS}
CONFIG = """\
version: 1
state: {folder}/state
sources:
  public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}
  private: {git: {git}/upstream.git, poll: {every: 1s, jitter: 0s}, credentials: {store_file: logins}}
  asked: {git: {git}/upstream.git, poll: {every: 1s, jitter: 0s}, credentials: {helper: "{helper}"}}
  cache: {type: buildcache, url: "{http}/cache", poll: {every: 1s, jitter: 0s}, credentials: {token_file: token}}
channels:
  mail:
    type: email
    from: cachewatch@example.org
    smtp: {host: 127.0.0.1, port: {smtp}, security: none, user: kim, password_file: smtp-password}
  again:
    type: email
    from: cachewatch@example.org
    smtp: {host: 127.0.0.1, port: {smtp2}, security: none, user: kim, password: {inline}}
  hook: {type: webhook, url_env: HOOK_URL, signing_key_file: hook-key}
  chat: {type: apprise, urls_env: CHAT_URLS}
  local: {type: sendmail, from: cachewatch@example.org, command: [{folder}/sendmail]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt, json]}
operators: {channels: [desk], after_failures: 1}
monitor: {listen: "127.0.0.1:{port}", ping_url_file: ping}
subscriptions:
  ml: {to: [kim@example.org], channels: [mail, again, hook, chat, local, desk], changes: [all], match: {sources: [public]}}
"""
DUMP = '#!/bin/sh\n{{ cat /proc/$$/environ /proc/$PPID/cmdline; echo "$@"; }} >> {folder}/children; exit 75\n'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Secrets lie where an operator would put them, and every server repeats in its refusals what it was told."""
    made = Site(tmp_path, [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1]), "new": records([2])})])
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    files = {"credentials/smtp-password": "mail", "credentials/hook-key": "key", "token": "token"}
    for name, text in ((name, SECRETS[key]) for name, key in files.items()):
        write(tmp_path / name, text)
    for name in ("sendmail", "helper"):
        write(tmp_path / name, DUMP.format(folder=tmp_path), 0o700)
    return made


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def repeat(asked: Asked) -> Says:
    """Refuse, and say back all that was asked with."""
    said = f"{asked.path} {asked.headers}"
    return Says(500 if "hook" in asked.path else 403, said.encode(), {"X-Said": said[:500]})


def echoing(secret: str) -> AbstractContextManager[Post]:
    """A mail server that refuses a password, and says which."""
    replies = {"AUTH": [f"535 5.7.8 not with {secret}"] * 99}
    return post(replies=replies, auth_required=True, auth_require_tls=False)


@contextmanager
def sampling(process: int) -> Iterator[list[bytes]]:
    """Look at the command lines and environments of all that a process starts, as often as can be."""
    seen: list[bytes] = []
    stopping = threading.Event()

    def look() -> None:
        while not stopping.wait(0.03):
            for child in descendants(process):
                with suppress(OSError):
                    line, environment = (Path(f"/proc/{child}/{name}").read_bytes() for name in ("cmdline", "environ"))
                    if (
                        line and b"cachewatch\0daemon" not in line
                    ):  # or it is still the daemon, about to become another program
                        seen.append(environment + line)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stopping.set()
        thread.join()


@pytest.mark.slow
def test_no_secret_is_ever_said(site: Site, run: Run) -> None:
    """Not in the log, the state, notices, figures, other processes, nor by any command."""
    folder, path = site.folder, site.folder / "cachewatch.yaml"
    with ExitStack() as stack:
        smtp, smtp2 = (stack.enter_context(echoing(SECRETS[name])) for name in ("mail", "inline"))
        http = stack.enter_context(serving(repeat))
        git = stack.enter_context(smart_http(folder, Faults(user="nobody:else")))
        write(folder / "logins", git.replace("://", f"://kim:{SECRETS['git']}@") + "\n")
        write(folder / "ping", f"{http.url}/ping/{SECRETS['ping']}")
        port = free_port()
        text = CONFIG
        ports = {"smtp": smtp.port, "smtp2": smtp2.port, "port": port, "http": http.url}
        values = ports | {"folder": folder, "git": git, "inline": SECRETS["inline"], "helper": f"!{folder}/helper"}
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        path.write_text(text)
        path.chmod(0o600)
        environment = os.environ | {
            "HOOK_URL": f"{http.url}/hook/{SECRETS['hook']}?key={SECRETS['hook']}",
            "CHAT_URLS": f"json://kim:{SECRETS['chat']}@{http.url.removeprefix('http://')}/chat/{SECRETS['chat']}",
            "CREDENTIALS_DIRECTORY": str(folder / "credentials"),
        }
        command = [sys.executable, "-m", "cachewatch", "daemon", "--config", str(path), "--log-format", "json"]
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log, env=environment) as daemon:
            try:
                with sampling(daemon.pid) as seen:
                    wait_for(lambda: "stream.begun" in (folder / "log").read_text())
                    site.publish(1)
                    for name in ("mail", "again", "hook", "chat", "local", "desk"):
                        wait_for(partial(settled, site, name))
                    pages = [read(f"http://127.0.0.1:{port}/{page}") for page in ("metrics", "healthz", "readyz")]
                daemon.terminate()
                assert daemon.wait(120) == 0
            finally:
                daemon.kill()
    assert len(seen) > 10
    assert (folder / "children").read_bytes().count(b"-- kim@example.org") >= 1
    assert any(SECRETS["hook"] in asked.path for asked in http.asked), "they were used"
    assert any("Bearer " + SECRETS["token"] in asked.headers.get("authorization", "") for asked in http.asked)
    said = {"log": (folder / "log").read_bytes(), "pages": b"".join(pages), "stored": stored(folder / "state")}
    said["children"] = (folder / "children").read_bytes() + b"".join(seen)
    written = (file for where in ("state", "desk") for file in (folder / where).rglob("*"))
    said |= {str(file): file.read_bytes() for file in written if file.is_file()}
    status, config = ["status"], ["config"]
    listed = ["deliveries", "list", "--format", "json"]
    for words in ([*config, "show"], [*config, "check", "--no-secrets"], status, [*status, "--format", "json"], listed):
        done = run(*words, "--config", path)
        assert done.exit_code == 0, done.error
        said[" ".join(words)] = (done.output + done.error).encode()
    forms = {name: (secret.encode(), base64.b64encode(secret.encode())) for name, secret in SECRETS.items()}
    pairs = ((where, name) for where in said for name in SECRETS)
    found = {(where, name) for where, name in pairs if any(form in said[where] for form in forms[name])}
    assert found == set()
    assert "***" in said["config show"].decode()


def stored(folder: Path) -> bytes:
    """Return all that the database keeps compressed."""
    with closing(open_database(folder)) as database, database.read() as connection:
        numbers = [each.id for each in deliveries.find(connection)]
        return (
            b"".join(deliveries.message(connection, number).payload for number in numbers)
            + repr([deliveries.history(connection, number) for number in numbers]).encode()
        )


def read(url: str) -> bytes:
    """Return a page, also one that says that something is wrong."""
    try:
        with urlopen(url) as answer:
            return bytes(answer.read())
    except HTTPError as error:
        with error:
            return error.read()


def settled(site: Site, channel: str) -> bool:
    """Tell whether something came of the first attempt through a channel."""
    with suppress(Exception):
        tried = [each for each in site.deliveries() if each.channel == channel and each.state != "sending"]
        return any(each.said or each.attempts for each in tried)
    return False


def test_what_runs_git_begins_nothing_when_it_is_loaded(tmp_path: Path) -> None:
    """Before the configuration is read, the environment still holds the secrets."""
    (tmp_path / "bin").mkdir()
    write(tmp_path / "bin/git", f"#!/bin/sh\nenv > {tmp_path}/seen\n", 0o700)
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOOK_URL": SECRETS["hook"]}
    subprocess.run([sys.executable, "-c", "import cachewatch.git.local_repository"], env=environment, check=True)
    assert not (tmp_path / "seen").exists()
