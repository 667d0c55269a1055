"""Who hears of a package, and why."""

from datetime import date
from pathlib import Path

import pytest
from helpers import parsed, record

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.operators.status_problems_explanations import SubscriptionAnswer, UnreadDocument, explain

FILE = """\
version: 1
timezone: Europe/Berlin
sources: {public: {git: x}}
channels: {mail: {type: sendmail, from: a@b.org}, file: {type: file, path: "{subscription}/{key}"}}
subscriptions:
  all: {channels: file}
  python: {channels: [mail, file], to: ml@b.org, match: {packages: [py-*, "!py-test*"]}, when: weekly mon 07:30}
  ml: {channels: file, match: {tags: develop, stacks: [ml-*], targets: x86*, versions: "@2:"}}
silences:
  torch: {match: {packages: py-torch, targets: ppc*}, changes: rebuilt, until: 2026-12-01, reason: ask Kim}
  hdf5: {match: {packages: hdf5}, until: 2026-12-01, reason: ask Lee}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Three subscriptions and a silence."""
    (tmp_path / "cachewatch.yaml").write_text(FILE)
    return read_config(tmp_path / "cachewatch.yaml")


def explained(
    config: Config, package: str, *documents: object, day: date = date(2026, 11, 21)
) -> dict[str, SubscriptionAnswer]:
    return {found.subscription: found for found in explain(config, package, documents, day=day)}  # type: ignore[arg-type]


def test_by_patterns(config: Config) -> None:
    """Without documents, the deciding pattern and the other conditions are named."""
    torch, tests, zlib = (explained(config, name) for name in ("py-torch", "py-test-x", "zlib"))

    assert torch["all"].reasons[0] == "packages: nothing excludes it"
    assert torch["python"].is_notified
    silence = "but the silence torch hides it (rebuilt), if targets match [ppc*], until 2026-12-01: ask Kim"
    assert torch["python"].reasons == ("packages: py-* matches", silence)
    assert torch["python"].when == "every Monday at 07:30 (Europe/Berlin)"
    assert torch["python"].where == ("mail to ml@b.org", "file")
    assert tests["python"].reasons == ("packages: !py-test* excludes it",)
    assert zlib["python"].reasons == ("packages: none of [py-*, !py-test*] matches",)
    assert not zlib["python"].is_notified
    conditions = ("tags match [develop]", "stacks match [ml-*]", "targets match [x86*]", "versions match [@2:]")
    assert zlib["ml"].reasons[1:] == tuple(f"if {each}" for each in conditions)


def test_a_silence_that_ended(config: Config) -> None:
    """On the day of its end it is heard again."""
    assert len(explained(config, "py-torch", day=date(2026, 11, 30))["python"].reasons) == 2
    assert len(explained(config, "py-torch", day=date(2026, 12, 1))["python"].reasons) == 1


def test_an_environment_that_cannot_be_read(tmp_path: Path) -> None:
    mine = "  mine: {channels: file, match: {environment: spack.lock}}\nsilences:"
    (tmp_path / "cachewatch.yaml").write_text(FILE.replace("silences:", mine))
    found = explained(read_config(tmp_path / "cachewatch.yaml"), "zlib")
    assert found["all"].is_notified
    assert not found["mine"].is_notified
    assert found["mine"].reasons[1].startswith("environment: ")


def test_by_documents(config: Config) -> None:
    """With documents, it is said how much is chosen, or which key leaves nothing."""
    mine = record(1, stacks=["ml-cpu"], versions=["2.1"])

    def said(*found: dict[str, object], tag: str = "develop") -> tuple[bool, str]:
        explanation = explained(config, "zlib", parsed(found, tag=tag))["ml"]
        return explanation.is_notified, explanation.reasons[1]

    assert said(mine) == (True, "in develop: 1 of 1 spec")
    assert said(mine, record(2)) == (True, "in develop: 1 of 2 specs")
    assert said(mine, tag="v1.0") == (False, "in v1.0: not one of the tags [develop]")
    assert said(record(2)) == (False, "in develop: none of 1 present spec has stacks [ml-*]")
    assert said(record(2, stacks=["ml-cpu"])) == (False, "in develop: none of 1 present spec has versions [@2:]")
    nothing = "in develop: none of 2 present specs agrees with all keys of `match:` at once"
    assert said(record(2, stacks=["ml-cpu"]), record(3, versions=["2.1"])) == (False, nothing)
    alone = (
        parsed([record(2)], tag="develop"),
        parsed([mine], tag="v1.0"),
    )  # what only another tag has may be added or removed
    assert [explained(config, "zlib", one)["ml"].lacks_specs for one in alone] == [True, False]


def test_by_a_document_that_cannot_be_read(config: Config) -> None:
    broken = UnreadDocument("develop", "it is empty")
    said = "in develop: the document cannot be read (it is empty); changes in it are reported when it can be read again"

    found = explained(config, "zlib", broken)["ml"]
    assert (found.is_notified, found.reasons[1]) == (True, said)
    found = explained(config, "zlib", broken, parsed([record(2)], tag="v1.0"))["ml"]
    assert (found.is_notified, found.reasons[1:3]) == (True, (said, "in v1.0: not one of the tags [develop]"))
    found = explained(config, "zlib", UnreadDocument("v1.0", "it is empty"))["ml"]
    assert (found.is_notified, found.reasons[1]) == (False, "in v1.0: not one of the tags [develop]")
