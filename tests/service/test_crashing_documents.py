"""Documents that nobody can read within the limits stop neither the others, nor the service, nor its answers."""

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from helpers import catalogue, record, records
from mailservers import free_port
from servers import ask
from station import DAEMON_CONFIG as CONFIG
from station import DAY, Site, log, running, wait_for
from upstream import descendants

from cachewatch.errors import WorkFailed
from cachewatch.runtime import worker
from cachewatch.runtime.worker import Limits
from cachewatch.service import passes_and_leadership

PATH = "_cache/develop/pa/specs.md"
# It takes ten seconds to find out that this is none.
HEAVY = b"---\n" + b"a\n" * 8 * 2**20 + b"---"


def state(number: int, pa: dict[str, bytes]) -> dict[str, bytes]:
    """Return a catalogue that gets another package with each number."""
    return catalogue({f"other-{n}": records([100 + n]) for n in range(number + 1)}) | pa


def pa(version: str, number: int) -> dict[str, bytes]:
    return catalogue({"pa": [record(number, versions=[version])]})


def site(folder: Path, *pas: dict[str, bytes], port: int = 9) -> Site:
    """Return a site whose upstream has these states of a package."""
    return Site(folder, [state(number, each) for number, each in enumerate(pas)], CONFIG.replace("{port}", str(port)))


@pytest.mark.slow
def test_one_that_takes_too_long_is_unread_and_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by another stream, nor in a later pass, nor in another tag, until it changes; all others are told."""
    deaths: list[str] = []

    class Counting(worker.Worker):
        def _death(self, seconds: float, elapsed: float) -> WorkFailed:
            found = super()._death(seconds, elapsed)
            deaths.append(str(found))
            return found

    heavy = HEAVY[:-3] + b"a\n" * 6 * 2**20 + HEAVY[-3:]  # which takes more than two seconds
    # Little processor time, and as long as others need to share the processor.
    limits = Limits(seconds=1, seconds_per_megabyte=0)
    monkeypatch.setattr(worker, "_PATIENCE", 120.0)
    monkeypatch.setattr(passes_and_leadership, "Worker", partial(Counting, limits=limits))
    snapshot = {PATH.replace("develop", "develop-2025-01-01"): heavy}
    made = site(tmp_path, pa("7.1", 10), {PATH: heavy}, {PATH: heavy}, {PATH: heavy} | snapshot, pa("7.2", 11))
    made.run()
    made.run(1, later=DAY)
    ended = len(deaths)
    assert ended, "it ended a process"
    for number in range(2, len(made.commits)):
        made.run(number, later=DAY)
    assert len(deaths) == ended
    texts = [" ".join(text.split()) for text in made.told()]
    assert "documents of develop cannot be read since" in texts[0]
    assert all(f"other-{number}" in text for number, text in enumerate(texts, 1))
    assert not any("7.1" in text for text in texts[:-1]), "nothing is known of it"
    assert "pa 7.1 -> 7.2" in texts[-1]
    assert made.notices()[0] == "1 document of develop in public cannot be read: pa"
    assert "documents of develop in public were repaired or removed" in made.notices()
    notice = next(stored.rendered.text for stored in made.digests() if stored.subscription == "(operators)")
    assert "pa: reading it took more than 1 seconds of processor time." in " ".join(notice.split())


@pytest.mark.usefixtures("loopback")
def test_a_daemon_answers_and_ends_while_it_reads_the_worst(tmp_path: Path) -> None:
    """It says that it is well while the first of many is in hand, and a signal ends it before that is read."""
    port = free_port()
    heavy = {f"_cache/develop/heavy-{n}/specs.md": HEAVY + b"%d" % n for n in range(9)}
    made = site(tmp_path, pa("7.1", 10), heavy, port=port)
    with running(made, "daemon") as daemon:
        wait_for(lambda: "stream.begun" in log(made))
        made.publish(1)
        wait_for(lambda: is_at_work(daemon.pid), seconds=60)
        for _ in range(20):
            assert ask(f"127.0.0.1:{port}", "/healthz")[0] == 200
        assert is_at_work(daemon.pid), "it is still being read"
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(120) == 0
    assert "digest.stored" not in log(made)


def is_at_work(pid: int) -> bool:
    """Tell whether a process below `pid` has used more than a second of processor time."""
    for child in descendants(pid):
        with suppress(OSError):
            used = int(Path(f"/proc/{child}/stat").read_text("utf-8").rpartition(")")[2].split()[11])
            if used > os.sysconf("SC_CLK_TCK"):
                return True
    return False
