"""/healthz and /metrics: who may read them, and that nobody can keep them from others."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from tools import program

from cachewatch.daemon import monitor_server
from cachewatch.daemon.monitor_server import SERIES, MonitorPage, MonitorServer, Pages

pytestmark = pytest.mark.usefixtures("loopback")

PAGES: Pages = {
    "/healthz": lambda: MonitorPage(200, "ok\n"),
    "/metrics": lambda: MonitorPage(503, "stuck\n", "text/plain"),
}


@contextmanager
def listening(host: str) -> Iterator[int]:
    server = MonitorServer(host, 0, PAGES)
    try:
        yield server.server_port
    finally:
        server.stop()


def ask(port: int, path: str, *, host: str = "127.0.0.1", name: str = "", method: str = "GET") -> tuple[int, str]:
    client = HTTPConnection(host, port, timeout=60)
    client.request(method, path, headers={"Host": name} if name else {})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


def test_pages() -> None:
    with listening("127.0.0.1") as port:
        assert ask(port, "/healthz") == (200, "ok\n")
        assert ask(port, "/metrics?name=x") == (503, "stuck\n")
        assert ask(port, "/../etc/passwd") == (404, "not found\n")
        assert ask(port, "/healthz", method="HEAD") == (200, "")
        assert ask(port, "/healthz", method="POST")[0] == 501
        # A page elsewhere cannot read it through a name of its own.
        assert ask(port, "/healthz", name=f"evil.example:{port}")[0] == 421
        assert ask(port, "/healthz", name="evil.example")[0] == 421
        assert ask(port, "/healthz", name="localhost")[0] == 200
        assert ask(port, "/healthz", name=f"localhost:{port}")[0] == 200
    with listening("0.0.0.0") as port:  # whoever asks for the machine by a name that we do not know
        assert ask(port, "/healthz", name=f"build-server.example.org:{port}") == (200, "ok\n")


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with listening("[::1]") as port:
        assert ask(port, "/healthz", host="::1") == (200, "ok\n")


def test_nobody_stays_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also who sends a byte now and then, for whom the time without any never ends."""
    monkeypatch.setattr(monitor_server, "_LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(monitor_server._Handler, "timeout", 600)
    with listening("127.0.0.1") as port, socket.create_connection(("127.0.0.1", port), 60) as slow:
        slow.sendall(b"G")
        assert slow.recv(1) == b""


RULES = ROOT / "config/prometheus-alerts.yaml"
DASHBOARD = ROOT / "config/grafana-dashboard.json"
TESTS = Path(__file__).with_name("alerts.test.yaml")
_SERIES = re.compile(r"\bcachewatch_[a-z_]+\b")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> list[str]:
    """Return what the panels of the dashboard show."""
    return [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]


def test_rules_and_panels_name_series_that_there_are() -> None:
    for expression in (*(rule["expr"] for rule in rules()), *expressions()):
        assert set(_SERIES.findall(expression)) <= set(SERIES), expression


def test_every_alert_is_tried_and_explained() -> None:
    cases = [test for case in yaml.safe_load(TESTS.read_text())["tests"] for test in case["alert_rule_test"]]
    tried = {(test["alertname"], bool(test.get("exp_alerts"))) for test in cases}
    page = (ROOT / "docs/operations.md").read_text()
    for name in (rule["alert"] for rule in rules()):
        assert {(name, True), (name, False)} <= tried
        assert f"| `{name}` |" in page


def test_prometheus_does_what_the_rules_say_and_understands_the_panels(tmp_path: Path) -> None:
    for file in (RULES, TESTS):
        shutil.copy(file, tmp_path)
    found = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}))
    for command in (("check", "rules", RULES.name), ("test", "rules", TESTS.name), ("check", "rules", "panels.yaml")):
        line = [program("promtool"), *command]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
