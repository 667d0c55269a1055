"""Notice -> RenderedDigest: what operators are told of cachewatch itself, and readers never."""

from pathlib import Path
from typing import Any

from cachewatch.core.delivery import RenderedDigest
from cachewatch.render.ascii_json import encode
from cachewatch.render.digest_mail import bullets, compact
from cachewatch.render.subject_and_headline import fitted
from cachewatch.render.template_context import cleaner, moment
from cachewatch.render.templates import render_all
from cachewatch.report.digest import Notice

# Whoever filters mail by subscription gets these under this name.
OPERATORS = "operators"
_LONGEST = 500


def render_notice(notice: Notice, *, to: tuple[str, ...] = (), templates_dir: Path | None = None) -> RenderedDigest:
    """Render `notice` for the operators `to`."""
    clean = cleaner(_LONGEST)
    context: dict[str, Any] = {
        "key": notice.key,
        "title": fitted(notice.title, OPERATORS),
        "created": moment(notice.created),
        "zone": notice.zone,
        "is_good": notice.is_good,
        "said": [clean(sentence) for sentence in notice.said],
        "facts": [{"name": clean(name), "value": clean(value)} for name, value in notice.facts],
        "remedy": clean(notice.remedy),
        "commands": [clean(command) for command in notice.commands],
        "operator": clean(notice.operator),
    }
    jobs = [(f"notice.{form}.j2", {"notice": context}) for form in ("txt", "html", "md", "chat", "feed.html")]
    text, html, markdown, chat, feed = render_all(jobs, templates_dir)
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
