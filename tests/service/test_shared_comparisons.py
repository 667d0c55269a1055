"""Readers who ask the same of two revisions share one comparison; everybody else has one of their own."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers import catalogue, history, record, records
from pairs import some_pair
from station import Site, begun, state_of

from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import Changeset, Comparison
from cachewatch.core.filters_and_spec_patterns import Selection, select
from cachewatch.errors import WorkFailed
from cachewatch.git import tags_and_documents
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import compare_revisions
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.report.digests.data_for_templates import DigestCollector, read_tag_digest
from cachewatch.runtime.worker import INLINE, Isolation, Worker
from cachewatch.service import comparing_tags_and_pins as comparing_sources
from cachewatch.service import digest_assembly_and_hold_times
from cachewatch.service.comparison_cache import Comparisons, KeptPackage
from cachewatch.service.missing_and_returned import trees_of_packages
from cachewatch.service.passes_and_leadership import create_digests, poll
from cachewatch.service.streams_starts_silences import streams_of

CONFIG = """\
version: 1
state: {folder}/state
timezone: Asia/Tokyo
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
  other: {type: file, path: "{folder}/other/{subscription}/{key}.{ext}", formats: [html]}
operators: {channels: [files]}
silences:
  llvm-move: {match: {packages: [llvm]}, until: 2025-06-03, reason: "it moves"}
subscriptions:
  ann: {channels: [files]}
  kim: {channels: [other], match: {packages: ["!zlib"]}}
  bob: {channels: [other], match: {pinned: develop-2025-06-01}}
  eve: {channels: [files], changes: [all]}
  joe: {channels: [files, other], if_empty: monthly, when: daily 07:30}
"""
BEFORE = {"zlib": records([1])}
Begin = Callable[[Isolation], Comparisons]
AFTER = {"zlib": records([1]), "hdf5": records([2]), "llvm": records([3])}
PACKAGES = ("hdf5", "llvm", "openmpi", "py-numpy", "zlib", "zstd")
UNREADABLE = b"---\nspec_details: [\n---"


def everything(*_: object) -> bool:
    return True


def collector() -> DigestCollector:
    return DigestCollector(everything)


def states(seed: int) -> list[dict[str, bytes]]:
    """Return two states of a catalogue, in which some packages come, go, or cannot be read."""
    chance = random.Random(seed)
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for package in PACKAGES:
        for side, specs in zip(found, some_pair(chance), strict=True):
            if chance.random() < 0.9:
                side[package] = specs
    files = [catalogue(side) for side in found]
    for side in files:
        if chance.random() < 0.3:
            side[f"_cache/develop/{chance.choice(PACKAGES)}/specs.md"] = UNREADABLE
    return files


def compared(folder: Path, selection: Selection) -> Comparison:
    repository = Repository(folder)
    ends = (resolve(repository, name) for name in ("main~1", "main"))
    return compare_revisions(repository, *ends, wanted_tag=everything, wanted_package=selection.packages)


def digest_of(changeset: Changeset) -> TagDigest:
    return read_tag_digest(changeset, wants=everything)


def alone(folder: Path, selection: Selection) -> TagDigest:
    (changeset,) = changesets(compared(folder, selection), selection, collector)
    return digest_of(changeset)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package that one hears of, and one that nobody should, in each of two tags."""
    states = [catalogue(state) | catalogue(state, tag="develop-2025-06-01") for state in (BEFORE, AFTER)]
    made = begun(tmp_path, states, CONFIG)
    made.publish(1)
    return made


@pytest.mark.slow
def test_who_shares_a_comparison_is_told_of_all_of_it(site: Site) -> None:
    """Five digests of three questions: what silences hid is in each of them."""
    site.now = datetime(2025, 6, 2, 22, 31, tzinfo=UTC)  # 07:31 in Tokyo
    site.configure(CONFIG.replace("until: 2025-06-03", "until: 2025-06-04"))
    site.run()

    told = {stored.subscription: stored.rendered.text for stored in site.digests()}
    assert set(told) == {"ann", "kim", "bob", "eve", "joe"}
    for text in told.values():
        assert "hdf5" in text
        assert "llvm  " not in text
        assert "it moves" in " ".join(text.split())


def test_tags_that_have_no_room_for_a_table_have_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of all tags go out together or not at all, so nobody keeps those that come too late."""
    attaching = '  mail: {type: sendmail, from: cachewatch@example.org, command: ["true"], attach: csv}\n'
    text = CONFIG.replace("channels:\n", f"channels:\n{attaching}", 1)
    site.configure(text.replace("ann: {channels: [files]}", "ann: {channels: [files, mail], to: [ann@example.org]}"))
    context = site.open()
    poll(context, context.config.sources["public"])
    stream = next(streams_of(context.config))
    whole = [
        tag.table
        for tag in digest_assembly_and_hold_times.compose(context, stream, state_of(context, stream)).digest.tags
    ]
    assert [table.is_complete for table in whole] == [True, True]
    first, total = len(whole[0].content), sum(len(table.content) for table in whole)
    for most, expected in ((total, [True, True]), (total - 1, [True, False]), (first - 1, [False, True])):
        monkeypatch.setattr(comparing_sources, "MOST_CSV", most)
        tables = [
            tag.table
            for tag in digest_assembly_and_hold_times.compose(context, stream, state_of(context, stream)).digest.tags
        ]
        assert [table.is_complete for table in tables] == expected
        assert sum(len(table.content) for table in tables) <= most


@pytest.mark.slow
def test_told_to_stop_within_a_comparison(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left where it is, nobody is troubled by that, and the next pass makes the digests."""
    context = site.open()
    poll(context, context.config.sources["public"])
    compare = tags_and_documents.compare_revisions

    def stopped(*arguments: object, **options: object) -> object:
        context.is_ending.set()
        return compare(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(comparing_sources, "compare_revisions", stopped)
    create_digests(context)
    assert site.digests() == []
    monkeypatch.undo()
    create_digests(site.open())  # as a daemon does, which would keep them for ever
    assert trees_of_packages.cache_info().currsize == 0
    assert {stored.subscription for stored in site.digests()} == {"ann", "kim", "bob", "eve"}


SELECTIONS = (
    select(),
    select(packages=["z*"]),
    select(packages=["!zlib"], stacks=["ml"]),
    select(targets=["y"], versions=["@1.10:"]),
    select(compilers=["gcc@13*"]),
    select(packages=["nothing-has-this-name"]),
)


@pytest.fixture
def compare_in(tmp_path: Path) -> Iterator[Begin]:
    with ExitStack() as stack:
        yield lambda isolation: stack.enter_context(closing(Comparisons(lambda _: isolation, tmp_path, lambda: None)))


def shared(folder: Path, tags: Comparisons, selection: Selection) -> Changeset:
    return tags.changeset("public", compared(folder, selection), selection, collector)


@pytest.mark.parametrize("seed", range(4))
def test_every_selection_is_told_the_same(tmp_path: Path, compare_in: Begin, seed: int) -> None:
    folder = history(tmp_path / "r.git", *states(seed))
    tags = compare_in(INLINE)
    order = random.Random(seed).sample(SELECTIONS, len(SELECTIONS))

    for selection in order:
        assert digest_of(shared(folder, tags, selection)) == alone(folder, selection)


def test_a_process_of_its_own_selects_the_same(tmp_path: Path, compare_in: Begin) -> None:
    folder = history(tmp_path / "r.git", *states(3))
    with Worker() as worker:
        tags = compare_in(Isolation(worker))
        found = [digest_of(shared(folder, tags, selection)) for selection in SELECTIONS]
        worker.close()  # and one that has read nothing yet
        again = [digest_of(shared(folder, tags, selection)) for selection in SELECTIONS]

    assert found == again == [alone(folder, selection) for selection in SELECTIONS]


class Failing(Isolation):
    """Cannot select from one package."""

    def each(self, work: Any, items: Iterable[Any], about: Callable[[Any], Any]) -> Iterator[tuple[Sequence[Any], Any]]:
        """Do the work on one item after the other, but for what fails."""
        for item in items:
            fails = isinstance(item, KeptPackage) and item.documents.package == "zlib"
            yield [item], WorkFailed("it took too long") if fails else work([item])


def test_a_package_that_nobody_can_select_from_is_named(tmp_path: Path, compare_in: Begin) -> None:
    steps = [{name: [record(n, versions=[f"{n}"])] for name in ("hdf5", "zlib")} for n in (1, 2)]
    folder = history(tmp_path / "r.git", *map(catalogue, steps))
    find = partial(shared, folder, compare_in(Failing()))

    everybody, others = (digest_of(find(selection)) for selection in (select(), select(packages=["hdf5"])))

    (lost,) = everybody.unreadable
    assert (lost.package, lost.reason, lost.before, lost.after) == ("zlib", "it took too long", False, True)
    (diagnostic,) = everybody.report.diagnostics
    assert diagnostic.path == "_cache/develop/zlib/specs.md"
    assert [*everybody.versions] == ["hdf5"]
    assert not others.unreadable
