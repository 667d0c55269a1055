"""Completion: what the shells are given, and what they ask."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from cachewatch.__main__ import cli
from cachewatch.cli.help_and_exit_codes import COMPLETING


def offered(*words: str) -> list[str]:
    complete = ShellComplete(cli, {}, "cachewatch", COMPLETING)
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture(autouse=True)
def standing(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo_repository)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["st"], ["stacks", "state", "status"]),
        (["diff", "--tag", "develop-"], ["develop-2025-06-01", "develop-2025-05-25"]),
        (["diff", "--package", "!py-k"], ["!py-keras"]),
        (["diff", "--stack", "e4s"], ["e4s", "e4s-neoverse_v1"]),
        (["diff", "--kind", "reb"], ["rebuilt", "rebuild"]),
        (["diff", "--fail-on", "tag-"], ["tag-added", "tag-removed"]),
        (["diff", "HEAD~1..ma"], ["HEAD~1..main"]),
        (["diff", "HEAD~1", "HEAD:develop-2025-06"], ["HEAD:develop-2025-06-01"]),
        (["show", "py-ml-dtypes@0"], ["py-ml-dtypes@0.4.0", "py-ml-dtypes@0.3.1"]),
        (["show", "--tag", "develop-2025-05-25", "py-k"], []),
        (["packages", "--rev", "HEAD~1", "py-k"], []),
        (["diff", "--repo", "/nowhere", "--tag", "d"], []),
    ],
)
def test_names_of_the_catalogue(words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_names_of_the_configuration(tmp_path: Path) -> None:
    """Subscriptions and channels are offered; a configuration with mistakes offers nothing."""
    file = tmp_path / "c.yaml"
    file.write_text(
        f'version: 1\nstate: {tmp_path}/s\nsources: {{a: {{git: /x}}}}\nchannels: {{out: {{type: file, path: "{{subscription}}/{{key}}"}}}}\n'
        "subscriptions: {team: {channels: [out]}}\n"
    )

    assert offered("preview", "--config", str(file), "t") == ["team"]
    assert offered("config", "test", "--config", str(file), "o") == ["out"]
    file.write_text("nonsense")
    assert offered("preview", "--config", str(file), "t") == []


def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)

    assert offered("diff", "--tag", "d") == []
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
