"""Silences: what they hide, what they count, and what they leave."""

from collections import Counter
from collections.abc import Iterable, Set
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import catalogue, history, record
from readers import CONFIG
from station import Site, begun

from cachewatch.comparison_flow import changesets
from cachewatch.config.settings_and_subscriptions import Match, Silence
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.filters_and_spec_patterns import DEFAULT, Selection
from cachewatch.core.kinds_and_specs import Kind, PackageChange
from cachewatch.core.statements import Wants
from cachewatch.git.local_repository import Repository
from cachewatch.service.streams_starts_silences import Silencing
from cachewatch.sources.before_and_after import compare_sides

TODAY = date(2026, 11, 21)


def silence(
    name: str = "quiet", until: date = date(2026, 12, 1), changes: Iterable[Kind] = (), **match: Any
) -> Silence:
    """Return a silence that holds, unless told otherwise."""
    return Silence(name=name, match=Match(**match), changes=frozenset(changes) or None, until=until, reason="migration")


class Sections:
    """Keeps as what the items of a package are told."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._told: list[str] = []

    def add(self, change: PackageChange) -> None:
        """Take one package."""
        self._told += [f"{one.package} {one.stories[0].kind}" for one in items_of(change) if self._wants(one.kinds)]

    def take(self) -> list[str]:
        """Hand over."""
        told, self._told = self._told, []
        return told


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packages, each upgraded in one stack and gone from another, and one that is new."""
    before = [record(1, stacks=["e4s"]), record(2, stacks=["ml"], target="aarch64")]
    after = [record(3, stacks=["e4s"], versions=["2.0"])]
    second = {"llvm": after, "zlib": after, "new": [record(9, stacks=["ml"])]}
    states = catalogue({"llvm": before, "zlib": before}), catalogue(second)
    return history(tmp_path_factory.mktemp("silences") / "catalogue.git", *states)


def told(repository: Path, *silences: Silence, kinds: Set[Kind] = DEFAULT) -> tuple[list[str], dict[str, int]]:
    """Return the lines that are told, and how many packages each silence hid."""

    def wants(found: Set[Kind], _: Set[Kind] = frozenset()) -> bool:
        return bool(found & kinds)

    silencing = Silencing(silences, wants, source="public", tag="develop", day=TODAY)
    with closing(Repository(repository)) as opened:
        comparison = compare_sides("HEAD~1", "HEAD", Selection(), repository=opened)
        (changeset,) = changesets(comparison, Selection(), lambda: silencing.body(Sections))
        lines = [line for body in silencing.reported(changeset).collected() for line in body]
    assert changeset.report.adds_up
    return sorted(lines), Counter(name for name, _ in silencing.silenced)


VERSIONS = [Kind.UPGRADED, Kind.VERSION_ADDED, Kind.VERSION_REMOVED]
ALL = ["llvm place-lost", "llvm upgraded", "new package-added", "zlib place-lost", "zlib upgraded"]


@pytest.mark.parametrize(
    ("silences", "gone", "hidden"),
    [
        ([], [], {}),
        ([silence(packages=("llvm*",))], ["llvm place-lost", "llvm upgraded"], {"quiet": 1}),
        ([silence(packages=("llvm*",), until=TODAY)], [], {}),
        ([silence(packages=("llvm*",), tags=("v*",))], [], {}),
        ([silence(packages=("llvm*",), sources=("mine",))], [], {}),
        ([silence(packages=("gcc",))], [], {}),
        # Of the new package, its version.
        ([silence(changes=VERSIONS)], ["llvm upgraded", "zlib upgraded"], {"quiet": 3}),
        # The line says that a version came, too.
        ([silence(changes=[Kind.UPGRADED])], [], {"quiet": 2}),
        ([silence(packages=("llvm",), changes=VERSIONS)], ["llvm upgraded"], {"quiet": 1}),
        # Nobody would have been told of it anyway.
        ([silence(changes=[Kind.REBUILT])], [], {}),
        # Of llvm and zlib something happened elsewhere too, so they are told in full.
        ([silence(stacks=("ml",))], ["new package-added"], {"quiet": 1}),
        ([silence(stacks=("e4s",))], [], {}),
        (
            [silence(stacks=("*",), packages=("!llvm",))],
            ["new package-added", "zlib place-lost", "zlib upgraded"],
            {"quiet": 2},
        ),
        ([silence(targets=("x86*",))], ["new package-added"], {"quiet": 1}),
        (
            [silence("a", packages=("llvm",), changes=VERSIONS), silence("b", packages=("llvm", "new"))],
            ["llvm place-lost", "llvm upgraded", "new package-added"],
            {"a": 1, "b": 2},
        ),
    ],
)
def test_what_is_hidden(repository: Path, silences: list[Silence], gone: list[str], hidden: dict[str, int]) -> None:
    """Only what a silence covers wholly is hidden, and counted under its name."""
    lines, counts = told(repository, *silences)

    assert lines == [line for line in ALL if line not in gone]
    assert counts == hidden


def test_what_nobody_wanted_is_not_counted(repository: Path) -> None:
    """Of two kinds that are silent, only what somebody would have been told is hidden."""
    quiet = silence(changes=[Kind.UPGRADED, Kind.PACKAGE_ADDED])

    assert told(repository, quiet, kinds={Kind.PACKAGE_ADDED}) == ([], {"quiet": 1})
    assert told(repository, silence(changes=[Kind.UPGRADED]), kinds={Kind.PACKAGE_ADDED}) == (["new package-added"], {})


def test_a_stack_that_is_not_silent(tmp_path: Path) -> None:
    """What two stacks share is told while only one of them is silent."""
    states = [catalogue({"zlib": [record(1, stacks=stacks)]}) for stacks in (["a", "b", "c"], ["c"])]
    repository = history(tmp_path / "catalogue.git", *states)

    assert told(repository, silence(stacks=("a",)))[0] == ["zlib place-lost"]
    assert told(repository, silence(stacks=("a", "b")))[0] == []


def test_events_of_whole_tags() -> None:
    """A silence of a whole tag hides its events; one of packages does not."""
    events = ({Kind.STACK_EVENT}, {Kind.PRUNE})

    def wanted(silenced: Silence) -> list[bool]:
        silencing = Silencing([silenced], lambda *_: True, source="public", tag="develop", day=TODAY)
        return [silencing.wants(kinds) for kinds in events]

    assert wanted(silence(tags=("develop",))) == [False, False]
    assert wanted(silence(changes=[Kind.STACK_EVENT])) == [False, True]
    assert wanted(silence(packages=("llvm",))) == [True, True]
    assert wanted(silence(stacks=("ml",))) == [True, True]


def mail(site: Site) -> str:
    site.run(1)
    (text,) = site.told()
    return " ".join(text.split())


def test_what_is_silenced_is_counted_once(tmp_path: Path) -> None:
    """It is no part of what a digest does not list for other reasons."""
    old, new = (
        {name: [record(n, versions=[v])] for n, name in enumerate(("llvm", "zlib"), s)} for s, v in ((1, "1"), (5, "2"))
    )
    text = mail(begun(tmp_path, [catalogue(old), catalogue(new)], SILENT))
    assert "1 package hidden by the silence quiet until 2026-12-01: migration." in text
    assert "does not list" not in text
    states = {"develop": old, "develop-2025-06-01": old}, {"develop": new, "develop-2025-06-02": new}
    tags = [{k: v for tag, found in one.items() for k, v in catalogue(found, tag).items()} for one in states]
    text = mail(begun(tmp_path / "tags", [tags[0], tags[0] | tags[1]], SILENT.replace("llvm", "[llvm, zlib]")))
    assert "develop-2025-06-02 is out. " in text
    assert "2 packages hidden by the silence quiet" in text


def test_what_happened_to_a_stack_is_told_without_what_is_silenced(tmp_path: Path) -> None:
    """Of its packages, those that a silence hides are neither lost nor to be kept."""
    old, new = (
        {f"p{n}": [record(n, stacks=["e4s", *(more if n < 6 else [])])] for n in range(20)} for more in (["hep"], [])
    )
    text = mail(begun(tmp_path, [catalogue(old | {"llvm": [record(9, stacks=["hep"])]}), catalogue(new)], SILENT))
    assert "Stack hep was removed (the catalogue does not say why); 6 packages keep their binaries in e4s." in text
    assert "1 package hidden by the silence quiet" in text
    assert "llvm" not in text


SILENT = (
    CONFIG.replace("changes: [all], ", "")
    + "silences: {quiet: {match: {packages: llvm}, until: 2026-12-01, reason: migration}}\n"
)
