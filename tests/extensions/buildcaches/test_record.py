"""What `record` says to the person who runs it."""

import shlex
from pathlib import Path

import pytest
from conftest import Run


def test_the_next_command_runs(run: Run, buildcaches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first recording there is nothing to compare yet; after the second one there is."""
    into = tmp_path / "my catalogue.git"
    first = run("record", buildcaches / "v2" / "1-initial", "--into", into).output.splitlines()[-1]
    listed = run(*_command(first))
    second = run("record", buildcaches / "v2" / "2-package-added", "--into", into).output.splitlines()[-1]
    compared = run(*_command(second))

    assert "lists its packages; record again when the cache has changed." in first
    assert (listed.exit_code, listed.output.split()[0]) == (0, "package")
    assert "shows what changed." in second
    assert (compared.exit_code, "1 revision" in compared.output) == (0, True)
    monkeypatch.setenv("COLUMNS", "60")
    told = run("record", buildcaches / "v2" / "1-initial", "--into", tmp_path / "narrow.git").output.splitlines()
    assert max(map(len, told)) <= 60


def test_nothing_new_and_quiet_recordings_name_no_command(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """There is nothing to look at, or nobody who looks."""
    source = buildcaches / "v2" / "1-initial"

    assert run("record", source, "--into", tmp_path / "c.git", "--quiet").output == ""
    assert run("record", source, "--into", tmp_path / "c.git").output == f"{tmp_path}/c.git: no changes.\n"


def test_nothing_is_recorded_where_the_configuration_names_hooks(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """Git 2.54 and newer run their commands as soon as a branch moves."""
    into = tmp_path / "c.git"
    assert run("record", buildcaches / "v2" / "1-initial", "--into", into).exit_code == 0
    with (into / "config").open("a") as config:
        config.write('[hook "a"]\n\tevent = reference-transaction\n\tcommand = touch ran\n[hooks]\n\tx = y\n')
    error = run("record", buildcaches / "v2" / "2-package-added", "--into", into).error_of(3)
    assert "its configuration names commands as hooks" in error
    (into / "config").write_text((into / "config").read_text().partition("[hook ")[0] + "[hooks]\n\tx = y\n")
    assert run("record", buildcaches / "v2" / "2-package-added", "--into", into).exit_code == 0


def _command(line: str) -> list[str]:
    """Return the arguments of the command that a line quotes."""
    program, *arguments = shlex.split(line.split("`")[1])
    assert program == "cachewatch"
    return arguments
