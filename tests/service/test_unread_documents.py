"""Documents that cannot be read for a while: what changed in them meanwhile is told when they can be read again."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers import catalogue, document, lock, record, records, spec_hash
from station import DAY, Site, begun, judged
from station import DESK_CONFIG as CONFIG

from cachewatch.git.local_repository import Repository
from cachewatch.operators import alerts_summary_actions
from cachewatch.service.unreadable_documents import UnreadDocuments
from cachewatch.store.cursors_and_remembered import Unread
from cachewatch.store.digests_and_holds import DigestRecord

PATH = "_cache/develop/pa/specs.md"
ZLIB = {"zlib": records(range(3))}
WHOLE = document([record(10, versions=["1.0"])], package="pa")
BROKEN = {
    "truncated": WHOLE[: len(WHOLE) // 2],
    "conflict": b"<<<<<<< HEAD\n" + WHOLE + b"\n=======\n>>>>>>> other\n",
    "empty": b"",
    "binary": b"\x00\xff" * 100,
}


def pa(version: str, number: int) -> dict[str, bytes]:
    return catalogue({"pa": [record(number, versions=[version])]})


def state(change: int, *more: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a catalogue in which something changes with every revision, and `pa` is what `more` says."""
    files = catalogue(ZLIB | {f"other-{n}": records([100 + n]) for n in range(change)})
    for each in more:
        files |= each
    return files


def site(folder: Path, *pas: Mapping[str, bytes], config: str = CONFIG) -> Site:
    """Return a site of which the first pass was made; the states of `pa` follow, a revision each."""
    return begun(folder, [state(number, each) for number, each in enumerate(pas)], config)


def publish_each(made: Site, first: int = 1) -> None:
    for number in range(first, len(made.commits)):
        made.run(number, later=DAY)


def told(made: Site, package: str = "pa", subscription: str = "ml") -> list[set[tuple[str, str]]]:
    """Return the changes of version that each digest tells of a package: from, and to; what is new has no earlier one."""
    return [_told(stored, package) for stored in made.digests() if stored.subscription == subscription]


def _told(stored: DigestRecord, package: str) -> set[tuple[str, str]]:
    sections = json.loads(stored.rendered.json)["sections"]
    rows = [row for section in sections for row in section["rows"] if row["package"] == package]
    found = {(row["kind"], *row["change"].rpartition(" -> ")) for row in rows}
    return {(old, new) for kind, old, arrow, new in found if arrow or kind == "package-added"}


def net(made: Site, package: str = "pa", subscription: str = "ml") -> list[tuple[str, str]]:
    """Return every change of version that was told of a package, in order."""
    return [change for each in told(made, package, subscription) for change in each]


@pytest.mark.slow_cases
@pytest.mark.parametrize("kind", BROKEN)
def test_what_changed_meanwhile_is_told_when_it_can_be_read_again(tmp_path: Path, kind: str) -> None:
    made = site(tmp_path, pa("1.0", 10), {PATH: BROKEN[kind]}, pa("2.0", 11))
    publish_each(made)
    assert net(made) == [("1.0", "2.0")]
    first, second = made.told()
    assert f"documents of develop cannot be read since revision {made.commits[1][:10]}: pa" in " ".join(first.split())
    said = f"documents of develop can be read again: pa, compared with revision {made.commits[0][:10]}"
    assert said in " ".join(second.split())
    begins = "1 document of develop in public cannot be read: pa"
    assert made.notices() == [begins, "documents of develop in public were repaired or removed"]


@pytest.mark.parametrize("last", [pa("2.0", 11), {}], ids=["repaired", "removed"])
def test_what_cannot_be_read_where_a_digest_begins_is_said(tmp_path: Path, last: Mapping[str, bytes]) -> None:
    made = Site(tmp_path, [state(0, pa("1.0", 10)), state(1, {PATH: BROKEN["empty"]}), state(2, last)])
    made.configure(CONFIG.replace("stale_after: 4000d", f"stale_after: 4000d, since: {made.commits[1]}"))
    made.run(2, later=DAY)
    (digest,) = made.told()
    again = f"documents of develop can be read again: pa, compared with revision {made.commits[0][:10]}"
    removed = "unreadable documents of develop were removed: pa"
    assert (again if last else removed) in " ".join(digest.split())


@pytest.mark.slow
def test_one_that_goes_while_it_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    """Readers of urgent digests who asked for removals hear of it, though its last state was unreadable."""
    rhythm = "when: weekly mon 07:30, urgent: {changes: [removed], channels: [files]}"
    config = CONFIG.replace("changes: [all]", f"changes: [all], {rhythm}")
    made = site(tmp_path, pa("1.0", 10), {PATH: BROKEN["truncated"]}, {}, config=config)
    publish_each(made)
    (urgent,) = [stored for stored in made.digests() if stored.stream == "urgent"]
    assert "pa" in urgent.title


@pytest.mark.slow_cases
@pytest.mark.parametrize("layout", ["_cache/develop/{}/specs.md", "docs/{}.md"])
@pytest.mark.parametrize("when", ["each revision", "daily 07:30"])
def test_one_that_is_unreadable_when_a_source_begins_is_in_an_alert(tmp_path: Path, layout: str, when: str) -> None:
    """Operators hear of it at once, and until it is over; readers get no digest because of it."""
    pas = [{PATH: WHOLE[:-30]}, {PATH: WHOLE[:-30]}, pa("2.0", 11)]
    states = [state(min(number, 1), each) for number, each in enumerate(pas)]
    laid_out = ({layout.format(path.split("/")[2]): content for path, content in each.items()} for each in states)
    config = CONFIG.replace("changes: [all]", f"changes: [all], match: {{packages: [pa]}}, when: {when}")
    made = begun(tmp_path, list(laid_out), config)
    named = ["1 document of develop in public cannot be read: pa"]
    assert (made.notices(), made.told()) == (named, [])
    (warning,) = judged(made).warnings
    assert warning.what == named[0]

    made.run(1, later=DAY)
    made.run(later=DAY)
    assert (made.notices()[:2], made.told()) == ([named[0], "1 alert is open"], [])
    made.run(2, later=DAY)
    made.run(later=DAY)
    (digest,) = made.told()
    assert "no earlier version of these documents of develop can be read: pa" in " ".join(digest.split())
    assert made.notices()[-1] == "documents of develop in public were repaired or removed"


def test_a_source_of_which_no_document_can_be_read_is_a_problem(tmp_path: Path) -> None:
    """It is one from the first pass on until a document of it can be read; the others stay in an alert."""
    whole = {f"docs/{name}.md": document(records([number]), package=name) for number, name in enumerate(("p0", "p1"))}
    broken = {path: content[:-30] for path, content in whole.items()}
    made = begun(tmp_path, [broken, broken | {"docs/p1.md": whole["docs/p1.md"]}], CONFIG)
    first = "2 documents of develop in public cannot be read: p0, p1"
    assert sorted(made.notices()) == [first, "no document of the source public can be read"]
    assert [problem.what for problem in judged(made).problems] == ["no document of the source public can be read"]
    made.run(1, later=DAY)
    made.run()
    assert "documents of the source public can be read again" in made.notices()
    (warning,) = judged(made).all
    assert warning.what == "1 document of develop in public cannot be read: p0"
    assert warning.detail.startswith("p0: ends before")


def test_an_old_snapshot_is_not_read_when_a_source_begins(tmp_path: Path) -> None:
    """It does not change any more, and a catalogue has many of them."""
    tags = ("develop-2026-01-01", "develop-2026-01-08")
    made = begun(tmp_path, [catalogue(ZLIB) | {f"_cache/{tag}/pa/specs.md": WHOLE[:-30] for tag in tags}], CONFIG)
    assert made.notices() == [f"1 document of {tags[1]} in public cannot be read: pa"]


@pytest.mark.slow
def test_nobody_is_told_that_nothing_changed_while_something_is_unread(tmp_path: Path) -> None:
    more = "if_empty: send, match: {packages: [pa]}, when: daily 07:30"
    config = CONFIG.replace("changes: [all]", f"changes: [all], {more}")
    truncated = {PATH: BROKEN["truncated"]}
    made = site(tmp_path, pa("1.0", 10), truncated, truncated, pa("2.0", 11), config=config)
    publish_each(made)
    titles = [stored.rendered.title for stored in made.digests() if stored.subscription == "ml"]
    assert [("no changes" in title.lower(), "could not be read" in title) for title in titles[:2]] == [
        (False, True)
    ] * 2
    assert not any("o changes" in text for text in made.told()[:2])
    assert net(made) == [("1.0", "2.0")]


def test_a_revision_that_is_lost_hides_no_other(tmp_path: Path) -> None:
    site = Site(tmp_path, [catalogue(ZLIB)])
    kept = {"base_tag": "develop", "since": "", "reason": "damaged"}
    known = [Unread(package=name, base=base, **kept) for name, base in (("pa", "0" * 40), ("pb", site.commits[0]))]
    found = UnreadDocuments(Repository(site.upstream), {"develop": tuple(known)}).bases(["develop"])
    assert {package: base.commit for package, base in found["develop"].items()} == {"pb": site.commits[0]}


@pytest.mark.slow_cases
@pytest.mark.both_states
@pytest.mark.parametrize("answer", ["release", "drop"])
def test_a_digest_that_is_held_keeps_what_is_unread(tmp_path: Path, answer: str) -> None:
    """Released, or dropped, what lies beyond it is still compared with the last readable version."""
    many = catalogue({f"m{n}": records([300 + n]) for n in range(9)})
    states = [pa("1.0", 10), {PATH: BROKEN["truncated"]} | many, pa("2.0", 11) | many]
    made = site(tmp_path, *states, config=CONFIG.replace("changes: [all]", "changes: [all], limit: {hold_above: 3}"))
    made.run(1, later=DAY)
    (held,) = made.held()
    if answer == "release":
        alerts_summary_actions.release(made.open(), held.key)
    else:
        alerts_summary_actions.drop_digest(made.open(), held.key, "a test")
    made.run(2, later=DAY)
    assert told(made)[-1] == {("1.0", "2.0")}


@pytest.mark.slow
def test_a_binary_that_goes_while_its_document_cannot_be_read_is_told_when_that_is_known(tmp_path: Path) -> None:
    ours = lock(tmp_path / "spack.lock", ("pa", "1.0", spec_hash(10)))
    one = catalogue({"pa": [record(11, versions=["2.0"])]})
    both = catalogue({"pa": [record(10, versions=["1.0"]), record(11, versions=["2.0"])]})
    config = CONFIG.replace("changes: [all]", f"changes: [all], match: {{environment: {ours}}}")
    made = site(tmp_path, both, {PATH: BROKEN["truncated"]}, one, config=config)
    publish_each(made)
    told_last = [stored for stored in made.digests() if stored.subscription == "ml"][-1]
    other = json.loads(told_last.rendered.json)["environment"]["other"]["rows"]
    assert [row["hash"] for row in other] == [spec_hash(10)]
