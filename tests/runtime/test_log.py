"""The log: one line per event, whoever says it, and the same fields in both forms."""

import io
import json
import logging
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.runtime.log import open_log

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_forms_of_an_event() -> None:
    """Time, level and name come first, then the fields as they were given; what is empty is left out."""
    text, data = io.StringIO(), io.StringIO()
    for form, stream in (("text", text), ("json", data)):
        log = open_log(form, stream)
        log.error("source.failed", source="public", failures=0, error='it said "no"', reason="", file=None)

    said = r'error source.failed source=public failures=0 error="it said \\"no\\""'
    assert re.fullmatch(f"{MOMENT} {said}\n", text.getvalue())
    head = rf'{{"time": "{MOMENT}", "level": "error", "event": "source.failed", "source": "public", "failures": 0, '
    assert re.fullmatch(head + r'"error": "it said \\"no\\""}\n', data.getvalue())


def test_secrets_and_control_characters() -> None:
    """A secret has no text form, and no name can forge a line or move the cursor."""
    for form in ("text", "json"):
        said = io.StringIO()
        log = open_log(form, said)
        log.info("channel.blocked", token=Secret("s3cr3t"), error="a\nb\x1b[2J\x9b\u202e", path=Path("/x y"))
        assert "s3cr3t" not in said.getvalue()
        assert said.getvalue().count("\n") == 1
        assert said.getvalue().strip().isprintable()
        assert '"/x y"' in said.getvalue()


def test_a_terminal_gets_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word is broken; a program reads one line of JSON for each event there too."""
    monkeypatch.setenv("COLUMNS", "60")
    for form, expected in (("text", ["    s", "    f"]), ("json", [])):
        said = io.StringIO()
        monkeypatch.setattr(said, "isatty", lambda: True)
        open_log(form, said).info("digest.queued", subscription="all", said="word " * 9, file="/" + "x" * 70)
        _, *others = said.getvalue().splitlines()
        assert [line[:5] for line in others] == expected


def test_what_a_library_says_is_a_note_with_its_exception() -> None:
    """The scheduler's errors arrive in the form of all lines, and its chatter does not."""
    said = io.StringIO()
    open_log("json", said)
    scheduler = logging.getLogger("apscheduler.scheduler")
    scheduler.warning("chatter")
    try:
        raise ValueError("no")
    except ValueError:
        scheduler.exception("Error on %s", "wakeup")

    (line,) = lines(said)
    assert list(line)[1:] == ["level", "event", "said", "exception"]
    assert (line["event"], line["said"], line["exception"]) == ("note", "Error on wakeup", "ValueError('no')")


def test_threads_and_children_write_whole_lines(tmp_path: Path) -> None:
    """Each line is written at once, in a process that was forked as well."""
    with (tmp_path / "log").open("a") as file:
        log = open_log("json", file)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: log.bind(number=number).info("source.polled", said="x" * 500), range(200)))
        if not (child := os.fork()):
            log.info("source.polled", number=200)
            os._exit(0)
        os.waitpid(child, 0)

    found = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(line["number"] for line in found) == list(range(201))
