"""Completion: what the shells are given, and what they ask."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from select import select

import pytest
from click.shell_completion import ShellComplete
from conftest import Run
from tools import program

from cachewatch.cli import cli
from cachewatch.cli.command_table import COMPLETING


def offered(*words: str) -> list[str]:
    """Return what is offered for the last of these words."""
    complete = ShellComplete(cli, {}, "cachewatch", COMPLETING)
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture(autouse=True)
def standing(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in the repository of the demo."""
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
    """Tags, packages, stacks, kinds, revisions and versions are offered as far as they are known."""
    assert offered(*words) == expected


def test_names_of_the_configuration(tmp_path: Path) -> None:
    """Subscriptions and channels are offered; a configuration with mistakes offers nothing."""
    file = tmp_path / "c.yaml"
    file.write_text(
        f'version: 1\nstate: {tmp_path}/s\nsources: {{a: {{git: /x}}}}\nchannels: {{out: {{type: file, path: "{{subscription}}/{{key}}"}}}}\n'
        "subscriptions: {team: {channels: [out]}}\n"
    )

    assert offered("preview", "--config", str(file), "t") == ["team"]
    assert offered("test", "--config", str(file), "o") == ["out"]
    file.write_text("nonsense")
    assert offered("preview", "--config", str(file), "t") == []


def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Where nothing was cloned yet, a Tab neither clones nor says anything."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)

    assert offered("diff", "--tag", "d") == []
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(run: Run, shell: str) -> None:
    """Each shell has a script, which asks in the way that click understands."""
    output = run("completion", shell).output

    assert f"{COMPLETING}={shell}_complete" in output
    assert "_cachewatch_completion" in output


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give shells a home of their own, and a `cachewatch` that completes, or writes its arguments to a file."""
    file = tmp_path / "arguments"
    program_file = tmp_path / "bin" / "cachewatch"
    program_file.parent.mkdir()
    program_file.write_text(
        f'#!/bin/sh\n[ "$1" = completion ] || [ "${COMPLETING}" ] || {{ printf "%s " "$@" > {file}; exit; }}\n'
        f'exec {sys.executable} -m cachewatch "$@"\n'
    )
    program_file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program_file.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    return file


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cachewatch sta", "stacks state status"),
        ("cachewatch diff HEAD:develop-2025-06", "develop-2025-06-01"),
        ("cachewatch show py-keras@", "3.9.2"),
        ("cachewatch diff --stack=ml-darw", "ml-darwin-aarch64-mps"),
        ("cachewatch packages --tag ", "develop develop-2025-06-01 develop-2025-05-25"),
    ],
)
@pytest.mark.usefixtures("shell")
def test_bash(line: str, expected: str) -> None:
    """Bash divides words at colons, and is answered with the rest of the word that it has."""
    script = (
        'source <(cachewatch completion bash); COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; '
        '_cachewatch_completion cachewatch; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", line], capture_output=True, check=True)

    assert done.stdout.decode().strip() == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "cachewatch sta",
            ["stacks\tList the stacks of a tag", "state\t", "status\tShow the health of sources and channels"],
        ),
        ("cachewatch diff --out", ["--output\tWrite to FILE, which is replaced only when the output is complete."]),
        ("cachewatch diff HEAD:develop-2025-06", ["HEAD:develop-2025-06-01"]),
        ("cachewatch show py-keras@", ["py-keras@3.9.2"]),
        ("cachewatch diff --stack=ml-darw", ["--stack=ml-darwin-aarch64-mps"]),
        ("cachewatch diff --package '!py-k", ["!py-keras"]),
        ("cachewatch packages --tag develop-", ["develop-2025-05-25", "develop-2025-06-01"]),
        ("cachewatch coverage HE", ["HEAD"]),
    ],
)
@pytest.mark.usefixtures("shell")
def test_fish(line: str, expected: list[str]) -> None:
    """Fish is answered with whole words and their descriptions; where no name is known, it offers files."""
    script = "cachewatch completion fish | source; complete -C $argv[1]"
    done = subprocess.run([program("fish"), "-c", script, line], capture_output=True, text=True, check=True)
    found = done.stdout.splitlines()

    assert len(found) == len(expected)
    assert all(each.strip().startswith(start) for each, start in zip(found, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("cachewatch kin", "kinds"),
        ("cachewatch diff HEAD:develop-2025-06", "diff HEAD:develop-2025-06-01"),
        ("cachewatch show py-keras@", "show py-keras@3.9.2"),
        ("cachewatch diff --stack=ml-darw", "diff --stack=ml-darwin-aarch64-mps"),
        ("cachewatch diff --package '!py-k", "diff --package !py-keras"),
        ("cachewatch coverage HE", "coverage HEAD"),
    ],
)
def test_zsh(shell: Path, line: str, completed: str) -> None:
    """In a shell without any configuration of its own, a Tab completes the word, and Enter runs the command."""
    typed = f'eval "$(cachewatch completion zsh)"\n{line}\t\nexit\n'
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [program("zsh"), "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    ) as process:
        os.close(terminal)
        os.write(master, typed.encode())
        with suppress(OSError):  # which is how a terminal ends
            while select([master], [], [], 60)[0] and os.read(master, 65536):
                pass
        process.kill()
    os.close(master)

    assert shell.read_text().strip() == completed
