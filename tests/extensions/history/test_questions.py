"""Every question, asked of the index, is answered as all documents answer it."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT
from helpers import catalogue, history, opened, records
from history_questions import Everything, Row
from indexes import Catalogue, Key, build, write

from cachewatch.errors import UsageError
from cachewatch.extensions.history.blame_and_best_snapshot import Blame, find_best, find_blame
from cachewatch.extensions.history.index_lookup import Index, IndexPoint, as_text
from cachewatch.extensions.history.package_questions import find_churn, find_log, find_when

# The last few are asked while later revisions are being indexed; the second case is one of them.
INTERRUPTED = range(10, 14)
SEEDS = (0, 10, *range(1, 10), 11, 12, 13)

pytestmark = pytest.mark.slow_cases


class Case:
    """A repository, its index, and all its documents."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Make 30 revisions, rewrite the last ten of them, and add a few."""
        self.random = Random(seed)
        nights = Catalogue(seed)
        repository = write(folder / "c.git", [nights.night() for _ in range(30)], seed=seed)
        build(repository, folder / "h.db")
        write(repository, [nights.night() for _ in range(15)], seed=seed + 100, onto="refs/heads/main~10")
        build(repository, folder / "h.db")
        most = 25 if seed in INTERRUPTED else None
        if most:
            with opened(folder / "h.db") as connection:
                connection.execute("UPDATE progress SET indexed = ?", (most - 1,))
        self.all = Everything(repository, most)
        self.index = Index(folder / "h.db")

    def number(self, point: IndexPoint | None) -> int | None:
        """Return the number of a revision."""
        return None if point is None else self.all.commits.index(point.revision)


@pytest.fixture(scope="module", params=SEEDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Return one of several repositories with everything that happens to a catalogue."""
    made = Case(tmp_path_factory.mktemp("case"), request.param)
    with made.index:
        yield made


def test_there_are_questions(case: Case) -> None:
    """Nothing below is true because there is nothing to ask."""
    assert len(case.all.timeline) >= 25
    assert len(case.all.hashes()) >= 15
    assert case.all.diagnostics
    assert any(one.change.removed_hashes.hashes & one.change.added_hashes.hashes for one in case.all.changes)
    assert case.index.indexed.revision == case.all.commits[-1]


def test_when(case: Case) -> None:
    """Each version of each package, in every tag."""
    for tag, package in case.all.documents:
        answer = find_when(case.index, package, tag)
        found = {}
        for row in answer.rows:
            key = (row.version, row.stack, row.target, case.number(row.first))
            found[key] = (case.number(row.last), row.baseline, row.lag_days, row.lag_is_minimum)
        assert found == case.all.when(tag, package), (tag, package)


def test_blame(case: Case) -> None:
    """Every hash that was ever there; a spec died when the last tag lost it."""
    for spec_hash in case.all.hashes():
        answer, told = find_blame(case.index, spec_hash), case.all.blame(spec_hash)
        assert _told(case, answer) == told, spec_hash
        ends = [lives[-1][1][2] for lives in told.values()]
        assert case.number(answer.died) == (None if None in ends else max(ends))


def _told(case: Case, answer: Blame) -> dict[Key, list[tuple[list[Row], Row]]]:
    found: dict[Key, list[tuple[list[Row], Row]]] = {}
    for place, life in enumerate(answer.lives):
        newest = len(case.all.timeline)
        of_place = [stay for stay in answer.intervals if stay.life == place]
        lasts = [newest if stay.last is None else case.number(stay.last) for stay in of_place]
        stays = [(case.number(stay.first), stay.stacks, last) for stay, last in zip(of_place, lasts, strict=True)]
        named = {(stay.tag, stay.package) for stay in answer.intervals if stay.life == place}
        assert named == {(life.tag, life.package)}
        end = (case.number(life.born), life.baseline, case.number(life.died))
        found.setdefault((life.tag, life.package), []).append((stays, end))
    return found


def test_seven_letters_are_enough(case: Case) -> None:
    """The beginning of a hash is as good as all of it, and an ambiguous one lists what begins so."""
    hashes = sorted(case.all.hashes())
    for spec_hash in hashes[::4]:
        for letters in (4, 7, 9):
            beginning = spec_hash[:letters]
            alike = [one for one in hashes if one.startswith(beginning)]
            if len(alike) == 1:
                assert find_blame(case.index, f"/{beginning}").hash == spec_hash
            else:
                with pytest.raises(UsageError, match=f"{len(alike):,} hashes begin with it") as told:
                    find_blame(case.index, beginning)
                assert all(f"/{one} " in str(told.value) for one in alike[:20])


def test_log(case: Case) -> None:
    """The revisions that did anything, in every tag and to every package, and what could not be read."""
    last = len(case.all.timeline) - 1
    asked = [(tag, None) for tag in case.all.tags()] + [(tag, package) for tag, package in case.all.documents]
    for tag, package in asked:
        answer = find_log(case.index, tag, package, -1, last, most=None)
        found = {case.all.commits.index(one.revision): one for one in answer.revisions if one.facts or one.unreadable}
        assert found.keys() == case.all.log(tag, package).keys(), (tag, package)
        for number, one in found.items():
            assert {each["package"] for each in one.unreadable} == case.all.log(tag, package)[number]


def test_churn(case: Case) -> None:
    """Sums over ranges of revisions."""
    last = len(case.all.timeline) - 1
    for tag in case.all.tags():
        pairs = [sorted(case.random.sample(range(last + 1), 2)) for _ in range(8)]
        for since, until in ((-1, last), (0, last), (last, last), *pairs):
            for by in ("package", "stack"):
                answer = find_churn(case.index, tag, by, since, until)
                found = {row.name: (row.added, row.removed, row.net_added, row.net_removed) for row in answer.rows}
                assert found == case.all.churn(tag, by, since, until), (tag, by, since, until)


def test_best_snapshot(case: Case) -> None:
    """For sets of hashes, the tags that had most of them at once."""
    hashes = sorted(case.all.hashes())
    for size in (1, 2, 5, 10, 30):
        wanted = {*case.random.sample(hashes, min(size, len(hashes))), "z" * 32}
        answer = find_best(case.index, wanted)
        found = {
            one.tag: (one.found, case.all.commits.index(one.revision), case.number(one.since), one.missing)
            for one in answer.snapshots
        }
        assert found == case.all.best(wanted)
        counts = [one.found for one in answer.snapshots]
        assert counts == sorted(counts, reverse=True)


def test_dates(case: Case) -> None:
    """A date is the newest revision up to then, though dates go back and forth; a commit is itself."""
    for time in sorted(case.all.times):
        expected = max(n for n, own in enumerate(case.all.times) if own <= time)
        assert case.index.number_of(as_text(time) or "") == expected
    for number, commit in enumerate(case.all.commits):
        assert case.index.number_of(commit[:12]) == number


_QUERIES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/history.md").read_text(), re.DOTALL)


def test_the_queries_of_the_documentation(tmp_path: Path) -> None:
    """Of the specs that came after the first of three revisions, two lasted a day and were rebuilt."""
    states = [{"zlib": records([1, 2])}, {"zlib": records([1, 3, 4])}, {"zlib": records([1, 5, 6])}]
    folder = history(tmp_path / "c.git", *map(catalogue, states))
    build(folder, tmp_path / "h.db")
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        lasted, missing = (connection.execute(query).fetchall() for query in _QUERIES)
    assert lasted == [("e4s", 2, 1.0)]
    assert missing == [("zlib", 3)]
