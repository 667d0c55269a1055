"""Find what mail programs would cut, drop or distrust in a mail, before anybody gets it.

The rules are what Gmail, Outlook, Apple Mail and Thunderbird are known to do with HTML and CSS.
They are checked on the bytes that would be sent, whoever wrote the template.
"""

import re
from collections.abc import Iterable, Iterator
from email.message import EmailMessage
from enum import StrEnum
from html.parser import HTMLParser

from msgspec import Struct

from cachewatch.core.delivery import RenderedDigest
from cachewatch.render.subject_and_headline import WIDEST

_CLIPPED = 102_000  # bytes of HTML, about where Gmail cuts
_ROOMY = 90_000  # leaves room for what lists and gateways add
_MOST_STYLE = 16_000  # bytes of <style> that Gmail keeps
_WIDEST_TEXT = 78
_LONGEST_LINE = 998  # bytes that SMTP allows
_WIDEST_TABLE = 600
_SCHEMES = ("https://", "http://", "mailto:")

# What some widespread mail program ignores or breaks.
_BAD_TAGS = dict.fromkeys(
    ("button", "details", "embed", "form", "iframe", "input", "object", "script", "svg", "video", "audio"),
    "is dropped or blocked by e-mail clients",
)
_BAD_STYLES = (
    (
        re.compile(r"(?:^|[;{\s])display\s*:\s*(?:inline-)?(?:flex|grid)"),
        "Outlook for Windows knows neither flex nor grid",
    ),
    (re.compile(r"(?:^|[;{\s])(?:position|float)\s*:"), "position and float do not work in Outlook and Gmail"),
    (re.compile(r"(?:^|[;{\s])overflow(?:-[a-z]+)?\s*:"), "overflow does not work in Outlook; break words instead"),
    (re.compile(r"var\(|(?:^|[;{\s])--[a-z]"), "Gmail and Outlook know no CSS variables"),
    (re.compile(r"light-dark\(|color-mix\("), "few e-mail clients know this function"),
    (re.compile(r"rgba\(|hsla?\("), "Outlook for Windows takes only plain colours"),
    (re.compile(r"url\("), "e-mail clients do not fetch what styles name"),
)
_BAD_SELECTORS = (
    (re.compile(r":(?:nth|has|is|where|not)\b"), "this selector is not known to Gmail"),
    (re.compile(r"\["), "Gmail drops rules with attribute selectors"),
)
_UNQUOTED = re.compile(r"""\s[a-zA-Z-]+\s*=\s*[^\s"'>]""")
_QUOTED = re.compile(r"""(["']).*?\1""", re.DOTALL)
# A placeholder that nobody filled in, as it is in a link.
_UNFILLED = re.compile(r"\{[a-z]+\}|%7B[a-z]+%7D")
_RULE = re.compile(r"([^{}]*)\{([^{}]*)\}")


class Grade(StrEnum):
    """How bad it is."""

    ERROR = "error"  # readers would lose something
    WARNING = "warning"  # some readers would see it worse


class LintFinding(Struct, frozen=True):
    """Something that mail programs will not take well."""

    grade: Grade
    where: str  # subject, text or html
    message: str


def lint_digest(rendered: RenderedDigest | EmailMessage, *, bases: Iterable[str] = ()) -> tuple[LintFinding, ...]:
    """Return what is wrong with `digest`; links to anything but `bases` are named where there are any.

    A RenderedDigest is judged with the subject that a mail channel makes of its title.
    """
    if isinstance(rendered, RenderedDigest):
        subject, text, html = f"[{rendered.subscription}] {rendered.title}", rendered.text, rendered.html
    else:
        subject, text, html = str(rendered["Subject"] or ""), body_of(rendered, "plain"), body_of(rendered, "html")
    return (*_subject(subject), *_text(text), *_html(html, tuple(bases)))


def body_of(message: EmailMessage, kind: str) -> str:
    """Return the body of a mail, plain or html; empty where it has none."""
    part = message.get_body((kind,))
    return str(part.get_content()).replace("\r\n", "\n") if part is not None else ""


def _subject(subject: str) -> Iterator[LintFinding]:
    if not subject:
        yield LintFinding(Grade.ERROR, "subject", "there is none")
    if "\r" in subject or "\n" in subject:
        yield LintFinding(Grade.ERROR, "subject", "has a line break")
    if len(subject) > WIDEST:
        yield LintFinding(Grade.WARNING, "subject", f"is {len(subject)} characters long; {WIDEST} fit in a line")
    if not subject.isascii():
        yield LintFinding(Grade.WARNING, "subject", "is not ASCII, which makes it longer and harder to filter by")


def _text(text: str) -> Iterator[LintFinding]:
    if not text.strip():
        yield LintFinding(Grade.ERROR, "text", "there is no text part")
    # A command is to be pasted, so it stays on one line.
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    long = [line for line in lines if len(line) > _WIDEST_TEXT and " " in line.strip()]
    if long:
        yield LintFinding(
            Grade.WARNING,
            "text",
            f"longer than {_WIDEST_TEXT} columns: {len(long)} of its lines, {long[0].strip()[:60]}",
        )
    if any(len(line.encode()) > _LONGEST_LINE for line in text.splitlines()):
        yield LintFinding(Grade.WARNING, "text", f"a line is longer than the {_LONGEST_LINE} bytes of SMTP")


def _html(html: str, bases: tuple[str, ...]) -> Iterator[LintFinding]:
    if not html:
        return
    size = len(html.encode())
    if size > _CLIPPED:
        yield LintFinding(Grade.ERROR, "html", f"{size:,} bytes: Gmail cuts after {_CLIPPED:,}, and with it the end")
    elif size > _ROOMY:
        yield LintFinding(Grade.WARNING, "html", f"{size:,} bytes, close to the {_CLIPPED:,} that Gmail shows")
    reader = _Reader(bases)
    reader.feed(html)
    reader.close()
    yield from dict.fromkeys(reader.found)


class _Reader(HTMLParser):
    """Notes what is wrong while it reads."""

    def __init__(self, bases: tuple[str, ...]) -> None:
        super().__init__()
        self.found: list[LintFinding] = []
        self._bases = bases
        self._is_body = self._is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._is_body = self._is_body or tag == "body"
        if tag in _BAD_TAGS:
            self._note(Grade.ERROR, f"<{tag}> {_BAD_TAGS[tag]}")
        if tag == "style":
            self._is_style = True
            if self._is_body:
                self._note(Grade.ERROR, "<style> in the body is dropped by Gmail; it belongs into the head")
        if tag == "html" and not values.get("lang"):
            self._note(Grade.WARNING, "<html> has no lang, so screen readers guess the language")
        if _UNQUOTED.search(_QUOTED.sub('""', self.get_starttag_text() or "")):
            self._note(Grade.ERROR, f"<{tag}> has an attribute without quotes, which data could break out of")
        self._judge_attributes(tag, values)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._is_style = self._is_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            return
        if len(data.encode()) > _MOST_STYLE:
            self._note(Grade.ERROR, f"more than {_MOST_STYLE:,} bytes of <style>: Gmail drops all of it")
        for selector, style in _RULE.findall(data):
            self._judge_style(style)
            for pattern, why in _BAD_SELECTORS:
                if pattern.search(selector):
                    self._note(Grade.WARNING, f"{selector.strip()[:60]}: {why}")

    def _judge_attributes(self, tag: str, values: dict[str, str]) -> None:
        if any(name.startswith("on") for name in values):
            self._note(Grade.ERROR, f"<{tag}> has a script, which every e-mail client removes")
        if "hidden" in values:
            self._note(Grade.WARNING, f"<{tag} hidden> is shown by Outlook")
        self._judge_style(values.get("style", ""))
        for name in ("href", "src"):
            if name in values:
                self._judge_address(tag, values[name])
        if tag == "img" and "alt" not in values:
            self._note(Grade.WARNING, "<img> without alt says nothing where pictures are blocked")
        width = values.get("width", "")
        if width.isdigit() and int(width) > _WIDEST_TABLE:
            self._note(Grade.WARNING, f'<{tag} width="{width}"> is wider than a phone and than {_WIDEST_TABLE} pixels')

    def _judge_address(self, tag: str, address: str) -> None:
        if found := _UNFILLED.search(address):
            self._note(Grade.ERROR, f"{address[:100]} has {found[0]}, which nobody filled in")
        if address.startswith("#"):
            self._note(Grade.WARNING, f"{address[:60]}: links within a mail do not work on phones")
        elif not address.lower().startswith(_SCHEMES):
            self._note(Grade.ERROR, f"<{tag}> leads to {address[:60]}, which is not a web or mail address")
        elif self._bases and not address.startswith(self._bases):
            self._note(Grade.ERROR, f"{address[:100]} is not one of the configured addresses")

    def _judge_style(self, style: str) -> None:
        for pattern, why in _BAD_STYLES:
            if match := pattern.search(style):
                self._note(Grade.WARNING, f"{match[0].strip('; {')}: {why}")

    def _note(self, grade: Grade, message: str) -> None:
        line, _ = self.getpos()
        self.found.append(LintFinding(grade, "html", f"line {line}: {message}"))
