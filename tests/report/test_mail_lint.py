"""Mail programs cut, drop and distrust; what they would is found before anybody gets the mail."""

from email.message import EmailMessage
from pathlib import Path

import pytest
from digests import digest_of, read
from msgspec.structs import replace

from cachewatch.cli.samples import Grade, lint_digest
from cachewatch.report.digest_mail import render_digest
from cachewatch.report.values import RenderedDigest


@pytest.fixture
def rendered(demo_repository: Path) -> RenderedDigest:
    """The demo as a mail."""
    return render_digest(digest_of(read(demo_repository)))


def test_our_own_mail_is_clean(rendered: RenderedDigest) -> None:
    """Nothing is found in the mail that the shipped templates make, and all its links are configured ones."""
    bases = ("https://cache.spack.io", "https://hpc.example.org/", "mailto:cachewatch+unsubscribe@hpc.example.org")

    assert lint_digest(rendered, bases=bases) == ()


@pytest.mark.parametrize(
    ("html", "grade", "message"),
    [
        ("<p>x" + " " * 103_000, Grade.ERROR, "Gmail cuts"),
        ("<p>x" + " " * 95_000, Grade.WARNING, "close to"),
        ('<div style="display:flex">', Grade.WARNING, "flex"),
        ('<div style="color:red;position:absolute">', Grade.WARNING, "position"),
        ('<div style="overflow-x:auto">', Grade.WARNING, "overflow"),
        ('<div style="color:var(--x)">', Grade.WARNING, "variables"),
        ('<div style="color:rgba(0,0,0,.5)">', Grade.WARNING, "plain colours"),
        ('<div style="background:url(https://x.example/y)">', Grade.WARNING, "do not fetch"),
        ("<head><style>tr:nth-child(2){color:red}</style></head>", Grade.WARNING, "selector"),
        ("<head><style>a[href=x]{color:red}</style></head>", Grade.WARNING, "attribute selectors"),
        ("<head><style>p{color:red}" + " " * 17_000 + "</style></head>", Grade.ERROR, "drops all of it"),
        ("<body><style>p{color:red}</style></body>", Grade.ERROR, "belongs into the head"),
        ("<details>x</details>", Grade.ERROR, "<details>"),
        ("<script>1</script>", Grade.ERROR, "<script>"),
        ("<form></form>", Grade.ERROR, "<form>"),
        ("<p hidden>x</p>", Grade.WARNING, "shown by Outlook"),
        ('<p onclick="x()">x</p>', Grade.ERROR, "script"),
        ('<a href="#top">x</a>', Grade.WARNING, "within a mail"),
        ('<a href="javascript:x()">x</a>', Grade.ERROR, "not a web or mail address"),
        ('<img src="data:image/png;base64,AA" alt="">', Grade.ERROR, "not a web or mail address"),
        ('<img src="https://ours.example/x.png">', Grade.WARNING, "without alt"),
        ('<a href="https://evil.example/">x</a>', Grade.ERROR, "not one of the configured addresses"),
        ('<a href="https://ours.example/?r={recipient}">x</a>', Grade.ERROR, "{recipient}, which nobody filled in"),
        ("<p class=x>x</p>", Grade.ERROR, "without quotes"),
        ('<table width="800">', Grade.WARNING, "wider than"),
        ("<html><p>x</p></html>", Grade.WARNING, "lang"),
    ],
)
def test_html(rendered: RenderedDigest, html: str, grade: Grade, message: str) -> None:
    """Each rule finds what it is for, and nothing else is found."""
    found = lint_digest(replace(rendered, html=html), bases=("https://ours.example/",))

    assert [(one.grade, message in one.message) for one in found] == [(grade, True)]


def test_quotes_may_hold_anything(rendered: RenderedDigest) -> None:
    """What looks like an attribute inside quotes is none."""
    assert lint_digest(replace(rendered, html='<p style="margin:0" title="a=b c=d > e=f">x</p>')) == ()


def test_subject_and_text(rendered: RenderedDigest) -> None:
    """Subjects that are long, foreign or broken, and a text part that is missing."""
    broken = replace(rendered, title="\N{GREEK SMALL LETTER ALPHA}\n" + "x" * 80, text=" ")
    found = {(one.grade, one.where) for one in lint_digest(broken)}

    assert found == {(Grade.ERROR, "subject"), (Grade.WARNING, "subject"), (Grade.ERROR, "text")}
    assert "longer than 78" in lint_digest(replace(rendered, text="word " * 20))[0].message
    assert lint_digest(replace(rendered, text="    cachewatch " + "word " * 20)) == ()  # a command stays on one line
    assert lint_digest(replace(rendered, text="x" * 100)) == ()  # an address cannot be broken


def test_a_message() -> None:
    """Any mail can be judged, as it would be sent."""
    message = EmailMessage()
    message.set_content("Text.\n")
    message.add_alternative('<p style="display:grid">x</p>', subtype="html")

    assert {one.where for one in lint_digest(message)} == {"subject", "html"}
