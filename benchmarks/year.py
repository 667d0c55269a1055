"""How large a state is after a year of daily digests: `python -m benchmarks.year [--days 365] [--readers 100]`.

A catalogue gets a revision a night, as upstream does; each morning one pass of the service compares, stores and
sends, with a clock that is a day later each time. Mails go to a program that does nothing. Prints the size of the
database, without the clone, and what takes most of it.
"""

import argparse
import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks import nights
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.runtime.log import Log, open_log
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import run_pass
from cachewatch.store.transactions_and_sqlite import NAME, open_database

_CONFIG = """\
version: 1
state: {folder}/state
timezone: UTC
sources: {{upstream: {{git: {folder}/upstream.git, branch: main, stale_after: 4000d}}}}
channels: {{mail: {{type: sendmail, from: cachewatch@example.org, command: ["true"]}}}}
operators: {{channels: []}}
subscriptions:
  everybody:
    to: [{readers}]
    channels: [mail]
    when: daily 07:30
    match: {{tags: [develop]}}
    changes: [all]
    limit: {{hold_above: 10000000}}
"""
_BEGIN = datetime(2025, 1, 1, 7, 31, tzinfo=UTC)


class Year(NamedTuple):
    """What a state takes after some days."""

    days: int
    readers: int
    digests: int
    megabytes: float
    tables: dict[str, float]  # megabytes of the largest tables and indices
    processor: float  # seconds of all processes


def main() -> None:
    """Simulate as the options say, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--packages", type=int, default=300)
    parser.add_argument("--specs", type=int, default=15_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as name:
        year = simulate(Path(name, "year"), options.days, options.readers, options.packages, options.specs)
    largest = ", ".join(f"{name} {size:.1f}" for name, size in year.tables.items())
    print(
        f"{year.days} days, {year.readers} readers, {year.digests} digests: {year.megabytes:.1f} MB ({largest}),"
        f" {year.processor:.0f} CPU s"
    )


def simulate(folder: Path, days: int, readers: int, packages: int, specs: int) -> Year:
    """Let as many days pass, each with a pass over the next revision of a catalogue that is made in `folder`."""
    folder.mkdir()
    nights.generate(folder / "upstream.git", nights=days + 1, packages=packages, specs=specs, seed=1)
    targets = ", ".join(f"reader-{number}@example.org" for number in range(readers))
    path = folder / "cachewatch.yaml"
    path.write_text(_CONFIG.format(folder=folder, readers=targets), "utf-8")
    path.chmod(0o600)
    config = read_config(path)
    begun = sum(os.times()[:4])
    with (folder / "log").open("w", encoding="utf-8") as log:
        for day, commit in enumerate(_revisions(folder / "upstream.git", days)):
            _git(folder / "upstream.git", "update-ref", "refs/heads/main", commit)
            _run_pass(config, _BEGIN + timedelta(days=day), open_log(stream=log))
    state = folder / "state" / NAME
    with closing(sqlite3.connect(state)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM digests").fetchone()
        sizes = connection.execute(
            "SELECT name, sum(pgsize) AS size FROM dbstat GROUP BY name ORDER BY size DESC LIMIT 4"
        ).fetchall()
    tables = {name: size / 1e6 for name, size in sizes}
    files = sum(file.stat().st_size for file in state.parent.glob(f"{NAME}*"))
    return Year(days, readers, count, files / 1e6, tables, sum(os.times()[:4]) - begun)


def _run_pass(config: Config, now: datetime, log: Log) -> None:
    def clock() -> datetime:
        return now

    with closing(open_database(config.database)) as database:
        run_pass(Context(config=config, database=database, log=log, clock=clock))


def _revisions(repository: Path, days: int) -> Iterator[str]:
    yield from _git(repository, "rev-list", "--reverse", "main").split()[: days + 1]


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={repository}", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
