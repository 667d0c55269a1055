"""The mail that people read: its title, its forms, and that what it leaves out is counted."""

import base64
import csv
import gzip
import hashlib
import io
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from digests import digest_of, read, week
from helpers import catalogue, history, records
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from outgoing import maildir_config
from outgoing import read as mail_read

from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Place
from cachewatch.core.statement_kinds import Counts, Line, Statement, StatementKind, Story
from cachewatch.report import words as statement_phrases
from cachewatch.report.digest_and_message_values import MAX_HTML, PLACE, Digest, TagDigest, open_channel
from cachewatch.report.digests import data_for_templates as digest_data
from cachewatch.report.digests import rendering_and_sizes as digest_rendering
from cachewatch.report.digests.data_for_templates import package_url
from cachewatch.report.digests.rendering_and_sizes import render_digest
from cachewatch.report.digests.subject import clauses_of_statements


class Tables(HTMLParser):
    """The lists of a mail: a caption and the words of each row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[str]]] = []
        self._into: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a list or a row of one."""
        if tag == "caption":
            self.tables.append(("", []))
            self._into = tag
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append("")
            self._into = tag

    def handle_endtag(self, tag: str) -> None:
        """End either."""
        if tag in ("caption", "table"):
            self._into = None

    def handle_data(self, data: str) -> None:
        """Note words."""
        if self._into == "caption":
            caption, rows = self.tables[-1]
            self.tables[-1] = (caption + data, rows)
        elif self._into == "tr":
            self.tables[-1][1][-1] += data


def numbers(pattern: str, text: str) -> int:
    """Add up what `pattern` finds in `text`."""
    return sum(int(found.replace(",", "")) for found in re.findall(pattern, text))


names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(lambda name: f"p{name}")


@st.composite
def statements(draw: st.DrawFn) -> tuple[Statement, ...]:
    """Return statements of every kind that is told line by line, each of a few packages or of many."""
    found = []
    for kind in StatementKind:
        packages = sorted(draw(st.sets(names, max_size=40)))
        if kind.rank < StatementKind.PACKAGE_REMOVED.rank or not packages:
            continue
        places = frozenset({Place("e4s", "x86_64_v3")})
        story = Story(kind=kind, before=("1.0",), after=("2.0",), places=places)
        drawn = (Counts(*(draw(st.integers(0, most)) for most in (5000, 5000, 9))) for _ in packages)
        of: dict[str, Any] = {"story": story, "stacks": frozenset({"e4s"}), "kinds": frozenset()}
        lines = tuple(Line(package=one, counts=counts, **of) for one, counts in zip(packages, drawn, strict=True))
        name = "e4s (x86_64_v3)" if kind is StatementKind.PLACE_LOST else packages[0]
        counts = sum((line.counts for line in lines), start=Counts())
        found.append(Statement(kind=kind, name=name, packages=tuple(packages), counts=counts, lines=lines))
    return tuple(found)


@pytest.mark.parametrize("step", range(0, len(digest_rendering._STEPS), 2))
@given(statements())
@settings(max_examples=10)
def test_every_form_adds_up(demo_repository: Path, step: int, found: tuple[Statement, ...]) -> None:
    """Whatever is left out, the lines that are printed and what is said of the rest equal the totals."""
    tag = replace(read_once(demo_repository), statements=found, rest=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest_rendering, "_STEPS", digest_rendering._STEPS[step:])
        rendered = render_digest(digest_of(tag), max_html=10**6)
    tables = Tables(rendered.html).tables
    if not digest_rendering._STEPS[step].tags:
        assert tables == []
        assert "and 1 more tag" in rendered.html
        return
    sections = {section["heading"]: section for section in json.loads(rendered.json)["sections"]}
    for caption, rows in tables:
        heading = max((name for name in sections if caption.strip().startswith(name)), key=len)
        rest = rows[-1] if rows and rows[-1].lstrip().startswith("and ") else ""
        shown = rows[:-1] if rest else rows
        whole = len(sections[heading]["rows"]) + sections[heading]["more"]
        assert len(shown) + numbers(r"and ([\d,]+) more line", rest) == whole
        assert all(f"{heading.upper()}" in rendered.text for _ in shown)


@cache
def read_once(repository: Path) -> TagDigest:
    """Read a digest that other values are put into."""
    return read(repository)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    """Return a digest of 400 packages, a third of which are gone and the others upgraded."""
    before = {f"package-{n:04}": records([n]) for n in range(400)}
    after = {name: records([1000 + n], versions=["2.0"]) for n, name in enumerate(before) if n % 3}
    return digest_of(week(tmp_path_factory.mktemp("crowded"), before, after))


@pytest.mark.parametrize("budget", [90_000, 15_000, 5_000])
def test_the_budget_is_kept(crowded: Digest, budget: int) -> None:
    """However much happened, the mail has no more bytes than are shown, and what is cut off is attached."""
    rendered = render_digest(crowded, max_html=budget, attach=True)

    assert len(rendered.html.encode()) <= budget
    assert "suspicious" not in rendered.html
    assert "131 more" in rendered.text
    assert "Stop these mails" in rendered.html
    assert [attached.name for attached in rendered.attachments] == ["changes.csv"]
    assert rendered.attachments[0].content.count(b"spec-removed") == 400


@pytest.mark.parametrize(("rows", "shown"), [(10, [10, 10]), (60, [60, 60]), (1000, [134, 200])])
def test_a_list_has_as_many_rows_as_are_asked_for(crowded: Digest, rows: int, shown: list[int]) -> None:
    """More than usual, too, as far as they fit."""
    html = render_digest(replace(crowded, rows=rows)).html

    found = [[row for row in listed if not row.lstrip().startswith("and ")] for _, listed in Tables(html).tables]
    assert list(map(len, found)) == shown
    assert len(html.encode()) <= MAX_HTML


def test_what_is_attached(crowded: Digest) -> None:
    """Nothing unless asked for, whatever is cut: the counts are there, and the archive has all lines."""
    plain, attached = (render_digest(crowded, attach=attach) for attach in (False, True))

    assert plain.attachments == ()
    assert "All changes: https://hpc.example.org/" in plain.text
    (table,) = attached.attachments
    assert all(f"{table.name}</b>, attached" in attached.html for table in attached.attachments)
    assert f"{table.name}, attached, lists every change" in attached.text
    short = render_digest(crowded, attach=True, is_short=True)  # for whom a digest was too large
    assert len(short.html) < min(8_000, len(attached.html))
    assert short.attachments == ()


def test_what_is_too_much_for_so_many_readers_is_not_attached(crowded: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them gets bytes of their own, and all of these are stored at once."""
    digest = crowded
    (tag,) = digest.tags
    monkeypatch.setattr(digest_rendering, "_MOST_FOR_ALL", 3 * len(tag.table.content))
    few, many = (render_digest(digest, to=("a@example.org",) * count, max_html=12_000, attach=True) for count in (3, 4))

    assert [len(rendered.attachments) for rendered in (few, many)] == [1, 0]
    assert "attached" in few.text
    assert "attached" not in many.text


@pytest.mark.parametrize("name", ["x", "a" * 60])
def test_subjects_fit(demo_repository: Path, tmp_path: Path, name: str) -> None:
    """A subject fits into a line with its prefix, and is ASCII."""
    channel = open_channel(maildir_config(tmp_path))
    for is_urgent in (False, True):
        rendered = render_digest(digest_of(read_once(demo_repository), subscription=name, is_urgent=is_urgent))
        (message,) = channel.build_messages(rendered)
        assert len(mail_read(message.payload)["subject"]) <= 78
        assert rendered.title.isascii()


def test_an_empty_digest(tmp_path: Path) -> None:
    """Where nothing happened, that is said, and nothing is added up."""
    state = catalogue({"a": records([1])})
    tag = read(history(tmp_path / "r.git", state, {**state, "README": b"x"}))
    rendered = render_digest(digest_of(tag))

    assert rendered.title == "no changes"
    for form in (rendered.text, rendered.html, rendered.markdown):
        assert "Nothing to do." in form
        assert "develop, 1 to 2 June" in form


def test_many_of_everything(demo_repository: Path) -> None:
    """What is said in passing is counted too when there is too much of it."""
    digest = digest_of(read(demo_repository), why=tuple(f"pattern {n}" for n in range(100)))
    spans = tuple(replace(span, source=f"source-{n % 60}") for n in range(61) for span in digest.spans)
    digest = replace(digest, spans=spans, silenced=digest.silenced * 70, commands=digest.commands * 30)
    rendered = render_digest(digest)

    for form in (rendered.text, rendered.html, rendered.markdown):
        words = " ".join(form.split())
        assert all(more in words for more in ("and 59 more sources", "and 80 more"))


def test_several_tags(demo_repository: Path) -> None:
    """What happened in all of them is told once; what happened in one names it."""
    tag = read(demo_repository)
    other = replace(tag, report=replace(tag.report, after=replace(tag.report.after, tag="v1.0")))
    rendered = render_digest(digest_of(tag, other))
    part = replace(other, statements=tuple(one for one in tag.statements if one.name != "py-build"))
    parted = render_digest(digest_of(tag, part))

    for form in (rendered.text, rendered.html, rendered.markdown, rendered.feed, rendered.page):
        assert "develop" in form
        assert "in v1.0" not in form
        assert form.count("0.4.0 (0.3.1 stays)") <= 3  # title and heading say it too
    rows = {row["package"]: row["where"] for row in json.loads(parted.json)["sections"][0]["rows"]}
    assert rows["py-build"].endswith("; in develop")
    assert "in " not in rows["py-ml-dtypes"]


def test_the_page_of_an_archive_is_never_cut(crowded: Digest) -> None:
    """All lines, whatever the mail shows, with a filter that the browser is allowed to run and no other script."""
    digest = replace(crowded, rows=5)
    rendered = render_digest(digest, max_html=15_000)
    script = rendered.page.partition("<script>")[2].partition("</script>")[0]
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert len(re.findall(r'<tr><th scope="row">', rendered.page)) == 400
    assert "more line" not in rendered.page
    assert "more line" in rendered.html
    assert f"script-src 'sha256-{allowed}'" in rendered.page
    assert 'id="filter"' in rendered.page
    assert PLACE in rendered.page
    assert "Stop these mails" not in rendered.page


def test_no_link_leads_to_the_page_of_what_is_gone(crowded: Digest) -> None:
    """A package that was removed has no page any more, and a tag that was removed has none at all."""
    digest = crowded
    sections = json.loads(render_digest(digest, is_archived=True).json)["sections"]
    rows = [row for section in sections for row in section["rows"]]
    linked = {(row["kind"], row["url"] is not None) for row in rows}
    (tag,) = digest.tags
    report = replace(tag.report, after=replace(tag.report.after, tag=None))

    assert linked == {("package-removed", False), ("upgraded", True)}
    assert package_url("https://cache.spack.io", replace(tag, report=report), "zlib") is None


def test_large_numbers_of_names_have_separators() -> None:
    assert statement_phrases.names([f"package-{number}" for number in range(2_000)], 1) == "package-0 and 1,999 more"


def test_archived_text_is_not_cut_either(crowded: Digest) -> None:
    """Nor Markdown, nor JSON."""
    mailed, archived = (render_digest(crowded, is_archived=is_archived) for is_archived in (False, True))

    for rendered, is_cut in ((mailed, True), (archived, False)):
        assert ("more line" in rendered.text) is is_cut
        assert ("more line" in rendered.markdown) is is_cut
        assert bool(json.loads(rendered.json)["sections"][0]["more"]) is is_cut


def test_a_page_that_no_browser_bears_is_cut(crowded: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and a digest never fails for it."""
    monkeypatch.setattr(digest_rendering, "_MOST_PAGE", 40_000)
    assert "more line" in render_digest(crowded).page


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (StatementKind.PLACE_GAINED, "zlib built in new places"),
        (StatementKind.EXTRA_COPY, "1 extra copy of zlib"),
        (StatementKind.SURPLUS, "1 surplus copy of zlib"),
        (StatementKind.REBUILT, "1 package rebuilt"),
        (StatementKind.EXTENDED, "older zlib 1.3 added"),
    ],
)
def test_a_headline_about_one_package_says_what_happened(kind: StatementKind, said: str) -> None:
    """A name and a version alone say nothing."""
    story = Story(kind=kind, before=("1.3",), after=("1.3",))
    line = Line(package="zlib", story=story, counts=Counts(new=1), kinds=frozenset())
    statement = Statement(kind=kind, packages=("zlib",), lines=(line,), counts=line.counts)

    assert [clause.forms[0] for clause in clauses_of_statements([statement], "", "")] == [said]


def counts(tag: TagDigest) -> list[tuple[str, str, int, int, int]]:
    """Return kind, name and items of each statement."""
    return [(s.kind.value, s.name, s.counts.vanished, s.counts.new, s.counts.kept) for s in tag.statements]


def test_what_nobody_asked_for_is_only_summed_up(tmp_path: Path) -> None:
    """Kinds that were not chosen are told nowhere; that something was rebuilt is said all the same."""
    before = {"a": records([1]), "b": records([2]), "c": records([3])}
    after = {"a": records([11], versions=["2"]), "b": records([12], compiler="gcc@13.2.0"), "c": records([13])}
    tag = week(tmp_path, before, after, selection=Selection(kinds=Globs(["compiler"])))

    assert counts(tag) == [("reconfigured", "", 1, 1, 0)]
    assert [(one.kind.value, one.packages) for one in tag.rest] == [("upgraded", ("a",)), ("rebuilt", ("c",))]


def test_all_changes_as_csv(demo_repository: Path) -> None:
    """The table has every spec that came and went, with its tag."""
    tag = read(demo_repository)
    lines = list(csv.reader(io.StringIO(gzip.decompress(tag.table.content).decode(), newline="")))

    assert {line[0] for line in lines} == {"develop"}
    assert sum(line[2] == "spec-added" for line in lines) == tag.report.specs.added
    assert sum(line[2] == "spec-removed" for line in lines) == tag.report.specs.removed


def test_a_table_that_is_too_large_is_dropped(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be attached is not kept, and that is said."""
    monkeypatch.setattr(digest_data, "MOST_CSV", 1000)
    table = read(demo_repository).table

    assert (table.content, table.is_complete) == (b"", False)
    assert table.size > 1000
