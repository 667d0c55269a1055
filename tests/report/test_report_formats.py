"""How a report looks: text for people, and nothing in it that harms a terminal, a table or a page."""

import csv
import io
import json
import random
import re
import sys
import unicodedata
from datetime import timedelta
from pathlib import Path

import digests
import pytest
import scripted
from conftest import Golden, Run
from helpers import START, NewRevision, catalogue, document, history, record, records, write, write_repository
from pairs import some_pair

from cachewatch import comparison_flow
from cachewatch.core.escaping_and_mentions import markdown, safe
from cachewatch.core.filters_and_spec_patterns import select
from cachewatch.report.dates_and_totals import accounting, days, how_long


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("demo.txt", "diff HEAD~1 HEAD --tag develop"),
        ("demo.md", "diff HEAD~1 HEAD --tag develop --format markdown"),
        ("demo.html", "diff HEAD~1 HEAD --tag develop --format html"),
        ("show.txt", "show py-build"),
    ],
)
def test_the_demo_looks_as_it_should(run: Run, demo_repository: Path, golden: Golden, file: str, command: str) -> None:
    """What is said of the bundled documents, exactly; pytest --rewrite-golden when it should change."""
    output = run(*command.split(), "--repo", demo_repository).output

    assert output == golden(file, output)


def test_tags_that_changed_alike_are_told_together(run: Run, demo_repository: Path) -> None:
    """A branch and its new snapshot: both are named with what they are compared with, and the changes once."""
    repository = ("--repo", demo_repository)
    text = run("diff", *repository).output.partition("\n\n")[2]
    alone = run("diff", *repository, "--tag", "develop").output

    assert text == (
        "develop and develop-2025-06-01: the same changes\n"
        f"  {alone.splitlines()[0]}\n"
        f"  develop-2025-05-25 -> new tag develop-2025-06-01  1 Jun 2025  {re.findall(r'[(][^)]*', text)[1]})\n\n"
        f"{alone.partition(chr(10) * 2)[2]}"
    )
    short = run("diff", *repository, "--stat").output
    assert short.count("\ndevelop-2025-05-25 -> new tag develop-2025-06-01  ") == short.count("\ndevelop\n") == 1
    for form in ("markdown", "html"):
        output = run("diff", *repository, "--format", form).output
        assert output.count("New packages: 1") == (form == "markdown")
        assert output.count("develop and develop-2025-06-01") == (1 if form == "markdown" else 2)
        assert len(re.findall("develop-2025-05-25", output)) == 1
    assert len(json.loads(run("diff", *repository, "--format", "json").output)["changesets"]) == 2


def test_tags_that_changed_in_other_ways_are_told_apart(run: Run, tmp_path: Path) -> None:
    """Though the counts are the same."""
    before, after = ({"zlib": [record(1)], "xz": [record(2)]}, {"zlib": [record(1)], "xz": [record(2)]})
    after["zlib"] = [record(3, versions=["2.0"])]
    other = {**before, "xz": [record(4, versions=["2.0"])]}
    states = [catalogue(before) | catalogue(before, "v1"), catalogue(after) | catalogue(other, "v1")]
    output = run("diff", "HEAD~1", "HEAD", "--repo", history(tmp_path / "r.git", *states)).output

    assert "the same changes" not in output
    assert output.count("UPGRADED  1 package") == 2


@pytest.mark.parametrize("width", [20, 80])
def test_lines_fit(run: Run, demo_repository: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """No line is wider than the terminal, down to sixty columns; wrapping loses no word."""
    monkeypatch.setenv("COLUMNS", str(width))
    output = run("diff", "HEAD~1", "HEAD", "--tag", "develop", "--repo", demo_repository, "--all").output
    monkeypatch.setenv("COLUMNS", "400")
    wide = run("diff", "HEAD~1", "HEAD", "--tag", "develop", "--repo", demo_repository, "--all").output

    assert max(map(len, output.splitlines())) <= max(width, 60)
    assert re.sub(r"\s+", "", output) == re.sub(r"\s+", "", wide)


def test_ascii_unless_the_documents_are_not(run: Run, demo_repository: Path) -> None:
    for form in ("text", "json", "jsonl", "csv"):
        assert run("diff", "HEAD~1", "--tag", "develop", "--repo", demo_repository, "--format", form).output.isascii()


def test_colour_is_for_terminals(run: Run, demo_repository: Path) -> None:
    """Colour is painted when asked for, and only on what differs of a version."""
    command = ("diff", "HEAD~1", "HEAD", "--tag", "develop", "--repo", demo_repository)
    plain, painted = run(*command).output, run(*command, "--color", "always").output

    assert "\x1b" not in plain
    assert "1.2.\x1b[31m0\x1b[0m -> 1.2.\x1b[32m1\x1b[0m" in painted
    assert re.sub(r"\x1b\[\d*m", "", painted) == plain


def test_long_sections_are_capped_and_add_up(run: Run, tmp_path: Path) -> None:
    """What is not printed is counted, with its specs, and --all prints it."""
    before = {f"p{n:03}": records([n]) for n in range(50)}
    lower = {
        name: records(range(1000 + 9 * n, 1002 + 9 * n + n % 3), versions=["0.9"]) for n, name in enumerate(before)
    }
    after = {name: found + lower[name] for name, found in before.items()}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))
    command = ("diff", "HEAD~1", "--repo", repository)
    short, long = run(*command).output, run(*command, "--all").output

    lines = re.findall(r"^  p\d+  0\.9 added  \+(\d+)", short, re.MULTILINE)
    (hidden,) = re.findall(r"^  \.\.\. and (\d+) more, \+(\d+) \(--all\)$", short, re.MULTILINE)
    assert "OLDER VERSIONS ADDED  50 packages, +149\n" in short
    assert (len(lines), int(hidden[0])) == (20, 30)
    assert sum(map(int, lines)) + int(hidden[1]) == 149
    assert lines == sorted(lines, reverse=True)  # the most important are shown
    assert sum(map(int, re.findall(r"^  p\d+  0\.9 added  \+(\d+)", long, re.MULTILINE))) == 149
    assert "..." not in long


def test_what_is_routine_is_cut_first(run: Run, tmp_path: Path) -> None:
    """Of further copies a few lines are enough."""
    before = {f"p{n:03}": records([n]) for n in range(100)}
    after = before | {f"p{n:03}": records([n, 100 + n]) for n in range(9)}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))
    output = run("diff", "HEAD~1", "--repo", repository).output

    assert "MORE COPIES  9 packages, +9\n" in output
    assert len(re.findall(r"^  p\d+  1.0  \+1  in e4s$", output, re.MULTILINE)) == 5
    assert "\n  ... and 4 more, +4 (--all)\n" in output


def test_the_total_speaks_of_what_was_asked_for(run: Run, tmp_path: Path) -> None:
    """With filters, packages that do not match are in no count, and the shares are those of the lists."""
    still = {"still": [record(50, target="aarch64")]}
    before = {**still, "old": records([1]), "both": [record(2), record(3, stacks=["ml"])]}
    both = [record(12), record(13, stacks=["ml"], versions=["2.0"])]
    after = {**still, "both": both, "new": records([4], stacks=["ml"])}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))

    def total(*options: str) -> str:
        return " ".join(run("diff", "HEAD~1", "--repo", repository, *options).output.split("\n\n")[-1].split())

    assert total() == (
        "1 of 2 packages changed, 1 more is new, 1 more was removed; their specs: 3 -> 3 "
        "(+3: 1 in new packages, 1 in upgrades, 1 rebuilt; -3: 1 in removed packages, 1 in upgrades, 1 rebuilt)"
    )
    assert total("--stack", "e4s") == (
        "1 package changed (1 of them only rebuilt), 1 more was removed; their specs in your selection: 2 -> 1 "
        "(+1: 1 rebuilt; -2: 1 in removed packages, 1 rebuilt)"
    )
    assert total("--kind", "upgraded") == "1 of 4 packages has changes of these kinds (+1 -1: 1 in upgrades)"
    of_stack = ("--kind", "rebuilt", "--stack", "e4s")
    assert total(*of_stack) == "1 package has changes of these kinds (+1 -1: 1 rebuilt)"
    assert total("--kind", "downgraded") == "Nothing of what was asked for."
    assert total("--target", "aarch64") == "No differences in your selection; 3 packages were searched."


def test_totals_of_several_batches(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of one."""
    states = [catalogue({f"p{n}": records([n + salt]) for n in range(3)}) for salt in (0, 10)]
    repository = history(tmp_path / "r.git", *states)
    for size in (comparison_flow._BATCH_BYTES, 1):
        monkeypatch.setattr(comparison_flow, "_BATCH_BYTES", size)
        said = run("diff", "HEAD~1", "--repo", repository).output
        assert "3 of 3 packages changed (3 of them only rebuilt); their specs: 3 -> 3" in " ".join(said.split())


def test_headings_add_up_to_the_total(run: Run, tmp_path: Path) -> None:
    chance = random.Random(5)
    pairs = {f"p{n:03}": some_pair(chance) for n in range(60)}
    # So many do not change that nothing is said of the whole tag.
    still = {f"p{n:03}": records([n]) for n in range(100, 500)}
    states = [catalogue(still | {name: pair[side] for name, pair in pairs.items()}) for side in (0, 1)]
    repository = history(tmp_path / "r.git", *states)
    for options in ([], ["--stack", "ml"], ["--package", "p00*"], ["--all"]):
        check_sums(run("diff", "HEAD~1", "--repo", repository, *options).output)


def check_sums(output: str) -> None:
    *blocks, total = output.replace(",", "").strip().split("\n\n")[1:]
    total = " ".join(total.split())

    sums = {sign: sum(map(int, re.findall(rf"[ (]\{sign}(\d+)", total))) for sign in "+-="}
    headings = [line for block in blocks for line in block.splitlines() if line[0] != " "]
    rebuilt = sum(int(count) for line in headings for count in re.findall(r"^REBUILT  (\d+)", line))
    told = {sign: sum(int(n) for line in headings for n in re.findall(rf" \{sign}(\d+)", line)) for sign in "+-="}
    before, after = map(int, re.findall(r"(\d+) -> (\d+) \(", total)[0])
    assert before + sums["+"] - sums["-"] == after
    # A heading says of kept specs that they are kept; the total, on which side of it they came into the selection.
    for sign, side in re.findall(r"([+-])\d+: ([^;)]*)", total):
        sums[sign] -= sum(map(int, re.findall(r"(\d+) kept", side)))
    assert {**told, "+": told["+"] + rebuilt, "-": told["-"] + rebuilt} == sums
    assert rebuilt
    assert len(headings) > 6


@pytest.mark.parametrize(
    ("options", "numbers", "told"),
    [
        (
            ("--stack", "ml"),
            (1, 2),
            "+2: 1 in new places, 1 kept from outside your selection; -1: 1 in removed packages",
        ),
        (("--stack", "e4s"), (2, 1), "+1: 1 built in another way; -2: 1 in lost places, 1 built in another way"),
        (("--compiler", "gcc@13*"), (0, 1), "+1: 1 built in another way"),
    ],
    ids=["stack", "other-stack", "compiler"],
)
def test_each_side_of_a_selection_is_counted_alike_everywhere(
    run: Run, tmp_path: Path, options: tuple[str, str], numbers: tuple[int, int], told: str
) -> None:
    """A spec outside of the selection is in no number: in text, on the short page, in JSON, in a table, in a digest."""
    before = {"kept": [record(1)], "moved": [record(2)], "other": [record(3)], "old": [record(4, stacks=["ml"])]}
    moved = {"moved": [record(12, stacks=["ml"])], "other": [record(13, compiler="gcc@13.2.0")]}
    after = {"kept": [record(1, stacks=["e4s", "ml"])], **moved}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))

    def output(*form: str) -> str:
        return run("diff", "HEAD~1", "--repo", repository, *options, *form).output

    (found,) = json.loads(output("--format", "json"))["changesets"]
    specs = found["summary"]["specs"]
    assert (specs["before"], specs["after"]) == numbers
    assert specs["before"] + specs["added"] - specs["removed"] == specs["after"]
    assert sum(len(package["specs"]["added"]) for package in found["packages"]) == specs["added"]
    assert sum(len(package["specs"]["removed"]) for package in found["packages"]) == specs["removed"]
    said = f"their specs in your selection: {numbers[0]} -> {numbers[1]} ({told}"
    for form in ([], ["--stat"], ["--all"]):
        assert said in " ".join(output(*form).split())
    assert f",total,,{numbers[0]},{numbers[1]}," in output("--format", "csv")
    name, pattern = options
    digest = digests.read(repository, selection=select(tags=["develop"], **{f"{name[2:]}s": [pattern]}))
    assert (digest.report.specs.before, digest.report.specs.after) == numbers
    parts, expected = (re.split("[,;] ", said) for said in (accounting((*digest.statements, *digest.rest)), told))
    assert sorted(word.split(": ")[-1] for word in parts) == sorted(word.split(": ")[-1] for word in expected)


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", scripted.WEEKS)
def test_a_scripted_week(run: Run, golden: Golden, tmp_path: Path, name: str) -> None:
    """A week of one cause, exactly: the cause is a heading, and a screen holds it."""
    scripted.digest_of(tmp_path, name)
    tag = "develop-2026-11-08" if name == "new-snapshot" else "develop"
    output = run("diff", "HEAD~1", "--repo", tmp_path / "catalogue.git", "--tag", tag).output

    assert output == golden(f"weeks/terminal/{name}.txt", output)
    assert len(output.splitlines()) <= 20


@pytest.mark.parametrize(
    ("variants", "cell"),
    [
        (["+shared", "~static", "build_system=cmake"], "build_system=cmake +shared ~static"),
        (["+shared", "cflags=-O2"], "cflags=-O2 +shared"),
        (["+cuda", "+shared"], "+cuda +shared"),
        (["+cmd|' /C calc'!A0"], "'+cmd|' /C calc'!A0"),
        (["+SUM(A1)"], "'+SUM(A1)"),
        (["+1"], "'+1"),
    ],
)
def test_variants_are_data(run: Run, tmp_path: Path, variants: list[str], cell: str) -> None:
    """An apostrophe stands only before what a spreadsheet would compute."""
    write(tmp_path, {"a.md": document([]), "b.md": document([record(1, variants=variants)])})
    output = run("diff", tmp_path / "a.md", tmp_path / "b.md", "--format", "csv").output
    (row,) = [row for row in csv.DictReader(io.StringIO(output)) if row["change"] == "spec-added"]

    assert row["variants"] == cell


def test_a_table_says_that_a_compiler_or_system_replaced_another_in_a_place(run: Run, tmp_path: Path) -> None:
    """A place that only lost one has no second row; a lost machine has a row of its own."""
    old, new = (record(n, compiler=f"gcc@{n}.1.0") for n in (11, 12))
    sides = {"old": [old], "both": [old, new], "system": [new | {"hash": old["hash"], "os": "rhel9"}], "new": [new]}
    write(tmp_path, {f"{name}.md": document(side) for name, side in sides.items()})
    replaced = ["place-narrowed", "place-widened"]
    for before, kinds in (("old", replaced), ("system", [*replaced, "machine-lost"]), ("both", replaced[:1])):
        output = run("diff", tmp_path / f"{before}.md", tmp_path / "new.md", "--format", "csv").output
        changes = [row["change"] for row in csv.DictReader(io.StringIO(output))]
        assert [one for one in changes if one.startswith(("place-", "machine-"))] == kinds


def test_a_table_holds_everything(run: Run, demo_repository: Path) -> None:
    command = ("diff", "HEAD~1", "--tag", "develop", "--repo", demo_repository, "--format")
    table = list(csv.DictReader(io.StringIO(run(*command, "csv").output)))
    found = run(*command, "json").changeset()

    added = {spec["hash"] for p in found["packages"] for spec in p["specs"]["added"]}
    assert {row["hash"] for row in table if row["change"] == "spec-added"} == added
    assert sum(int(row["count"]) for row in table if row["change"] == "rebuilt") == found["summary"]["specs"]["rebuilt"]
    (total,) = [row for row in table if row["change"] == "total"]
    assert (total["before"], total["after"]) == ("228", "473")


def test_json_lines_say_the_same(run: Run, demo_repository: Path) -> None:
    command = ("diff", "HEAD~1", "--tag", "develop", "--repo", demo_repository, "--format")
    found = run(*command, "json").changeset()
    first, *lines, last = [json.loads(line) for line in run(*command, "jsonl").output.splitlines()]

    sides = {"before": found["before"], "after": found["after"]}
    assert first == {"type": "changeset", "schema": "cachewatch.changesets/3", **sides}
    assert last == {"type": "summary", **found["summary"]}
    packages = [{"type": "package", **package} for package in found["packages"]]
    assert [line for line in lines if line["type"] == "package"] == packages


def test_what_went_with_a_whole_tag_has_no_class_of_loss(run: Run, tmp_path: Path) -> None:
    """Whoever used the tag uses another one: nothing of it is judged by what others have."""
    zlib = catalogue({"zlib": [record(1)]})
    repository = history(tmp_path / "r.git", zlib | catalogue({"curl": [record(2)]}, "v1.0"), zlib)
    found = run("diff", "HEAD~1", "HEAD", "--repo", repository, "--format", "json").output
    assert '"statement":"tag-removed:v1.0"' in found.replace(": ", ":")
    assert '"loss":{' not in found.replace(": ", ":")


def test_stat_is_one_line_a_package(run: Run, demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like git diff --stat, but of specs."""
    monkeypatch.setenv("COLUMNS", "120")
    output = run("diff", "HEAD~1", "--tag", "develop", "--repo", demo_repository, "--stat").output

    assert " py-keras       |     0 -> 130    +130 in new packages\n" in output
    assert " py-build       |    24 -> 24     1 spec kept in lost places, +3 -3 in upgrades; 1.2.0 -> 1.2.1\n" in output
    assert "+17 in upgrades, +101 in new places; 0.3.1 -> 0.4.0 (0.3.1 stays)\n" in output
    said = "-21: 3 in upgrades, 3 of older versions, 15 rebuilt; 1 kept with changed stacks)"
    assert " ".join(output.split()).endswith(said)
    same = run("diff", "HEAD", "HEAD", "--tag", "develop", "--repo", demo_repository, "--stat").output
    assert same == "develop\n No differences in 5 packages: all documents are the same.\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x86_64_v3 ml-linux-x86_64-rocm", "x86_64_v3 ml-linux-x86_64-rocm"),
        ("_a_ b_ _c a__b __d__ _", r"\_a\_ b\_ \_c a\_\_b \_\_d\_\_ \_"),
        ("+_ -_x a_(b) (a)_b é_é", r"+\_ -\_x a\_(b) (a)\_b é\_é"),
        ("a@1.2.1 or @1.2.2.", "a@1.2.1 or `@1.2.2`."),
    ],
)
def test_underscores_within_words_are_not_escaped(text: str, written: str) -> None:
    """There they mean nothing to Markdown; elsewhere they may begin or end an emphasis. A version is no mention."""
    assert markdown(text) == written


# Default_Ignorable_Code_Point outside of Cf, as DerivedCoreProperties.txt lists it.
IGNORED = (
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)),
)


def test_nothing_unseen_is_safe() -> None:
    """Every control, format, separator of lines, half and ignorable character is written out; all ASCII stays."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    left = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in unseen]

    assert [hex(code) for code in (*left, *IGNORED) if safe(chr(code)) == chr(code)] == []
    assert safe("".join(map(chr, range(32, 127)))) == "".join(map(chr, range(32, 127)))


def test_names_are_ascii(run: Run, tmp_path: Path) -> None:
    """A letter that looks like another is seen as what it is, wherever a name is shown."""
    one, other = (document([record(1, versions=[v], stacks=["\u0435", "root"])]) for v in ("1", "1.\u0430"))
    write(tmp_path, {"before.md": one, "after.md": other})
    for arguments in (
        ("show", tmp_path / "after.md"),
        *(("diff", tmp_path / "before.md", tmp_path / "after.md", "--format", f) for f in ("text", "markdown", "html")),
    ):
        output = run(*arguments).output
        assert "\u0430" not in output
        assert "\u0435" not in output


def test_show_marks_what_will_go(run: Run, tmp_path: Path) -> None:
    """Unreferenced specs and last copies are marked, and so is how long nothing happened."""
    newer = [record(n, versions=["2.0"]) for n in (3, 4)]
    one = catalogue({"zlib": [record(1), record(2, stacks=["root"]), *newer]})
    repository = history(tmp_path / "r.git", one, one | catalogue({"other": records([9])}))
    output = run("show", "zlib", "--repo", repository).output

    table = [line.split() for line in output.splitlines()]
    assert ["2.0", "e4s", "2"] in table
    assert ["1.0", "(no", "stack)", "1U"] in table
    assert ["e4s", "1!"] in table
    assert "document last changed 2025-06-01" in output
    assert run("show", "zlib", "--repo", repository, "--rev", "2025-06-01", "--tag", "develop").exit_code == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@someone, (@org/team) and %@all", "`@someone`, (`@org/team`) and %`@all`"),
        ("#12 of org/repo#34, !5", "`#12` of org/repo`#34`, `!5`"),
        ("gh-7#8 and GL-9", "`gh-7#8` and `GL-9`"),
        ("zlib@1.3 of me@example.org, C#, #x", "zlib@1.3 of me@example.org, C#, #x"),
    ],
)
def test_nobody_is_mentioned_and_no_issue_is_linked(text: str, expected: str) -> None:
    """GitHub and GitLab look for both everywhere but in code, also behind a backslash."""
    assert markdown(text) == expected


def test_what_stays_is_said_of_the_version_that_stays(run: Run, tmp_path: Path) -> None:
    """Of several versions that a place lost, the newest is judged; no older one is said to stay."""
    one, two = (record(n, versions=[v]) for n, v in ((1, "1.0"), (2, "1.1")))
    before = [one | {"stacks": ["radiuss", "root"]}, two | {"stacks": ["e4s", "radiuss", "root"]}]
    after = [one | {"stacks": ["root"]}, two | {"stacks": ["e4s", "root"]}]
    others = {"curl": [record(3, stacks=["radiuss", "root"])]}
    repository = history(tmp_path / "r.git", catalogue({"zlib": before} | others), catalogue({"zlib": after} | others))

    assert "of 1.1: the same binaries are in e4s" in run("diff", "HEAD~1", "--repo", repository).output


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "1 second"),
        (89, "89 seconds"),
        (90, "2 minutes"),
        (45 * 60, "45 minutes"),
        (20 * 3600, "20 hours"),
        (24 * 3600 - 60, "1 day"),
        (7 * 86400, "7 days"),
        ((17 * 24 + 14) * 3600, "17 days"),
    ],
)
def test_how_far_apart(seconds: int, said: str) -> None:
    """In the unit that a person would use."""
    assert how_long(timedelta(seconds=seconds)) == said


def test_two_revisions_of_one_day(run: Run, tmp_path: Path) -> None:
    """Seconds tell their times apart where minutes do not; the head says how far apart they are, by days if they are."""
    assert days("2025-06-01T04:00:00Z", "2025-06-01T04:01:10Z") == "1 Jun 2025, 04:00 -> 04:01 UTC"
    times = (START, START + timedelta(seconds=7), START + timedelta(days=9, hours=21))
    revisions = [NewRevision(message="x", time=t, files=catalogue({"zlib": records([t.second])})) for t in times]
    write_repository(tmp_path / "r.git", revisions)
    heads = run("diff", "HEAD~2", "HEAD~1", "--repo", tmp_path / "r.git").output.splitlines()[:2]

    assert heads[0] == "develop  1 Jun 2025, 04:00:00 -> 04:00:07 UTC"
    assert heads[1].endswith(", 1 revision, 7 seconds later)")
    assert ", 1 revision, 10 days later)" in run("diff", "HEAD~1", "--repo", tmp_path / "r.git").output
