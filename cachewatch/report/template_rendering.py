"""Render templates (docs/templates.md), Markdown and the page of `diff`. Only this module uses Jinja2.

If users have a folder of templates, these are preferred to ours of the same name, and all are rendered in a separate
process, with plain data only, a sandbox, a deadline, and limits on memory and output.
"""

import base64
import hashlib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cachewatch.core.changesets import Changeset
from cachewatch.core.escaping_and_mentions import code, markdown, safe
from cachewatch.errors import TemplateError, WorkFailed
from cachewatch.report import dates_and_totals, words
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.diff_blocks_and_colours import Requested
from cachewatch.report.diff_formats_and_alike_tags import grouped_reports
from cachewatch.report.rebuild_cause_words import cause_rows
from cachewatch.report.words import number
from cachewatch.report.words_file import entries
from cachewatch.runtime.files_and_locks import read_inside, shipped_template
from cachewatch.runtime.worker import Limits, Worker


def day(time: str | None, zone: str = "UTC") -> str:
    """Return the day in `zone` of an ISO time, `1 June 2025`; `unknown` for None."""
    return "{0.day} {0:%B %Y}".format(_local(time, zone)) if time else "unknown"


def moment(time: str | None, zone: str = "UTC") -> str:
    """Return an ISO time as day, time and zone, `1 June 2025 06:00 CEST`; `unknown` for None."""
    return f"{day(time, zone)} {_local(time, zone):%H:%M %Z}" if time else "unknown"


def _local(time: str, zone: str) -> datetime:
    return datetime.fromisoformat(time).astimezone(ZoneInfo(zone))


def days_between(since: str, until: str) -> str:
    """Return the time between two ISO times in words: 3 days."""
    return how_long(datetime.fromisoformat(until) - datetime.fromisoformat(since))


def fill(text: str, first: str = "", rest: str = "", width: int = 78) -> str:
    """Wrap `text` into lines; `first` begins the first one, `rest` others. Only words longer than a line are cut."""
    lengths = [len(word) for word in text.split()]
    is_cut = max(lengths, default=0) > width - len(rest)
    head = ""
    if lengths and len(first) + lengths[0] > width and not is_cut:
        head, first = f"{first.rstrip()}\n", rest
    return head + textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=is_cut, break_on_hyphens=False
    )


def arrows(text: str) -> str:
    """Return `text` with real arrows instead of `->`; if it is wrapped into lines, no line begins with an arrow."""
    return text.replace(" -> ", "\u00a0\u2192 ")


def short(revision: str | None) -> str:
    """Return the first ten digits of a revision's hash; "" for None."""
    return (revision or "")[:10]


def _revisions(span: Mapping[str, Any]) -> str:
    """Return both revisions of a span, `abc..def`; only one if both sides have the same revision."""
    return "..".join(dict.fromkeys(short(side["revision"]) or side["name"] for side in (span["before"], span["after"])))


_INLINE = 12  # columns of a heading that stands before its first row
_WIDEST_PACKAGE, _WIDEST_CHANGE = 28, 24


def table_lines(section: Mapping[str, Any], width: int = 78) -> str:
    """Return a section of a digest as lines of text in columns."""
    heading = section["heading"].upper()
    remark = f"{' ' if section['remark'].startswith('for ') else ', '}{section['remark']}" if section["remark"] else ""
    is_inline = not remark and section["name"] in ("upgraded", "downgraded", "package-added")
    lines = [] if is_inline else [fill(f"{heading}{remark}", "", "    ", width)]
    indent = " " * (_INLINE if is_inline else 2)
    rows = section["rows"]
    widths = [
        max((len(row[key]) for row in rows if len(row[key]) <= most), default=0)
        for key, most in (("package", _WIDEST_PACKAGE), ("change", _WIDEST_CHANGE))
    ]
    for number_, row in enumerate(rows):
        first = heading.ljust(_INLINE) if is_inline and not number_ else indent
        cells = f"{row['package']:<{widths[0]}}  {row['change']:<{widths[1]}}  "
        if len(first) + len(cells) < width - _INLINE:
            lines.append(fill(row["where"], f"{first}{cells}", f"{indent}    ", width) or f"{first}{cells}".rstrip())
        else:
            cells = "  ".join(filter(None, (row["package"], row["change"], row["where"])))
            lines.append(fill(cells, first, f"{indent}    ", width))
    lines += [f"{indent}and {number(section['more'], 'more line')}"] if section["more"] else []
    return "\n".join(lines)


FILTERS: dict[str, Callable[..., Any]] = {
    "md": markdown,
    "code": code,
    "safe_text": safe,
    "number": "{:,}".format,
    "counted": number,
    "day": day,
    "moment": moment,
    "days_until": days_between,
    "fill": fill,
    "table_lines": table_lines,
    "arrows": arrows,
    "in_column": words.in_column,
    "revisions": _revisions,
    "short": short,
}


_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*(/[a-z0-9_][a-z0-9_.-]*)*", re.IGNORECASE)

_SECONDS = 20.0
_MEGABYTES = 1024
_LONGEST_OUTPUT = 10 * 2**20
_LONGEST_TEMPLATE = 2**20

Job = tuple[str, Mapping[str, Any]]  # the name of a template, and its data


def render(name: str, **context: Any) -> str:
    """Return our own template `name`, filled with `context`. Raises TemplateError with the template and the reason."""
    return _render(_environment(None), name, {"words": words, "dates": dates_and_totals, **context})


@contextmanager
def templates_of(folder: Path | None, only: str = "") -> Iterator[Callable[[Sequence[Job]], list[str]]]:
    """Yield a function that renders jobs, pairs of template and data, with templates of `folder` (None: built-in ones).

    If `only` is the name of a template, the function returns "" for jobs with other templates.
    """
    if folder is None:
        yield partial(_render_each, None, only=only)
        return

    def render_apart(jobs: Sequence[Job]) -> list[str]:
        try:
            return worker.do(_render_each, folder, jobs, only, seconds=_SECONDS)
        except WorkFailed as error:
            names = ", ".join(name for name, _ in jobs)
            raise TemplateError(f"{folder}: {names}: {str(error).removeprefix('reading ')}") from error

    with Worker(limits=Limits(megabytes=_MEGABYTES), may_fork=False) as worker:  # a fork would have our secrets
        yield render_apart


def source(name: str, folder: Path | None = None) -> tuple[str, str] | None:
    """Return text and path of a template of `folder`, else of ours, else None. Raises TemplateError if unreadable."""
    if not _NAME.fullmatch(name):
        return None  # nothing outside of the two folders is a template
    if folder is not None:
        file = str(folder / name)
        try:
            return read_inside(folder, name, most=_LONGEST_TEMPLATE).decode("utf-8"), file
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            pass  # ours is taken
        except OSError as error:
            raise TemplateError(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TemplateError(f"{file}: is not UTF-8") from error
    text = shipped_template(name)
    return None if text is None else (text, f"templates/{name}")


def _render_each(folder: Path | None, jobs: Sequence[Job], only: str = "") -> list[str]:
    return ["" if only not in ("", name) else _render(_environment(folder), name, context) for name, context in jobs]


def _render(environment: jinja2.Environment, name: str, context: Mapping[str, Any]) -> str:
    parts, length = [], 0
    try:
        for piece in environment.get_template(name).generate(**context):
            parts.append(piece)
            length += len(piece)
            if length > _LONGEST_OUTPUT:
                raise TemplateError(f"{name}: writes more than {_LONGEST_OUTPUT // 2**20} MiB")
    except TemplateError:
        raise
    except MemoryError as error:
        raise TemplateError(f"{name}: takes too much memory") from error
    except Exception as error:  # a template may call anything it is given, and get it wrong in any way
        raise TemplateError(_describe(name, error)) from error
    return "".join(parts)


@cache
def _environment(folder: Path | None) -> jinja2.Environment:
    """Return a Jinja2 environment for our templates; for a `folder`, a sandbox that prefers templates in there."""

    def load(name: str) -> tuple[str, str, None] | None:
        found = source(name, folder)
        return None if found is None else (*found, None)

    environment = (jinja2.Environment if folder is None else ImmutableSandboxedEnvironment)(
        autoescape=jinja2.select_autoescape(("html.j2", "xml.j2")),  # all else is text, where an ampersand is one
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.pop("lipsum")
    environment.globals["theme"] = entries("theme.toml", folder)
    environment.filters |= FILTERS
    return environment


def _describe(name: str, error: Exception) -> str:
    """Return the `error` of the template `name` in words: file, line and reason."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or error.name or name}: line {error.lineno}: {error.message}"
    if isinstance(error, jinja2.TemplateNotFound):
        return f"{name}: there is no template {error.name}"
    place, trace = name, error.__traceback__
    while trace is not None:
        # Jinja2 makes frames of templates look as if they were files.
        if trace.tb_frame.f_code.co_filename.endswith(".j2"):
            place = f"{trace.tb_frame.f_code.co_filename}: line {trace.tb_lineno}"
        trace = trace.tb_next
    kind = "" if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: "
    return f"{place}: {kind}{error}"


def write_markdown(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield a report on each tag as Markdown, with what `asked` selects."""
    for group in grouped_reports(changesets, asked):
        yield render("changes.md.j2", told=group).encode()
        if group.causes is not None:
            yield render("causes.md.j2", causes=cause_rows(group.causes)).encode()


MOST_ROWS = 1000  # of a section: browsers take no pleasure in more


def script_hash(script: str) -> str:
    """Return the SHA-256 of `script`, the text between the tags; by it, a page lets browsers run only this script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def write_page(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield one HTML page about all tags, with what `asked` selects."""
    groups = grouped_reports(changesets, asked)
    count = sum(len(told.reports) for told in groups)
    title = f"What changed in {groups[0].name if len(groups) == 1 else number(count, 'tag')}"
    script = script_hash("\n" + render("_page.js.j2"))
    yield render("page.html.j2", title=title, tags=groups, script_hash=script).encode()
