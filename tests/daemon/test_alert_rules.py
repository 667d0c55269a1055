"""The alert rules and the dashboard in config/: they name series that there are, and Prometheus does with them what they say."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml
from tools import program

from cachewatch.daemon.healthz_and_metrics import SERIES

ROOT = Path(__file__).parents[2]
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
    tried = {
        (test["alertname"], bool(test.get("exp_alerts")))
        for case in yaml.safe_load(TESTS.read_text())["tests"]
        for test in case["alert_rule_test"]
    }
    page = (ROOT / "docs/operations.md").read_text()
    for name in (rule["alert"] for rule in rules()):
        assert {(name, True), (name, False)} <= tried
        assert f"| `{name}` |" in page


def test_prometheus_does_what_the_rules_say(tmp_path: Path) -> None:
    for file in (RULES, TESTS):
        shutil.copy(file, tmp_path)
    for command in (("check", "rules", RULES.name), ("test", "rules", TESTS.name)):
        done = subprocess.run(
            [program("promtool"), *command], cwd=tmp_path, capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_what_the_panels_show(tmp_path: Path) -> None:
    found = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}))
    line = [program("promtool"), "check", "rules", "panels.yaml"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
