"""Render a digest, or a notice to operators, in every form that a channel may need, and cut it to the size of each."""

import gzip
import re
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.errors import TemplateError
from cachewatch.report.digest_and_message_values import (
    MAX_HTML,
    USUAL_ROWS,
    Attachment,
    Digest,
    Form,
    Notice,
    RenderedDigest,
)
from cachewatch.report.digests import subject as headline
from cachewatch.report.digests.body_and_table import subtitle
from cachewatch.report.digests.data_for_templates import Contents, DigestForm, cleaner, moment, view
from cachewatch.report.environment_words import Data
from cachewatch.report.json_and_safe_csv import COLUMNS, MOST_CSV, csv_rows, encode, picked, statement_values
from cachewatch.report.template_rendering import Job, script_hash, source, templates_of
from cachewatch.report.words_file import words

# A table that is no larger than this is attached as it is, a larger one compressed.
_PLAIN_CSV = 1_000_000
# Compressed, for all readers together: each gets a message of their own, and all are stored at once.
_MOST_FOR_ALL = 16 * MOST_CSV

_MOST_BULLETS = 5
_LONGEST_SUBJECT = 200  # of a template
_FORMS = ("html", "txt", "md", "chat", "subject", "feed.html", "page.html")
_FORM = re.compile(r"(\.(feed\.html|page\.html|html|txt|md|chat|subject))?(\.j2)?$")
# Only mail needs this: its readers have no styles of their own.
_STYLES = re.compile(r' (?:style|class)="[^"]*"')

# The data for chats, which show a few lines only.
_BRIEF = DigestForm(rows=USUAL_ROWS, tags=_MOST_BULLETS, others=_MOST_BULLETS, longest=60, has_links=False)

# The parts that are left out one after the other if the mail is too large; the digest limits the rows, too.
_STEPS = (
    DigestForm(tags=30, others=20, longest=110),
    DigestForm(tags=30, others=20, longest=110, has_links=False),
    DigestForm(tags=30, others=10, longest=80, has_links=False, has_details=False),
    DigestForm(rows=200, tags=30, others=10, longest=80, has_links=False, has_details=False),
    DigestForm(rows=50, tags=30, others=10, longest=80, has_links=False, has_details=False),
    DigestForm(rows=12, tags=30, others=10, longest=80, has_links=False, has_details=False),
    DigestForm(rows=5, tags=20, others=5, longest=60, has_links=False, has_details=False),
    DigestForm(rows=2, tags=20, others=3, longest=60, has_links=False, has_details=False),
    DigestForm(rows=0, tags=10, others=2, longest=60, has_links=False, has_details=False),
    DigestForm(rows=0, tags=0, others=1, longest=40, has_links=False, has_details=False),
)

# A page has everything, unless that is too large for a browser.
_NO_LIMIT = 10**9
_MOST_PAGE = 8 * 2**20  # bytes
_PAGES = (
    DigestForm(longest=200),
    DigestForm(rows=2000, longest=110, has_links=False),
    DigestForm(rows=200, tags=100, others=100, longest=60, has_links=False),
)
_SCRIPT_HASH = "sha256-of-the-script"  # until the page is made


def render_digest(digest: Digest, *, is_short: bool = False, **options: Any) -> RenderedDigest:
    """Render `digest` in one length, short or whole; `options` are those of `render_lengths`."""
    (rendered,) = render_lengths(digest, [is_short], **options)
    return rendered


def render_lengths(
    digest: Digest,
    lengths: Iterable[bool],
    *,
    templates_dir: Path | None = None,
    template: str | None = None,
    only: str = "",
    **options: Any,
) -> list[RenderedDigest]:
    """Render `digest` once for each of `lengths`, where True is a short one; `options` are fields of _Renderer.

    `template` names another HTML template in `templates_dir` (site.html.j2), used with its siblings (site.txt.j2 and so
    on) if these exist. `only` is the name of the single template to render; "" means all. Raises TemplateError.
    """
    base = _FORM.sub("", template or "digest.html.j2")
    if not any(source(f"{base}.{form}.j2", templates_dir) for form in _FORMS):
        raise TemplateError(f"{templates_dir or 'templates'}: there is no template {base}.html.j2")
    with templates_of(templates_dir, only) as render:
        renderer = _Renderer(digest=digest, folder=templates_dir, base=base, render_jobs=render, **options)
        return [renderer.render(is_short=each) for each in lengths]


class _Renderer(Struct, kw_only=True, dict=True):
    """Renders a digest in several lengths; what all lengths have in common is rendered once. Raises TemplateError."""

    digest: Digest
    folder: Path | None  # of a user's templates
    base: str  # the name of the templates without their forms
    render_jobs: Callable[[Sequence[Job]], list[str]]
    to: tuple[str, ...] = ()
    max_html: int = MAX_HTML  # bytes; what does not fit is counted
    attach: bool = False  # a table of all changes, if it is not too large
    is_archived: bool = False  # text, Markdown and JSON are not cut then; the page never is
    forms: Set[Form] = frozenset(Form)  # to make, of those that only some channels need

    def __post_init__(self) -> None:
        self.words = words(self.folder)
        self.contents = Contents(self.digest, self.words)
        self.head: dict[str, Any] = {  # which is the same whatever the length of the rest
            "title": headline.title(self.digest, self.words),
            "sentence": headline.sentence(self.digest, self.words),
            "subtitle": subtitle(self.digest),
            "words": self.words.all,
        }
        name = self._name("subject")
        if self.folder is not None and source(name, self.folder) != source(name):  # a user's template
            said = self._rendered("subject", self._context(self.digest, _BRIEF))
            self.head["title"] = safe(" ".join(said.split()))[:_LONGEST_SUBJECT] or self.head["title"]
        self.bullets = bullets(self._rendered("chat", self._context(self.digest, _BRIEF)))
        self.json = self._make_json() if Form.JSON in self.forms else b""

    def render(self, *, is_short: bool) -> RenderedDigest:
        """Return the rendered digest; if `is_short`, only totals and no attachment: some servers refuse long mail."""
        digest, head = self.digest, self.head
        table = None if is_short or not self.attach else _table(digest, readers=len(self.to))
        html, shown = self._mail(table, is_short=is_short)
        page, whole = self._page() if Form.PAGE in self.forms and not is_short else ("", shown)
        lasting = whole if self.is_archived else shown
        jobs = {"txt": lasting, Form.MARKDOWN: lasting, Form.FEED: shown}
        jobs = {form: context for form, context in jobs.items() if form == "txt" or form in self.forms}
        texts = self.render_jobs([(self._name(form), context) for form, context in jobs.items()])
        made = dict(zip(jobs, texts, strict=True))
        kinds = {kind for tag in digest.tags for one in tag.statements for kind in one.kinds}
        kinds |= {event.kind for tag in digest.tags for event in tag.report.events}
        return RenderedDigest(
            **picked(digest, "key", "subscription", "period", "created", "is_urgent", "archive_url"),
            title=head["title"],
            to=self.to,
            tags=tuple(dict.fromkeys(tag.report.after.tag or tag.report.after.name for tag in digest.tags)),
            kinds=tuple(sorted(kinds)),
            revisions=tuple(
                f"{span.before.revision or span.before.name}..{span.after.revision or span.after.name}"
                for span in digest.spans
            ),
            subtitle=head["subtitle"],
            level=digest.assessment.level.value,
            advice=self.contents.advice,
            bullets=self.bullets,
            text=made["txt"],
            html=html,
            page=page,
            feed=_STYLES.sub("", compact(made.get(Form.FEED, ""))),
            markdown=made.get(Form.MARKDOWN, ""),
            json=self.json,
            attachments=(table,) if table else (),
        )

    def _name(self, form: str) -> str:
        """Return the name of the template for a form: that of the subscription if it exists, else our own."""
        name, ours = f"{self.base}.{form}.j2", f"digest.{form}.j2"
        return name if name != ours and source(name, self.folder) is not None else ours

    def _rendered(self, form: str, context: Data) -> str:
        (text,) = self.render_jobs([(self._name(form), context)])
        return text

    def _make_json(self) -> bytes:
        digest = replace(self.digest, rows=_NO_LIMIT) if self.is_archived else self.digest
        shown = view(digest, contents=self.contents)
        for tag, data in zip(digest.tags, shown["tags"], strict=True):
            data["statements"] = list(map(statement_values, tag.statements))
            data["hidden"] = list(map(statement_values, tag.rest))
        return encode({**shown, **{name: self.head[name] for name in ("title", "sentence", "subtitle")}}) + b"\n"

    def _context(self, digest: Digest, form: DigestForm, **more: Any) -> Data:
        """Return the data for a template: `more`, and what of `digest` is within the limits of `form`."""
        shown = view(digest, form, clean=cleaner(form.longest), contents=self.contents)
        is_cut = any(section["more"] for section in shown["sections"]) or bool(shown["more_tags"])
        return {**self.head, "digest": shown, "is_cut": is_cut, "attachment": None, **more}

    def _mail(self, table: Attachment | None, *, is_short: bool) -> tuple[str, Data]:
        """Return the HTML of the mail, cut to the size limit (half of it if `is_short`), and the data in this HTML."""
        budget = self.max_html // 2 if is_short else self.max_html
        html, shown = "", Data()
        forms = (replace(form, rows=min(form.rows, self.digest.rows)) for form in _STEPS[-2 if is_short else 0 :])
        for form in dict.fromkeys(forms):
            shown = self._context(self.digest, form, attachment=table.name if table else None)
            html = compact(self._rendered("html", shown))
            if len(html.encode()) <= budget:
                break
        return html, shown

    def _page(self) -> tuple[str, Data]:
        """Return the page for the archive, with all that a browser can show, and the data in this page."""
        page, context = "", Data()
        digest = replace(self.digest, rows=_NO_LIMIT)
        for form in _PAGES:
            context = self._context(digest, form, script_hash=_SCRIPT_HASH)
            try:
                page = compact(self._rendered("page.html", context))
            except TemplateError:
                if form is _PAGES[-1]:
                    raise
                continue  # it may be too much
            if len(page.encode()) <= _MOST_PAGE:
                break
        script = page.rpartition("<script>")[2].partition("</script>")[0]
        return page.replace(_SCRIPT_HASH, script_hash(script), 1), context


def bullets(text: str) -> tuple[str, ...]:
    """Return the lines of `text`, rendered by a template for chats, that a chat has room for: the first ones."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return tuple(filter(None, lines))[:_MOST_BULLETS]


def compact(html: str) -> str:
    """Return `html` without empty lines, and without blanks at the start of lines; only templates need these."""
    return re.sub(r"\n\s*", "\n", html).lstrip()


def _table(digest: Digest, *, readers: int) -> Attachment | None:
    """Return the changes of all tags as a CSV file; None if empty, incomplete, or too large for so many `readers`."""
    tables = [tag.table for tag in digest.tags]
    size = sum(len(table.content) for table in tables)
    is_too_large = size > min(MOST_CSV, _MOST_FOR_ALL // max(1, readers))
    if not size or is_too_large or not all(table.is_complete for table in tables):
        return None
    packed = [gzip.compress(csv_rows([COLUMNS]), mtime=0), *(table.content for table in tables)]
    if sum(table.size for table in tables) > _PLAIN_CSV:
        return Attachment("changes.csv.gz", "application/gzip", b"".join(packed))
    return Attachment("changes.csv", "text/csv; charset=utf-8", gzip.decompress(b"".join(packed)))


# Whoever filters mail by subscription gets these under this name.
OPERATORS = "operators"
_LONGEST = 500


def render_notice(
    notice: Notice, *, to: tuple[str, ...] = (), templates_dir: Path | None = None, only: str = ""
) -> RenderedDigest:
    """Render `notice` for the operators `to`; `only` is the name of the single template to render ("": all)."""
    clean = cleaner(_LONGEST)
    context: dict[str, Any] = {
        "key": notice.key,
        "title": headline.as_subject(notice.title, headline.subject_prefix(OPERATORS, is_notice=True)),
        "created": moment(notice.created),
        **picked(notice, "zone", "is_good", "is_test"),
        "said": list(map(clean, notice.said)),
        "facts": [{"name": clean(name), "value": clean(value)} for name, value in notice.facts],
        "remedy": clean(notice.remedy),
        "commands": list(map(clean, notice.commands)),
        "operator": clean(notice.operator),
    }
    jobs = [(f"notice.{form}.j2", {"notice": context}) for form in ("txt", "html", "md", "chat", "feed.html")]
    with templates_of(templates_dir, only) as render:
        text, html, markdown, chat, feed = render(jobs)
    return RenderedDigest(
        key=notice.key,
        subscription=OPERATORS,
        title=context["title"],
        period=notice.created.strftime("%Y-%m-%dT%H%M%SZ"),
        created=notice.created,
        to=to,
        is_notice=True,
        bullets=bullets(chat),
        text=text,
        html=compact(html),
        feed=compact(feed),
        markdown=markdown,
        json=encode({"schema": "cachewatch.notice/1", **context}) + b"\n",
    )
