"""Packages of others that extend cachewatch by an entry point."""

import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

HELLO = {
    "hello/__init__.py": """
        from cachewatch.hooks import Command, extends

        @extends
        def commands():
            return [Command("Greet", "hello", "Say hello.", "hello.command:hello")]
    """,
    "hello/command.py": """
        import click

        @click.command()
        def hello():
            click.echo("hello!")
    """,
}


def installed(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """Put a package into a folder, as pip installs one, with its entry point."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[cachewatch.extensions]\n{name} = {name}\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text))
    return folder


def cachewatch(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "cachewatch", *map(str, arguments)]
    return subprocess.run(command, env=environment, text=True, check=False, capture_output=True)


def test_a_package_of_others_adds_a_command(tmp_path: Path) -> None:
    """It stands in the help, below a purpose of its own, and does what it does."""
    folder = installed(tmp_path, "hello", HELLO)
    assert cachewatch(folder, "hello").stdout == "hello!\n"
    assert "Greet:\n  hello       Say hello.\n" in cachewatch(folder, "--help").stdout
    listed = cachewatch(folder, "--version", "--verbose").stdout.splitlines()
    assert "  hello (hello)" in listed
    assert listed[1].startswith(f"Python {platform.python_version()}, git 2.")
    assert "  history (cachewatch.extensions.history)" in listed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("from cachewatch.hooks import extends\n@extends\ndef comands():\n    return []", "unknown hook 'comands'"),
        (
            "from cachewatch.hooks import extends\n@extends\ndef commands():\n    raise OSError(5, 'no')",
            "OSError: [Errno 5] no",
        ),
    ],
    ids=["import", "unknown", "raises"],
)
def test_one_that_cannot_be_loaded_is_named(tmp_path: Path, text: str, said: str) -> None:
    folder = installed(tmp_path, "hello", HELLO)
    installed(tmp_path, "broken", {"broken/__init__.py": text})
    done = cachewatch(folder, "hello")
    assert (done.returncode, done.stdout) == (0, "hello!\n")
    assert done.stderr.startswith("cachewatch: warning: the extension broken cannot be loaded: ")
    assert said in done.stderr
    assert "broken" not in cachewatch(folder, "--version", "--verbose").stdout


def test_keys_that_cannot_be_imported_are_named_where_they_are_used(tmp_path: Path) -> None:
    """Every other section of the configuration is read."""
    kinds = """
        from cachewatch.hooks import ChannelKind, extends

        @extends
        def channel_kinds():
            return [ChannelKind("smoke", "smoke.nowhere:Smoke", "smoke.nowhere:Smoke")]
    """
    folder = installed(tmp_path, "smoke", {"smoke/__init__.py": kinds})
    config = tmp_path / "cachewatch.yaml"
    config.write_text("sources: {ours: {git: catalogue.git}}\n")
    assert cachewatch(folder, "config", "check", "--config", config).returncode == 0
    config.write_text(f"{config.read_text()}channels: {{signal: {{type: smoke}}}}\n")
    done = cachewatch(folder, "config", "check", "--config", config)
    assert done.returncode == 2
    assert "channels.signal: smoke.nowhere:Smoke cannot be loaded: No module named 'smoke.nowhere'" in done.stderr
