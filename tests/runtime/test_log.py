"""The log: one line per event, whoever says it, and the same fields in both forms."""

import io
import json
import logging
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cachewatch.config.secrets import Secret
from cachewatch.runtime.log import Log, open_log

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    """Return what was logged as JSON."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_forms_of_an_event() -> None:
    """Time, level and name come first, then the fields as they were given; what is empty is left out."""
    text, data = io.StringIO(), io.StringIO()
    for form, stream in (("text", text), ("json", data)):
        log = open_log(form, stream)
        log.error("source.failed", source="public", failures=0, error='it said "no"', reason="", file=None)

    assert re.fullmatch(
        rf'{MOMENT} error source.failed source=public failures=0 error="it said \\"no\\""\n', text.getvalue()
    )
    assert re.fullmatch(
        rf'{{"time": "{MOMENT}", "level": "error", "event": "source.failed", "source": "public", "failures": 0, '
        r'"error": "it said \\"no\\""}\n',
        data.getvalue(),
    )


def test_bound_fields_come_first_and_stay_with_the_log_that_has_them() -> None:
    """What a job is about is said once; another job's lines know nothing of it."""
    said = io.StringIO()
    log = open_log("json", said)
    of_source = log.bind(source="public", revision="")
    of_source.info("source.polled", is_new=False)
    of_source.bind(revision="abc").info("source.polled")
    log.info("daemon.stopping")

    assert [list(line)[2:] for line in lines(said)] == [
        ["event", "source", "is_new"],
        ["event", "source", "revision"],
        ["event"],
    ]


def test_what_is_deferred_is_bound_as_well() -> None:
    """A line of a transaction is written when that is committed, and not at all if it never is."""
    said, waiting = io.StringIO(), list[Callable[[], None]]()
    log = open_log("json", said).bind(id=7).deferred(waiting.append)
    log.bind(target="a").warning("delivery.dropped", said="gone")
    assert said.getvalue() == ""
    for write in waiting:
        write()

    assert lines(said)[0] | {"time": ""} == {
        "time": "",
        "level": "warning",
        "event": "delivery.dropped",
        "id": 7,
        "target": "a",
        "said": "gone",
    }


def test_nothing_is_logged_twice() -> None:
    """A log that is opened again replaces the first, also for those who have that one."""
    first, second = io.StringIO(), io.StringIO()
    log, before = open_log("json", first), Log()
    open_log("text", second)
    log.info("daemon.stopping")
    before.info("daemon.stopped")

    assert first.getvalue() == ""
    assert re.fullmatch(rf"{MOMENT} info daemon.stopping\n{MOMENT} info daemon.stopped\n", second.getvalue())


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


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is not written; the standard stream is that of errors."""
    log = open_log("text", level=logging.ERROR)
    log.warning("source.failed")
    log.error("config.refused", error="")
    assert re.fullmatch(rf"{MOMENT} error config.refused\n", capsys.readouterr().err)
