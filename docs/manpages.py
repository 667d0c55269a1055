"""Writes the manual pages from the commands themselves: `python docs/manpages.py` writes man/*.1.

click-man knows neither commands that are loaded when they are called, nor examples, nor what roff takes for a request.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from cachewatch import __version__
from cachewatch.__main__ import cli, commands

ROOT = Path(__file__).parents[1]
FOLDER, README = ROOT / "man", (ROOT / "README.md").read_text()

_ENVIRONMENT = {
    "CACHEWATCH_REPO": "Catalogue repository, if --repo names none.",
    "CACHEWATCH_CONFIG": "Configuration file, if --config names none.",
    "PAGER": "Pager for what people read on a terminal; cat or nothing means none.",
    "NO_COLOR": "If set, output is not coloured.",
    "XDG_CACHE_HOME": "Where clones of repositories that are named by a URL, and history indexes, lie, below cachewatch/; else ~/.cache.",
    "STATE_DIRECTORY": "Folder of the state, if the configuration names none; systemd sets it.",
}


_TOP = {name: row for name, row in commands().items() if " " not in name}


def pages() -> Mapping[str, str]:
    found = {"cachewatch.1": _page("cachewatch", cli, "report what changed in a Spack build cache", _root())}
    for name, entry in _TOP.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        summary = entry.summary[0].lower() + entry.summary[1:].removesuffix(".")
        found[f"cachewatch-{name}.1"] = _page(f"cachewatch {name}", command, summary, [])
    return found


def _page(words: str, command: click.Command, summary: str, more: list[str]) -> str:
    title = words.replace(" ", "-")
    see = [f"cachewatch-{name}" for name in _TOP] if command is cli else ["cachewatch"]
    lines = [
        f'.TH "{title.upper()}" "1" "" "cachewatch {__version__}" "cachewatch manual"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(summary)}",
        ".SH SYNOPSIS",
        *_synopsis(words, command),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        *_options(command, ".SH OPTIONS"),
        *more,
        *(line for name, each in _parts(command) for line in _part(f"{words} {name}", each)),
        *_examples(command, ".SH EXAMPLES"),
        ".SH SEE ALSO",
        ",\n".join(f".BR {_text(name)} (1)" for name in see).replace(",\n", " ,\n"),
    ]
    return "\n".join(lines) + "\n"


def _parts(command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command is cli:
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (each := command.get_command(context, name)) is not None:
            yield from ((f"{name} {word}", one) for word, one in _parts(each))
            if not isinstance(each, click.Group):
                yield name, each


def _part(words: str, command: click.Command) -> Iterator[str]:
    """Yield the section about a command of a group."""
    yield f".SH {_text(words.upper())}"
    yield from _synopsis(words, command)
    yield from _paragraphs(command.help or "")
    yield from _options(command, "")
    yield from _examples(command, "")


def _synopsis(words: str, command: click.Command) -> Iterator[str]:
    pieces = command.collect_usage_pieces(click.Context(command, info_name=words))
    yield f".B {_text(words)}"
    yield _text(" ".join(pieces))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _options(command: click.Command, heading: str) -> Iterator[str]:
    context = click.Context(command, show_default=True)
    records = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
    if heading and any(records):
        yield heading
    for record in filter(None, records):
        yield ".TP"
        yield f".B {_text(record[0])}"
        yield _text(re.sub(r"\s+", " ", record[1]))


def _examples(command: click.Command, heading: str) -> Iterator[str]:
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("$ ")]
    if lines:
        yield heading or ".PP"
        yield ".nf"
        yield from (f"\\&{_text(line)}" for line in lines)
        yield ".fi"


def _root() -> list[str]:
    """Return the sections that only the first page has."""
    lines = [".SH COMMANDS"]
    for title in dict.fromkeys(row.section for row in _TOP.values()):
        lines.append(f".SS {_text(title)}")
        for row in _TOP.values():
            if row.section == title:
                lines += [".TP", f".BR cachewatch\\-{_text(row.name)} (1)", _text(row.summary)]
    lines += [".SH ENVIRONMENT", *_terms(_ENVIRONMENT)]
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", README.partition("## Exit codes")[2], re.MULTILINE)
    return [*lines, ".SH EXIT STATUS", *_terms({code: said.replace("`", "") for code, said in rows})]


def _terms(terms: Mapping[str, str]) -> Iterator[str]:
    for term, said in terms.items():
        yield from (".TP", f".B {_text(term)}", _text(said))


def _text(text: str) -> str:
    """Return text that roff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.1"):
        file.unlink()
    for name, page in pages().items():
        (FOLDER / name).write_text(page)
