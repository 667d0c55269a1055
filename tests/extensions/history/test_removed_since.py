"""`history:`: digests say since when removed packages were there, where the index knows it; it is built again if damaged."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from helpers import catalogue, history, lock, record, records, spec_hash
from history_questions import Everything
from indexes import Catalogue, build, dump, write
from station import DAY, DESK_CONFIG, Site, begun

from cachewatch.core.versions_spellings_targets import version_identity
from cachewatch.extensions.history.index_lookup import Index
from cachewatch.extensions.history.package_questions import OPEN, baseline_of, find_presence
from cachewatch.extensions.history.schema_and_location import NAME

E4S, ML = ["e4s", "root"], ["ml", "root"]
CONFIG = DESK_CONFIG.replace("[json]", "[txt, html, md]") + "history: {sources: public}\n"
_GCC, _OTHER = {"gcc": records([90])}, {"other": records(range(20, 60))}
_OLD = [record(1, stacks=E4S), record(2, stacks=ML)]
_NEW = [record(3, stacks=E4S, versions=["1.1"])]
_BUSY = [record(4, stacks=E4S, versions=["1.1"]), record(5, stacks=ML, versions=["0.9"])]
# zlib 1.1 comes in revision 1, is rebuilt in 2 and goes in 4; zlib 0.9 and hdf5 come in 2 and go in 4; gcc goes in 4.
STATES = [
    catalogue({"zlib": _OLD, **_GCC, **_OTHER}),
    catalogue({"zlib": [*_OLD, *_NEW], **_GCC, **_OTHER}),
    *(catalogue({"zlib": [*_OLD, *_BUSY], **_GCC, "hdf5": records([n]), **_OTHER}) for n in (80, 81)),
    catalogue({"zlib": _OLD, **_OTHER}),
]
_PHRASES = re.compile(r";? *was there since [0-9-]+(?: or before|, (?:at least )?\d+ days?)?")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, STATES, CONFIG)


def _index(site: Site) -> Path:
    return site.folder / "state/sources/public.git" / NAME


def _last(site: Site, extension: str = "txt") -> str:
    newest = max((site.folder / "out/ml").glob(f"*.{extension}"), key=lambda path: path.stat().st_mtime_ns)
    return " ".join(newest.read_text().split())


def test_what_is_gone_was_there_since(site: Site) -> None:
    """Rebuilt or not; the revision that removed it is not indexed when the digest is written, so the days are the least."""
    site.run(3)
    site.run(4, later=DAY)
    for extension in ("txt", "html", "md"):
        text = _last(site, extension)
        assert re.search(r"hdf5.{0,300}was there since 2025-06-03, at least 1 day\b", text), text
        assert re.search(r"gcc.{0,300}was there since 2025-06-01 or before", text)
        assert re.search(r"1\.1.{0,300}was there since 2025-06-02, at least 2 days", text)
        assert re.search(r"0\.9.{0,300}was there since 2025-06-03, at least 1 day\b", text)
        assert text.count("was there since") == 4


def test_the_snapshot_that_has_most_of_an_environment_is_named(tmp_path: Path) -> None:
    """Where the index knows one that is still there, and has more than the tags that are watched."""
    old = {"hdf5": records([1]), "zlib": records([2])}
    snapshot = catalogue(old, "develop-2025-06-01")
    new = {"hdf5": records([3]), "zlib": records([2])}
    lock(tmp_path / "spack.lock", ("hdf5", "1.0", spec_hash(1)), ("zlib", "1.0", spec_hash(2)))
    match = f'match: {{tags: [develop], environment: "{tmp_path}/spack.lock"}}'
    states = [catalogue(state) | snapshot for state in (old, new)]
    made = begun(tmp_path, states, CONFIG.replace("changes: [all]", match))
    made.run(1, later=DAY)

    assert "Or install from develop-2025-06-01, which has 2 of 2." in _last(made)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_days_are_known_where_both_revisions_are_indexed(site: Site, tmp_path: Path) -> None:
    """As when digests are due later than the poll: the whole history is indexed before."""
    site.run(3)
    site.publish(4)
    build(site.folder / "upstream.git", tmp_path / "h.db")
    with closing(sqlite3.connect(tmp_path / "h.db")) as source, closing(sqlite3.connect(_index(site))) as target:
        source.backup(target)
    site.run(later=DAY)
    text = _last(site)
    assert re.search(r"hdf5.{0,300}was there since 2025-06-03, 2 days\b", text), text
    assert re.search(r"1\.1.{0,300}was there since 2025-06-02, 3 days\b", text)


@pytest.mark.slow_cases
@pytest.mark.parametrize("trouble", ["missing", "behind", "being built"])
def test_without_an_index_that_knows_nothing_changes(tmp_path: Path, trouble: str) -> None:
    """A digest is the same, but for these words."""
    with_it, without = (_told(tmp_path / f"site{trouble}", trouble) for trouble in ("", trouble))
    assert "was there since" in with_it
    assert without == " ".join(_PHRASES.sub("", with_it).split())


_TOLD: dict[str, str] = {}  # by the trouble with the index


def _told(folder: Path, trouble: str) -> str:
    if trouble not in _TOLD:
        folder.mkdir()
        site = Site(folder, STATES, CONFIG)
        site.run(2)
        behind = _index(site).read_bytes()
        site.run(3, later=DAY)
        if trouble:
            _trouble(_index(site), trouble, behind)
        site.run(4, later=DAY)
        _TOLD[trouble] = _last(site).replace(str(site.folder), "")
    return _TOLD[trouble]


def _trouble(index: Path, trouble: str, behind: bytes) -> None:
    for beside in index.parent.glob(f"{index.name}-*"):
        beside.unlink()
    match trouble:
        case "missing":
            index.unlink()
        case "behind":
            index.write_bytes(behind)
        case _:
            with closing(sqlite3.connect(index)) as connection:
                connection.execute("UPDATE progress SET indexed = -1")
                connection.commit()


@pytest.mark.slow
def test_a_damaged_index_keeps_no_digest_back_and_is_built_again(site: Site) -> None:
    site.run()
    whole = _index(site).read_bytes()
    # The header, and so the kind of file, is left.
    _index(site).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    site.run(1, later=DAY)
    (line,) = [event for event in site.events() if event["event"] == "history.failed"]
    assert "malformed" in str(line["error"])
    assert len(site.told()) == 1
    site.run(later=DAY)
    assert dump(_index(site))["progress"] == [(1,)]


@pytest.mark.slow
def test_an_index_whose_damage_a_question_finds_is_built_again(site: Site) -> None:
    """Right after that digest; an update reads so little of it that it may find nothing."""
    site.run(3)
    index = _index(site)
    with closing(sqlite3.connect(index)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'interval_by_package'")
        ((size,),) = connection.execute("PRAGMA page_size")
    whole = index.read_bytes()
    index.write_bytes(whole[: (root - 1) * size] + bytes(size) + whole[root * size :])
    site.run(4, later=DAY)
    assert "hdf5" in _last(site)
    assert "was there since" not in _last(site)
    assert "history.failed" in site.said.getvalue()
    assert dump(index)["progress"] == [(4,)]


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(60, 66))
def test_stays_are_those_of_all_documents(tmp_path: Path, seed: int) -> None:
    """Of every package and version in every revision, against the documents themselves."""
    nights = Catalogue(seed)
    folder = write(tmp_path / "c.git", [nights.night() for _ in range(30)], seed=seed)
    build(folder, tmp_path / "h.db")
    everything, random = Everything(folder), Random(seed)
    last = len(everything.timeline) - 1
    asked = 0
    with Index(tmp_path / "h.db") as index:
        for tag, package in sorted(everything.documents):
            seen = set()
            for number in range(last + 1):
                specs = (s for name, _, s in everything.specs(number, tag) if name == package)
                places = ((version, stack) for s in specs for version in s.versions for stack in s.stacks or ("",))
                seen |= {(number, version_identity(version), stack) for version, stack in places}
            for version, stack in sorted({(v, s) for _, v, s in seen}):
                number = random.randint(0, last)
                numbers = {n for n, v, s in seen if (v, s) == (version, stack)}
                found = find_presence(index, package, tag, number, _is(version, stack))
                assert (found is None) == (number not in numbers)
                if found is not None:
                    first = next(n for n in range(number, -1, -1) if n - 1 not in numbers)
                    end = next(n for n in range(number, last + 2) if n not in numbers)
                    assert found == (first, end if end <= last else OPEN)
                    ids = index.id_of("package", package), index.id_of("tag", tag)
                    assert baseline_of(index, *ids) == everything.baselines[tag, package]
                    asked += 1
    assert asked > 2


def _is(version: object, stack: str) -> Callable[[str, str, str], bool]:
    return lambda own, at, _: (version_identity(own), at) == (version, stack)


def test_two_tags_are_not_one_stay(tmp_path: Path) -> None:
    """What a new snapshot lacks was never in it."""
    folder = history(tmp_path / "r.git", catalogue({"a": [record(1)]}))
    build(folder, tmp_path / "h.db")
    with Index(tmp_path / "h.db") as index:
        assert find_presence(index, "a", "develop-2025-06-01", 0, lambda *_: True) is None
        assert find_presence(index, "b", "develop", 0, lambda *_: True) is None
        assert find_presence(index, "a", "develop", 1, lambda *_: True) is None
