"""Names, versions and variants of strangers come out harmless in every format, and never lost."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from conftest import Run
from digests import digest_of, read
from helpers import catalogue, history, record
from outgoing import elements

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.report.digest_and_message_values import MAX_HTML, RenderedDigest
from cachewatch.report.digests.rendering_and_sizes import render_digest
from cachewatch.report.json_and_safe_csv import csv_table

HOSTILE = {
    "element": "<x-cw onmouseover=alert(1)>",
    "script": "</pre><script>alert(1)</script>",
    "attribute": '"\'><x-cw a="',
    "entity": "&lt;x-cw&gt;",
    "newline": "a\nBcc: victim@example.org\n\nx",
    "carriage return": "a\r\nX-Evil: 1",
    "separator": "a\u2028b\u2029c\u0085d",
    "override": "safe\u202egnp.exe",
    "isolate": "a\u2066b\u200bc\ufeff",
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31m",
    "backspace": "good\x08\x08\x08\x08evil",
    "formula": "=cmd|'/C calc'!A0",
    "plus": "+1+1",
    "minus": "-1+1",
    "at": "@SUM(1)",
    "tab": "\t=1",
    "markdown link": "[click](javascript:alert(1))",
    "image": "![x](https://evil.example/x.png)",
    "table": "a|b|c\\",
    "code": "``` `x` ```",
    "mention": "@everyone <!channel> @all",
    "address": "https://evil.example/",
    "template": "{{ 7 * 7 }}{% raw %}",
    "from": "From nobody",
    "long": "x" * 1_000,
    "long words": "<b> " * 250,
    "shell": "x; rm -rf ~; $(id) `id`",
    "option": "--upload-pack=x",
}

# What must not be seen as it is: controls, direction marks, zero widths, separators.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@pytest.fixture(scope="module", params=list(HOSTILE.values()), ids=list(HOSTILE))
def hostile(request: pytest.FixtureRequest) -> str:
    """One of the texts."""
    text = request.param
    assert isinstance(text, str)
    return text


@pytest.fixture(scope="module")
def repository(hostile: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two states in which everything that strangers write is hostile."""
    values = {"compiler": f"{hostile}@1", "variants": [hostile], "stacks": [hostile, "root"]}
    values |= dict.fromkeys(("os", "target"), hostile)
    before = {
        "fell": [record(1, versions=["2"]), record(2, versions=[hostile])],
        "gone": [record(3, versions=[hostile], **values)],
        "moved": [record(4)],
        "rose": [record(5, **{**values, "versions": ["1"]})],
        hostile.replace("/", "_").replace("\0", "")[:200]: [record(6)],
    }
    after = {
        "fell": [record(11, versions=["1"])],
        "moved": [record(4, stacks=["e4s", hostile, "root"])],
        "new": [record(12, versions=[hostile], **values)],
        "rose": [record(13, **{**values, "versions": ["2"]}), record(14, variants=["+x", hostile])],
    }
    return history(tmp_path_factory.mktemp("hostile") / "r.git", catalogue(before), catalogue(after))


@pytest.fixture(scope="module")
def rendered(repository: Path, hostile: str) -> RenderedDigest:
    """The digest of that, for a subscription that is as hostile."""
    return render_digest(digest_of(read(repository), description=hostile, why=(hostile,), operator=hostile))


def test_a_mail(rendered: RenderedDigest, hostile: str) -> None:
    """The HTML has no element, script or link but ours, quotes every attribute, and keeps to its size."""
    unsubscribe = "mailto:cachewatch+unsubscribe@hpc.example.org"
    bases = ("https://cache.spack.io/package/", "https://hpc.example.org/", unsubscribe)

    assert not UNSAFE.search(rendered.html)
    assert elements(rendered.html) <= {
        *("html", "head", "meta", "title", "style", "body", "table", "tr", "td", "th", "caption", "div", "h1", "h2", "h3"),
        *("p", "b", "br", "small", "a", "code", "hr", "ul", "li"),
    }  # fmt: skip
    assert len(rendered.html.encode()) <= MAX_HTML
    assert all(address.startswith(bases) for address in re.findall(r'href="([^"]*)"', rendered.html))
    assert not re.search(r"<[^>]*=[^\"]", re.sub(r'"[^"]*"', '""', rendered.html))


def test_a_page_and_an_entry_of_a_feed(rendered: RenderedDigest) -> None:
    """No element but ours, one script whose hash is allowed, and in an entry none of any kind."""
    texts = {"p", "b", "br", "a", "ul", "li", "h2", "h3", "small"}

    assert not UNSAFE.search(rendered.page + rendered.feed)
    assert elements(rendered.feed) <= texts
    assert rendered.page.count("<script") == 1
    assert elements(rendered.page) <= texts | {
        *("html", "head", "meta", "title", "style", "body", "header", "h1", "div", "label", "input", "output", "main"),
        *("article", "dl", "dt", "dd", "section", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "footer"),
        *("script", "span", "details", "summary"),
    }


def test_bullets_of_a_chat(rendered: RenderedDigest) -> None:
    """A line each, at most five."""
    assert 1 <= len(rendered.bullets) <= 5
    assert not [line for line in rendered.bullets if UNSAFE.search(line) or "\n" in line]


def test_a_subject(rendered: RenderedDigest) -> None:
    """The title is one line of ASCII that fits, whatever it is about."""
    assert rendered.title.isascii()
    assert rendered.title.isprintable()
    assert len(rendered.title) <= 78 - len("[ml-team] ")


def test_text(rendered: RenderedDigest) -> None:
    """Lines that fit, and nothing in them that moves a cursor or begins a message."""
    assert not UNSAFE.search(rendered.text)
    assert all(len(line) <= 78 or " " not in line.strip() for line in rendered.text.splitlines())
    assert not any(line.startswith(("From ", "Bcc:", "X-Evil")) for line in rendered.text.splitlines())


def test_markdown(rendered: RenderedDigest) -> None:
    """No link, image, element or mention but ours once code is set aside; no table that breaks."""
    assert not UNSAFE.search(rendered.markdown)
    plain = re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", rendered.markdown)
    plain = re.sub(r"\]\(<https://(cache\.spack\.io|hpc\.example\.org)/[^>]*>\)", "", plain)
    plain = re.sub(r"\]\(<mailto:cachewatch[^>]*>\)", "", plain)
    assert not re.search(r"(?<!\\)\]\(", plain)
    assert not re.search(r"(?<!\\)<[a-z!/]", plain)
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rendered.markdown.splitlines() if row.startswith("| ")}
    assert widths <= {4}


def test_spack_lines_are_plain(rendered: RenderedDigest) -> None:
    """Nobody pastes a command that does more than it seems to."""
    lines = [line.strip() for line in rendered.text.splitlines() if line.strip().startswith("spack ")]

    assert all(re.fullmatch(r"spack [a-z]+( [A-Za-z0-9@./:_=-]+)+", line) for line in lines), lines


def test_json_keeps_everything(rendered: RenderedDigest, hostile: str) -> None:
    """JSON is ASCII, and has what there was, exactly."""
    assert rendered.json.isascii()
    data = json.loads(rendered.json)
    (tag,) = data["tags"]
    versions = {version for one in tag["versions"] if one["package"] == "new" for version in one["added"]}

    assert versions == {hostile}


# What a spreadsheet computes; names behind signs, as variants are, are names that it does not know.
FORMULA = re.compile(r"[=@\t\r]|[+-][^A-Za-z]|[+-].*[^A-Za-z0-9_.,:=+~ -]")


def test_csv(run: Run, repository: Path) -> None:
    """No cell that a spreadsheet would run, and no cell that breaks its line."""
    output = run("diff", "HEAD~1", "--repo", repository, "--format", "csv").output
    lines = list(csv.reader(io.StringIO(output, newline="")))

    assert {len(line) for line in lines} == {15}
    assert not any(FORMULA.match(cell) for line in lines for cell in line)
    assert len(lines) == len(output.split("\r\n")) - 1
    assert not UNSAFE.search(output.replace("\r\n", ""))


@pytest.mark.parametrize("blank", ["", " ", "\u00a0", "\u3000", "\u200b", "\u00ad", " \u00a0 ", "\ufe0f"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_blank_hides_a_formula(blank: str, sign: str) -> None:
    """What some spreadsheet computes although it does not begin a cell has an apostrophe before it."""
    (line,) = csv.reader(io.StringIO(csv_table([{"name": f"{blank}{sign}SUM(1;2)"}]).decode(), newline=""))

    assert line[3].startswith("'")


@pytest.mark.parametrize("form", ["text", "markdown", "stat"])
def test_reports(run: Run, repository: Path, form: str) -> None:
    """A terminal is not harmed, and what is new is named all the same."""
    how = ("--stat",) if form == "stat" else ("--format", form)
    output = run("diff", "HEAD~1", "--repo", repository, "--all", *how).output

    assert not UNSAFE.search(output)
    assert not any(line.startswith(("From ", "Bcc:", "X-Evil")) for line in output.splitlines())
    assert {"fell", "gone", "moved", "new", "rose"} <= set(re.findall(r"\w+", output))


def test_a_report_as_markdown(run: Run, repository: Path) -> None:
    """No link, image or element once code is set aside; every row of a table has its four cells."""
    output = run("diff", "HEAD~1", "--repo", repository, "--all", "--format", "markdown").output
    plain = re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", output)

    assert not re.search(r"(?<!\\)\]\(", plain)
    assert not re.search(r"(?<!\\)<[a-z!/]", plain)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in output.splitlines() if row.startswith("| ")} == {5}


@pytest.mark.parametrize("most", [(), ("--all",)])
def test_a_page(run: Run, repository: Path, most: tuple[str, ...]) -> None:
    """A page has one script, which is ours, and no address at all."""
    page = run("diff", "HEAD~1", "--repo", repository, "--format", "html", *most).output

    assert not UNSAFE.search(page)
    assert "x-cw" not in elements(page)
    assert page.count("<script>") == 1
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["#changes"]


@pytest.mark.parametrize("blank", ["", " ", "\u200b"])
@pytest.mark.parametrize("value", ["a;{}=cmd|' /C calc'!A0;", ";{}@SUM(1)", '"a";;{}+1;b'])
def test_no_formula_begins_behind_a_semicolon(blank: str, value: str) -> None:
    """Half of the spreadsheets begin another cell there, whatever is quoted."""
    name = value.format(blank)
    text = csv_table([{"name": name, "tag": "a;b"}]).decode()
    (line,) = csv.reader(io.StringIO(text, newline=""))

    assert text.startswith('"a;b",')
    assert line[3].replace("'", "") == safe(name).replace("'", "")
    for cell in text.rstrip().split(";"):
        assert not FORMULA.match(cell.lstrip('" \u200b'))


@pytest.mark.parametrize("command", ["packages", "stacks", "show"])
def test_json_of_lists_is_ascii(run: Run, repository: Path, command: str) -> None:
    """C1 and bidirectional controls reach no terminal by what is for programs either."""
    arguments = ("new",) if command == "show" else ()
    result = run(command, *arguments, "--repo", repository, "--format", "json")

    assert (result.exit_code, result.output.isascii()) == (0, True), result.error
    assert "\x7f" not in result.output
    json.loads(result.output)


def test_names_of_templates_are_harmless(run: Run, tmp_path: Path) -> None:
    """They are names of files, which may have any sign."""
    (tmp_path / "a\x1b]0;owned\x07.html.j2").write_text("x")
    for command in ("list", "check"):
        result = run("config", "template", command, "--templates-dir", tmp_path)
        assert not UNSAFE.search(result.output + result.error), command
        assert "owned" in result.output + result.error
