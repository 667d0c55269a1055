"""The command line: exit codes, where output goes, and what it says when it is used wrongly."""

import io
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from conftest import Run
from helpers import Record, catalogue, document, history, record, records, write
from tools import finding_commands

from cachewatch import __version__
from cachewatch.__main__ import cli
from cachewatch.cli.terminal import LONG_BYTES, ProgressLine
from cachewatch.core.kinds_and_specs import Kind


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two documents between which a version is upgraded and another one gone."""
    before = [record(1), record(2, versions=["0.9"], target="aarch64")]
    write(tmp_path, {"a.md": document(before), "b.md": document([record(3, versions=["2.0"])])})
    return tmp_path / "a.md", tmp_path / "b.md"


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        ((), 0),
        (("--exit-code",), 1),
        (("--exit-code", "--kind", "rebuilt"), 0),
        (("--fail-on", "upgraded"), 1),
        (("--fail-on", "downgraded"), 0),
        (("--fail-on", "downgraded", "--fail-on", "place-lost"), 1),
    ],
)
def test_exit_codes(run: Run, sides: tuple[Path, Path], options: tuple[str, ...], exit_code: int) -> None:
    assert run("diff", *sides, *options).exit_code == exit_code


def test_stat_has_one_form(run: Run, sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--stat` with another format is a contradiction, not a choice; its last sentence keeps to the width."""
    assert "--stat is text" in run("diff", *sides, "--stat", "--format", "json").error_of(2)
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, run("diff", *sides, "--stat").output.splitlines()[2:])) <= 60


def test_several_tags_are_named_first(run: Run, demo_repository: Path) -> None:
    """Who chose no tag reads which ones follow, and how to choose; data and a chosen tag need no such line."""
    said = "2 tags compared: develop, develop-2025-06-01 (--tag develop selects one)\n\n"

    assert run("diff", "--repo", demo_repository).output.startswith(f"{said}develop and develop-2025-06-01: ")
    assert run("diff", "--repo", demo_repository, "--stat").output.startswith(f"{said}develop\n")
    for chosen in (("--tag", "develop*"), ("HEAD~1:develop", "HEAD"), ("--format", "markdown")):
        assert "tags compared" not in run("diff", *chosen, "--repo", demo_repository).output


def gate(run: Run, folder: Path, before: dict[str, list[Record]], after: dict[str, list[Record]], *words: str) -> str:
    """Return what a gate says on standard error; empty where it passes."""
    repository = history(folder / "r.git", catalogue(before), catalogue(after))
    options = [option for word in words for option in ("--fail-on", word)]
    done = run("diff", "HEAD~1", "HEAD", "--repo", repository, "--format", "json", *options)
    assert done.exit_code == bool(done.error)
    return done.error


def test_a_package_that_came_or_went_has_no_other_attributes(run: Run, tmp_path: Path) -> None:
    """Another compiler is one of a package that is on both sides."""
    one, two = {"curl": [record(1)]}, {"curl": [record(1)], "hdf5": [record(2, compiler="gcc@14.2.0", os="rhel8")]}

    kinds = ("compiler", "os", "target", "variant")
    assert gate(run, tmp_path / "added", one, two, *kinds) == ""
    assert gate(run, tmp_path / "removed", two, one, *kinds) == ""


def test_an_upgrade_is_no_removal(run: Run, tmp_path: Path) -> None:
    before, after = {"curl": [record(1)]}, {"curl": [record(2, versions=["1.1"])]}

    assert gate(run, tmp_path, before, after, "removed") == ""
    said = gate(run, tmp_path / "v", before, after, "version-removed")
    assert said == "cachewatch: --fail-on version-removed: curl in e4s (x86_64_v3)\n"


def test_a_gate_says_what_it_stopped(run: Run, tmp_path: Path) -> None:
    """Each word that names something that happened, with the packages and places; the others are silent."""
    stays = [record(4, stacks=["hep"]), record(5, stacks=["hep"], target="zen4")]
    before = {
        "curl": [record(1, stacks=["e4s", "hep", "root"])],
        "hdf5": [record(2)],
        "llvm": [*stays, record(6, stacks=["cpu", "cuda"], target="zen4")],
        **{f"p{number}": [record(10 + number)] for number in range(7)},
    }
    after = {
        "curl": [record(1)],
        "llvm": [*stays, record(7, stacks=["cpu", "cuda"], target="zen5"), record(8)],
        "xz": [record(3)],
        **{f"p{number}": [record(20 + number, compiler="gcc@14.2.0")] for number in range(7)},
    }
    said = gate(run, tmp_path, before, after, "removed", "upgraded", "package-added", "compiler", "target")

    assert said.splitlines() == [
        "cachewatch: --fail-on removed: hdf5 in e4s (x86_64_v3)",
        "cachewatch: --fail-on package-added: xz",
        "cachewatch: --fail-on compiler: migrated gcc 11.4.0 -> 14.2.0",
        "cachewatch: --fail-on target: llvm in cpu (zen5) and 1 more place; llvm in cpu (zen4); llvm in cuda (zen4)",
    ]


def test_a_gate_says_in_which_tags_it_was_stopped(run: Run, demo_repository: Path) -> None:
    done = run("diff", "--repo", demo_repository, "--fail-on", "place-lost", "--fail-on", "downgraded")

    said = "cachewatch: --fail-on place-lost: py-build in radiuss (x86_64_v3) [develop, develop-2025-06-01]\n"
    assert (done.exit_code, done.error) == (1, said)


@pytest.mark.parametrize(
    ("options", "said", "error"),
    [
        (("--package", "py-keras", "--stack", "e4s"), "\n\nNew tag develop-2025-06-01. No diff", "new tag"),
        (("--kind", "tag-added"), "\n\nNew tag develop-2025-06-01.\n", "new tag"),
        (("--package", "zzz*"), "\n\nNo differences in your selection; 0 packages were searched", ""),
    ],
)
def test_a_gate_on_a_new_tag(run: Run, demo_repository: Path, options: tuple[str, ...], said: str, error: str) -> None:
    """A tag that has nothing of the selection does not count; the same holds for all tags at once."""
    given = ("diff", "HEAD~1", "HEAD", "--repo", demo_repository, *options)
    report = run(*given, "--tag", "develop-2025-06-01", "--exit-code")
    gate = run(*given, "--fail-on", "tag-added", "-q")

    assert (report.exit_code, gate.exit_code) == (bool(error), bool(error))
    assert said in report.output
    assert ("--fail-on tag-added: new tag develop-2025-06-01" in gate.error) == bool(error), gate.error


def test_what_was_not_compared_comes_first(run: Run, sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A gate cannot pass, nor fail for another reason, on half of the documents; a wrong meta is only said."""
    twice, meta = document([record(1), record(1, os="rhel8")]), document(records([7]), meta={"num_specs": 5})
    write(tmp_path, {"bad.md": b"bad", "twice.md": twice, "meta.md": meta})

    assert run("diff", sides[0], tmp_path / "bad.md", "--exit-code").exit_code == 4
    assert run("diff", sides[0], tmp_path / "twice.md", "--exit-code").exit_code == 4
    assert "bad.md: " in run("show", tmp_path / "bad.md").error_of(4)
    assert "listed 2 times" in run("show", tmp_path / "twice.md").error
    assert "meta says 5 specs" in run("diff", sides[0], tmp_path / "meta.md").error_of(0)


def test_output_to_a_file(run: Run, sides: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "out" / "report.txt"
    assert run("diff", *sides, "-o", target).exit_code == 2
    target.parent.mkdir()
    result = run("diff", *sides, "-o", target)

    assert (result.exit_code, result.output) == (0, "")
    assert target.read_text() == run("diff", *sides).output
    assert list(target.parent.iterdir()) == [target]
    os.umask(mask := os.umask(0))
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert run("diff", *sides, "-o", target.parent).exit_code == 2
    assert list(target.parent.iterdir()) == [target]


def test_ctrl_c_is_130(run: Run, sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cachewatch.cli.terminal.write", interrupt)
    assert "Traceback" not in run("diff", *sides).error_of(130)


def test_a_file_that_the_system_refuses_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no command foresaw it."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/srv/a\nb.db")

    monkeypatch.setattr("cachewatch.__main__.cli.main", refused)
    assert run("tags").error_of(2) == "cachewatch: /srv/a\\x0ab.db: Permission denied\n"


def test_version_and_unknown_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--version").output == f"cachewatch, {__version__}\n".replace(",", "")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("platform.platform", lambda: "Linux-6.8.0-60-generic-x86_64-with-glibc2.39")
    assert "\nLinux-6.8.0-60-generic-x86_64-with-glibc2.39\n" in run("--version", "--verbose").output
    assert "there is no command dif; did you mean diff?" in run("dif").error_of(2)
    assert cli.get_command(click.Context(cli), "nothing") is None
    assert f'\nversion = "{__version__}"\n' in (Path(__file__).parents[2] / "pyproject.toml").read_text()


def test_kinds(run: Run) -> None:
    legend, output, groups = run("help", "kinds").output.split("\n\n", 2)

    assert legend == "Kinds of change, worst first; + marks those that digests report by default:"

    assert [line[2:].split()[0] for line in output.splitlines()] == [kind.value for kind in Kind]
    assert re.search(r"^  lost +gone, going, other$", groups, re.MULTILINE)
    assert "elsewhere are place-lost and machine-lost, but not lost." in groups
    assert "lost while it kept others is retired or downgraded: not gone, going or other." in groups
    assert "In JSON, statements of the kind reconfigured are also about compilers and systems;" in groups
    assert "Digests sum up rebuilds, and kinds that they do not report, in their line Routine.\n" in groups
    assert re.search(r"^\+ unreadable .*never alone$", output, re.MULTILINE)
    for kind in ("stack-event", "beside", "no-longer", "prune", "turnover", "suspicious"):
        assert re.search(rf"^. {kind} .*five", output, re.MULTILINE), f"{kind} does not say from how many packages on"


def test_demo(run: Run, tmp_path: Path) -> None:
    output = run("demo", tmp_path / "kept.git").output_of(0)

    assert "the earlier revision is derived from them" in output
    assert "py-ml-dtypes  0.3.1 -> 0.4.0 (0.3.1 stays)" in output
    days = [f"develop-{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d} " for ago in (0, 1)]  # it may be midnight
    tags = run("tags", "--repo", tmp_path / "kept.git").output
    assert any(day in tags for day in days)
    assert "develop  25 May -> 1 Jun 2025" in run("demo", "--date", "2025-06-01").output
    assert run("demo", tmp_path / "kept.git").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("folder", [("my demo.git",), pytest.param((), marks=pytest.mark.nightly)])
def test_demo_commands_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: tuple[str, ...]) -> None:
    """Each is typed as the demo prints it, one after the other, in a shell in the folder of the demo."""
    monkeypatch.chdir(tmp_path)
    _, _, printed = run("demo", *folder).output.partition("Where to go next:\n")
    commands = [line[2:].partition("   ")[0] for line in printed.splitlines() if re.match(r"  (cd|cachewatch) ", line)]
    typed = ["bash", "-exc", "\n".join(commands)]
    done = subprocess.run(typed, env=finding_commands(), capture_output=True, text=True, check=False)

    assert (done.returncode, len(commands)) == (0, 7), done.stderr
    assert done.stderr.count("\n+ cachewatch ") + done.stderr.startswith("+ cachewatch") == 7 - len(folder)
    today = datetime.now(UTC)
    days = f"{today:%Y-%m-%d}|{today - timedelta(days=1):%Y-%m-%d}"
    assert re.search(rf"^develop-({days}) +5 +9$", done.stdout, re.MULTILINE)


def test_hashes_that_name_other_specs_are_reported(run: Run, tmp_path: Path) -> None:
    """What changed is told as usual; a warning names the hashes, and nothing is missing, so the exit code is as without."""
    write(tmp_path, {"a.md": document(records(range(3))), "b.md": document(records(range(3), versions=["2.0"]))})
    text = run("diff", tmp_path / "a.md", tmp_path / "b.md")
    data = json.loads(run("diff", tmp_path / "a.md", tmp_path / "b.md", "--format", "json").output)

    assert text.exit_code == 0
    assert "zlib  1.0 -> 2.0  +3 -3" in text.output
    message = "3 hashes now name another spec, first aaaaaaa: version 1.0, now 2.0"
    assert text.error == f"cachewatch: warning: {tmp_path / 'b.md'}: reused-hash: {message}\n"
    (found,) = data["changesets"]
    assert found["warnings"] == [{"path": str(tmp_path / "b.md"), "kind": "reused-hash", "message": message}]
    (package,) = found["packages"]
    sides = [[spec["hash"] for spec in package["specs"][name]] for name in ("added", "removed")]
    assert sides[0] == sides[1] == [record(number)["hash"] for number in range(3)]
    assert package["specs"]["upgraded"] == 3


def test_a_value_that_no_spec_gives_any_more_is_one_warning(run: Run, tmp_path: Path) -> None:
    """Nothing is reported as changed, and a value that one spec alone has lost is a change under its hash."""
    for name, of in (("a", {}), ("b", {"os": ...})):
        (tmp_path / f"{name}.md").write_bytes(document([record(n, **of) for n in range(3)]))
    (tmp_path / "c.md").write_bytes(document([record(0, os=...), record(1), record(2)]))
    lacking, one = (run("diff", tmp_path / "a.md", tmp_path / name, "--exit-code") for name in ("b.md", "c.md"))

    assert (lacking.exit_code, one.exit_code) == (0, 1)
    assert "No differences in 1 package." in lacking.output
    message = "no spec gives its operating system any more; the 3 that stay count as unchanged"
    assert lacking.error.splitlines()[-1] == f"cachewatch: warning: {tmp_path / 'b.md'}: inconsistent: {message}"
    assert "reused-hash: hash aaaaaaa now names another spec: operating system ubuntu22.04, now not given" in one.error


def test_many_warnings_are_capped(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "after", {f"p{number}.md": b"---\nspec_details: [" for number in range(25)})
    short = run("diff", "/dev/null", tmp_path / "after")
    long = run("diff", "/dev/null", tmp_path / "after", "--all")

    assert short.error.count("unreadable") == 20
    assert "... and 5 more (--all)" in short.error
    assert long.error.count("unreadable") == 25
    assert "25 documents could not be compared" in short.output


def test_a_progress_bar_for_people_only(run: Run, sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Long work on a terminal has a line that vanishes; anything else has none."""
    monkeypatch.setattr("cachewatch.cli.terminal.LONG_BYTES", 0)
    assert run("diff", *sides).error == ""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    run("diff", *sides)
    assert terminal.getvalue().endswith("\r\x1b[K")
    terminal.truncate(0)
    run("diff", *sides, "-q")
    assert "\x1b" not in terminal.getvalue()


def test_progress_of_git_is_shown_safely(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a server says is drawn without its escapes, and only if it is about progress."""
    monkeypatch.setattr("cachewatch.cli.terminal.is_drawing", lambda: True)
    line = ProgressLine()
    line.git("remote: \x1b[31mhello")
    assert capsys.readouterr().err == ""
    line.git("remote: \x1b]0;x\x07Counting: 50% (1/2)")
    assert capsys.readouterr().err == "\r\x1b[Kremote: \\x1b]0;x\\x07Counting: 50% (1/2)"
    line.git("Receiving objects: 100% (2/2), done.")
    assert capsys.readouterr().err == "\r\x1b[K"
    line.begin(2 * LONG_BYTES)
    line.advance(LONG_BYTES)
    line.close()
    assert "comparing [###############               ]  50%" in capsys.readouterr().err


def test_a_progress_bar_estimates_the_rest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Once enough is done; what was done before this run says nothing about its pace."""
    monkeypatch.setattr("cachewatch.cli.terminal.is_drawing", lambda: True)
    seconds = iter([100.0, 101.0, 110.0, 1900.0, *[100.0 + 100 * 3600] * 4])
    monkeypatch.setattr("cachewatch.cli.terminal.monotonic", lambda: next(seconds))
    line = ProgressLine("indexing")
    line.begin(10_000, 5_000)
    for said in ("51%", "52%, 4 minutes left", "53%, 8 hours left", "54%, 47 days left"):
        line.advance(100)
        assert capsys.readouterr().err.endswith(f"]  {said}"), said
    line.advance(4_600)
    assert capsys.readouterr().err == "\r\x1b[K"
    line.begin(10_000, 9_900)
    line.advance(50)
    assert capsys.readouterr().err == ""


def cachewatch(*arguments: object, shell: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the command as a process of its own, through a shell."""
    command = " ".join(f"'{argument}'" for argument in (sys.executable, "-m", "cachewatch", *arguments))
    return subprocess.run(["bash", "-c", f"{command} {shell}"], capture_output=True, check=False)


def test_output_through_links_devices_and_pipes(run: Run, sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A link keeps pointing where it did, a pipe stays a pipe, and a file keeps who may read it."""
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    os.mkfifo(fifo)
    run("diff", *sides, "-o", link)
    done = cachewatch("diff", *sides, "-o", fifo, shell=f"& cat {fifo}; wait")

    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert done.stdout.decode() == target.read_text()
    assert fifo.is_fifo()


@pytest.mark.parametrize("shell", [">&-", ">/dev/full"])
def test_standard_output_that_takes_nothing(sides: tuple[Path, Path], shell: str) -> None:
    """Closed or full: one sentence, and no exit code that means something else."""
    done = cachewatch("diff", *sides, "--format", "json", "--exit-code", shell=shell)

    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"cachewatch: standard output")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("shell", [">/dev/full 2>/dev/full", "2>&-"])
def test_standard_error_that_takes_nothing(tmp_path: Path, shell: str) -> None:
    """Where there is no room for the sentence, the exit code says what happened all the same."""
    (file := tmp_path / "zlib.md").write_bytes(document([record(1, versions=[])]))

    assert cachewatch("diff", "nowhere.md", "nothing.md", shell=shell).returncode == 2
    assert cachewatch("diff", "/dev/null", file, "-q", "--fail-on", "gone", shell=shell).returncode == 0, "a warning"


def test_output_that_nobody_reads(sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A reader that is gone ends us as it ends any other command."""
    command = [sys.executable, "-m", "cachewatch", "diff", *map(str, sides), "--format", "json", "--exit-code"]
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, check=False)
    (file := tmp_path / "warned.md").write_bytes(document([record(1, versions=[])]))
    warned = subprocess.run([*command[:4], "/dev/null", file, "-q", "--fail-on", "gone"], stderr=written, check=False)
    os.close(written)

    assert (done.returncode, done.stderr, warned.returncode) == (141, b"", 0)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.md")
    file.write_bytes(document(records([1])))
    for form in ("json", "markdown"):
        command = [sys.executable, "-m", "cachewatch", "diff", str(file), str(file), "--format", form]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), form


def test_a_terminated_command_leaves_nothing(sides: tuple[Path, Path], tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom cachewatch.__main__ import main\nimport cachewatch.cli.diff_and_fail_on as d\n"
        "def write(*_):\n    yield b'x'\n    os.kill(os.getpid(), signal.SIGTERM)\n    yield b'y'\n"
        "d._format = lambda *_, **__: (None, write)\n"
        f"sys.argv = ['cachewatch', 'diff', {str(sides[0])!r}, {str(sides[1])!r}, '-o', {str(tmp_path / 'out')!r}]\nmain()"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 143
    assert {file.name for file in tmp_path.iterdir()} == {"a.md", "b.md"}


_COUNTED = """
import atexit, sys
from cachewatch.__main__ import main
ours = lambda name: name[:10] == "cachewatch" and sys.modules[name].__file__[-12:] != "/__init__.py"
atexit.register(lambda: print(len(list(filter(ours, sys.modules))), "git" in sys.modules, file=sys.stderr))
main()
"""


def test_commands_load_few_modules(sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A comparison of documents loads at most 40 modules and no GitPython; a pass that sends a mail at most 100."""
    history(tmp_path / "r.git", catalogue({"a": records([1])}), catalogue({"a": records([2])}))
    (tmp_path / "c.yaml").write_text(
        f'version: 1\nstate: {tmp_path}/state\nsources: {{s: {{git: {tmp_path}/r.git, since: "HEAD~1"}}}}\n'
        f"channels: {{box: {{type: maildir, from: a@example.org, path: {tmp_path}/box}}}}\n"
        "subscriptions: {all: {when: each revision, to: [b@example.org], changes: [all], channels: [box]}}\n"
    )
    for most, loads_git, arguments in ((40, "False", ("diff", *sides)), (100, "True", ("once", "--config", "c.yaml"))):
        command = [sys.executable, "-c", _COUNTED, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=tmp_path)
        number, has_git = done.stderr.split()[-2:]
        assert (int(number) <= most, has_git) == (True, loads_git), done.stderr
    assert len(list((tmp_path / "box/new").iterdir())) == 1
